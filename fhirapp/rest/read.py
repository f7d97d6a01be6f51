"""read and vread: one resource, its current or a named version. FHIR R4 http §3.1.0.2, §3.1.0.3."""

from __future__ import annotations

from typing import NamedTuple

from flask import Response

from fhirapp.auth.compartment import Access
from fhirapp.db import Reader, reader
from fhirapp.fhir.outcome import Gone, NotFound
from fhirapp.rest.access import access_to
from fhirapp.rest.negotiation import Form, arguments, wanted_form
from fhirapp.rest.response import respond, with_addresses
from fhirapp.rest.visibility import carried_visibly, may_see, newest_of, targets_visible, visible
from fhirapp.search.condition import Condition
from fhirapp.store.definition import Definition, Visibility


class Version(NamedTuple):
    """A version as the database holds it; body is None for a deletion."""

    version_id: int
    last_updated: str
    deleted: bool
    body: bytes | None


COLUMNS = "r.version_id, r.last_updated, r.deleted, r.body"


def read(definition: Definition, resource_id: str) -> Response:
    """Return the current version. Raises NotFound, Gone."""
    access = access_to(definition, "r")
    form = wanted_form(arguments())
    newest = newest_of(definition, resource_id)
    version = find_version(reader(), definition, access, resource_id, newest)
    return _respond(definition, version, form, f"{definition.name}/{resource_id}")


def vread(definition: Definition, resource_id: str, version_id: str) -> Response:
    """Return one version. Raises NotFound, Gone."""
    access = access_to(definition, "r")
    form = wanted_form(arguments())
    version = None
    if version_id.isascii() and version_id.isdecimal() and len(version_id) < 10:
        which = Condition("r.id = ? AND r.version_id = ?", (resource_id, int(version_id)))
        if reaches_newest(reader(), definition, access, resource_id):
            version = find_version(reader(), definition, access, resource_id, which)
        if version is not None and str(version.version_id) != version_id:
            version = None
    name = f"{definition.name}/{resource_id}/_history/{version_id}"
    return _respond(definition, version, form, name)


def reaches_newest(
    snapshot: Reader, definition: Definition, access: Access, resource_id: str
) -> bool:
    """Say whether a granular scope still covers a resource, so that its past may be seen too."""
    if definition.visibility is not Visibility.SCOPE or not access.is_granular:
        return True
    return may_see(snapshot, access, "r", definition.name, resource_id)


def find_version(
    snapshot: Reader, definition: Definition, access: Access, resource_id: str, which: Condition
) -> Version | None:
    """Return the version of a resource that a condition names; None where it may not be seen."""
    parts = [which]
    limit = visible(definition, access, "r")
    if limit is not None:
        parts.append(limit.where())
    where = " AND ".join(part.sql for part in parts)
    row = snapshot.first(
        f"SELECT {COLUMNS} FROM {definition.sql_table} r WHERE {where}",
        [value for part in parts for value in part.values],
    )
    version = Version(*row) if row else None
    if version and not version_visible(snapshot, definition, access, resource_id, version):
        return None
    return version


def version_visible(
    snapshot: Reader, definition: Definition, access: Access, resource_id: str, version: Version
) -> bool:
    """Say whether a version may be seen, where that hangs on other resources."""
    if definition.visibility is Visibility.CARRIER:
        return carried_visibly(snapshot, access, resource_id)
    if definition.visibility is not Visibility.TARGETS:
        return True
    body = version.body
    if body is None:
        # A deletion has no targets: those of the version that it deleted count.
        last = snapshot.first(
            f"SELECT r.body FROM {definition.sql_table} r WHERE r.id = ? AND r.version_id < ?"
            " AND NOT r.deleted ORDER BY r.version_id DESC LIMIT 1",
            (resource_id, version.version_id),
        )
        body = last[0] if last else None
    return body is not None and targets_visible(snapshot, access, "r", body)


def _respond(definition: Definition, version: Version | None, form: Form, name: str) -> Response:
    if version is None:
        # The same bytes whether it is unknown or another patient's (decisions §4).
        raise NotFound(f"{name} is not known here.")
    if version.deleted or version.body is None:
        raise Gone(f"{name} was deleted.")
    return respond(
        with_addresses(version.body, definition.attachments),
        form,
        etag=f'W/"{version.version_id}"',
        last_modified=version.last_updated,
    )
