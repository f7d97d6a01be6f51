"""Searches of several types at once, of a patient's compartment, and the history of all."""

from __future__ import annotations

import pytest

from fhirapp.definition import types
from tests.support.contract import allergy, delete, publish
from tests.support.helpers import Fhir, assert_outcome, link, token_for

ALLERGY, DOCUMENT = "AllergyIntolerance", "DocumentReference"
LATER = "2031-01-01T00:00:00.000+00:00"
OF_A_RECORD = (ALLERGY, "DiagnosticReport", DOCUMENT, "Encounter", "Provenance")


def found(bundle: dict) -> list[str]:
    """Return the matches of a searchset as Type/id."""
    return [
        f"{entry['resource']['resourceType']}/{entry['resource']['id']}"
        for entry in bundle.get("entry", ())
        if entry["search"]["mode"] == "match"
    ]


def warned(bundle: dict) -> list[str]:
    return [
        issue["diagnostics"]
        for entry in bundle.get("entry", ())
        if entry.get("search", {}).get("mode") == "outcome"
        for issue in entry["resource"]["issue"]
    ]


def walk(fhir: Fhir, path: str | None) -> list[dict]:
    """Return every page from the first on."""
    pages = []
    while path:
        pages.append(fhir.read(path))
        path = link(pages[-1], "next")
    return pages


def each(fhir: Fhir, names, query: str = "") -> list[str]:
    """Return what each type's own search finds, one type after the other."""
    return [
        f"{name}/{row_id}" for name in names for row_id in fhir.ids(f"{name}?_count=1000{query}")
    ]


def searchable(app) -> list[str]:
    with app.app_context():
        names = sorted(name for name, one in types().items() if one.searchable)
    return ["Patient", *(name for name in names if name != "Patient")]


SCOPES = [
    ("system/*.rs", None),
    ("patient/*.rs", "p1"),
    ("system/AllergyIntolerance.rs?criticality=high system/Encounter.rs", None),
]


@pytest.mark.parametrize(("scope", "patient"), SCOPES)
@pytest.mark.parametrize("query", ["", "&_lastUpdated=gt2024", "&_id=p1,al-p4-nkda,al-p1-latex"])
def test_all_types_are_searched_as_each_is_by_itself(app, scope, patient, query):
    fhir = Fhir(app, token_for(app, scope, patient=patient))
    names = [name for name in searchable(app) if fhir.get(f"{name}?_count=0").status_code == 200]
    expected = each(fhir, names, query)
    bundle = fhir.read(f"/fhir?_count=1000{query}")
    assert found(bundle) == expected
    assert bundle["total"] == len(expected)
    pages = walk(fhir, f"/fhir?_count=7{query}")
    assert [path for page in pages for path in found(page)] == expected
    assert {page["total"] for page in pages} == {len(expected)}
    # What a scope leaves out is told, not passed over.
    left_out = [name for name in searchable(app) if name not in names]
    assert bool(warned(bundle)) == bool(left_out)
    assert all(name in warned(bundle)[0] for name in left_out)


SEARCHES = [
    (f"?_type={ALLERGY},{DOCUMENT}&patient=p1", (ALLERGY, DOCUMENT), "&patient=p1"),
    (f"?_type={DOCUMENT}&_type={ALLERGY}&patient=p1", (ALLERGY, DOCUMENT), "&patient=p1"),
    (f"_search?_type={ALLERGY},{DOCUMENT}&_content=penicillin", (ALLERGY, DOCUMENT),
     "&_content=penicillin"),
    (f"?_type={ALLERGY},Encounter&patient.name=okafor", (ALLERGY, "Encounter"),
     "&patient.name=okafor"),
    ("?_type=Patient,Practitioner&phonetic=ocafore", ("Patient", "Practitioner"),
     "&phonetic=ocafore"),
    ("Patient/p1/*", OF_A_RECORD, "&patient=p1"),
    ("Patient/p1/_search", OF_A_RECORD, "&patient=p1"),
    ("Patient/p1/*?status=finished&_type=Encounter", ("Encounter",),
     "&patient=p1&status=finished"),
    (f"Patient/p1/{ALLERGY}", (ALLERGY,), "&patient=p1"),
    (f"Patient/p1/{ALLERGY}?criticality=high", (ALLERGY,), "&patient=p1&criticality=high"),
    (f"Patient/p1/{DOCUMENT}/_search?date=2024", (DOCUMENT,), "&patient=p1&date=2024"),
    (f"Patient/p1/{ALLERGY}?patient=p2", (ALLERGY,), "&patient=p1&patient=p2"),
    (f"Patient/nobody/{ALLERGY}", (ALLERGY,), "&patient=nobody"),
    ("Patient/nobody/*", OF_A_RECORD, "&patient=nobody"),
]  # fmt: skip


def test_several_types_and_a_record_are_searched(fhir):
    for path, names, query in SEARCHES:
        bundle = fhir.read(path)
        assert found(bundle) == each(fhir, names, query)
        # A form says the same.
        where, _, form = path.partition("?")
        if where.endswith("_search"):
            again = fhir.post(where, dict(pair.split("=") for pair in form.split("&") if pair))
            assert found(again.get_json(force=True)) == found(bundle)


def test_resource_published_meanwhile_is_on_no_later_page(make_app):
    app = make_app()
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    before = found(fhir.read("Patient/p1/*?_count=1000"))
    first = fhir.read("Patient/p1/*?_count=2")
    publish(app, allergy("new", "p1"), now=LATER)
    delete(app, ALLERGY, "al-p1-latex", now=LATER)
    later = [path for page in walk(fhir, link(first, "next")) for path in found(page)]
    gone = f"{ALLERGY}/al-p1-latex"
    assert [*found(first), *later] == [
        path for path in before if path != gone or path in found(first)
    ]


REFUSED = [
    ("?patient=p1", "not-supported",
     "patient: is not a search parameter of Patient; name others by _type", "patient"),
    (f"?_type={ALLERGY},Patient&_content=latex", "not-supported",
     "_content: is not a search parameter of Patient; name others by _type", "_content"),
    ("?_type=Nope", "value", "_type: 'Nope' is not one of ", "_type"),
    ("?_type=Binary", "value", "_type: 'Binary' is not one of ", "_type"),
    ("Patient/p1/*?_type=Practitioner", "value", "_type: 'Practitioner' is not one of ",
     "_type"),
    ("?_type:not=Patient", "not-supported", "_type:not: the modifier is not supported",
     "_type:not"),
    ("?_sort=_id", "not-supported",
     "_sort: takes the search of one type; several types are searched here", "_sort"),
    ("?_include=*", "not-supported",
     "_include: takes the search of one type; several types are searched here", "_include"),
    ("?_list=1", "not-supported",
     "_list: is not supported here; ", "_list"),
]  # fmt: skip


def test_unsupported_parameter_of_a_system_search_is_refused(fhir):
    for path, code, diagnostics, parameter in REFUSED:
        response = fhir.get(path)
        told = response.get_json(force=True)["issue"][0]
        assert (response.status_code, told["code"]) == (400, code)
        assert told["diagnostics"].startswith(diagnostics)
        assert told["expression"] == [f"http.{parameter}"]


def test_unknown_parameter_is_a_warning_or_under_strict_handling_an_error(fhir):
    bundle = fhir.read("?_type=Patient,Encounter&nonsense=1")
    assert [message.partition(":")[0] for message in warned(bundle)] == ["nonsense"]
    strict = {"Prefer": "handling=strict"}
    assert fhir.get("?_type=Patient&nonsense=1", headers=strict).status_code == 400
    # service.md 4, rule 2.
    assert fhir.get(f"?_type={ALLERGY}", headers=strict).status_code == 400
    assert fhir.get(f"Patient/p1/{ALLERGY}", headers=strict).status_code == 200
    assert fhir.get("Patient/p1/*", headers=strict).status_code == 200


OTHER_RECORDS = ["Patient/p2/*", f"Patient/p2/{ALLERGY}", f"?_type={ALLERGY}&patient=p2"]


def test_the_record_of_another_patient_is_out_of_reach(app):
    for path in OTHER_RECORDS:
        fhir = Fhir(app, token_for(app, "patient/*.rs", patient="p1"))
        assert fhir.get(path).status_code == 403
        # Whether it is here or not.
        assert fhir.get(path.replace("p2", "nobody")).status_code == 403


def test_a_type_that_the_scope_does_not_cover_is_refused_where_it_is_named(app):
    fhir = Fhir(app, token_for(app, f"system/{ALLERGY}.rs"))
    response = fhir.get(f"?_type={ALLERGY},{DOCUMENT}")
    diagnostics = f"The token's scope does not cover search of {DOCUMENT}."
    assert_outcome(response, 403, "forbidden", diagnostics)
    assert fhir.get(f"Patient/p1/{DOCUMENT}").status_code == 403


def answer(fhir: Fhir, path: str) -> dict:
    """Return an answer without what names the number of the last row: its links and its id."""
    content = fhir.get(path).get_json(force=True)
    content["link"] = [link["relation"] for link in content.get("link", ())]
    content.pop("id", None)
    return content


@pytest.mark.parametrize(("scope", "patient"), SCOPES)
def test_resources_out_of_reach_change_no_answer(make_app, scope, patient):
    """The same answers as where the other records are not here."""
    app = make_app()
    fhir = Fhir(app, token_for(app, scope, patient=patient))
    paths = ["/fhir?_count=9", "/fhir/_history?_count=9", "Patient/p1/*?_count=9",
             f"/fhir?_type={ALLERGY}&_summary=count", "/fhir?_lastUpdated=gt2025-06"]  # fmt: skip
    before = [answer(fhir, path) for path in paths]
    hidden = allergy("hidden", "p9", criticality="low")
    publish(app, hidden, now="2030-01-01T00:00:00.000+00:00")
    if scope != "system/*.rs":
        assert [answer(fhir, path) for path in paths] == before
    else:
        assert answer(fhir, paths[0])["total"] == before[0]["total"] + 1


@pytest.fixture(scope="module")
def changed(make_app):
    """An app where an allergy changed and another one was deleted."""
    app = make_app()
    publish(app, allergy("al-p1-latex", "p1", criticality="high"), now=LATER)
    delete(app, ALLERGY, "al-p1-ragweed", now="2031-01-02T00:00:00.000+00:00")
    return app


@pytest.mark.parametrize(("scope", "patient"), SCOPES)
@pytest.mark.parametrize("query", ["", "&_since=2024&_at=2024"])
def test_the_history_of_all_is_that_of_each_resource(changed, scope, patient, query):
    app = changed
    everything = Fhir(app, token_for(app, "system/*.rs"))
    fhir = Fhir(app, token_for(app, scope, patient=patient))
    expected = set()
    deleted = [
        f"{ALLERGY}/al-p1-ragweed",
        f"{ALLERGY}/al-p5-codeine",
        f"{DOCUMENT}/doc-p5-misfiled",
    ]
    for path in {*each(everything, searchable(app)), *deleted}:
        response = fhir.get(f"{path}/_history?_count=1000{query}")
        if response.status_code == 200:
            entries = response.get_json(force=True).get("entry", ())
            expected |= {(path, entry["response"]["etag"]) for entry in entries}
    pages = walk(fhir, f"/fhir/_history?_count=7{query}")
    told = [
        (entry["request"]["url"], entry["response"]["etag"], entry["response"]["lastModified"])
        for page in pages
        for entry in page.get("entry", ())
    ]
    assert {version[:2] for version in told} == expected
    assert len(told) == len(expected)
    times = [version[2] for version in told]
    assert times == sorted(times, reverse=True)
    whole = fhir.read(f"/fhir/_history?_count=1000{query}")
    assert whole["total"] == len(expected)
