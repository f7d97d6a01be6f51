"""Records: what the inputs of an import hold, one resource or deletion each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from fhirapp.exchange.imports.bundles import OnMatch
from fhirapp.fhir import json as fhir_json

# (path of the element, what is expected); the path is empty for the whole.
Faults = list[tuple[str, str]]


class Rejected(Exception):
    """A record that is not imported; faults are (element path, what is expected)."""

    def __init__(
        self, message: str = "", path: str = "", *, faults: Sequence[tuple[str, str]] = ()
    ) -> None:
        super().__init__(message)
        self.faults = faults or [(path, message)]


class PatientRejected(Rejected):
    """A record that is rejected because its patient is."""


@dataclass
class Record:
    """What an input holds at one place: a resource, a deletion, or faults.

    text is what came, resource its content, where parsed or made from another format. bundle is the
    number of its Bundle, entry_id the id that it gets there, condition and on_match as in Entry.
    """

    place: str
    text: bytes = b""
    resource: Any = None
    # Type/id of a deletion.
    deletes: str = ""
    faults: Faults = field(default_factory=list)
    bundle: int = 0
    entry_id: str | None = None
    # It was made, with others, from one document or row: without its patient none is imported.
    grouped: bool = False
    condition: str = ""
    on_match: OnMatch = OnMatch.UPDATE
    # The type of the Bundle that text is an entry of.
    bundle_type: str = ""
    has_prefix: bool = False
    # The kind of table that text is a row of, and its heading.
    table_kind: str = ""
    heading: bytes = b""
    # Remarks for the report: (place, text).
    remarks: Faults = field(default_factory=list)
    # It has the id that it gets here.
    is_identified: bool = False
    was_deferred: bool = False
    # Its references are known not to lead to another source's records.
    references_checked: bool = False

    def size(self) -> int:
        """Return about how many bytes it takes."""
        if self.text and not self.table_kind:
            return len(self.text)
        return len(dumps(self.resource))

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

    @property
    def subject(self) -> str:
        """Type/id of what it is about."""
        return self.deletes or name_of(self.resource)

    @property
    def type_name(self) -> str | None:
        """The type of its resource, None where it has none."""
        type_name = self.resource.get("resourceType") if type(self.resource) is dict else None
        return type_name if type(type_name) is str else None


def name_of(resource: Mapping[str, Any]) -> str:
    """Return Type/id."""
    return f"{resource['resourceType']}/{resource.get('id')}"


def dumps(content: Any) -> bytes:
    """Return JSON, also of what is rejected when its turn comes."""
    try:
        return fhir_json.dumps(content)
    except TypeError:
        return json.dumps(content, default=str).encode()
