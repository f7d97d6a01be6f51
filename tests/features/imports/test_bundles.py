"""Imports of Bundles: each type and form, references within, entries that are wrong, pages."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.archives import zipped
from tests.support.bundles import asked, bundle, plain, put
from tests.support.importing import asking, lines, load, skipped_files, write
from tests.support.records import URN, UUID, allergy, binary, document, patient
from tests.support.stored import current, stored

KINDS = ("transaction", "batch", "collection", "searchset", "document")


@pytest.mark.parametrize("kind", KINDS)
def test_bundle_of_each_type_is_imported_entry_by_entry(module_app, import_file, kind):
    # The allergy comes before its patient.
    records = [allergy(f"{kind}-allergy", of=f"Patient/{kind}"), patient(kind)]
    entry = put if kind in ("transaction", "batch") else plain
    report = import_file(bundle(kind, *map(entry, records)))
    assert report.complete
    assert report.changes == {"AllergyIntolerance": {"new": 1}, "Patient": {"new": 1}}
    assert asking(module_app).ids(f"AllergyIntolerance?patient={kind}") == [f"{kind}-allergy"]
    for empty in ({"resourceType": "Bundle", "type": kind}, bundle(kind)):
        for indent in (None, 2):
            report = import_file(json.dumps(empty, indent=indent).encode())
            assert (report.complete, report.changes) == (True, {})


def pretty(content: Any, **options: Any) -> bytes:
    return json.dumps(content, **{"indent": 2, **options}).encode()


def entry_on_each_line(content: Any) -> bytes:
    entries = ",\n".join(json.dumps(entry) for entry in content["entry"])
    head = json.dumps({name: value for name, value in content.items() if name != "entry"})
    return f'{head[:-1]}, "entry": [\n{entries}\n]}}\n'.encode()


# The name of the file, and what it holds of a Bundle.
FORMS: dict[str, tuple[str, Callable[[Any], bytes]]] = {
    "one line": ("x.json", lambda content: json.dumps(content).encode()),
    "pretty": ("x.json", pretty),
    "tabs and CRLF": ("x.json", lambda of: pretty(of, indent="\t").replace(b"\n", b"\r\n")),
    "entry on each line": ("x.json", entry_on_each_line),
    "NDJSON": ("x.ndjson", lambda content: lines(content, patient("beside"))),
    "gzip": ("x.json.gz", lambda content: gzip.compress(json.dumps(content).encode())),
    "gzip by another name": ("x.json", lambda content: gzip.compress(pretty(content))),
    "byte order mark": ("x.json", lambda content: b"\xef\xbb\xbf" + pretty(content)),
    "byte order mark on one line": ("x.json", lambda of: b"\xef\xbb\xbf" + pretty(of, indent=None)),
    "entry first": ("x.json", lambda content: pretty(dict(reversed(content.items())))),
    "entry first on one line": (
        "x.json",
        lambda content: json.dumps(dict(reversed(content.items()))).encode(),
    ),
    "list": ("x.json", lambda content: pretty([content])),
    "no suffix": ("records", lambda content: json.dumps(content).encode()),
}


def test_bundle_is_read_in_every_form(empty, tmp_path):
    expected = ["beside"]
    for place, (name, content_of) in enumerate(FORMS.values()):
        for count in (1, 3):
            ids = [f"form-{place}-{count}-{number}" for number in range(count)]
            content = bundle("collection", *(plain(patient(own_id)) for own_id in ids))
            write(tmp_path / f"{place}-{count}", content_of(content), name)
            expected += ids
    zipped(tmp_path / "x.zip", {"deep/x.json": pretty(bundle("collection", plain(patient("zip"))))})
    report = load(empty, tmp_path)
    assert (report.rejected, skipped_files(report)) == ([], {})
    assert current(empty, "Patient") == sorted([*expected, "zip"])


@pytest.mark.parametrize("indent", [None, 2])
def test_bundle_of_another_type_or_without_a_list_of_entries_is_rejected(import_file, indent):
    for kind in (None, "nonsense", 7, ["collection"], "batch-response"):
        content = {"resourceType": "Bundle", "type": kind, "entry": [plain(patient("never"))]}
        report = import_file(json.dumps(content, indent=indent).encode())
        assert report.rejected_lines == 1
        assert "Bundle.type: must be one of collection, document, " in report.rejected[0]
    for entry in ({"resource": patient("lost")}, "text", 7):
        content = {"resourceType": "Bundle", "type": "collection", "entry": entry}
        report = import_file(json.dumps(content, indent=indent).encode())
        assert report.rejected_lines == 1
        assert "Bundle.entry: must be a list" in report.rejected[0]


# References within a Bundle


def test_urn_references_are_resolved_in_both_directions_and_become_ids(module_app, import_file):
    of = f"{URN}01"
    content = bundle(
        "transaction",
        asked("POST", "AllergyIntolerance", allergy(of=of), f"{URN}02"),
        asked("POST", "Patient", patient(), of),
        asked("POST", "AllergyIntolerance", allergy(of=of), f"{URN}03"),
    )
    assert import_file(content).complete
    found = asking(module_app).ids(f"AllergyIntolerance?patient={UUID}01")
    assert sorted(found) == [f"{UUID}02", f"{UUID}03"]
    before = stored(module_app)
    again = import_file(content)
    assert again.changes == {"AllergyIntolerance": {"same": 2}, "Patient": {"same": 1}}
    assert stored(module_app) == before


def test_reference_to_an_entry_is_resolved_however_it_is_written(module_app, import_file):
    source = "https://source.example/fhir"
    expected = {
        f"{source}/Patient/abs": "Patient/abs",
        "Patient/abs": "Patient/abs",
        f"{source}/Patient/abs/_history/3": "Patient/abs/_history/3",
        "Patient/abs/_history/3": "Patient/abs/_history/3",
        "Patient?identifier=urn:mrn|abs": "Patient/abs",
        "Patient?identifier=urn:mrn%7Cabs": "Patient/abs",
    }
    found = {}
    for reference in expected:
        known = plain(patient("abs", "abs"), f"{source}/Patient/abs")
        refers = plain(allergy("abs", of=reference), f"{source}/X/abs")
        assert not import_file(bundle("collection", known, refers)).kept
        fhir = asking(module_app)
        found[reference] = fhir.read("AllergyIntolerance/abs")["patient"]["reference"]
        assert fhir.ids("AllergyIntolerance?patient=abs") == ["abs"]
    assert found == expected


def test_urn_that_no_entry_of_the_bundle_has_is_kept_and_listed(module_app, import_file):
    theirs = bundle("collection", plain(patient("theirs"), f"{URN}50"))
    mine = bundle("collection", plain(allergy("astray", of=f"{URN}50")))
    report = import_file(lines(theirs, mine), "x.ndjson")
    assert report.complete
    assert report.kept == {f"{URN}50": "no resource of this Bundle has that address"}
    found = asking(module_app).read("AllergyIntolerance/astray")["patient"]["reference"]
    assert found == f"{URN}50"


def test_document_has_its_bytes_from_a_binary_of_the_same_bundle(module_app, import_file):
    carrier = document("carrier", {"contentType": "text/plain", "url": f"{URN}61"}, of="")
    bytes_ = binary("ignored", "Takes warfarin.")
    del bytes_["id"]
    content = bundle("collection", plain(carrier, f"{URN}60"), plain(bytes_, f"{URN}61"))
    assert import_file(content).complete
    fhir = asking(module_app)
    attachment = fhir.read("DocumentReference/carrier")["content"][0]["attachment"]
    assert attachment["url"].endswith(f"/fhir/Binary/{UUID}61")
    assert base64.b64decode(attachment["data"]) == b"Takes warfarin."
    again = import_file(content)
    assert again.changes == {"Binary": {"same": 1}, "DocumentReference": {"same": 1}}


# Entries that are wrong

WRONG_ENTRIES: list[tuple[Any, str, str]] = [
    (asked("PATCH", "Patient/x", patient("x")), "Bundle.entry.request.method", "must be POST, PUT"),
    ({"resource": patient("x")}, "Bundle.entry.request", "is required in a transaction"),
    (asked("PUT", "Patient/y", patient("x")), "Bundle.entry.request.url", "must be Type/id"),
    (asked("PUT", "Patient/x"), "Bundle.entry.resource", "is required with PUT"),
    (asked("POST", "Patient"), "Bundle.entry.resource", "is required with POST"),
    (asked("DELETE", "Patient"), "Bundle.entry.request.url", "must be Type/id in a DELETE"),
    ("text", "Bundle.entry", "must be a JSON object"),
    (None, "Bundle.entry", "must be a JSON object"),
    ({"resource": [], "request": {}}, "Bundle.entry.resource", "must be a resource"),
    ({"fullUrl": 7, "request": {}}, "Bundle.entry.fullUrl", "must be a uri"),
    (asked("PUT", "Patient/x", patient("x", gender="x")), "Patient.gender", "must be one of"),
    (asked("POST", "Patient", patient()), "Patient.id", "is required"),
    (asked("POST", "Bundle", {**patient("x"), "resourceType": 7}), "resourceType", "is required"),
]


@pytest.mark.parametrize("form", ["one line", "pretty"])
def test_wrong_entry_is_rejected_alone_with_its_place(module_app, import_file, tmp_path, form):
    for entry, path, message in WRONG_ENTRIES:
        content = bundle("transaction", put(patient("before")), entry, put(patient("after")))
        text = FORMS[form][1](content)
        report = import_file(text)
        assert report.rejected_lines == 1
        fault = report.faults[0]
        assert (fault.path, fault.message[: len(message)]) == (path, message)
        where, _, position = fault.place.partition(", ")
        assert position == "entry[1]"
        file_name, _, line = where.rpartition(":")
        assert file_name == f"{tmp_path}/records.json"
        if form == "pretty":
            # The line is the one where the entry begins.
            begins = text.decode().splitlines()[int(line) - 1].strip()
            assert begins[:1] == json.dumps(entry)[:1]
        assert report.changes["Patient"].total() - report.changes["Patient"]["rejected"] >= 2
    assert {"before", "after"} <= {*current(module_app, "Patient")}
    assert "x" not in current(module_app, "Patient")


# One page of a search

NEXT = [{"relation": "self", "url": "urn:x"}, {"relation": "next", "url": "https://ehr.example/2"}]
XML_PAGE = (
    b'<Bundle xmlns="http://hl7.org/fhir"><type value="searchset"/>%s<entry><resource><Patient>'
    b'<id value="paged"/></Patient></resource></entry></Bundle>'
    % b"".join(
        f'<link><relation value="{link["relation"]}"/><url value="{link["url"]}"/></link>'.encode()
        for link in NEXT
    )
)


def page(links: Any, *patients: str) -> dict[str, Any]:
    entries = [plain(patient(resource_id)) for resource_id in patients]
    return {"resourceType": "Bundle", "type": "searchset", "link": links, "entry": entries}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("page.json", pretty(page(NEXT, "paged"))),
        ("page.json", pretty(dict(reversed(page(NEXT, "paged").items())))),
        ("page.ndjson", lines(page(NEXT, "paged"))),
        ("page.xml", XML_PAGE),
    ],
)
def test_page_of_a_search_is_imported_with_a_remark(empty, tmp_path, name, content):
    path = write(tmp_path, content, name)
    report = load(empty, path)
    assert report.complete
    assert report.changes["Patient"]["new"] == 1
    ((remark, _),) = report.remarks.items()
    place = f"{path}:1" if name == "page.ndjson" else str(path)
    assert remark.startswith(f"{place}: is one page of a search, and the next page is another file")
    assert report.content()["remarks"] == dict(report.remarks)


def test_nothing_is_deleted_for_one_page_of_a_search(empty, tmp_path):
    load(empty, write(tmp_path, page([], "one", "two"), "all.json"), source="ehr")
    path = write(tmp_path, pretty(page(NEXT, "one")), "page.json")
    report = load(empty, path, source="ehr", delete_missing=True, force=True)
    assert not report.complete
    assert "one page of a search" in report.notes[0]
    assert current(empty, "Patient") == ["one", "two"]
