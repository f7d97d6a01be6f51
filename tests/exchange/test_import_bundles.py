"""Importing Bundles: each type, each way a reference is written, each kind of request."""

from __future__ import annotations

import base64
import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from tests.support.importing import (
    URN,
    UUID,
    allergy,
    asked,
    asking,
    bundle,
    current,
    lines,
    load,
    patient,
    plain,
    put,
    stored,
    write,
)

KINDS = ("transaction", "batch", "collection", "searchset", "document")


@pytest.fixture(scope="module")
def kept(make_app: Callable[..., Flask]) -> Flask:
    """Return one app for the tests that bring records of their own."""
    return make_app(seed=False)


@pytest.fixture
def take(kept: Flask, tmp_path: Path) -> Callable[..., Any]:
    """Return what imports one Bundle from a file of its own."""
    return lambda content, **options: load(kept, write(tmp_path, content), **options)


def of_kind(kind: str, name: str) -> dict[str, Any]:
    """Return a Bundle of this type that holds a patient and an allergy, which comes first."""
    entries = [allergy(f"{name}-allergy", of=f"Patient/{name}"), patient(name)]
    if kind in ("transaction", "batch"):
        return bundle(kind, *map(put, entries))
    return bundle(kind, *map(plain, entries))


@pytest.mark.parametrize("kind", KINDS)
def test_a_bundle_of_each_type_is_taken_apart(kept, take, kind):
    report = take(of_kind(kind, kind))
    assert report.complete
    assert report.changes == {"AllergyIntolerance": {"new": 1}, "Patient": {"new": 1}}
    assert asking(kept).ids(f"AllergyIntolerance?patient={kind}") == [f"{kind}-allergy"]


def _as_lines(folder: Path, one: Any) -> Path:
    return write(folder, lines(one, {"resourceType": "Patient", "id": "beside"}), "x.ndjson")


def _zipped(folder: Path, one: Any) -> Path:
    path = folder / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("deep/below/x.json", json.dumps(one, indent=2))
    return path


def _an_entry_on_each_line(one: Any) -> bytes:
    entries = ",\n".join(json.dumps(entry) for entry in one["entry"])
    head = json.dumps({name: value for name, value in one.items() if name != "entry"})
    return f'{head[:-1]}, "entry": [\n{entries}\n]}}\n'.encode()


FORMS: dict[str, Callable[[Path, Any], Path]] = {
    "one line": lambda folder, one: write(folder, one),
    "pretty": lambda folder, one: write(folder, json.dumps(one, indent=2).encode()),
    "pretty with tabs and CRLF": lambda folder, one: write(
        folder, json.dumps(one, indent="\t").replace("\n", "\r\n").encode()
    ),
    "an entry on each line": lambda folder, one: write(folder, _an_entry_on_each_line(one)),
    "NDJSON": _as_lines,
    "gzip": lambda folder, one: write(folder, gzip.compress(json.dumps(one).encode()), "x.json.gz"),
    "gzip by another name": lambda folder, one: write(
        folder, gzip.compress(json.dumps(one, indent=1).encode()), "x.json"
    ),
    "zip": _zipped,
    "byte order mark": lambda folder, one: write(
        folder, b"\xef\xbb\xbf" + json.dumps(one, indent=2).encode()
    ),
    "byte order mark on one line": lambda folder, one: write(
        folder, b"\xef\xbb\xbf" + json.dumps(one).encode()
    ),
    "entry first": lambda folder, one: write(
        folder, json.dumps(dict(reversed(one.items())), indent=2).encode()
    ),
    "entry first on one line": lambda folder, one: write(folder, dict(reversed(one.items()))),
    "a list": lambda folder, one: write(folder, json.dumps([one], indent=2).encode()),
    "no suffix": lambda folder, one: write(folder, one, "records"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [1, 3])
def test_a_bundle_is_read_in_every_form(kept, tmp_path, form, count):
    name = f"form-{count}-{[*FORMS].index(form)}"
    one = bundle("collection", *(plain(patient(f"{name}-{each}")) for each in range(count)))
    report = load(kept, FORMS[form](tmp_path, one))
    assert not report.rejected
    assert [one for one in current(kept, "Patient") if one.startswith(name)] == [
        f"{name}-{each}" for each in range(count)
    ]


@pytest.mark.parametrize("pretty", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_bundle_without_entries_holds_nothing(take, kind, pretty):
    for one in ({"resourceType": "Bundle", "type": kind}, bundle(kind)):
        report = take(json.dumps(one, indent=2 if pretty else None).encode())
        assert report.complete
        assert report.changes == {}


@pytest.mark.parametrize("pretty", [False, True])
@pytest.mark.parametrize("entry", [{"resource": patient("lost")}, "text", 7])
def test_entries_that_are_no_list_are_told(kept, take, entry, pretty):
    one = {"resourceType": "Bundle", "type": "collection", "entry": entry}
    report = take(json.dumps(one, indent=2 if pretty else None).encode())
    assert report.rejected_lines == 1
    assert "Bundle.entry: must be a list" in report.rejected[0]


@pytest.mark.parametrize("pretty", [False, True])
@pytest.mark.parametrize("kind", [None, "nonsense", 7, ["collection"], "batch-response"])
def test_a_bundle_of_another_type_is_refused(take, kind, pretty):
    one = {"resourceType": "Bundle", "type": kind, "entry": [plain(patient("never"))]}
    report = take(json.dumps(one, indent=2 if pretty else None).encode())
    assert report.rejected_lines == 1
    assert "Bundle.type: must be one of collection, document, " in report.rejected[0]


def test_urn_references_lead_forward_and_backward_and_ids_come_from_them(kept, take):
    of = f"{URN}01"
    one = bundle(
        "transaction",
        asked("POST", "AllergyIntolerance", allergy(of=of), f"{URN}02"),
        asked("POST", "Patient", patient(), of),
        asked("POST", "AllergyIntolerance", allergy(of=of), f"{URN}03"),
    )
    assert take(one).complete
    found = asking(kept).ids(f"AllergyIntolerance?patient={UUID}01")
    assert sorted(found) == [f"{UUID}02", f"{UUID}03"]
    before = stored(kept)
    again = take(one)
    assert again.changes == {"AllergyIntolerance": {"same": 2}, "Patient": {"same": 1}}
    assert stored(kept) == before


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("https://source.example/fhir/Patient/abs", "Patient/abs"),
        ("Patient/abs", "Patient/abs"),
        ("https://source.example/fhir/Patient/abs/_history/3", "Patient/abs/_history/3"),
        ("Patient/abs/_history/3", "Patient/abs/_history/3"),
        ("Patient?identifier=urn:mrn|abs", "Patient/abs"),
        ("Patient?identifier=urn:mrn%7Cabs", "Patient/abs"),
    ],
)
def test_a_reference_within_a_bundle_is_resolved_however_it_is_written(
    kept, take, reference, found
):
    report = take(
        bundle(
            "collection",
            plain(patient("abs", "abs"), "https://source.example/fhir/Patient/abs"),
            plain(allergy("abs", of=reference), "https://source.example/fhir/X/abs"),
        )
    )
    assert not report.kept
    assert asking(kept).read("AllergyIntolerance/abs")["patient"] == {"reference": found}
    assert asking(kept).ids("AllergyIntolerance?patient=abs") == ["abs"]


def test_a_reference_to_a_urn_that_no_entry_has_is_kept_and_listed(kept, take):
    report = take(bundle("collection", plain(allergy("astray", of=f"{URN}99"))))
    assert report.complete
    assert report.kept == {f"{URN}99": "no resource of this Bundle has that address"}
    reference = asking(kept).read("AllergyIntolerance/astray")["patient"]["reference"]
    assert reference == f"{URN}99"


def test_urns_of_another_bundle_are_not_meant(kept, tmp_path):
    theirs = bundle("collection", plain(patient("theirs"), f"{URN}50"))
    mine = bundle("collection", plain(allergy("mine", of=f"{URN}50")))
    report = load(kept, write(tmp_path, lines(theirs, mine), "x.ndjson"))
    assert [*report.kept] == [f"{URN}50"]


def test_a_document_carries_its_bytes_in_a_binary_of_the_same_bundle(kept, take):
    content = b"Takes warfarin."
    binary = {
        "resourceType": "Binary",
        "contentType": "text/plain",
        "data": base64.b64encode(content).decode(),
    }
    document = {
        "resourceType": "DocumentReference",
        "id": "carrier",
        "status": "current",
        "content": [{"attachment": {"contentType": "text/plain", "url": f"{URN}61"}}],
    }
    one = bundle("collection", plain(document, f"{URN}60"), plain(binary, f"{URN}61"))
    assert take(one).complete
    attachment = asking(kept).read("DocumentReference/carrier")["content"][0]["attachment"]
    assert attachment["url"].endswith(f"/fhir/Binary/{UUID}61")
    assert base64.b64decode(attachment["data"]) == content
    assert take(one).changes == {"Binary": {"same": 1}, "DocumentReference": {"same": 1}}


@pytest.mark.parametrize(
    ("entry", "path", "message"),
    [
        (
            asked("PATCH", "Patient/x", patient("x")),
            "Bundle.entry.request.method",
            "must be POST, PUT or DELETE",
        ),
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
        (
            asked("POST", "Bundle", {**patient("x"), "resourceType": 7}),
            "resourceType",
            "is required",
        ),
    ],
)
@pytest.mark.parametrize("form", ["one line", "pretty"])
def test_an_entry_that_is_wrong_is_refused_alone_in_its_place(
    kept, tmp_path, form, entry, path, message
):
    one = bundle("transaction", put(patient("before")), entry, put(patient("after")))
    file = FORMS[form](tmp_path, one)
    report = load(kept, file)
    assert report.rejected_lines == 1
    fault = report.faults[0]
    where, _, position = fault.place.partition(", ")
    assert position == "entry[1]"
    file_name, _, line = where.rpartition(":")
    assert file_name == str(file)
    content = file.read_text().splitlines()
    if form == "pretty":
        # The line is the one where the entry begins.
        assert content[int(line) - 1].strip()[:1] == json.dumps(entry)[:1]
    assert (fault.path, fault.message[: len(message)]) == (path, message)
    assert {"before", "after"} <= {*current(kept, "Patient")}
    assert "x" not in current(kept, "Patient")


# Pages.

NEXT = [{"relation": "self", "url": "urn:x"}, {"relation": "next", "url": "https://ehr.example/2"}]
ONE_PAGE = "is one page of a search, and the next page is another file; import that too"


def page(form: str, links: Any, *entries: Any) -> bytes:
    """Return a searchset in a form: its links before or after its entries, as a line, in XML."""
    made = {"resourceType": "Bundle", "type": "searchset", "link": links, "entry": [*entries]}
    if form == "links last":
        made["link"] = made.pop("link")
    if form == "XML":
        return (
            b'<Bundle xmlns="http://hl7.org/fhir"><type value="searchset"/>'
            + b"".join(
                b'<link><relation value="%s"/><url value="%s"/></link>'
                % (link["relation"].encode(), link["url"].encode())
                for link in links
            )
            + b'<entry><resource><Patient><id value="paged"/></Patient></resource></entry></Bundle>'
        )
    return json.dumps(made, indent=None if form == "line" else 1).encode() + b"\n"


@pytest.mark.parametrize("form", ["links first", "links last", "line", "XML"])
def test_one_page_of_a_search_is_imported_with_a_remark(empty, tmp_path, form):
    name = {"line": "page.ndjson", "XML": "page.xml"}.get(form, "page.json")
    path = write(tmp_path, page(form, NEXT, plain(patient("paged"))), name)
    report = load(empty, path)
    assert report.complete
    assert report.changes["Patient"]["new"] == 1
    place = f"{path}:1" if form == "line" else str(path)
    assert [*report.remarks] == [f"{place}: {ONE_PAGE}"]
    assert report.content()["remarks"] == dict(report.remarks)


@pytest.mark.parametrize(
    "links", [NEXT[:1], [], None, "next", [None], [{"relation": "previous", "url": "urn:x"}]]
)
def test_a_search_without_a_next_page_has_no_remark(empty, tmp_path, links):
    path = write(tmp_path, page("links first", links, plain(patient("paged"))))
    assert load(empty, path).remarks == {}


def test_nothing_is_deleted_for_one_page_of_a_search(empty, tmp_path):
    write(tmp_path, bundle("collection", plain(patient("one")), plain(patient("two"))), "all.json")
    load(empty, tmp_path / "all.json", source="ehr")
    path = write(tmp_path, page("links first", NEXT, plain(patient("one"))), "page.json")
    report = load(empty, path, source="ehr", delete_missing=True, force=True)
    assert not report.complete
    assert report.notes[0].startswith("Nothing was deleted: a Bundle is one page of a search")
    assert current(empty, "Patient") == ["one", "two"]
