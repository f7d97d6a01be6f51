"""What comes with the matches: `_include` and `_revinclude`; tests/resources/test_provenance.py."""

from __future__ import annotations

import pytest

from fhirapp.rest.include import MAX_STEPS
from tests.support.contract import delete, publish
from tests.support.helpers import BASE_URL, Fhir, assert_outcome, ids, link, token_for

ALLERGY = "AllergyIntolerance"
DOCUMENT = "DocumentReference"
NOW = "2026-02-01T00:00:00.000+00:00"
LATER = "2026-02-02T00:00:00.000+00:00"
MODES = ("match", "include", "outcome")


def included(fhir: Fhir, path: str) -> list[str]:
    """Return what a search includes, as Type/id, once it is known to stand after the matches."""
    entries = fhir.read(path).get("entry", [])
    modes = [entry["search"]["mode"] for entry in entries]
    assert modes == sorted(modes, key=MODES.index)
    found = [entry for entry in entries if entry["search"]["mode"] == "include"]
    for entry in found:
        resource = entry["resource"]
        assert entry["fullUrl"] == f"{BASE_URL}/fhir/{resource['resourceType']}/{resource['id']}"
    return [entry["fullUrl"].removeprefix(f"{BASE_URL}/fhir/") for entry in found]


INCLUDED = [
    (f"{ALLERGY}?_id=al-p1-penicillin&_include={ALLERGY}:patient", ["Patient/p1"]),
    # The recorder is a practitioner, the asserter the patient.
    (f"{ALLERGY}?_id=al-p1-sulfa&_include={ALLERGY}:recorder", ["Practitioner/dr-adeyemi"]),
    (f"{ALLERGY}?_id=al-p1-sulfa&_include={ALLERGY}:recorder:Practitioner",
     ["Practitioner/dr-adeyemi"]),
    (f"{ALLERGY}?_id=al-p1-sulfa&_include={ALLERGY}:recorder:Patient", []),
    (f"{ALLERGY}?_id=al-p1-sulfa&_include={ALLERGY}:*",
     ["Patient/p1", "Practitioner/dr-adeyemi"]),
    (f"{ALLERGY}?_id=al-p1-sulfa&_include=*", ["Patient/p1", "Practitioner/dr-adeyemi"]),
    (f"{ALLERGY}?_id=al-p1-sulfa&_include={ALLERGY}:*:Practitioner",
     ["Practitioner/dr-adeyemi"]),
    (f"{ALLERGY}?_id=al-p1-sulfa&_include={ALLERGY}:recorder&_include={ALLERGY}:patient",
     ["Patient/p1", "Practitioner/dr-adeyemi"]),
    # Six matches of one patient.
    (f"{ALLERGY}?patient=p1&_include={ALLERGY}:patient", ["Patient/p1"]),
    (f"{DOCUMENT}?_id=doc-p1-consult-2025&_include={DOCUMENT}:author",
     ["Organization/org-harbor", "Practitioner/dr-whitmore"]),
    (f"{DOCUMENT}?_id=doc-p1-consult-2025&_include={DOCUMENT}:author:Organization",
     ["Organization/org-harbor"]),
    (f"{DOCUMENT}?_id=doc-p1-consult-2025&_include={DOCUMENT}:custodian",
     ["Organization/org-harbor"]),
    (f"{DOCUMENT}?_id=doc-p1-consult-2025&_include={DOCUMENT}:encounter",
     ["Encounter/enc-p1-2025-allergy"]),
    (f"{DOCUMENT}?_id=doc-p1-consult-2025&_include={DOCUMENT}:related:{ALLERGY}",
     [f"{ALLERGY}/al-p1-penicillin"]),
    (f"{DOCUMENT}?_id=doc-p1-consult-2025&_include={DOCUMENT}:related:{DOCUMENT}", []),
    (f"{DOCUMENT}?_id=doc-p1-progress-2024&_include={DOCUMENT}:relatesto",
     [f"{DOCUMENT}/doc-p1-discharge-2024"]),
    # A match is not included.
    ((f"{DOCUMENT}?_id=doc-p1-progress-2024,doc-p1-discharge-2024"
      f"&_include={DOCUMENT}:relatesto"), []),
    (f"{DOCUMENT}?_id=doc-p1-consult-2025&_include={DOCUMENT}:relatesto", []),
    # From what was included, an encounter, on.
    ((f"{DOCUMENT}?_id=doc-p1-progress-2024&_include={DOCUMENT}:relatesto"
      f"&_include:iterate={DOCUMENT}:encounter"),
     [f"{DOCUMENT}/doc-p1-discharge-2024", "Encounter/enc-p1-2024-followup",
      "Encounter/enc-p1-2024-pneumonia"]),
    ((f"{DOCUMENT}?_id=doc-p1-consult-2025&_include={DOCUMENT}:related"
      f"&_include:iterate={ALLERGY}:recorder"),
     [f"{ALLERGY}/al-p1-penicillin", "Practitioner/dr-adeyemi"]),
    ("Patient?_id=p1&_include=Patient:general-practitioner", ["Practitioner/dr-adeyemi"]),
    ("Provenance?_id=prov-p1-penicillin&_include=Provenance:target",
     [f"{ALLERGY}/al-p1-penicillin"]),
    # Whatever brought it: here a Provenance.
    ((f"{ALLERGY}?_id=al-p1-penicillin&_revinclude=Provenance:target"
      "&_include:iterate=Provenance:agent:Organization"),
     ["Provenance/prov-p1-penicillin", "Organization/org-lakeside",
      "Organization/org-northgate"]),
]  # fmt: skip


def test_include_returns_the_referenced_resources(fhir):
    for query, found in INCLUDED:
        assert sorted(included(fhir, query)) == sorted(found)


def test_each_page_carries_what_belongs_to_its_own_matches(fhir):
    path = f"/fhir/{DOCUMENT}?patient=p1&_include={DOCUMENT}:author&_count=2"
    whole = fhir.read(path.replace("&_count=2", ""))
    authors = {
        entry["resource"]["id"]: {
            author["reference"].rpartition("/")[2] for author in entry["resource"].get("author", ())
        }
        for entry in whole["entry"]
        if entry["search"]["mode"] == "match"
    }
    pages = 0
    while path:
        bundle = fhir.read(path)
        assert bundle["total"] == 9
        wanted = set().union(*(authors[row_id] for row_id in ids(bundle)))
        assert set(ids(bundle, "include")) == wanted
        path, pages = link(bundle, "next"), pages + 1
    assert pages == 5


INCLUDABLE = f"{ALLERGY}:patient, {ALLERGY}:recorder, {ALLERGY}:asserter, {ALLERGY}:*, *"


NOT_INCLUDABLE = [
    *(("_include", value) for value in (
        "patient", ALLERGY, f"{ALLERGY}:", f"{ALLERGY}::Patient", f"{ALLERGY}:patient:",
        f"{ALLERGY}:patient:Patient:x", f"{ALLERGY}:code", f"{ALLERGY}:nothing",
        f"{ALLERGY}:patient:Group", f"{ALLERGY}:recorder:Nothing", f"{ALLERGY}:*:Nothing",
        f"{ALLERGY}:patient,{ALLERGY}:recorder", "**", ":patient",
        # of another type, without iterate
        f"{DOCUMENT}:author",
    )),
    *(("_include:iterate", value) for value in ("Nothing:patient", f"{ALLERGY}:nothing")),
]  # fmt: skip


def test_include_of_no_reference_is_refused_with_the_choices(fhir):
    for name, value in NOT_INCLUDABLE:
        response = fhir.get(f"{ALLERGY}?patient=p1&{name}={value}")
        diagnostics = f"{name}: {value[:40]!r} cannot be included; use {INCLUDABLE}"
        assert_outcome(response, 400, "value", diagnostics, name)


# What the token may see.

ALL = f"_include={DOCUMENT}:*"


REACHED = [
    ("system/*.rs", None,
     [f"{ALLERGY}/al-p1-penicillin", "Encounter/enc-p1-2025-allergy", "Organization/org-harbor",
      "Patient/p1", "Practitioner/dr-whitmore"]),
    ("patient/*.rs", "p1",
     [f"{ALLERGY}/al-p1-penicillin", "Encounter/enc-p1-2025-allergy", "Organization/org-harbor",
      "Patient/p1", "Practitioner/dr-whitmore"]),
    # Practitioner and Organization with any clinical scope, the others with one of their own.
    ("system/DocumentReference.rs", None,
     ["Organization/org-harbor", "Practitioner/dr-whitmore"]),
    ("patient/DocumentReference.rs patient/Encounter.rs", "p1",
     ["Encounter/enc-p1-2025-allergy", "Organization/org-harbor", "Practitioner/dr-whitmore"]),
    # To include is to search.
    ("system/DocumentReference.s system/Patient.r system/Encounter.s", None,
     ["Encounter/enc-p1-2025-allergy", "Organization/org-harbor", "Practitioner/dr-whitmore"]),
    ("system/DocumentReference.rs system/AllergyIntolerance.rs?criticality=low", None,
     ["Organization/org-harbor", "Practitioner/dr-whitmore"]),
    ("system/DocumentReference.rs system/AllergyIntolerance.rs?criticality=high", None,
     [f"{ALLERGY}/al-p1-penicillin", "Organization/org-harbor", "Practitioner/dr-whitmore"]),
]  # fmt: skip


def test_include_returns_only_resources_in_scope(app):
    for scope, patient, found in REACHED:
        fhir = Fhir(app, token_for(app, scope, patient=patient))
        assert sorted(included(fhir, f"{DOCUMENT}?_id=doc-p1-consult-2025&{ALL}")) == found


def document(row_id: str, patient: str = "p1", *relates_to: str, **elements) -> dict:
    """Return a small DocumentReference that appends others."""
    related = [{"code": "appends", "target": {"reference": reference}} for reference in relates_to]
    return {
        "resourceType": DOCUMENT,
        "id": row_id,
        "status": "current",
        "subject": {"reference": f"Patient/{patient}"},
        **({"relatesTo": related} if related else {}),
        **elements,
    }


@pytest.fixture(scope="module")
def linked(make_app):
    """An app with documents that refer to each other."""
    app = make_app()
    publish(
        app,
        document("self", "p1", f"{DOCUMENT}/self"),
        document("round-1", "p1", f"{DOCUMENT}/round-2"),
        document("round-2", "p1", f"{DOCUMENT}/round-1"),
        *(document(f"chain-{step}", "p1", f"{DOCUMENT}/chain-{step + 1}") for step in range(9)),
        document("strangers", "p1", f"{DOCUMENT}/p2s", f"{DOCUMENT}/gone", f"{DOCUMENT}/unknown",
                 "http://elsewhere.example/fhir/DocumentReference/self"),
        document("p2s", "p2"),
        document("gone", "p1"),
        document("first", "p1", f"{DOCUMENT}/noted/_history/1"),
        document("second", "p1", f"{DOCUMENT}/noted/_history/2"),
        document("current", "p1", f"{DOCUMENT}/noted"),
        document("never", "p1", f"{DOCUMENT}/noted/_history/9", f"{DOCUMENT}/p2s/_history/1"),
        document("noted", "p1", description="first"),
        document("bytes", "p1", context={"related": [{"reference": "Binary/bin-p1-ed-2024"}]}),
        now=NOW,
    )  # fmt: skip
    publish(app, document("noted", "p1", description="second"), now=LATER)
    delete(app, DOCUMENT, "gone", now=LATER)
    return app


@pytest.fixture
def documents(linked):
    return Fhir(linked, token_for(linked, "system/*.rs"))


def related_to(fhir: Fhir, row_id: str, name: str = "_include") -> list[str]:
    """Return the ids of the documents that come with one."""
    found = included(fhir, f"{DOCUMENT}?_id={row_id}&{name}={DOCUMENT}:relatesto")
    return [path.removeprefix(f"{DOCUMENT}/") for path in found]


def test_deleted_unknown_or_external_targets_are_not_included(documents):
    assert related_to(documents, "strangers") == ["p2s"]


def test_another_patients_document_is_left_out(linked):
    fhir = Fhir(linked, token_for(linked, "patient/*.rs", patient="p1"))
    assert fhir.ids(f"{DOCUMENT}?_id=strangers") == ["strangers"]
    assert related_to(fhir, "strangers") == []
    assert related_to(fhir, "never") == []


def test_bytes_are_left_out(documents):
    assert included(documents, f"{DOCUMENT}?_id=bytes&_include={DOCUMENT}:related") == []


def test_circular_references_are_included_once(documents):
    for name in ("_include", "_include:iterate"):
        assert related_to(documents, "self", name) == []
        assert related_to(documents, "round-1", name) == ["round-2"]
        assert related_to(documents, "round-1,round-2", name) == []


def test_include_iterate_goes_on_up_to_the_most_steps(documents):
    assert related_to(documents, "chain-0") == ["chain-1"]
    reached = [f"chain-{step}" for step in range(1, MAX_STEPS + 1)]
    assert related_to(documents, "chain-0", "_include:iterate") == reached
    # chain-9 is not here: that way nothing is left out.
    reached = [f"chain-{step}" for step in range(4, 9)]
    assert related_to(documents, "chain-3", "_include:iterate") == reached


CUT = {
    "severity": "warning",
    "code": "too-costly",
    "diagnostics": "_include: more belongs to these matches than is included at once; "
    "read the rest",
    "expression": ["http._include"],
}


def outcome(fhir: Fhir, path: str) -> list:
    """Return the issues of a search's outcome."""
    entries = fhir.read(path)["entry"]
    return [
        issue
        for entry in entries
        if entry["search"]["mode"] == "outcome"
        for issue in entry["resource"]["issue"]
    ]


def test_truncated_include_is_a_warning(documents):
    for start, issues in [("chain-0", [CUT]), ("chain-4", [])]:
        path = f"{DOCUMENT}?_id={start}&_include:iterate={DOCUMENT}:relatesto"
        assert outcome(documents, path) == issues


def test_a_page_includes_only_so_much(make_app, monkeypatch):
    monkeypatch.setattr("fhirapp.rest.include.MAX_INCLUDED", 20)
    app = make_app()
    many = [f"dr-{number:02}" for number in range(21)]
    publish(app, *({"resourceType": "Practitioner", "id": row_id} for row_id in many), now=NOW)
    authors = [{"reference": f"Practitioner/{row_id}"} for row_id in many]
    publish(app, document("crowd", author=authors), now=NOW)
    publish(app, document("fewer", author=authors[1:]), now=NOW)
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    for row_id, found, issues in (("crowd", many[:-1], [CUT]), ("fewer", many[1:], [])):
        path = f"{DOCUMENT}?_id={row_id}&_include={DOCUMENT}:author"
        assert included(fhir, path) == [f"Practitioner/{author}" for author in found]
        assert outcome(fhir, path) == issues


VERSIONS = [("first", ["1"]), ("second", ["2"]), ("current", ["2"]), ("first,second", ["2", "1"]),
     ("first,noted", ["1"]), ("second,noted", []), ("never", [])]  # fmt: skip


def test_a_reference_that_names_a_version_brings_that_one(documents):
    for row_id, versions in VERSIONS:
        entries = documents.read(f"{DOCUMENT}?_id={row_id}&_include={DOCUMENT}:relatesto")["entry"]
        found = [entry["resource"] for entry in entries if entry["search"]["mode"] == "include"]
        assert [
            resource["meta"]["versionId"] for resource in found if resource["id"] == "noted"
        ] == versions
        assert [resource["description"] for resource in found if resource["id"] == "noted"] == [
            {"1": "first", "2": "second"}[version] for version in versions
        ]


def test_an_earlier_version_is_for_who_may_read_it(linked):
    fhir = Fhir(linked, token_for(linked, "system/DocumentReference.s"))
    assert related_to(fhir, "first") == []
    assert related_to(fhir, "second") == ["noted"]


def test_the_entity_tag_follows_what_is_included(make_app):
    app = make_app()
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    path = f"{ALLERGY}?_id=al-p4-nkda&_include={ALLERGY}:patient"
    etag = fhir.get(path).headers["ETag"]
    assert fhir.get(path, headers={"If-None-Match": etag}).status_code == 304
    assert fhir.get(f"{ALLERGY}?_id=al-p4-nkda").headers["ETag"] != etag
    changed = {"resourceType": "Patient", "id": "p4", "name": [{"family": "Okafor"}]}
    publish(app, changed, now=NOW)
    assert fhir.get(path, headers={"If-None-Match": etag}).status_code == 200


# The other way.


def fhir_of(app) -> Fhir:
    return Fhir(app, token_for(app, "system/*.rs"))


REFERRING = [
    (f"Patient?_id=p4&_revinclude={ALLERGY}:patient", [f"{ALLERGY}/al-p4-nkda"]),
    (f"Patient?_id=p4&_revinclude={ALLERGY}:patient:Patient", [f"{ALLERGY}/al-p4-nkda"]),
    (f"Patient?_id=p4&_revinclude={ALLERGY}:*", [f"{ALLERGY}/al-p4-nkda"]),
    (f"Patient?_id=p4&_revinclude={ALLERGY}:patient&_revinclude:iterate=Provenance:target",
     [f"{ALLERGY}/al-p4-nkda", "Provenance/prov-p4-nkda"]),
    (f"Patient?_id=p4&_revinclude={ALLERGY}:patient&_include:iterate={ALLERGY}:recorder",
     [f"{ALLERGY}/al-p4-nkda", "Practitioner/dr-farrow"]),
    (f"Encounter?_id=enc-p1-2025-allergy&_revinclude={DOCUMENT}:encounter",
     [f"{DOCUMENT}/doc-p1-consult-2025"]),
    # From what an include brought.
    (f"{ALLERGY}?_id=al-p4-nkda&_include={ALLERGY}:patient&_include:iterate=*",
     ["Organization/org-lakeside", "Organization/org-northgate", "Patient/p4",
      "Practitioner/dr-adeyemi", "Practitioner/dr-farrow"]),
    (f"Patient?_id=nobody&_revinclude={ALLERGY}:patient", []),
    ("Patient?_id=p4&_revinclude=", []),
]  # fmt: skip


def test_revinclude_returns_the_referring_resources(fhir):
    for query, found in REFERRING:
        assert sorted(included(fhir, query)) == sorted(found)


def test_revinclude_of_too_many_resources_is_refused(make_app, monkeypatch):
    monkeypatch.setattr("fhirapp.rest.include.MAX_REFERRING", 6)
    fhir = fhir_of(make_app())
    assert len(included(fhir, f"Patient?_id=p1&_revinclude={ALLERGY}:patient")) == 6
    response = fhir.get(f"Patient?_id=p1,p4&_revinclude={ALLERGY}:patient")
    assert_outcome(
        response, 400, "value",
        "_revinclude: more than 6 resources refer to this page; ask for fewer at once by _count,"
        " or search for them by themselves",
        "_revinclude",
    )  # fmt: skip


NOT_REFERRING = [
    "Patient:name", f"{ALLERGY}:code", f"{ALLERGY}", "Binary:x", f"{DOCUMENT}:encounter",
    f"{ALLERGY}:patient:Group",
]  # fmt: skip


def test_revinclude_of_no_reference_is_refused_with_the_choices(fhir):
    for value in NOT_REFERRING:
        response = fhir.get(f"Patient?_id=p4&_revinclude={value}")
        assert response.status_code == 400
        told = response.get_json(force=True)["issue"][0]["diagnostics"]
        assert told.startswith(
            f"_revinclude: {value!r} cannot be included; use {ALLERGY}:patient, "
        )


def test_revinclude_needs_the_scope_to_search(app):
    """An answer without a patient's allergies would read as one who has none."""
    fhir = Fhir(app, token_for(app, "system/Patient.rs system/AllergyIntolerance.r"))
    response = fhir.get(f"Patient?_id=p4&_revinclude={ALLERGY}:patient")
    assert_outcome(
        response, 403, "forbidden",
        f"_revinclude: the token's scope does not cover search of {ALLERGY}.", "_revinclude",
    )  # fmt: skip
    # What * leaves out is told.
    assert included(fhir, "Patient?_id=p4&_revinclude=*") == []
    issues = [issue["diagnostics"] for issue in outcome(fhir, "Patient?_id=p4&_revinclude=*")]
    assert f"_revinclude: no {ALLERGY} is included: the token's scope does not cover search" in (
        issues
    )
    # Only what a narrower scope finds, and only the own patient's.
    some = Fhir(app, token_for(app, f"system/Patient.rs system/{ALLERGY}.rs?criticality=high"))
    assert set(included(some, f"Patient?_id=p1&_revinclude={ALLERGY}:patient")) == {
        f"{ALLERGY}/{row_id}" for row_id in some.ids(f"{ALLERGY}?patient=p1")
    }
    own = Fhir(app, token_for(app, "patient/*.rs", patient="p1"))
    brought = included(own, "Practitioner?_revinclude=*")
    assert brought
    for path in brought:
        assert own.get(path).status_code == 200
    everything = included(fhir_of(app), "Practitioner?_revinclude=*")
    assert {path for path in everything if own.get(path).status_code == 200} == set(brought)
