"""Check a resource and take it apart into what is stored: columns, attachments, words.

Pure, and the only place that rejects a resource. The bytes of attachments go to Binary unchanged,
and the words of documents are read before anything is written. decisions 2.18, 2.21.
"""

from __future__ import annotations

import base64
import copy
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple

from fhirapp import urls
from fhirapp.definition import Definition
from fhirapp.documents import Extractor, Unreadable
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.resource import InvalidResource
from fhirapp.search.reference import relative_reference
from fhirapp.search.tokenizer import normalised
from fhirapp.search.values import values_at

LOCAL = "Binary/"
# The index rows that tell which versions carry a Binary.
CARRIES = "_attachment"
# HL7's extension for this element: where the source has what it also sends inline.
SOURCE_URL = "http://hl7.org/fhir/4.0/StructureDefinition/extension-Attachment.url"


class Blob(NamedTuple):
    """The bytes of an attachment; words are its text's, None where they are not known.

    machine_read is the text itself, where OCR read some of it.
    address is the url that the source had beside them, empty where it is this Binary's or none.
    """

    id: str
    content_type: str
    data: bytes
    words: str | None = None
    address: str = ""
    machine_read: str | None = None


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
            extension = {"url": SOURCE_URL, "valueUrl": address}
            attachment["extension"] = [*attachment.get("extension", ()), extension]
        blobs.append(Blob(blob_id, content_type, data, address=address))
        del attachment["data"]
        attachment.update(url=LOCAL + blob_id, size=len(data), hash=sha1(data))
    return blobs


def _located(elements: Mapping[str, Any], path: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the values at an element path, each with its place: content[0].attachment."""
    values: list[tuple[str, Any]] = [("", elements)]
    for step in path.split("."):
        below: list[tuple[str, Any]] = []
        for place, value in values:
            member = value.get(step)
            name = f"{place}.{step}".lstrip(".")
            if isinstance(member, list):
                below += [(f"{name}[{index}]", item) for index, item in enumerate(member)]
            elif member is not None:
                below.append((name, member))
        values = below
    return values


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


@dataclass(frozen=True)
class PreparedResource:
    """A valid resource, ready to be written: its columns, its attachments' bytes, its digest.

    A deletion has no digest.
    """

    definition: Definition
    id: str
    columns: Mapping[str, Any]
    digest: bytes | None
    blobs: Sequence[Blob] = ()

    @property
    def name(self) -> str:
        return f"{self.definition.name}/{self.id}"

    @property
    def deleted(self) -> bool:
        return self.digest is None

    @property
    def patient_id(self) -> str | None:
        patient_id: str | None = self.columns["patient_id"]
        return patient_id


def deletion(
    definition: Definition, resource_id: str, patient_id: str | None = None
) -> PreparedResource:
    """Return the deletion of a resource."""
    return PreparedResource(definition, resource_id, {"patient_id": patient_id}, None)


def prepare(definition: Definition, resource: Any) -> PreparedResource:
    """Check a resource and take it apart. Raises InvalidResource with every fault found."""
    try:
        elements = definition.schema.load(resource)
        faults = []
    except InvalidResource as error:
        elements, faults = {}, error.faults
    if type(resource) is dict and "id" not in resource:
        faults = [(f"{definition.name}.id", "is required"), *faults]
    if faults:
        raise InvalidResource(faults)
    resource_id = elements.pop("id")
    meta = {
        name: value
        for name, value in elements.pop("meta", {}).items()
        if name not in ("versionId", "lastUpdated")
    }
    if meta:
        elements["meta"] = meta
    blobs: list[Blob] = []
    if definition.attachments:
        blobs = extract(resource_id, elements, definition.attachments, definition.name)
    return prepared_of(definition, resource_id, elements, blobs)


def prepared_of(
    definition: Definition,
    resource_id: str,
    elements: dict[str, Any],
    blobs: Sequence[Blob] = (),
) -> PreparedResource:
    """Return elements that were checked, by FHIR's names, as what is stored."""
    text = _canonical(definition, elements)
    own = urls.own_prefix()
    if own and own.encode() in text:
        _make_relative(elements, own)
        text = _canonical(definition, elements)
    digest = _digest(text)
    columns: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in elements.items():
        column = definition.columns.get(name)
        if column is None:
            extra[name] = value
        else:
            columns[column] = value
    columns["extra"] = extra or None
    columns["patient_id"] = _patient_id(definition, resource_id, elements)
    columns.update(definition.derive(columns))
    return PreparedResource(definition, resource_id, columns, digest, blobs)


def elements_of(definition: Definition, row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the elements of a version that is stored, as prepared_of takes them."""
    cells = {name: row.get(column) for name, column in definition.columns.items()}
    stored = {name: value for name, value in cells.items() if not (value is None or name == "id")}
    return copy.deepcopy({**stored, **(row["extra"] or {})})


def digest_of(definition: Definition, elements: Mapping[str, Any]) -> bytes:
    """Return the digest of a resource's content: equal content has the same."""
    return _digest(_canonical(definition, elements))


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def _canonical(definition: Definition, elements: Mapping[str, Any]) -> bytes:
    """Return the content's canonical JSON, bytes by their digest: they may be many.

    Raises InvalidResource where it cannot be written.
    """
    content = {
        name: _digest(value).hex() if type(value) is bytes else value
        for name, value in elements.items()
    }
    try:
        return fhir_json.canonical(content)
    except TypeError:
        raise InvalidResource([(definition.name, "is nested too deeply")]) from None


def _make_relative(value: Any, own: str) -> None:
    """Make references to this server's own address relative: service.md 2.2 has `Patient/<id>`."""
    if isinstance(value, list):
        for item in value:
            _make_relative(item, own)
    elif isinstance(value, dict):
        target = value.get("reference")
        if isinstance(target, str):
            value["reference"] = target.removeprefix(own)
        for content in value.values():
            _make_relative(content, own)


def _patient_id(
    definition: Definition, resource_id: str, elements: Mapping[str, Any]
) -> str | None:
    if definition.compartment == "id":
        return resource_id
    for value in values_at(elements, f"{definition.compartment}.reference"):
        target = relative_reference(value)
        if target and target[0] == "Patient":
            return target[1]
    return None


def binary_of(binary: Definition, blob: Blob, patient_id: str | None) -> PreparedResource:
    """Return the Binary that holds an attachment's bytes."""
    columns: dict[str, Any] = {
        "content_type": blob.content_type,
        "data": blob.data,
        "words": blob.words,
        "machine_read": blob.machine_read,
    }
    columns.update(binary.derive(columns), patient_id=patient_id)
    # As of a Binary that comes by itself.
    elements = {"contentType": blob.content_type, "data": blob.data}
    return PreparedResource(binary, blob.id, columns, digest_of(binary, elements))


# How many resources are named for each reason why a part of a document could not be read.
_NAMED = 1_000


class DocumentTextReader:
    """Reads documents; unreadable counts those that could not be, by the reason.

    unread counts the files and pages within others that could not be, by the reason; unread_in has
    the first resources, Type/id, that each reason is about. With languages, scans are read by OCR;
    machine_read counts them.
    """

    def __init__(self, binary: Definition, languages: str = "") -> None:
        self.unreadable: Counter[str] = Counter()
        self.unread: Counter[str] = Counter()
        self.unread_in: dict[str, list[str]] = {}
        self.machine_read: Counter[str] = Counter()
        self._binary = binary
        self._extractor = Extractor(languages=languages)

    def __enter__(self) -> DocumentTextReader:
        self._extractor.__enter__()
        return self

    def __exit__(self, *_error: object) -> None:
        self._extractor.__exit__(None, None, None)

    def read(
        self, batch: Sequence[PreparedResource], known: frozenset[str]
    ) -> list[PreparedResource]:
        """Return resources with the words of their documents, save those that are known."""
        return [self._read(prepared, known) for prepared in batch]

    def _read(self, prepared: PreparedResource, known: frozenset[str]) -> PreparedResource:
        if prepared.deleted:
            return prepared
        if prepared.definition is self._binary:
            data, kind = prepared.columns.get("data"), prepared.columns.get("content_type")
            words = self.words_of(data or b"", kind or "", prepared)
            return replace(prepared, columns={**prepared.columns, **words})
        if not prepared.blobs:
            return prepared
        blobs = [
            blob
            if blob.id in known
            else blob._replace(**self.words_of(blob.data, blob.content_type, prepared))
            for blob in prepared.blobs
        ]
        return replace(prepared, blobs=blobs)

    def words_of(
        self, data: bytes, content_type: str, holder: PreparedResource | None = None
    ) -> dict[str, Any]:
        """Return a document's words, None where it cannot be read, and its text if machine-read.

        holder is the resource that it is attached to.
        """
        try:
            reading = self._extractor.read(data, content_type)
        except Unreadable as error:
            self.unreadable[str(error)] += 1
            return {"words": None, "machine_read": None}
        if data and not reading.text:
            self.unreadable["has no text, as a scan"] += 1
        for file in reading.unread:
            self.unread[file.reason] += 1
            if holder is not None:
                self._name(file.reason, f"{holder.definition.name}/{holder.id}")
        self.machine_read["by OCR: may be wrong"] += reading.machine_read
        text = reading.text if reading.machine_read else None
        return {"words": normalised(reading.text), "machine_read": text}

    def _name(self, reason: str, name: str) -> None:
        names = self.unread_in.setdefault(reason, [])
        if name not in names[-1:] and len(names) < _NAMED:
            names.append(name)


def blob_ids(batch: Sequence[PreparedResource]) -> list[str]:
    """Return the ids of the documents that come with resources."""
    return [blob.id for prepared in batch for blob in prepared.blobs]
