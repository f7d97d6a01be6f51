"""The report of an import: its schema, and the files that it names."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import Any

import pytest

from fhirapp.features.imports import report as reports
from fhirapp.features.imports.report import Report, page
from fhirapp.features.imports.skipped import UnreadInput
from fhirapp.features.manual.contents import pages
from tests.support.archives import PLACES, laid_out, zipped
from tests.support.importing import lines, load, write
from tests.support.records import allergy, patient

# As the manual calls them.
TYPES = {
    "number": lambda value: type(value) is int,
    "text": lambda value: type(value) is str,
    "text or null": lambda value: value is None or type(value) is str,
    "list of texts": lambda value: type(value) is list and {*map(type, value)} <= {str},
    "list of objects": lambda value: type(value) is list and {*map(type, value)} <= {dict},
    **{
        f"object of {name}": lambda value, kind=kind: (
            type(value) is dict and {*map(type, value.values())} <= {kind}
        )
        for name, kind in (("numbers", int), ("texts", str), ("lists", list), ("objects", dict))
    },
}


def document(row_id: str, media_type: str, content: bytes) -> dict[str, Any]:
    data = b64encode(content).decode()
    return {
        "resourceType": "DocumentReference",
        "id": row_id,
        "status": "current",
        "type": {"text": "Note"},
        "subject": {"reference": "Patient/one"},
        "content": [{"attachment": {"contentType": media_type, "data": data}}],
    }


CONTENT = lines(
    patient("one"),
    patient("bad", gender="x"),
    patient("fixed", active="true"),
    allergy("a"),
    allergy("a", criticality="low"),
    allergy("b", recorder={"reference": "Practitioner/none"}),
    {"resourceType": "Location", "id": "l"},
    {"resourceType": "Binary", "id": "lone", "contentType": "text/plain", "data": "eA=="},
    document("broken", "application/pdf", b"no PDF"),
)
SEARCHED = {
    "resourceType": "Bundle",
    "type": "searchset",
    "link": [{"relation": "next", "url": "https://x.y"}],
    "entry": [],
}
# Only some imports have these.
WITH_DOCUMENTS = {"unreadableParts", "unreadablePartsIn", "machineRead"}


def documented() -> dict[str, str]:
    """Return the types of the keys that the manual has in its table."""
    rows = re.findall(r"^\| `([^`]+)` \| ([a-z ]+) \| .+ \|$", pages()["load"].source, re.MULTILINE)
    return {key: kind for key, kind in rows if kind in TYPES}


def test_every_key_of_a_report_is_in_the_manual_with_its_type(empty, tmp_path):
    folder = tmp_path / "in"
    write(folder, CONTENT, "a.ndjson")
    write(folder, SEARCHED, "page.json")
    write(folder, b"", "empty.json")
    write(folder, b"%PDF-1.7", "scan.pdf")
    report = load(empty, folder, repair=True, source="lab", delete_missing=True)
    content = json.loads(json.dumps(report.content()))
    assert {key for key, value in content.items() if not value} <= WITH_DOCUMENTS
    found = {key: [value] for key, value in content.items()}
    for key, value in content.items():
        for item in value if TYPES["list of objects"](value) else ():
            for name, part in item.items():
                found.setdefault(f"{key}[].{name}", []).append(part)
    types = documented()
    assert found.keys() == types.keys()
    assert [key for key in found if not all(map(TYPES[types[key]], found[key]))] == []
    assert content["version"] == 1


@pytest.mark.parametrize("form", PLACES)
def test_report_names_each_file_once_with_its_state_and_records(module_app, tmp_path, form):
    whole = lines(patient("f1"), patient("f2", gender="x"), patient("f3"))
    members = {
        "whole.ndjson": whole,
        "late.ndjson": lines(allergy("late", patient="nobody")),
        "cut.json": b'{"resourceType": "Bundle", "type": "collection", "entry": [',
        "nothing.ndjson": b"",
        "empty.xml": b"",
        "x.part": b"x",
        "scan.pdf": b"%PDF-1.7",
    }
    report = load(module_app, laid_out(tmp_path, form, members))
    files = {re.split("[/!]", file["name"])[-1]: file for file in report.content()["files"]}
    assert len(report.files) == len(members)
    counts = {
        name: (file["state"], file["records"], file["rejected"]) for name, file in files.items()
    }
    assert counts == {
        "whole.ndjson": ("read", 3, 1),
        "late.ndjson": ("read", 1, 1),
        "cut.json": ("rejected", 1, 1),
        "nothing.ndjson": ("read", 0, 0),
        "empty.xml": ("rejected", 1, 1),
        "x.part": ("skipped", 0, 0),
        "scan.pdf": ("skipped", 0, 0),
    }
    assert report.content()["fileCount"] == {"read": 3, "skipped": 2, "rejected": 2}
    assert sum(file["rejected"] for file in files.values()) == report.rejected_lines
    for file in files.values():
        assert ("reason" in file, "remedy" in file) == (file["state"] != "read",) * 2
    assert files["cut.json"]["reason"] == "line 1: ends too early"
    text = page(report)
    for name in members:
        assert text.count(f"{files[name]['name']}</th>") == 1, name
    assert files["x.part"]["remedy"] in text


def test_record_rejected_at_its_publication_counts_for_its_own_file(module_app, tmp_path):
    first = write(tmp_path, lines(patient("own-1"), patient("own-2")), "1.ndjson")
    second = write(tmp_path, lines(patient("own-3"), patient("own-4", gender="x")), "2.ndjson")
    third = write(tmp_path, b"", "3.ndjson")
    report = load(module_app, first, third, second)
    counts = {file.name[-8]: (file.records, file.rejected) for file in report.files}
    assert counts == {"1": (2, 0), "2": (2, 1), "3": (0, 0)}


def test_two_members_of_an_archive_with_one_name_are_counted_apart(module_app, tmp_path):
    inner = [(patient("m1"), patient("m2", gender="x")), (patient("m3"),)]
    path = tmp_path / "x.zip"
    zipped(path, {"a\x07.ndjson": lines(*inner[0]), "a\x08.ndjson": lines(*inner[1])})
    files = load(module_app, path).files
    assert files[0].name == files[1].name
    assert sorted((file.records, file.rejected) for file in files) == [(1, 0), (2, 1)]


def test_list_of_files_is_cut_for_each_state_and_counted(monkeypatch):
    monkeypatch.setattr(reports, "LISTED", 2)
    report = Report()
    for number in range(4):
        report.begin_file(f"read-{number}")
    report.begin_file("unread")
    report.add_unread(UnreadInput("is empty"))
    content = report.content()
    assert [file["name"] for file in content["files"]] == ["read-0", "read-1", "unread"]
    assert content["fileCount"] == {"read": 4, "skipped": 0, "rejected": 1}
    assert "and 2 more" in page(report)


def test_remedy_is_that_of_the_reason_or_the_one_given():
    cases = [
        (UnreadInput("is a tar archive", "unpack it"), "is a tar archive: unpack it", "unpack it"),
        (
            UnreadInput("ends too early: x"),
            "ends too early: x",
            "get the file again: its end is missing",
        ),
        (UnreadInput("is odd"), "is odd", "correct the file, and import it again"),
    ]
    for error, text, remedy in cases:
        assert (str(error), error.remedy) == (text, remedy)
