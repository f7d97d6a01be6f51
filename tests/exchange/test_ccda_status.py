"""The clinical status of an allergy by its codes, its end, and the words in other places.

Never milder than the document: where two places differ the graver one counts, and a note has the
other.
"""

from __future__ import annotations

from typing import Any

import pytest

from fhirapp.allergies.summary import entries_of
from fhirapp.exchange.ccda.status_words import status_named, statuses_in
from tests.support.ccda_allergies import (
    DRUG,
    LATEX,
    allergy_of,
    code_of,
    document_with,
    inner,
    notes_of,
    observation,
    snomed,
    substance,
)
from tests.support.ccda_samples import of_type, read

ACTIVE, INACTIVE, RESOLVED = "55561003", "73425007", "413322009"
COMPLETED = '<statusCode code="completed"/>'
UNKNOWN_END = '<effectiveTime><low value="2010"/><high nullFlavor="UNK"/></effectiveTime>'
BOTH_UNKNOWN = '<effectiveTime><low nullFlavor="UNK"/><high nullFlavor="UNK"/></effectiveTime>'
OLD_END = '<effectiveTime><low value="2010"/><high value="2012"/></effectiveTime>'
LINK = '<text><reference value="#r"/></text>'
WORDS_FOR_ACTIVE = [
    *("Active", "Ongoing", "Current", "Still active", "currently active", "unresolved"),
    *("ATIVO", "Ativa", "Aktiv", "aktuell", "noch vorhanden", "nicht abgeklungen", "Actif"),
    *("en cours", "toujours active", "non résolue", "activo", "Vigente", "Attivo", "in corso"),
    *("Actief", "nog steeds actief", "Pågående", "aktivt", "Voimassa", "Aktywna", "Aktivní"),
    *("Aktív", "Etkin", "Ενεργή", "Активна", "Active (since 2010)", "Active, confirmed"),
    *("Status: Active", "Estado actual: activo", "Active: yes", "Not resolved", "not inactive"),
    # A question makes nothing milder.
    *("Active?", "Active ?", "¿Activo?", "Noch vorhanden (?)", "not resolved?"),
]
WORDS_FOR_INACTIVE = [
    *("Inactive", "No longer active", "not active", "Not current", "in remission", "Inaktiv"),
    *("nicht mehr aktiv", "nicht aktiv", "Inactif", "n'est plus active", "non active", "Inactivo"),
    *("ya no activa", "Inativo", "já não ativa", "Inattivo", "non più attiva", "Inactief"),
    *("niet meer actief", "Inaktivt", "ikke lenger aktiv", "Nieaktywna", "Neaktivní", "Pasif"),
    *("Неактивна", "не активна", "Active: No", "Current status: inactive", "beendet", "ended"),
]
WORDS_FOR_RESOLVED = [
    *("Resolved", "abgeklungen", "Résolue", "Resuelta", "Risolta", "Resolvida", "Opgelost"),
    *("Läkt", "Overstået", "Vyřešeno", "Current state: resolved"),
]
UNCLEAR = [
    *("Grade X", "Active ingredient: latex", "formerly active", "activated"),
    *("no history", "was active until 2012", "interactive", "unknown to the clinic"),
    # An allergy that does not come back, or does not last, may still be active.
    *("not chronic", "not permanent", "No relapse", "Non-recurrent", "nicht chronisch"),
    *("no recurrence", "not persistent", "non chronique", "no crónica", "niet chronisch"),
    *("Status: not chronic", "not an active chronic allergy"),
    *("Resolved?", "Inactive?", "abgeklungen?", "¿Inactivo?", "Résolue ?"),
    *("Resolved\uff1f", "Resolved (?)", "? inactive", "Inactive (2012?)"),
]


@pytest.mark.parametrize("words", WORDS_FOR_ACTIVE)
def test_words_for_active_are_read(words):
    assert set(statuses_in(words)) == {"active"}


@pytest.mark.parametrize("words", WORDS_FOR_INACTIVE)
def test_words_for_inactive_are_never_read_as_active(words):
    assert set(statuses_in(words)) == {"inactive"}


@pytest.mark.parametrize("words", WORDS_FOR_RESOLVED)
def test_words_for_resolved_are_read(words):
    assert set(statuses_in(words)) == {"resolved"}


@pytest.mark.parametrize("words", [*UNCLEAR, "", "no", "Hives", "aktiv " * 20, "-"])
def test_other_words_name_no_status(words):
    assert status_named(words) == ""
    assert not set(statuses_in(words))


def entry(content: str, **others: str) -> dict[str, Any]:
    """Return an allergy of a completed concern."""
    return allergy_of(content + DRUG + substance(LATEX), concern=COMPLETED, **others)


def row(head: str, cell: str, name: str = "Latex") -> str:
    """Return a table of an allergen and one other column."""
    heads = f"<thead><tr><th>Allergen</th><th>{head}</th></tr></thead>"
    return f'<table>{heads}<tbody><tr ID="r"><td>{name}</td><td>{cell}</td></tr></tbody></table>'


def status_observation(words: str, code: str = "") -> str:
    coded = f' code="{code}" codeSystem="2.16.840.1.113883.6.96"' if code else ""
    return inner("33999-4", f'<value xsi:type="CD"{coded} displayName="{words}"/>')


def status_of(allergy: dict[str, Any]) -> str:
    return code_of(allergy["clinicalStatus"])


# An end with nullFlavor UNK.


def test_an_end_that_is_not_known_of_an_allergy_that_began_ends_it():
    """C-CDA R2.1: resolved on a date that is not known."""
    assert status_of(entry(UNKNOWN_END)) == "resolved"


@pytest.mark.parametrize(
    "times",
    [
        BOTH_UNKNOWN,
        '<effectiveTime><high nullFlavor="UNK"/></effectiveTime>',
        '<effectiveTime><low/><high nullFlavor="UNK"/></effectiveTime>',
        '<effectiveTime><low nullFlavor="NI"/><high nullFlavor="UNK"/></effectiveTime>',
    ],
)
def test_times_of_which_nothing_is_known_end_no_allergy(times):
    found = entry(times)
    assert status_of(found) == "active"
    assert notes_of(found) == "Status also recorded in the document: end not known"


@pytest.mark.parametrize(
    "low", ["00010101", "0001-01-01", "19000101", "99991231", "00000000", "unknown"]
)
def test_a_beginning_that_is_no_date_is_not_known(low):
    found = entry(UNKNOWN_END.replace("2010", low))
    assert status_of(found) == "active"
    assert "Status also recorded in the document: end not known" in notes_of(found)


@pytest.mark.parametrize("null_flavor", ["NI", "NA", "ASKU", "NASK"])
def test_another_null_flavor_of_an_end_is_no_end(null_flavor):
    times = UNKNOWN_END.replace("UNK", null_flavor)
    assert status_of(entry(times)) == "active"


@pytest.mark.parametrize("times", [UNKNOWN_END, BOTH_UNKNOWN, OLD_END])
@pytest.mark.parametrize("words", WORDS_FOR_ACTIVE)
def test_a_row_that_says_active_counts_against_an_end(times, words):
    found = entry(times + LINK, text=row("Status", words))
    assert status_of(found) == "active"
    assert "Status also recorded in the document: " in notes_of(found)


@pytest.mark.parametrize("times", [UNKNOWN_END, OLD_END])
@pytest.mark.parametrize("words", WORDS_FOR_INACTIVE)
def test_a_row_that_says_inactive_does_not_make_an_ended_allergy_active(times, words):
    assert status_of(entry(times + LINK, text=row("Status", words))) == "inactive"


@pytest.mark.parametrize("times", [UNKNOWN_END, BOTH_UNKNOWN, OLD_END, ""])
@pytest.mark.parametrize("words", WORDS_FOR_RESOLVED)
def test_a_row_that_says_resolved_resolves_what_nothing_else_calls_active(times, words):
    assert status_of(entry(times + LINK, text=row("Status", words))) == "resolved"


@pytest.mark.parametrize("words", UNCLEAR)
def test_a_status_that_is_not_understood_is_noted_and_counts_against_an_unknown_end(words):
    in_row = entry(UNKNOWN_END + LINK, text=row("Status", words))
    observed = entry(UNKNOWN_END + status_observation(words))
    for found in (in_row, observed):
        assert status_of(found) == "active"
        assert words in notes_of(found)
    # An end that has a date is sure.
    found = entry(OLD_END + LINK, text=row("Status", words))
    assert status_of(found) == "resolved"
    assert words in notes_of(found)


@pytest.mark.parametrize("words", ["Completed", "Confirmed", "Abgeschlossen", "Completado"])
def test_the_status_of_a_record_does_not_count_against_an_unknown_end(words):
    found = entry(UNKNOWN_END + LINK, text=row("Status", words))
    assert status_of(found) == "resolved"
    assert words in notes_of(found)


@pytest.mark.parametrize("words", ["not chronic", "No relapse", "Non-recurrent", "nicht chronisch"])
def test_an_allergy_that_is_called_not_chronic_stays_active_and_the_words_are_noted(words):
    for found in (entry(LINK, text=row("Status", words)), entry(status_observation(words))):
        assert status_of(found) == "active"
        assert notes_of(found) == f"Status also recorded in the document: {words}"


@pytest.mark.parametrize("words", ["Resolved?", "Inactive ?", "Resolved (?)", "¿Inactivo?"])
def test_a_status_with_a_question_mark_is_noted_and_does_not_end_an_allergy(words):
    for times in ("", UNKNOWN_END):
        for found in (
            entry(times + LINK, text=row("Status", words)),
            entry(times + status_observation(words)),
        ):
            assert status_of(found) == "active"
            assert words in notes_of(found)


def test_an_active_allergy_stays_active_beside_a_question():
    for words in ("Resolved?, active", "Hives (face?), still active"):
        assert set(statuses_in(words)) == {"active"}


# Where else words may stand.


@pytest.mark.parametrize("times", [UNKNOWN_END, BOTH_UNKNOWN, OLD_END])
@pytest.mark.parametrize(
    "where",
    [
        {"content": LINK, "text": row("Estado", "ATIVO")},
        {"content": LINK, "text": row("Severity", "Severe</td><td>ATIVO")},
        {"content": LINK, "text": row("Bemerkung", "weiterhin aktiv")},
        {"content": LINK, "text": row("Comments", "Still present")},
        {"content": LINK, "text": row("Status", "aktiv", name="Latex")},
        # No link: the row is found by the name of its substance.
        {"content": "", "text": row("Status", "Ongoing")},
        {"content": "", "text": row("Estado", "en curso")},
        {"content": LINK, "text": "<list><item ID='r'>Latex: hives, still active</item></list>"},
        {"content": LINK, "text": "<paragraph ID='r'>Latex - Status: Aktiv</paragraph>"},
        {"content": "<text>Hives as a child. Still active.</text>", "text": ""},
        {"content": status_observation("Ongoing"), "text": ""},
        {"content": status_observation("aktiv"), "text": ""},
        {"content": status_observation("Active", RESOLVED), "text": ""},
        {
            "content": inner("33999-4", '<text><reference value="#s"/></text>' + snomed(INACTIVE)),
            "text": "<content ID='s'>aktiv</content>",
        },
        {
            "content": '<entryRelationship typeCode="SUBJ"><act><code code="48767-8"/>'
            "<text>Ongoing</text></act></entryRelationship>",
            "text": "",
        },
        {"content": '<statusCode code="active"/>', "text": ""},
    ],
)
def test_words_for_active_count_wherever_they_stand(times, where):
    found = entry(times + where["content"], text=where["text"])
    assert status_of(found) == "active"


@pytest.mark.parametrize("code", [INACTIVE, RESOLVED])
@pytest.mark.parametrize("words", ["aktiv", "ATIVO", "Ongoing", "en cours", "Attiva", "Pågående"])
def test_a_row_that_says_active_counts_against_a_code_and_the_code_is_noted(code, words):
    found = entry(LINK + inner("33999-4", snomed(code)), text=row("Status", words))
    assert status_of(found) == "active"
    said = {INACTIVE: "inactive", RESOLVED: "resolved"}[code]
    assert notes_of(found) == f"Status also recorded in the document: {said}"


@pytest.mark.parametrize("words", ["inaktiv", "Inativo", "nicht mehr aktiv", "no longer active"])
def test_a_row_that_says_inactive_is_noted_beside_a_coded_active(words):
    found = entry(LINK + inner("33999-4", snomed(ACTIVE)), text=row("Status", words))
    assert status_of(found) == "active"
    assert notes_of(found) == f"Status also recorded in the document: {words}"


@pytest.mark.parametrize("words", ["Resolved", "abgeklungen", "Résolue", "Risolto", "", "N/A"])
@pytest.mark.parametrize("times", [OLD_END, UNKNOWN_END, BOTH_UNKNOWN, ""])
def test_an_allergy_that_all_places_call_resolved_stays_so(times, words):
    coded = inner("33999-4", snomed(RESOLVED))
    found = entry(times + LINK + coded, text=row("Status", words))
    assert status_of(found) == "resolved"


@pytest.mark.parametrize(
    "where",
    [
        {"content": LINK, "text": row("Family", "no longer active")},
        {"content": LINK, "text": row("Comments", "Asthma: active, latex: resolved")},
        {"content": LINK, "text": row("Comments", "Was active in childhood")},
        {"content": LINK, "text": row("Reaction", "active")},
        {"content": LINK, "text": row("Reaction Status", "Hives")},
        {"content": LINK, "text": row("Status", "Resolved</td><td>Active")},
        {"content": "<text>Active treatment is not needed</text>", "text": ""},
        {"content": "<text>The allergy is not active any more</text>", "text": ""},
    ],
)
def test_words_about_something_else_do_not_make_an_ended_allergy_active(where):
    found = entry(OLD_END + where["content"], text=where["text"])
    assert status_of(found) == "resolved"


@pytest.mark.parametrize(
    "head",
    [
        *("Reaction Status", "REACTION STATUS", "Reactions status", "Status of reaction"),
        *("Symptom status", "Status of the manifestations", "Reaction status:"),
    ],
)
def test_the_status_of_a_reaction_is_no_reaction_and_does_not_resolve_its_allergy(head):
    for words in ("Resolved", "inactive"):
        found = entry(LINK, text=row(head, words))
        assert status_of(found) == "active"
        assert "reaction" not in found
        assert notes_of(found) == f"The document says in words: {head}: {words}"


@pytest.mark.parametrize("head", ["Status", "Allergy status", "Clinical Status"])
def test_the_status_of_an_allergy_beside_that_of_a_reaction_counts(head):
    text = row(head, "Inactive</td><td>Resolved").replace(
        f"<th>{head}</th>", f"<th>{head}</th><th>Reaction Status</th>"
    )
    found = entry(LINK, text=text)
    assert status_of(found) == "inactive"
    assert "reaction" not in found


def test_words_of_a_paragraph_that_several_allergies_share_are_nobodys_status():
    egg = '<code code="102263004" codeSystem="2.16.840.1.113883.6.96" displayName="Egg"/>'
    text = "<paragraph ID='r'>Latex: resolved. Egg: active.</paragraph>"
    document = document_with(
        *(observation(OLD_END + LINK + DRUG + substance(code)) for code in (LATEX, egg)),
        concern=COMPLETED,
        text=text,
    )
    found = of_type(read(document), "AllergyIntolerance")
    assert [status_of(allergy) for allergy in found] == ["resolved", "resolved"]


# That none is known holds least where any place says that it no longer does.


@pytest.mark.parametrize(
    ("content", "text", "expected"),
    [
        ("", "", "active"),
        (BOTH_UNKNOWN, "", "resolved"),
        (UNKNOWN_END, "", "resolved"),
        (LINK, row("Status", "aktiv", name="No known allergies"), "active"),
        (UNKNOWN_END + LINK, row("Status", "aktiv", name="No known allergies"), "resolved"),
        (LINK, row("Status", "inaktiv", name="No known allergies"), "inactive"),
        (LINK, row("Estado", "INATIVO", name="No known allergies"), "inactive"),
        (
            LINK + inner("33999-4", snomed(ACTIVE)),
            row("Status", "abgeklungen", name="No known allergies"),
            "resolved",
        ),
    ],
)
def test_none_known_holds_no_longer_where_any_place_says_so(content, text, expected):
    value = snomed("419199007") + substance('<code nullFlavor="NA"/>')
    found = allergy_of(content + value, ' negationInd="true"', concern=COMPLETED, text=text)
    assert code_of(found["code"]) == "716186003"
    assert status_of(found) == expected


# A status beside a refutation or an error.

NEGATED = ' negationInd="true"'
NULLIFIED = '<statusCode code="nullified"/>'
ACTIVE_ACT = '<statusCode code="active"/>'


@pytest.mark.parametrize("attributes", [NEGATED, ""])
@pytest.mark.parametrize(
    ("content", "concern", "text", "noted"),
    [
        (inner("33999-4", snomed(ACTIVE)), COMPLETED, "", "active"),
        (inner("33999-4", snomed(RESOLVED)), COMPLETED, "", "resolved"),
        (status_observation("aktiv"), COMPLETED, "", "active"),
        (status_observation("Grade X"), COMPLETED, "", "Grade X"),
        ("", ACTIVE_ACT, "", "active"),
        (LINK, COMPLETED, row("Status", "Active"), "Active"),
        (LINK, ACTIVE_ACT, row("Status", "ATIVO"), "active; ATIVO"),
        (LINK, COMPLETED, row("Status", "Grade X"), "Grade X"),
    ],
)
def test_a_status_beside_a_refutation_or_an_error_is_noted(
    attributes, content, concern, text, noted
):
    content += DRUG + substance(LATEX)
    if not attributes:
        content = NULLIFIED + content
    found = allergy_of(content, attributes, concern=concern, text=text)
    expected = "refuted" if attributes else "entered-in-error"
    assert code_of(found["verificationStatus"]) == expected
    assert ("clinicalStatus" in found) == bool(attributes)
    assert notes_of(found) == f"Status also recorded in the document: {noted}"
    (shown,) = entries_of([found])
    assert shown.comments == [f"Status also recorded in the document: {noted}"]


def test_an_observation_of_a_concern_in_error_keeps_its_own_status():
    for content, noted in ((ACTIVE_ACT, "active"), (status_observation("inaktiv"), "inactive")):
        found = allergy_of(content + DRUG + substance(LATEX), concern=NULLIFIED)
        assert code_of(found["verificationStatus"]) == "entered-in-error"
        assert notes_of(found) == f"Status also recorded in the document: {noted}"


def test_nothing_is_noted_where_the_status_agrees_with_a_refutation_or_an_error():
    latex = DRUG + substance(LATEX)
    for content in ("", inner("33999-4", snomed(INACTIVE)), LINK):
        found = allergy_of(content + latex, NEGATED, concern=COMPLETED, text=row("Status", "-"))
        assert notes_of(found) == ""
    assert notes_of(allergy_of(NULLIFIED + latex, concern=COMPLETED)) == ""


def test_a_row_that_contradicts_a_refutation_is_kept_whole():
    text = row("Status", "Active</td><td>Anaphylaxis").replace(
        "<th>Status</th>", "<th>Status</th><th>Reaction</th>"
    )
    found = allergy_of(LINK + DRUG + substance(LATEX), NEGATED, concern=COMPLETED, text=text)
    assert code_of(found["verificationStatus"]) == "refuted"
    assert found["reaction"] == [{"manifestation": [{"text": "Anaphylaxis"}]}]
    assert notes_of(found) == "Status also recorded in the document: Active"


@pytest.mark.parametrize("cell", ["Inactive", "Resolved", "no longer active"])
def test_a_row_of_several_statements_that_none_is_known_counts_if_it_says_it_is_over(cell):
    named = '<code nullFlavor="OTH"/><name>No known drug allergies</name>'
    content = LINK + DRUG + substance(named) + substance(named)
    text = row("Status", cell, name="No known drug allergies")
    found = of_type(read(document_with(observation(content), text=text)), "AllergyIntolerance")
    assert len(found) == 2
    assert {status_of(statement) for statement in found} <= {"inactive", "resolved"}
