"""The one builder of Bundles of resources: their entries, links, total and entity tag."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Any, Protocol
from uuid import UUID

from flask import Response

from fhirapp.config import settings
from fhirapp.definition import Definition, types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.json import MATCH, Entry, bundle, scored
from fhirapp.fhir.outcome import operation_outcome
from fhirapp.rest import response
from fhirapp.rest.paging import Page
from fhirapp.rest.recorder import ServedVersion, note_all_served

Shorten = Callable[[Definition, bytes], bytes]


class _Version(ServedVersion, Protocol):
    """A version of a resource; body is None for a deletion."""

    @property
    def body(self) -> bytes | None: ...


class BundleAnswer:
    """A Bundle of resources that are served, and recorded as served, in their order."""

    def __init__(self, kind: str = "searchset") -> None:
        self._kind = kind
        self._address = response.fhir_address("")
        self._entries: list[Entry] = []
        # What the entity tag depends on.
        self._shown: list[object] = []

    def add(
        self,
        definition: Definition,
        versions: Sequence[_Version],
        beside: bytes = MATCH,
        shorten: Shorten | None = None,
    ) -> None:
        """Add versions of resources of a type.

        beside is the JSON beside the resource of each entry; shorten returns the part of a
        body that is asked for.
        """
        name = definition.name
        note_all_served(name, versions)
        for version in versions:
            body = version.body
            if body is not None:
                body = shorten(definition, body) if shorten else body
                body = response.with_addresses(body, definition.attachments, self._address)
            self._entries.append(Entry(f"{self._address}{name}/{version.id}", body, beside))
            self._shown.append((name, version.id, version.version_id, beside))

    def add_matches(self, page: Page, shorten: Shorten | None = None) -> None:
        """Add the matches of a page, each with its score where it has one."""
        for name, group in groupby(page.matches, key=lambda match: match.type):
            matches = [*group]
            if page.scores:
                for match in matches:
                    self.add(types()[name], [match], scored(page.scores[match.pk]), shorten)
            else:
                self.add(types()[name], matches, shorten=shorten)

    def add_issues(self, issues: Sequence[Mapping[str, Any]]) -> None:
        """Add an OperationOutcome, unless there are no issues."""
        if issues:
            self._entries.append(fhir_json.outcome(operation_outcome(issues)))
            self._shown.append(issues)

    def respond(
        self, links: Iterable[tuple[str, str]], total: int | None, layout: response.Layout
    ) -> Response:
        """Return the Bundle, whose id and entity tag are the same for the same content.

        Without Last-Modified: what is on a page also changes where a resource is taken out of
        reach. Raises NotAcceptable for what XML cannot hold.
        """
        listed, config = [*links], settings()
        # Bodies depend on these two settings beside the version.
        content = (listed, total, self._shown, config.inline_max, config.empty_content)
        digest = blake2b(repr(content).encode(), digest_size=16).hexdigest()
        body = bundle(bundle_id(digest), self._kind, total, listed, self._entries)
        return response.respond(body, layout, etag=f'W/"{digest}"')


def bundle_id(digest: str) -> str:
    """Return the id of a Bundle; digest is 32 hexadecimal digits of its content."""
    return str(UUID(digest))
