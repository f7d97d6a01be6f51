"""What a document is as a DiagnosticReport: the mapping alone. US Core, Clinical Notes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.resources.diagnostic_report.view import report_of
from fhirapp.store.prepare import prepare
from tests.support.contract import SERVED
from tests.support.effort import sample
from tests.support.reports import LAB, LOINC, NOTE, SECTIONS, concept, document, made
from tests.support.round_trips import REPEATABLE, resources

CATEGORIES = [
    # US Core's types, each with its category
    ({"type": concept("11502-2")}, (SECTIONS, "LAB"), LAB),
    ({"type": concept("11526-1")}, (LOINC, "LP7839-6"), NOTE),
    ({"type": concept("18748-4")}, (LOINC, "LP29684-5"), NOTE),
    ({"type": concept("28570-0")}, (LOINC, "28570-0"), NOTE),
    # any type, by its category
    ({"type": concept("24627-2"), "category": [concept("LP29684-5")]},
     (LOINC, "LP29684-5"), NOTE),
    ({"type": concept("34552-0"), "category": [concept("LP29708-2")]},
     (LOINC, "LP29708-2"), NOTE),
    ({"type": concept("11529-5"), "category": [concept("LP7839-6")]},
     (LOINC, "LP7839-6"), NOTE),
    ({"type": concept("58410-2"), "category": [concept("LAB", SECTIONS)]},
     (SECTIONS, "LAB"), LAB),
    ({"type": {"text": "X-ray"}, "category": [concept("RAD", SECTIONS)]},
     (SECTIONS, "RAD"), NOTE),
    # the document's own category before that of its type
    ({"type": concept("18748-4"), "category": [concept("LP29708-2")]},
     (LOINC, "LP29708-2"), NOTE),
]  # fmt: skip


def test_the_category_of_a_report():
    for elements, category, profile in CATEGORIES:
        report = made(**elements)
        (found,) = [coding for concept in report["category"] for coding in concept["coding"]]
        assert (found["system"], found["code"]) == category
        assert report["meta"]["profile"] == [profile]


NO_REPORTS = [
    # broader than one report
    *({"type": concept(code)} for code in ("11506-3", "18842-5", "34117-2", "11488-4")),
    {"type": concept("42348-3")}, {"type": concept("11502-2", "urn:oid:1.2.3")}, {"type": None},
    # no report without a kind
    {"type": None, "category": [concept("LAB", SECTIONS)]},
    # what is no longer valid would look like a second valid report
    {"status": "superseded"}, {"subject": None}, {"subject": {"reference": "Group/g1"}},
    {"subject": {"reference": "#contained"}},
]  # fmt: skip


def test_a_document_that_is_no_report():
    for elements in NO_REPORTS:
        assert report_of(document(**elements)) is None


STATUSES = [
    ("current", "preliminary", "preliminary"),
    ("current", "final", "final"),
    ("current", "amended", "amended"),
    ("current", None, "final"),
    ("current", "entered-in-error", "entered-in-error"),
    ("entered-in-error", "final", "entered-in-error"),
    ("entered-in-error", None, "entered-in-error"),
    # its status has an extension alone
    (None, None, "unknown"),
]


def test_the_status_of_a_report():
    for status, doc_status, expected in STATUSES:
        assert made(status=status, docStatus=doc_status)["status"] == expected


TIMES = [
    ({}, {"effectiveDateTime": "2024-01-19T09:10:00+00:00",
          "issued": "2024-01-19T09:10:00+00:00"}, LAB),
    ({"context": {"period": {"start": "2024-01-18"}}},
     {"effectivePeriod": {"start": "2024-01-18"}, "issued": "2024-01-19T09:10:00+00:00"}, LAB),
    # us-core-9: a laboratory report that is final has an instant
    ({"date": "2024-01"}, {"effectiveDateTime": "2024-01"}, NOTE),
    ({"date": None, "context": {"period": {"end": "2024"}}},
     {"effectivePeriod": {"end": "2024"}}, NOTE),
    # us-core-8, us-core-10: so has every one a time
    ({"date": None}, {}, None),
    ({"date": None, "status": "entered-in-error"}, {}, LAB),
]  # fmt: skip


def test_the_times_of_a_report():
    for elements, times, profile in TIMES:
        report = made(**elements)
        assert {name: report[name] for name in report if name[:3] in ("eff", "iss")} == times
        assert report.get("meta", {}).get("profile") == ([profile] if profile else None)


AUTHORS = [
    ({"reference": "Practitioner/dr-rosen"}, True),
    ({"reference": "https://elsewhere.example/fhir/Organization/o1/_history/2"}, True),
    ({"reference": "Practitioner?identifier=http://hl7.org/fhir/sid/us-npi|1"}, True),
    ({"display": "Dr. Rosen"}, True),
    ({"type": "PractitionerRole", "identifier": {"value": "1"}}, True),
    ({"reference": "Patient/p1"}, False),
    ({"reference": "Device/d1"}, False),
    ({"reference": "#contained"}, False),
    ({"type": "RelatedPerson", "identifier": {"value": "1"}}, False),
]


def test_the_performers_are_the_authors_that_may_be():
    for author, is_performer in AUTHORS:
        assert made(author=[author]).get("performer") == ([author] if is_performer else None)


def test_who_attests_it_answers_for_its_conclusions():
    doctor = {"reference": "Practitioner/dr-rosen"}
    assert made(authenticator=doctor)["resultsInterpreter"] == [doctor]
    assert "resultsInterpreter" not in made(authenticator={"reference": "Device/d1"})
    assert "resultsInterpreter" not in made()


def test_order_results_and_images_are_what_it_is_related_to():
    value = {"resourceType": "Observation", "id": "crp", "status": "final"}
    order, seen, own = (
        {"reference": reference}
        for reference in ("ServiceRequest/s1", "https://lab.example/fhir/Observation/o1", "#crp")
    )
    image, note = ({"reference": reference} for reference in ("Media/m1", "DocumentReference/d2"))
    untold = {"display": "An order"}
    report = made(context={"related": [order, seen, own, image, note, untold]}, contained=[value])
    assert report["basedOn"] == [order]
    assert report["result"] == [seen, own]
    assert report["media"] == [{"link": image}]
    assert report["contained"] == [value]
    assert not {"basedOn", "result", "media"} & made(context={"related": [note, untold]}).keys()


ENCOUNTERS = [
    (["Encounter/e1"], "Encounter/e1"),
    (["EpisodeOfCare/c1", "Encounter/e1"], "Encounter/e1"),
    (["Encounter/e1", "Encounter/e2"], None),
    (["EpisodeOfCare/c1"], None),
]


def test_the_encounter_is_the_only_one():
    for encounters, expected in ENCOUNTERS:
        context = {"encounter": [{"reference": reference} for reference in encounters]}
        assert made(context=context).get("encounter", {}).get("reference") == expected


def test_labels_identifiers_and_language_are_the_documents():
    label = {"system": "http://terminology.hl7.org/CodeSystem/v3-Confidentiality", "code": "R"}
    tag = {"system": "urn:tags", "code": "t"}
    report = made(
        meta={"security": [{"code": "V"}], "tag": [tag], "source": "urn:s", "profile": ["urn:p"]},
        securityLabel=[{"coding": [label]}, {"text": "secret"}],
        masterIdentifier={"value": "1"},
        identifier=[{"value": "2"}],
        language="es",
    )
    assert report["meta"] == {
        "source": "urn:s",
        "tag": [tag],
        "security": [{"code": "V"}, label],
        "profile": [LAB],
    }
    assert report["identifier"] == [{"value": "1"}, {"value": "2"}]
    assert report["language"] == "es"


def test_modifier_extension_of_the_whole_is_kept():
    for name in ["modifierExtension", "implicitRules"]:
        value = "urn:rules" if name == "implicitRules" else [{"url": "urn:x", "valueBoolean": True}]
        assert made(**{name: value})[name] == value


MODIFYING = [
    {"context": {"modifierExtension": [{"url": "urn:x", "valueBoolean": True}]}},
    {"content": [{"attachment": {"title": "x"},
                  "modifierExtension": [{"url": "urn:x", "valueBoolean": True}]}]},
]  # fmt: skip


def test_modifier_extension_of_a_part_makes_no_report():
    for elements in MODIFYING:
        assert report_of(document(**elements)) is None


def test_contained_resources_of_the_document_are_in_the_report():
    organization = {"resourceType": "Organization", "id": "o", "name": "Clinic"}
    doctor = {
        "resourceType": "PractitionerRole",
        "id": "d",
        "organization": {"reference": "#o"},
    }
    device = {"resourceType": "Device", "id": "m"}
    contained = [organization, doctor, device]
    authors = [{"reference": "#d"}, {"reference": "#m"}, {"reference": "#nobody"}]
    report = made(contained=contained, author=authors)
    assert report["performer"] == authors[:1]
    assert report["contained"] == [doctor, organization]
    assigned = made(contained=contained, identifier=[{"assigner": {"reference": "#o"}}])
    assert assigned["contained"] == [organization]
    patient = {"resourceType": "Patient", "id": "p"}
    assert made(contained=[patient], subject={"reference": "#p"})["contained"] == [patient]
    assert "contained" not in made(contained=contained)


def test_the_report_of_whatever_document_is_valid():
    """One that is not could not be published, nor could its document."""
    documents, reports = SERVED["DocumentReference"], SERVED["DiagnosticReport"]

    @settings(REPEATABLE, max_examples=sample(20, 100))
    @given(resources("DocumentReference"), st.sampled_from(["11502-2", "18748-4"]))
    def check(resource, code):
        resource = {**resource, "type": concept(code)}
        if not resource.get("subject", {}).get("reference"):
            resource["subject"] = {"reference": "Patient/p1"}
        row = {"id": "r", "version_id": 1, "last_updated": "2026"}
        columns = prepare(documents, resource).columns
        report = report_of(documents.schema.dump({**columns, **row}))
        if report is not None:
            prepare(reports, report)
            found.append(report["status"])

    found: list[str] = []
    check()
    assert len(found) > 5


def test_attachments_keep_their_addresses_and_not_their_bytes():
    content = [
        {"attachment": {"url": "Binary/b1", "data": "QQ==", "title": "Scan", "size": 1}},
        {"attachment": {"url": "https://elsewhere.example/scan.pdf"}},
        {"attachment": {"_url": {"extension": [{"url": "urn:absent", "valueCode": "unknown"}]}}},
    ]
    assert made(content=content)["presentedForm"] == [
        {"url": "Binary/b1", "title": "Scan", "size": 1},
        {"url": "https://elsewhere.example/scan.pdf"},
    ]
    assert "presentedForm" not in made()
