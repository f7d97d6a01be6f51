"""Records of an import: one resource, deletion or history each, with its location in the input."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from fhirapp.features.imports.bundles import OnMatch
from fhirapp.fhir import json as fhir_json

# (path of the element, what is expected); the path is empty for the whole.
Faults = Sequence[tuple[str, str]]


class Rejected(Exception):
    """A record that is not imported; faults are (element path, what is expected)."""

    def __init__(self, message: str = "", path: str = "", *, faults: Faults = ()) -> None:
        super().__init__(message)
        self.faults = faults or [(path, message)]


class PatientRejected(Rejected):
    """A record that is rejected because its patient is."""


class ImportRecord(NamedTuple):
    """A resource, a deletion, a history, or faults, at one location of an input.

    text has the bytes that came; resource is their JSON parsed, or made from another format.
    container is the number of the Bundle, document or row that it is in, entry_id the id that it
    gets in a Bundle, condition and on_match as in BundleEntry.
    """

    place: str
    text: bytes = b""
    resource: Any = None
    # Type/id of a deletion.
    deletes: str = ""
    faults: Faults = ()
    container: int = 0
    entry_id: str | None = None
    full_url: str = ""
    # It was made from a document or a row, with others: without its patient none is imported.
    is_converted: bool = False
    condition: str = ""
    on_match: OnMatch = OnMatch.UPDATE
    # The type of the Bundle that text is an entry of.
    bundle_type: str = ""
    # The kind of table that text is a row of, and its heading.
    table_kind: str = ""
    heading: bytes = b""
    # Elements of the resource that no cell of the row states.
    defaults: frozenset[str] = frozenset()
    # Remarks for the report.
    remarks: Sequence[tuple[str, str]] = ()
    # Of a staged record: its number, that of its group's first record, and the JSON of its resource
    # as it was staged.
    number: int = 0
    group_number: int = 0
    content: bytes = b""

    @property
    def type_name(self) -> str | None:
        """The type of its resource, None where it has none."""
        type_name = self.resource.get("resourceType") if type(self.resource) is dict else None
        return type_name if type(type_name) is str else None

    @property
    def has_source_ids(self) -> bool:
        """Whether its ids are those of its source, not made for a document."""
        return not self.is_converted or bool(self.table_kind)

    def is_unicode(self) -> bool:
        """Say whether all its text is Unicode: neither a database nor a file takes other."""
        # JSON in UTF-8 can hold other text only by an escape.
        if not (self.table_kind or self.is_converted or b"\\u" in self.text):
            return True
        try:
            fhir_json.dumps((self.resource, self.condition))
        except TypeError:
            return False
        return True

    def rejected_line(self) -> bytes:
        """Return it as one line of the file of rejects; an entry as a Bundle of its own."""
        text = self.text
        if self.bundle_type:
            if self.resource is not None:
                with suppress(TypeError, ValueError):
                    text = fhir_json.dumps({**fhir_json.loads(text), "resource": self.resource})
            kind = fhir_json.dumps(self.bundle_type)
            text = b'{"resourceType":"Bundle","type":%s,"entry":[%s]}' % (kind, text)
        return text.strip().replace(b"\n", b" ").replace(b"\r", b" ")


class Rejection(NamedTuple):
    """A rejected record as it is reported and kept: line is its JSON, or its row of a table.

    with_patient says that it was rejected because its patient was. type_name is empty where it has
    none.
    """

    place: str
    type_name: str
    faults: Faults
    with_patient: bool
    line: bytes
    table_kind: str
    heading: bytes


def name_of(resource: Mapping[str, Any]) -> str:
    """Return Type/id."""
    return f"{resource['resourceType']}/{resource.get('id')}"


def dumps(content: Any) -> bytes:
    """Return JSON, also of what is rejected when its turn comes."""
    try:
        return fhir_json.dumps(content)
    except TypeError:
        return json.dumps(content, default=str).encode()
