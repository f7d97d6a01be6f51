"""Attachments: their bytes go to Binary, byte for byte, and stay out of the resource's columns.

Source: decisions 2.18; FHIR R4 datatypes §2.24.0.9 (hash is SHA-1, size is of the bytes).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fhirapp.fhir.resource import InvalidResource
from fhirapp.search.values import values_at

LOCAL = "Binary/"
# The index rows that tell which versions carry a Binary.
CARRIES = "_attachment"
# HL7's extension for this element: where the source has what it also sends inline.
SOURCE_URL = "http://hl7.org/fhir/4.0/StructureDefinition/extension-Attachment.url"


class Blob(NamedTuple):
    """The bytes of an attachment; words are its text's, None where they are not known.

    address is the url that the source had beside them, empty where it is this Binary's or none.
    """

    id: str
    content_type: str
    data: bytes
    words: str | None = None
    address: str = ""


class Document(NamedTuple):
    """A version of a Binary, by its row: what those that carry it need of it.

    data is None where it is too large to be sent inline.
    """

    pk: int
    id: str
    size: int
    hash: str
    content_type: str
    words: str | None
    data: bytes | None


def sha1(data: bytes) -> str:
    """Return the SHA-1 of bytes as Attachment.hash holds it, in base64."""
    return base64.b64encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode()


def extract(resource_id: str, elements: dict[str, Any], path: str, type_name: str) -> list[Blob]:
    """Take the data out of the attachments at path; each gets url, size and hash instead.

    A url that stood beside the data is kept in an extension: it may lead to other bytes.

    A Binary's id follows from the document, the place, the media type and the bytes, so the same
    content keeps its id. Raises InvalidResource where size or hash contradict the data.
    """
    blobs = []
    for position, (place, attachment) in enumerate(_located(elements, path)):
        text = attachment.get("data")
        if text is None:
            continue
        data = base64.b64decode(text)
        for name, value in (("size", len(data)), ("hash", sha1(data))):
            if attachment.get(name, value) != value:
                where = f"{type_name}.{place}.{name}"
                raise InvalidResource([(where, f"does not fit the data, whose {name} is {value}")])
        content_type = attachment.get("contentType", "application/octet-stream")
        place_and_type = (resource_id, str(position), content_type)
        key = b"\0".join([*(part.encode() for part in place_and_type), data])
        blob_id = hashlib.sha256(key).hexdigest()[:40]
        address = attachment.get("url", "")
        if address == LOCAL + blob_id:
            address = ""
        if address:
            kept = {"url": SOURCE_URL, "valueUrl": address}
            attachment["extension"] = [*attachment.get("extension", ()), kept]
        blobs.append(Blob(blob_id, content_type, data, address=address))
        del attachment["data"]
        attachment.update(url=LOCAL + blob_id, size=len(data), hash=sha1(data))
    return blobs


def _located(elements: Mapping[str, Any], path: str) -> list[tuple[str, dict[str, Any]]]:
    """Return what stands at an element path, each with its place: content[0].attachment."""
    found: list[tuple[str, Any]] = [("", elements)]
    for step in path.split("."):
        below: list[tuple[str, Any]] = []
        for place, value in found:
            member = value.get(step)
            name = f"{place}.{step}".lstrip(".")
            if isinstance(member, list):
                below += [(f"{name}[{index}]", item) for index, item in enumerate(member)]
            elif member is not None:
                below.append((name, member))
        found = below
    return found


def local_ids(elements: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield the ids of the Binaries that the attachments at path point to."""
    for attachment in values_at(elements, path):
        url = attachment.get("url", "")
        if url.startswith(LOCAL):
            yield url.removeprefix(LOCAL)


def complete(elements: Mapping[str, Any], path: str, facts: Mapping[str, Document]) -> None:
    """Fill in size, hash and contentType of attachments from what they point to, by Binary id."""
    for attachment in values_at(elements, path):
        document = facts.get(attachment.get("url", "").removeprefix(LOCAL))
        if document:
            attachment.update(size=document.size, hash=document.hash)
            attachment.setdefault("contentType", document.content_type)
