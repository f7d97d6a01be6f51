"""Attachments of imported documents: stored as Binary, and inline up to 32 KiB."""

from __future__ import annotations

import base64
import hashlib

import pytest

from tests.support.importing import asking, load_lines
from tests.support.records import PATIENT, document

SMALL = b"Patient is well.\r\n\xff\x00"
LARGE = hashlib.sha512(b"scan").digest() * 20_000
BYTES, OTHER_BYTES = {"data": "AAEC"}, {"data": "AwQ="}


def sha1(content: bytes) -> str:
    """Return the value of Attachment.hash."""
    return base64.b64encode(hashlib.sha1(content, usedforsecurity=False).digest()).decode()


def attachments(app, path: str) -> list[dict]:
    return [content["attachment"] for content in asking(app).read(path)["content"]]


def content_of(app, attachment: dict) -> bytes:
    return asking(app).get(attachment["url"].removeprefix("https://fhir.example")).data


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "over 1 MB"])
def test_attachment_is_returned_byte_for_byte(module_app, tmp_path, content):
    encoded = base64.b64encode(content).decode()
    attachment = {"contentType": "image/png", "data": encoded}
    assert load_lines(module_app, tmp_path, PATIENT, document("d", attachment)).complete
    fhir = asking(module_app)
    found = fhir.read("DocumentReference?patient=one")["entry"][0]["resource"]
    assert fhir.read("DocumentReference/d") == found
    attachment = found["content"][0]["attachment"]
    assert attachment["size"] == len(content)
    assert attachment["hash"] == sha1(content)
    assert attachment["contentType"] == "image/png"
    assert attachment.get("data") == (encoded if len(content) <= 32_768 else None)
    url = attachment["url"].removeprefix("https://fhir.example")
    binary = fhir.get(url)
    assert (binary.data, binary.content_type) == (content, "image/png")
    resource = fhir.get(url, headers={"Accept": "application/fhir+json"}).get_json(force=True)
    assert resource["data"] == encoded


def test_size_hash_or_base64_that_is_wrong_is_rejected(module_app, tmp_path):
    wrong = {
        "size: does not fit the data, whose size is 3": {**BYTES, "size": 4},
        f"hash: does not fit the data, whose hash is {sha1(bytes(range(3)))}": {
            **BYTES, "hash": "AAAA",
        },
        "data: is not valid base64Binary": {"data": "A!"},
    }  # fmt: skip
    for fault, attachment in wrong.items():
        report = load_lines(module_app, tmp_path, PATIENT, document("refused", attachment))
        place = f"{tmp_path}/records.ndjson:2: DocumentReference.content[0].attachment."
        assert report.rejected == [place + fault]


def test_attachments_of_a_document_keep_their_order(module_app, tmp_path):
    elsewhere = {"title": "no bytes", "url": "https://x.example/a"}
    given = [BYTES, elsewhere, BYTES, OTHER_BYTES]
    load_lines(module_app, tmp_path, PATIENT, document("several", *given))
    found = attachments(module_app, "DocumentReference/several")
    assert [attachment.get("data") for attachment in found] == ["AAEC", None, "AAEC", "AwQ="]
    assert found[1] == elsewhere
    contents = [content_of(module_app, found[place]) for place in (0, 2, 3)]
    assert contents == [b"\0\1\2", b"\0\1\2", b"\3\4"]


def test_changed_bytes_get_a_new_binary_and_the_old_one_stays_readable(module_app, tmp_path):
    found = []
    for data in (BYTES, OTHER_BYTES):
        load_lines(module_app, tmp_path, PATIENT, document("changing", data))
        found += attachments(module_app, "DocumentReference/changing")
    assert found[0]["url"] != found[1]["url"]
    assert [content_of(module_app, attachment) for attachment in found] == [b"\0\1\2", b"\3\4"]
    (first,) = attachments(module_app, "DocumentReference/changing/_history/1")
    assert first["data"] == "AAEC"
