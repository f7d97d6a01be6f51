"""What makes two entries about the same substance, and one entry about two."""

from __future__ import annotations

from typing import Any

from fhirapp.clinical.contradictions import findings_of
from fhirapp.clinical.summary import entries_of
from tests.support.allergies import NKDA, REFUTED, RESOLVED, RXNORM, SNOMED, allergy, coded

UNII = "http://fdasis.nlm.nih.gov"
LOCAL = "urn:oid:1.2.840.99999.1"


def texts(*resources: dict[str, Any]) -> list[tuple[str, str]]:
    return [(finding.code, finding.text) for finding in findings_of(entries_of(resources))]


def kinds(*resources: dict[str, Any]) -> list[str]:
    return [code for code, _ in texts(*resources)]


def test_entries_that_share_only_a_general_code_are_about_different_substances(subtests):
    for coding in [
        (UNII, "Unknown"),
        (UNII, "UNK"),
        (LOCAL, "Other"),
        (LOCAL, "N/A"),
        (LOCAL, "0"),
        (LOCAL, "99999"),
        (LOCAL, "NOCODE"),
        (LOCAL, "free text"),
        (SNOMED, "419199007", "Allergy to substance"),
        (SNOMED, "416098002", "Drug allergy"),
        (SNOMED, "414285001", "Food allergy"),
        (SNOMED, "420134006"),
        (SNOMED, "105590001", "Substance"),
        (SNOMED, "373873005"),
        (SNOMED, "261665006", "Unknown"),
        (SNOMED, "282100009", "Adverse reaction to substance"),
        (LOCAL, "A1", "Drug allergy"),
        (LOCAL, "A1", "Allergie gegen Medikamente"),
        (LOCAL, "A1", "Medikamentenallergie"),
        (LOCAL, "A1", "Allergie médicamenteuse"),
        (LOCAL, "A1", "Alergia a los medicamentos"),
        (LOCAL, "A1", "Allergia ai farmaci"),
        (LOCAL, "A1", "Läkemedelsallergi"),
    ]:
        with subtests.test(coding=coding):
            first, second = coded(coding, text="Latex"), coded(coding, text="Walnut")
            assert kinds(allergy(first), allergy(second)) == []
            assert kinds(allergy(first), allergy(second, **REFUTED)) == []
            assert kinds(allergy(first), allergy(second, **RESOLVED)) == []


def test_general_name_alone_makes_no_two_entries_the_same():
    for name in ("Drug allergy", "Allergy to substance", "Unknown", "Medikamentenallergie"):
        assert kinds(allergy(name), allergy(name)) == []


def test_same_substance_is_found_beside_a_general_code():
    general = (SNOMED, "419199007", "Allergy to substance")
    first, second = coded(general, text="Latex"), coded(general, (UNII, "Unknown"), text="LATEX")
    assert kinds(allergy(first), allergy(second)) == ["duplicate"]
    substance = coded((SNOMED, "111088007", "Latex (substance)"))
    assert kinds(allergy(first), allergy(substance)) == ["duplicate"]


def with_name(name: str, code: str, beside: str) -> dict[str, Any]:
    """Return an allergy with a code, and a name beside it that has no code."""
    about = coded((RXNORM, code, name), text=name)
    about["coding"].append({"display": beside})
    return allergy(about)


def test_name_without_a_code_that_two_entries_have_beside_their_own_is_a_class():
    value = "Allergy to penicillin"
    amoxicillin, ampicillin = (
        with_name("Amoxicillin", "723", value),
        with_name("Ampicillin", "733", value),
    )
    assert kinds(amoxicillin, ampicillin) == []


def test_name_without_a_code_is_the_substance_of_an_entry_of_that_name():
    first, second = with_name("Aspirin", "1191", "ASA 81 MG"), allergy("ASA 81 mg")
    assert kinds(first, second) == ["duplicate"]
    refuted = allergy("ASA 81 mg", **REFUTED)
    assert kinds(first, refuted) == ["refuted-beside-active"]
    # Each of two that have it beside their own name is compared with it by itself.
    other = with_name("Salicylate", "9515", "ASA 81 MG")
    assert kinds(first, other, allergy("ASA 81 mg")) == ["duplicate", "duplicate"]


def test_name_and_a_code_of_different_substances_are_a_finding(subtests):
    for about, names in [
        (coded((RXNORM, "2670", "Codeine"), text="Aspirin"), ("Aspirin", "Codeine")),
        (coded((RXNORM, "2670"), text="ASPIRIN 81 MG TABLET"), ("ASPIRIN 81 MG TABLET", "codeine")),
        # The code and its own display.
        (coded((RXNORM, "2670", "Aspirin")), ("Aspirin", "codeine")),
        (coded((LOCAL, "1", "Kiwi fruit"), (LOCAL, "2", "Shrimp")), ("Kiwi fruit", "Shrimp")),
        (coded((SNOMED, "278840001"), text="Bananas"), ("Bananas", "Shrimp")),
        (coded((RXNORM, "5640", "ibuprofen"), text="Aspirin"), ("Aspirin", "ibuprofen")),
        # A word that says of what kind they are makes two substances no less different.
        (coded((SNOMED, "256440004"), text="Bee venom"), ("Bee venom", "Wasp venom")),
        (coded((SNOMED, "256440004"), text="Bee stings"), ("Bee stings", "Wasp venom")),
        (coded((SNOMED, "260154005"), text="Cat dander"), ("Cat dander", "Dog dander")),
        (coded((SNOMED, "256351003"), text="Pine nuts"), ("Pine nuts", "Brazil nut")),
        (coded((SNOMED, "256293000"), text="Ragweed pollen"), ("Ragweed pollen", "Mugwort pollen")),
        (coded((SNOMED, "412071004"), text="Rice"), ("Rice", "Wheat")),
        (coded((SNOMED, "3718001"), text="Soy milk"), ("Soy milk", "Cow's milk")),
        (coded((RXNORM, "11118", "valproic acid"), text="Acetylsalicylic acid"),
         ("Acetylsalicylic acid", "valproic acid")),
        (coded((LOCAL, "1", "Allergy to codeine"), text="Aspirin allergy"), ("Aspirin allergy",
         "Allergy to codeine")),
    ]:  # fmt: skip
        with subtests.test(about=about):
            (finding,) = texts(allergy(about))
            first, other = names
            shown = about.get("text") or first
            text = (
                f"“{shown}” names two different substances, “{first}” and “{other}”: read the entry"
            )
            assert finding == ("entry-unclear", f"{text} itself.")


def test_another_name_of_the_same_substance_is_no_finding(subtests):
    for about in [
        coded((RXNORM, "1191", "aspirin"), text="Acetylsalicylic acid"),
        coded((RXNORM, "1191"), text="Aspirin / codeine"),
        # A brand, another language: nothing here tells what they are.
        coded((RXNORM, "2670", "codeine"), text="Tylenol #3"),
        coded((SNOMED, "735029006", "Shellfish"), text="Mariscos"),
        # A group and what is in it.
        coded((RXNORM, "723", "amoxicillin"), text="Penicillin"),
        coded((SNOMED, "762952008", "Peanut"), text="Nuts"),
        coded((SNOMED, "256350002", "Almond"), text="Tree nuts"),
        coded((SNOMED, "256443002", "Egg white"), text="Eggs"),
        coded((SNOMED, "260147004"), text="House dust"),
        coded((RXNORM, "10831"), text="Sulfa drugs"),
        coded((RXNORM, "7984", "penicillin V"), text="Penicillin"),
        coded((SNOMED, "412071004"), text="Gluten"),
        coded((SNOMED, "89811004", "Gluten"), text="Wheat flour"),
        coded((SNOMED, "264295007"), text="Cow milk"),
        coded((SNOMED, "288328004"), text="Bee sting"),
        coded((SNOMED, "256353000"), text="Nut"),
        coded((SNOMED, "256303006"), text="Pollen"),
        coded(text="Latex"),
        NKDA,
    ]:
        with subtests.test(about=about):
            assert texts(allergy(about)) == []
