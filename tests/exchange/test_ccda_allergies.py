"""The Allergies section of clinical documents: what is said of a substance, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from fhirapp.definition import types
from fhirapp.store.prepare import prepare
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
from tests.support.ccda_samples import of_type, only, read, sample

SNOMED = "http://snomed.info/sct"
RXNORM = "http://www.nlm.nih.gov/research/umls/rxnorm"
NULL_FLAVOR = "http://terminology.hl7.org/CodeSystem/v3-NullFlavor"
NI = {"system": NULL_FLAVOR, "code": "NI", "display": "NoInformation", "userSelected": False}


def allergies(name: str) -> list[dict[str, Any]]:
    """Return the allergies of a sample."""
    document = sample(name)
    return of_type(
        read(document.encode("latin-1" if name == "ccd-1.1" else "utf-8")), "AllergyIntolerance"
    )


def test_an_allergy_with_every_element():
    found = allergies("ccd")[0]
    doctor = found["recorder"]["reference"]
    assert {name: value for name, value in found.items() if name not in ("id", "patient")} == {
        "resourceType": "AllergyIntolerance",
        "identifier": [
            {
                "system": "urn:ietf:rfc:3986",
                "value": "urn:uuid:2d2a1f80-0001-4c00-8000-0000000000a1",
            }
        ],
        "clinicalStatus": {
            "coding": [
                {
                    "system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical",
                    "code": "active",
                }
            ]
        },
        "verificationStatus": {
            "coding": [
                {
                    "system": "http://terminology.hl7.org/CodeSystem/"
                    "allergyintolerance-verification",
                    "code": "confirmed",
                }
            ]
        },
        "type": "allergy",
        "category": ["medication"],
        "criticality": "high",
        "code": {
            "coding": [
                {"system": RXNORM, "code": "7980", "display": "Penicillin G"},
                {"system": SNOMED, "code": "764146007", "display": "Penicillin"},
            ],
            "text": "Penicillin G",
        },
        "onsetDateTime": "2008-05",
        "recordedDate": "2014-01-04T12:35:06-05:00",
        "recorder": {"reference": doctor, "display": "Henry Marsh"},
        "note": [
            {
                "text": "Tolerated cefalexin in 2019.",
                "authorReference": {"reference": doctor},
                "time": "2019-06-11",
            }
        ],
        "reaction": [
            {
                "manifestation": [
                    {"coding": [{"system": SNOMED, "code": "247472004", "display": "Wheal"}]}
                ],
                "description": "Hives on arms, within the hour",
                "onset": "2008-05-17",
                "severity": "moderate",
            },
            {
                "manifestation": [
                    {"coding": [{"system": SNOMED, "code": "39579001", "display": "Anaphylaxis"}]}
                ],
                "onset": "2010-11-03",
                "severity": "severe",
            },
        ],
    }


def test_what_is_over_is_resolved_and_keeps_when():
    cat = allergies("ccd")[2]
    assert code_of(cat["clinicalStatus"]) == "resolved"
    assert cat["extension"] == [
        {
            "url": "http://hl7.org/fhir/StructureDefinition/allergyintolerance-abatement",
            "valueDateTime": "2012-06-30",
        }
    ]


def test_an_allergy_that_is_denied_is_refuted_and_not_among_the_active():
    peanut = allergies("ccd")[3]
    assert code_of(peanut["code"]) == "762952008"
    assert code_of(peanut["verificationStatus"]) == "refuted"
    assert code_of(peanut["clinicalStatus"]) == "inactive"


def test_no_known_drug_allergy_is_coded_so_and_its_criticality_cannot_be_assessed():
    """service.md 2.3."""
    (found,) = allergies("discharge-summary")
    assert found["code"] == {
        "coding": [{"system": SNOMED, "code": "409137002", "display": "No known drug allergy"}],
        "text": "No known drug allergies",
    }
    assert found["criticality"] == "unable-to-assess"
    assert code_of(found["clinicalStatus"]) == "active"
    assert code_of(found["verificationStatus"]) == "confirmed"
    assert found["_onsetDateTime"]["extension"][0]["valueCode"] == "not-applicable"


@pytest.mark.parametrize(
    ("value", "code", "status"),
    [
        ("416098002", "409137002", "confirmed"),
        ("419511003", "409137002", "confirmed"),
        ("414285001", "429625007", "confirmed"),
        ("418471000", "429625007", "confirmed"),
        ("419199007", "716186003", "confirmed"),
        ("418038007", "716186003", "confirmed"),
        ("420134006", "716186003", "confirmed"),
        # That a drug is tolerated does not say that no allergy is known.
        ("59037007", "59037007", "refuted"),
        ("235719002", "235719002", "refuted"),
    ],
)
def test_what_a_negated_observation_without_a_substance_says(value, code, status):
    content = snomed(value) + substance('<code nullFlavor="NA"/>')
    found = allergy_of(content, ' negationInd="true"')
    assert code_of(found["code"]) == code
    assert code_of(found["verificationStatus"]) == status
    assert (found.get("criticality") == "unable-to-assess") == (code == "409137002")


@pytest.mark.parametrize("negated", ["", ' negationInd="true"', ' negationInd="false"'])
def test_a_code_that_says_itself_that_none_is_known_says_it_however_it_is_sent(negated):
    code = '<code code="409137002" codeSystem="2.16.840.1.113883.6.96"/>'
    found = allergy_of(DRUG + substance(code), negated)
    assert code_of(found["code"]) == "409137002"
    assert code_of(found["verificationStatus"]) == "confirmed"
    assert found["criticality"] == "unable-to-assess"


@pytest.mark.parametrize(
    "content",
    [
        substance('<code nullFlavor="NI"/>'),
        substance(""),
        "<participant typeCode='CSM'/>",
        "",
        '<value xsi:type="CD" nullFlavor="UNK"/>' + substance('<code nullFlavor="NI"/>'),
    ],
)
@pytest.mark.parametrize("negated", ["", ' negationInd="true"'])
def test_no_information_is_never_no_allergy(content, negated):
    """decisions 2.19."""
    found = allergy_of(content, negated)
    assert found["code"]["coding"][0]["system"] == NULL_FLAVOR
    assert code_of(found["verificationStatus"]) == "unconfirmed"
    assert "criticality" not in found


def test_a_section_without_information_has_no_allergies():
    document = document_with().replace("<section>", '<section nullFlavor="NI">')
    assert of_type(read(document), "AllergyIntolerance") == []


def test_free_text_and_null_flavors_are_kept_as_they_are():
    antibiotic, trial, nothing = allergies("referral-note")
    assert antibiotic["code"] == {
        "coding": [{"system": NULL_FLAVOR, "code": "UNK", "display": "unknown"}],
        "text": "some antibiotic as a child, name not remembered",
    }
    assert antibiotic["_onsetDateTime"]["extension"][0]["valueCode"] == "asked-unknown"
    # A code that is only absent fails its required binding: decisions 2.23.
    assert "criticality" not in antibiotic
    assert "_criticality" not in antibiotic
    # decisions 2.19
    assert antibiotic["reaction"] == [
        {
            "manifestation": [
                {
                    "coding": [
                        {"system": SNOMED, "code": "261665006", "display": "Unknown"},
                        {"system": NULL_FLAVOR, "code": "UNK", "display": "unknown"},
                    ]
                }
            ]
        }
    ]
    assert code_of(trial["code"]) == "C95733"
    assert trial["code"]["text"] == "talazoparib (trial drug)"
    assert nothing["code"] == {"coding": [NI]}
    # Nothing that could be taken for an allergy stands beside it.
    assert not {"type", "category", "reaction"} & nothing.keys()


@pytest.mark.parametrize(
    ("value", "type_", "category"),
    [
        ("235719002", "intolerance", ["food"]),
        ("414285001", "allergy", ["food"]),
        ("418471000", None, ["food"]),
        ("416098002", "allergy", ["medication"]),
        ("419511003", None, ["medication"]),
        ("59037007", "intolerance", ["medication"]),
        ("419199007", "allergy", None),
        ("418038007", None, None),
        ("420134006", None, None),
    ],
)
def test_the_value_tells_type_and_category(value, type_, category):
    """C-CDA on FHIR, CF-AllergyIntoleranceType and CF-AllergyIntoleranceCategory."""
    found = allergy_of(snomed(value) + substance(LATEX))
    assert (found.get("type"), found.get("category")) == (type_, category)


@pytest.mark.parametrize(
    ("status", "concern", "end", "expected"),
    [
        ("55561003", "completed", "", "active"),
        ("73425007", "active", "", "inactive"),
        ("413322009", "active", "", "resolved"),
        ("", "active", "", "active"),
        ("", "active", '<high value="2020"/>', "active"),
        ("", "suspended", "", "active"),
        # No longer tracked; the allergy has not ended by that.
        ("", "completed", "", "active"),
        ("", "completed", '<high value="2020"/>', "resolved"),
        ("", "completed", '<high nullFlavor="UNK"/>', "resolved"),
        ("", "aborted", "", "active"),
        ("", "", "", "active"),
        ("", "", '<high value="2020"/>', "resolved"),
    ],
)
def test_whether_an_allergy_is_still_active(status, concern, end, expected):
    content = f"<effectiveTime><low value='2010'/>{end}</effectiveTime>{DRUG}" + substance(LATEX)
    if status:
        content += inner("33999-4", snomed(status))
    act = f'<statusCode code="{concern}"/>' if concern else ""
    found = allergy_of(content, concern=act)
    assert code_of(found["clinicalStatus"]) == expected


# The sample that document_with changes was made on 2 July 2024.
AHEAD = [
    *("99991231", "20990101", "2099", "209901", "20240703", "202408", "2025"),
    *("20990101120000+0100", "2099-01-01", "2024-07-03T00:00:00-07:00", "99999999", "20991301"),
]
PAST = [
    *("2023", "202406", "20240630", "20240702", "2024", "202407", "20240702235959-0700"),
    *("2012-06-30", "20230230"),
]
ABATEMENT = "http://hl7.org/fhir/StructureDefinition/allergyintolerance-abatement"


def ending(high: str, **others: str) -> dict[str, Any]:
    """Return an allergy of a completed concern that ends then."""
    times = f'<effectiveTime><low value="2010"/><high value="{high}"/></effectiveTime>'
    others = {"concern": '<statusCode code="completed"/>', **others}
    return allergy_of(times + DRUG + substance(LATEX), **others)


@pytest.mark.parametrize("high", AHEAD)
@pytest.mark.parametrize("concern", ['<statusCode code="completed"/>', ""])
def test_an_end_after_the_documents_date_ends_no_allergy(high, concern):
    found = ending(high, concern=concern)
    assert code_of(found["clinicalStatus"]) == "active"
    assert notes_of(found).startswith("Status also recorded in the document: end given as ")


@pytest.mark.parametrize("high", PAST)
def test_an_end_up_to_the_documents_date_ends_an_allergy(high):
    found = ending(high)
    assert code_of(found["clinicalStatus"]) == "resolved"


@pytest.mark.parametrize("high", ["ongoing", "present", "01.07.2030", "30.06.2012", "?"])
def test_an_end_that_is_no_time_ends_no_allergy_and_is_kept(high):
    found = ending(high)
    assert code_of(found["clinicalStatus"]) == "active"
    assert f"end given as {high}" in notes_of(found)


def test_an_end_in_the_future_is_kept_with_the_allergy():
    found = ending("20990101")
    assert found["extension"] == [{"url": ABATEMENT, "valueDateTime": "2099-01-01"}]
    assert "end given as 2099-01-01, after the date of the document" in notes_of(found)


def test_an_allergy_that_is_coded_resolved_stays_so_whatever_its_end():
    status = inner("33999-4", snomed("413322009"))
    times = '<effectiveTime><low value="2010"/><high value="20990101"/></effectiveTime>'
    found = allergy_of(times + DRUG + substance(LATEX) + status)
    assert code_of(found["clinicalStatus"]) == "resolved"
    assert "end given as 2099-01-01" in notes_of(found)


@pytest.mark.parametrize(
    ("made", "high", "expected"),
    [
        # Without a date of its own a document is as old as its import.
        (None, "20991231", "active"),
        (None, "20200101", "resolved"),
        ("2012", "2013", "active"),
        ("201206", "20120701", "active"),
        ("2012-06-15", "20120616", "active"),
        ("2012-06-15", "20120615", "resolved"),
        # What is still to come has not come, whatever date a document has.
        ("20991231", "20990101", "active"),
        ("garbage", "20990101", "active"),
    ],
)
def test_the_documents_date_decides_which_end_has_come(made, high, expected):
    times = f'<effectiveTime><low value="2010"/><high value="{high}"/></effectiveTime>'
    document = document_with(
        observation(times + DRUG + substance(LATEX)), concern='<statusCode code="completed"/>'
    )
    header = '<effectiveTime value="202407021115-0700"/>'
    assert header in document
    document = document.replace(header, f'<effectiveTime value="{made}"/>' if made else "", 1)
    found = only(read(document), "AllergyIntolerance")
    assert code_of(found["clinicalStatus"]) == expected


@pytest.mark.parametrize(
    ("high", "expected"),
    [("2020", "resolved"), ("20990101", "active"), ("?", "resolved"), ("99991231", "active")],
)
def test_that_none_is_known_holds_no_longer_where_it_may_have_ended(high, expected):
    times = f'<effectiveTime><low value="2010"/><high value="{high}"/></effectiveTime>'
    content = times + snomed("419199007") + substance('<code nullFlavor="NA"/>')
    found = allergy_of(content, ' negationInd="true"')
    assert code_of(found["code"]) == "716186003"
    assert code_of(found["clinicalStatus"]) == expected


def test_what_was_entered_in_error_has_no_clinical_status():
    """FHIR R4 allergyintolerance, ait-2."""
    found = allergy_of('<statusCode code="nullified"/>' + DRUG + substance(LATEX))
    assert code_of(found["verificationStatus"]) == "entered-in-error"
    assert "clinicalStatus" not in found


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("255604002", "mild"),
        ("371923003", "moderate"),
        ("6736007", "moderate"),
        ("371924009", "severe"),
        ("24484000", "severe"),
        ("399166001", "severe"),
        ("1", None),
    ],
)
def test_a_severity_is_never_milder_than_the_source(code, expected):
    rash = inner("ASSERTION", snomed("271807003") + inner("SEV", snomed(code)), "MFST")
    found = allergy_of(DRUG + substance(LATEX) + rash)
    assert found["reaction"][0].get("severity") == expected


def test_a_severity_of_the_allergy_is_that_of_its_reactions_without_one():
    graver = inner("ASSERTION", snomed("39579001") + inner("SEV", snomed("24484000")), "MFST")
    plain = inner("ASSERTION", snomed("271807003"), "MFST")
    found = allergy_of(DRUG + substance(LATEX) + graver + plain + inner("SEV", snomed("255604002")))
    assert [one["severity"] for one in found["reaction"]] == ["severe", "mild"]


def test_a_severity_without_a_reaction_is_that_of_an_unknown_one():
    found = allergy_of(DRUG + substance(LATEX) + inner("SEV", snomed("6736007")))
    (reaction,) = found["reaction"]
    assert code_of(reaction["manifestation"][0]) == "261665006"
    assert reaction["severity"] == "moderate"


def test_a_substance_that_only_the_value_names_is_taken_from_there():
    found = allergy_of(snomed("91936005"))
    assert code_of(found["code"]) == "91936005"


def test_each_substance_of_an_observation_is_an_allergy_of_its_own():
    egg = '<code code="102263004" codeSystem="2.16.840.1.113883.6.96" displayName="Egg"/>'
    content = '<id root="1.2.3" extension="x"/>' + DRUG + substance(LATEX) + substance(egg)
    found = of_type(read(document_with(observation(content))), "AllergyIntolerance")
    assert [one["code"]["text"] for one in found] == ["Latex", "Egg"]
    assert len({one["id"] for one in found}) == 2


def test_statements_that_share_an_id_are_distinguished_by_substance_in_any_order():
    first, second = allergies("ccd-1.1")
    assert first["identifier"] == second["identifier"]
    head, *entries = sample("ccd-1.1").split('<entry typeCode="DRIV">')
    last, end = entries[1].split("</entry>")
    turned = f'{head}<entry typeCode="DRIV">{last}</entry><entry typeCode="DRIV">{entries[0]}{end}'
    again = of_type(read(turned.encode("latin-1")), "AllergyIntolerance")
    assert [one["id"] for one in again] == [second["id"], first["id"]]


def test_an_allergy_keeps_its_id_in_the_next_document_even_without_one_of_its_own():
    content = observation(DRUG + substance(LATEX))
    one = document_with(content)
    # Its next version: another id in the same set.
    other = one.replace("11d1cf2a-44aa-4d00-8000-000000000402", "1.2.840.99")
    ids = {only(read(each), "AllergyIntolerance")["id"] for each in (one, other)}
    assert len(ids) == 1


def test_allergies_of_two_patients_never_have_the_same_id():
    content = observation('<id root="1.2.3"/>' + DRUG + substance(LATEX))
    one = document_with(content)
    other = one.replace("MRN-40081", "MRN-50000")
    ids = {only(read(each), "AllergyIntolerance")["id"] for each in (one, other)}
    assert len(ids) == 2


def test_the_last_author_records_and_the_first_time_counts():
    authors = "".join(
        f'<author><time value="{time}"/><assignedAuthor><id root="2.16.840.1.113883.4.6" '
        f'extension="{npi}"/><assignedPerson><name><family>{name}</family></name>'
        "</assignedPerson></assignedAuthor></author>"
        for time, npi, name in (("20200102", "1", "First"), ("20210102", "2", "Last"))
    )
    document = document_with(observation(DRUG + authors + substance(LATEX)))
    found = only(read(document), "AllergyIntolerance")
    assert found["recorder"]["display"] == "Last"
    assert found["recordedDate"] == "2020-01-02"
    (provenance,) = of_type(read(document), "Provenance")[1:]
    assert [one["who"]["display"] for one in provenance["agent"]] == ["First", "Last"]
    assert provenance["occurredDateTime"] == "2021-01-02"


def test_text_that_codes_point_to_is_found_and_what_is_not_there_is_left_out():
    text = (
        '<table><tbody><tr ID="row"><td>Latex</td><td>gl<content>oves</content></td></tr></tbody>'
        '</table><content ID="row">another</content>'
    )
    pointing = '<code nullFlavor="UNK"><originalText><reference value="{}"/></originalText></code>'
    for target in ("#row", "row"):
        document = document_with(observation(DRUG + substance(pointing.format(target))), text=text)
        found, beside = of_type(read(document), "AllergyIntolerance")
        # Of a row the first cell is the name; all of it stays in a note.
        assert found["code"]["text"] == "Latex"
        assert found["note"] == [{"text": "The document says in words: Latex, gloves"}]
        assert beside["code"]["text"] == "another"
    # The words stand by themselves where no entry leads to them.
    document = document_with(observation(DRUG + substance(pointing.format("#nowhere"))), text=text)
    missing, *in_words = of_type(read(document), "AllergyIntolerance")
    assert "text" not in missing["code"]
    assert [one["code"]["text"] for one in in_words] == ["Latex, gloves", "another"]


def test_narrative_that_points_to_itself_is_read_once():
    inside = '<content ID="b"><reference value="#a"/>b</content>'
    text = f'<content ID="a">a<reference value="#b"/>{inside}</content>'
    code = '<code><originalText><reference value="#a"/></originalText></code>'
    assert allergy_of(DRUG + substance(code), text=text)["code"]["text"] == "a b"


def test_script_in_a_narrative_is_only_text(app):
    text = (
        '<content ID="s">&lt;script&gt;alert(1)&lt;/script&gt;<script>alert(2)</script></content>'
    )
    code = '<code><originalText><reference value="#s"/></originalText></code>'
    found = allergy_of(DRUG + substance(code), text=text)
    assert found["code"]["text"] == "<script>alert(1)</script> alert(2)"
    definition = types(app)["AllergyIntolerance"]
    source = {**prepare(definition, found).columns, "id": "a", "version_id": 1}
    served = definition.schema.dump({**source, "last_updated": "2024-01-01T00:00:00Z"})
    assert "<script" not in served["text"]["div"]


def test_a_long_text_is_cut_short():
    code = '<code><originalText><reference value="#a"/></originalText></code>'
    text = f'<content ID="a">{"word " * 500_000}</content>'
    found = allergy_of(DRUG + substance(code), text=text)["code"]["text"]
    assert len(found) == 4_000
    assert found.endswith("…")


def test_what_is_planned_is_no_allergy():
    document = document_with(observation(DRUG + substance(LATEX)).replace("EVN", "INT"))
    assert of_type(read(document), "AllergyIntolerance") == []


def test_an_observation_without_a_template_is_an_allergy_by_its_substance():
    (found,) = allergies("plain-cda")
    assert found["code"]["text"] == "Penicillin"
    assert found["onsetDateTime"] == "1950"
