"""Attachments: in with the document, out as Binary and inline, byte for byte. decisions 2.18."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from tests.support.importing import PATIENT, asking, load_lines


def sha1(content: bytes) -> str:
    """Return what Attachment.hash holds."""
    return base64.b64encode(hashlib.sha1(content, usedforsecurity=False).digest()).decode()


@pytest.fixture(scope="module")
def kept(make_app: Callable[..., Flask]) -> Flask:
    """Return one app for all tests of this module."""
    return make_app(seed=False)


def document(resource_id: str, *attachments: dict[str, Any], **elements: Any) -> dict[str, Any]:
    """Return a document of the patient with these attachments."""
    return {
        "resourceType": "DocumentReference",
        "id": resource_id,
        "status": "current",
        "subject": {"reference": "Patient/one"},
        "content": [{"attachment": attachment} for attachment in attachments],
        **elements,
    }


SMALL = b"Patient is well.\r\n\xff\x00"
LARGE = hashlib.sha512(b"scan").digest() * 20_000

SHA1 = sha1(b"\0\1\2")


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "over 1 MB"])
def test_an_attachment_comes_back_byte_for_byte(kept, tmp_path, content):
    encoded = base64.b64encode(content).decode()
    attachment = {"contentType": "image/png", "data": encoded}
    assert load_lines(kept, tmp_path, PATIENT, document("d", attachment)).complete
    fhir = asking(kept)
    found = fhir.read("DocumentReference?patient=one")["entry"][0]["resource"]
    assert fhir.read("DocumentReference/d") == found
    attachment = found["content"][0]["attachment"]
    assert attachment["size"] == len(content)
    assert attachment["hash"] == sha1(content)
    assert attachment["contentType"] == "image/png"
    # decisions 2.18: inline up to 32 KiB
    inline = encoded if len(content) <= 32_768 else None
    assert attachment.get("data") == inline
    url = attachment["url"].removeprefix("https://fhir.example")
    binary = fhir.get(url)
    assert binary.data == content
    assert binary.content_type == "image/png"
    resource = fhir.get(url, headers={"Accept": "application/fhir+json"}).get_json(force=True)
    assert resource["data"] == encoded


@pytest.mark.parametrize(
    ("contradiction", "fault"),
    [
        ({"size": 4}, "size: does not fit the data, whose size is 3"),
        ({"hash": "AAAA"}, f"hash: does not fit the data, whose hash is {SHA1}"),
    ],
)
def test_a_size_or_hash_that_contradicts_the_data_is_refused(kept, tmp_path, contradiction, fault):
    report = load_lines(
        kept, tmp_path, PATIENT, document("refused", {"data": "AAEC", **contradiction})
    )
    assert len(report.rejected) == 1
    where = "DocumentReference.content[0].attachment"
    assert report.rejected[0].endswith(f":2: {where}.{fault}")


def test_attachments_of_one_document_are_told_apart_and_keep_their_order(kept, tmp_path):
    attachments = [{"data": "AAEC"}, {"title": "no bytes", "url": "https://x.example/a"}]
    attachments += [{"data": "AAEC"}, {"data": "AwQ="}]
    load_lines(kept, tmp_path, PATIENT, document("several", *attachments))
    fhir = asking(kept)
    found = [one["attachment"] for one in fhir.read("DocumentReference/several")["content"]]
    assert [one.get("data") for one in found] == ["AAEC", None, "AAEC", "AwQ="]
    assert found[1] == attachments[1]
    urls = [found[place]["url"].removeprefix("https://fhir.example") for place in (0, 2, 3)]
    assert [fhir.get(url).data for url in urls] == [b"\0\1\2", b"\0\1\2", b"\3\4"]


def test_new_bytes_get_a_new_binary_and_the_old_one_stays_readable(kept, tmp_path):
    fhir, urls = asking(kept), []
    for data in ("AAEC", "AwQ="):
        load_lines(kept, tmp_path, PATIENT, document("changing", {"data": data}))
        attachment = fhir.read("DocumentReference/changing")["content"][0]["attachment"]
        urls.append(attachment["url"].removeprefix("https://fhir.example"))
    assert urls[0] != urls[1]
    assert [fhir.get(url).data for url in urls] == [b"\0\1\2", b"\3\4"]
    first = fhir.read("DocumentReference/changing/_history/1")["content"][0]["attachment"]
    assert first["data"] == "AAEC"


def test_base64_with_white_space_is_the_same_bytes(kept, tmp_path):
    assert load_lines(kept, tmp_path, PATIENT, document("spaced", {"data": "AA\r\n EC"})).complete
    attachment = asking(kept).read("DocumentReference/spaced")["content"][0]["attachment"]
    assert attachment["data"] == "AAEC"


def test_data_that_is_no_base64_is_refused(kept, tmp_path):
    report = load_lines(kept, tmp_path, PATIENT, document("broken", {"data": "A!"}))
    where = "DocumentReference.content[0].attachment.data"
    assert report.rejected == [f"{tmp_path}/records.ndjson:2: {where}: is not valid base64Binary"]
