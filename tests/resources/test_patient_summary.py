"""`Patient/$summary`: an International Patient Summary. IPS 2.0.0; FHIR R4 documents, bundle.

The package of IPS is not here: what it requires of the document is asked below, by its rules'
names. What the conclusion says of allergies: tests/clinical.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from xml.etree import ElementTree

import pytest
from flask import Flask

from tests.support.allergies import (
    IN_ERROR,
    NKA,
    NKDA,
    NO_INFORMATION,
    PENICILLIN,
    REFUTED,
    RESOLVED,
    SEVERE,
    allergy,
    patient_with,
    rich,
)
from tests.support.helpers import BASE_URL, Fhir, assert_outcome, token_for
from tests.support.operations import FORM, parameters, post
from tests.support.publishing import TIMES, delete
from tests.support.r4 import faults

SUMMARY = "Patient/p1/$summary"
IPS = "http://hl7.org/fhir/uv/ips/StructureDefinition/"
ALLERGIES, MEDICATIONS, PROBLEMS = "48765-2", "10160-0", "11450-4"
NOTHING = "No allergy entries are recorded. This does not mean that there are no allergies."
LACKS = "A summary has every allergy: the token's scope does not cover all of the patient's."


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """The seeded app, in which tests put patients of their own."""
    return make_app()


@pytest.fixture
def asking(clinic: Flask) -> Fhir:
    return Fhir(clinic, token_for(clinic, "system/*.rs"))


def sections(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the sections of a document by their codes."""
    listed = document["entry"][0]["resource"]["section"]
    return {section["code"]["coding"][0]["code"]: section for section in listed}


def words(section: Mapping[str, Any]) -> str:
    """Return the text of a section, which is XHTML."""
    return " ".join(ElementTree.fromstring(section["text"]["div"]).itertext())


def listed(document: Mapping[str, Any]) -> list[str]:
    """Return the ids of the allergies in a document, in order."""
    entries = sections(document)[ALLERGIES].get("entry", ())
    return [entry["reference"].rpartition("/")[2] for entry in entries]


def assert_is_document(document: Mapping[str, Any], patient: str) -> None:
    """Assert what R4 asks of a document, and IPS of its summary."""
    # The records in it are asked elsewhere.
    assert list(faults({**document, "entry": document["entry"][:1]})) == []
    assert document["type"] == "document"
    # bdl-9, bdl-10, bdl-11, bdl-7; IPS has neither search nor request in an entry.
    assert all(document["identifier"][name] for name in ("system", "value"))
    assert document["timestamp"]
    assert {"link", "total"}.isdisjoint(document)
    found = [entry["resource"] for entry in document["entry"]]
    assert [resource["resourceType"] for resource in found[:2]] == ["Composition", "Patient"]
    addresses = [entry["fullUrl"] for entry in document["entry"]]
    assert len(addresses) == len(set(addresses))
    assert all(entry.keys() == {"fullUrl", "resource"} for entry in document["entry"])
    composition, by_address = found[0], dict(zip(addresses, found, strict=True))
    assert composition["type"]["coding"][0]["code"] == "60591-5"
    assert composition["title"]
    assert composition["date"] == document["timestamp"]
    assert by_address[composition["subject"]["reference"]] == found[1]
    assert found[1]["id"] == patient
    assert [
        by_address[author["reference"]]["resourceType"] for author in composition["author"]
    ] == ["Device"]
    assert sections(document).keys() == {ALLERGIES, MEDICATIONS, PROBLEMS}
    for section in composition["section"]:
        # ips-comp-1, cmp-2: entries, or why there are none.
        assert ("entry" in section) != ("emptyReason" in section)
        assert section["title"]
        assert words(section).strip()
        for one in section.get("entry", ()):
            resource = by_address[one["reference"]]
            assert resource["patient"]["reference"] == f"Patient/{patient}"
        for coding in section.get("emptyReason", {}).get("coding", ()):
            assert coding["code"] == "unavailable"


@pytest.mark.parametrize("patient", [f"p{number}" for number in range(1, 15)])
def test_a_summary_is_a_document_with_every_allergy(fhir, patient):
    document = fhir.read(f"Patient/{patient}/$summary")
    assert_is_document(document, patient)
    record = fhir.read(f"AllergyIntolerance?patient={patient}").get("entry", ())
    held = [entry["resource"] for entry in record]
    wrong = [
        resource["id"]
        for resource in held
        if "entered-in-error" in str(resource.get("verificationStatus"))
    ]
    assert sorted([*listed(document), *wrong]) == sorted(resource["id"] for resource in held)
    for entry in document["entry"][1:-1]:
        resource = entry["resource"]
        name = f"{resource['resourceType']}/{resource['id']}"
        assert entry["fullUrl"] == f"{BASE_URL}/fhir/{name}"
        assert resource == fhir.read(name)


def test_medications_and_problems_are_not_said_to_be_none(fhir):
    found = sections(fhir.read(SUMMARY))
    for code, what in ((MEDICATIONS, "takes none"), (PROBLEMS, "has none")):
        assert "are not held on this server" in words(found[code])
        assert f"This does not mean that the patient {what}." in words(found[code])


@pytest.mark.parametrize(
    ("allergies", "said", "is_empty"),
    [
        ((), NOTHING, True),
        ((allergy(PENICILLIN, **IN_ERROR),), NOTHING, True),
        ((allergy(NKA, **IN_ERROR),), NOTHING, True),
        ((allergy(NKA),), "Recorded: no known allergies.", False),
        ((allergy(NKDA),), "Recorded: no known drug allergies. Nothing is recorded about", False),
        ((allergy(NO_INFORMATION),), "Recorded: no information about allergies.", False),
        ((allergy(NKA, **REFUTED),), "No active or unresolved allergy is recorded.", False),
        ((allergy(PENICILLIN, **REFUTED),), "Refuted. This is recorded as not true.", False),
        ((allergy(PENICILLIN, **RESOLVED),), "This is recorded as no longer active.", False),
        ((allergy("Nuts", **SEVERE), allergy(NKA)), "Check: “No known allergies” is still", False),
        ((allergy("Nuts", **SEVERE),), "Nuts (severe reaction)", False),
    ],
)
def test_summary_states_each_kind_of_absence(clinic, asking, allergies, said, is_empty):
    patient = patient_with(clinic, *allergies)
    document = asking.read(f"Patient/{patient}/$summary")
    assert_is_document(document, patient)
    section = sections(document)[ALLERGIES]
    assert said in " ".join(words(section).replace(" (", " (").split())
    assert ("emptyReason" in section) == is_empty
    if is_empty:
        assert "no known allergies" not in words(section).lower()


def test_allergies_entered_in_error_are_left_out_and_counted(clinic, asking):
    patient = patient_with(clinic, allergy("Nuts"), allergy("Milk", **IN_ERROR))
    document = asking.read(f"Patient/{patient}/$summary")
    text = words(sections(document)[ALLERGIES])
    assert len(listed(document)) == 1
    assert "Milk" not in text
    assert "Not listed, since they were entered in error: 1." in text


def test_none_known_does_not_head_a_statement_about_drugs(clinic, asking):
    patient = patient_with(clinic, allergy(NKDA))
    text = words(sections(asking.read(f"Patient/{patient}/$summary"))[ALLERGIES])
    assert "None known" not in text
    assert "Statements about allergies" in text


def test_markup_in_a_record_is_text_in_the_summary(clinic, asking):
    hostile = "<script>alert(1)</script>&quot;]]>"
    note = {"note": [{"text": hostile}], "reaction": [{"manifestation": [{"text": hostile}]}]}
    patient = patient_with(clinic, allergy(hostile, **note))
    section = sections(asking.read(f"Patient/{patient}/$summary"))[ALLERGIES]
    assert "<script" not in section["text"]["div"]
    assert words(section).count("<script>alert(1)</script>&quot;]]>") == 3


@pytest.fixture(scope="module")
def patient_with_rich_allergies(clinic):
    """A patient with allergies of every element that R4 has, and their ids."""
    return rich(clinic)


def test_summary_is_made_of_any_allergy(asking, patient_with_rich_allergies):
    patient, published = patient_with_rich_allergies
    document = asking.read(f"Patient/{patient}/$summary")
    assert_is_document(document, patient)
    assert set(listed(document)) <= set(published)


def test_another_record_of_the_same_person_is_named(clinic, asking):
    link = [{"other": {"reference": "Patient/p9"}, "type": "seealso"}]
    document = asking.read(f"Patient/{patient_with(clinic, link=link)}/$summary")
    text = words(sections(document)[ALLERGIES])
    assert "There is another record of the same patient." in text


def test_each_document_is_another_but_has_the_tag_of_its_content(clinic, asking):
    nuts = allergy("Nuts")
    path = f"Patient/{patient_with(clinic, nuts)}/$summary"
    one, other = asking.get(path), asking.get(path)
    assert one.get_json(force=True)["identifier"] != other.get_json(force=True)["identifier"]
    assert one.headers["ETag"] == other.headers["ETag"]
    held = {"If-None-Match": one.headers["ETag"]}
    assert asking.get(path, headers=held).status_code == 304
    delete(clinic, TIMES[1], f"AllergyIntolerance/{nuts['id']}")
    assert asking.get(path, headers=held).status_code == 200


def test_post_asks_what_get_asks(fhir):
    profile = f"{IPS}Composition-uv-ips|2.0.0"
    for answer in (
        fhir.get(SUMMARY, query_string={"profile": profile}),
        fhir.post(SUMMARY, f"profile={profile}", content_type=FORM),
        post(fhir, SUMMARY, parameters(("profile", "valueUri", profile))),
        post(fhir, "Patient/$summary", parameters(("identifier", "valueString", "LGH-100237"))),
    ):
        assert answer.status_code == 200
        assert_is_document(answer.get_json(force=True), "p1")


# Who is asked about.


IDENTIFIERS = ["LGH-100237", "http://hospital.lakeshore.example/mrn|LGH-100237"]


def test_a_patient_is_found_by_an_identifier(fhir):
    for value in IDENTIFIERS:
        (system,) = {
            identifier["system"]
            for identifier in fhir.read("Patient/p1")["identifier"]
            if identifier.get("value") == "LGH-100237"
        }
        value = f"{system}|LGH-100237" if "|" in value else value
        document = fhir.get("Patient/$summary", query_string={"identifier": value})
        assert_is_document(document.get_json(force=True), "p1")


REFUSED = [
    ("", 400, "required", "identifier: is required by $summary", "identifier"),
    ("identifier=a|", 400, "value", "identifier: has no value; use system|value", "identifier"),
    ("identifier=a|b|c", 400, "value",
     "identifier: is not a token; use code, system|code, |code or system|", "identifier"),
    ("identifier=x&graph=y", 400, "not-supported", "graph: is not a parameter of $summary",
     "graph"),
    ("identifier=x&_count=1", 400, "not-supported", "_count: is not a parameter of $summary",
     "_count"),
    ("identifier=x&profile=http://x.example", 400, "value",
     f"profile: is not supported; use {IPS}Composition-uv-ips", "profile"),
    ("identifier=nobodys", 404, "not-found",
     "No patient with this identifier is known here.", None),
    # Two numbers in a URL are one that has a comma.
    ("identifier=LGH-100237,LGH-100274", 404, "not-found",
     "No patient with this identifier is known here.", None),
]  # fmt: skip


def test_malformed_summary_request_is_refused(fhir):
    for query, status, code, diagnostics, parameter in REFUSED:
        answer = fhir.get(f"Patient/$summary?{query}")
        assert_outcome(answer, status, code, diagnostics, parameter)


def test_identifier_of_several_patients_is_refused(clinic, asking):
    number = {"identifier": [{"system": "urn:x", "value": "shared"}]}
    patient_with(clinic, **number), patient_with(clinic, **number)
    answer = asking.get("Patient/$summary?identifier=urn:x|shared")
    message = "identifier: several patients have it; ask for one of them: Patient/<id>/$summary"
    assert_outcome(answer, 400, "value", message, "identifier")


def test_a_patient_who_is_not_here_has_no_summary(clinic, asking):
    message = "Patient/nobody is not known here."
    assert_outcome(asking.get("Patient/nobody/$summary"), 404, "not-found", message)
    gone = patient_with(clinic, identifier=[{"system": "urn:x", "value": "gone"}])
    delete(clinic, TIMES[1], f"Patient/{gone}")
    answer = asking.get(f"Patient/{gone}/$summary")
    assert_outcome(answer, 410, "deleted", f"Patient/{gone} was deleted.")
    assert asking.get("Patient/$summary?identifier=urn:x|gone").status_code == 404


# Who may ask.


def test_summary_of_another_patient_is_not_found(as_patient):
    for patient in ["p2", "nobody", "p" * 64]:
        answer = as_patient("p1").get(f"Patient/{patient}/$summary")
        assert_outcome(answer, 404, "not-found", f"Patient/{patient} is not known here.")


def test_an_identifier_of_another_patient_answers_as_if_it_were_unknown(as_patient):
    fhir = as_patient("p1")
    assert fhir.get("Patient/$summary?identifier=LGH-100237").status_code == 200
    unknown = fhir.get("Patient/$summary?identifier=nobodys")
    assert fhir.get("Patient/$summary?identifier=LGH-100274").data == unknown.data


LACKING = [
    ("system/AllergyIntolerance.rs", "The token's scope does not cover read of Patient."),
    ("system/Patient.rs", LACKS),
    ("system/Patient.rs system/AllergyIntolerance.s", LACKS),
    ("system/Patient.rs system/AllergyIntolerance.rs?category=food", LACKS),
    ("patient/Patient.rs patient/AllergyIntolerance.rs?clinical-status=active", LACKS),
    ("patient/Patient.rs", LACKS),
]


def test_a_summary_that_would_lack_allergies_is_refused(app):
    for scope, message in LACKING:
        patient = "p3" if "patient/" in scope else None
        fhir = Fhir(app, token_for(app, scope, patient=patient))
        for path in ("Patient/p3/$summary", "Patient/nobody/$summary"):
            assert_outcome(fhir.get(path), 403, "forbidden", message)


def test_allergies_of_one_patient_are_not_those_of_another(app):
    scope = "user/Patient.rs patient/AllergyIntolerance.rs"
    fhir = Fhir(app, token_for(app, scope, patient="p1"))
    assert fhir.get(SUMMARY).status_code == 200
    assert_outcome(fhir.get("Patient/p2/$summary"), 403, "forbidden", LACKS)


def test_an_identifier_takes_the_scope_to_search(app):
    scope = "system/Patient.r system/AllergyIntolerance.rs"
    fhir = Fhir(app, token_for(app, scope))
    assert fhir.get(SUMMARY).status_code == 200
    message = "The token's scope does not cover search of Patient."
    answer = fhir.get("Patient/$summary?identifier=LGH-100237")
    assert_outcome(answer, 403, "forbidden", message)
