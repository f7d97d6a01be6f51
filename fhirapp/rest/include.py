"""`_revinclude=Provenance:target`: the origin of each match. decisions 2.16, §6."""

from __future__ import annotations

from collections.abc import Sequence

from fhirapp.auth.compartment import Access
from fhirapp.db import Reader
from fhirapp.fhir.bundle import INCLUDE, Entry
from fhirapp.fhir.outcome import InvalidParameter
from fhirapp.rest.response import fhir_address
from fhirapp.rest.visibility import targets_visible
from fhirapp.search.controls import REVINCLUDE
from fhirapp.store.definition import Definition, types


def provenance_of(
    snapshot: Reader, definition: Definition, access: Access, ids: Sequence[str]
) -> list[tuple[Entry, str]]:
    """Return the entries of the Provenances that have one of these resources as target.

    Newest first, each with its id and version; only those whose every target the token may see.
    """
    provenance = types().get("Provenance")
    if provenance is None:
        raise InvalidParameter("_revinclude", f"{REVINCLUDE} is not served here")
    if not ids:
        return []
    marks = ", ".join("?" * len(ids))
    rows = snapshot.all(
        "SELECT r.id, r.version_id, r.body"
        f" FROM {provenance.sql_table} r WHERE r.is_current AND r.pk IN"
        f" (SELECT t.pk FROM \"{provenance.tables.reference.name}\" t WHERE t.param = 'target'"
        f" AND t.target_id IN ({marks}) AND t.target_type = ?)"
        " ORDER BY r.last_updated DESC, r.id DESC",
        (*ids, definition.name),
    )
    return [
        (Entry(fhir_address(f"Provenance/{row_id}"), body, INCLUDE), f"{row_id}/{version_id}")
        for row_id, version_id, body in rows
        if targets_visible(snapshot, access, "s", body)
    ]
