"""Who a member of staff is in the records."""

from __future__ import annotations

from typing import Any

from fhirapp.db import reader
from fhirapp.fhir import json as fhir_json
from fhirapp.store.definition import types


def practitioner_name(reference: str | None) -> str | None:
    """Return the name of a Practitioner/<id>; None where there is no record of one."""
    if reference is None:
        return None
    row = reader().first(
        f"SELECT body FROM {types()['Practitioner'].sql_table} WHERE id = ? AND is_current",
        (reference.removeprefix("Practitioner/"),),
    )
    if row is None:
        return None
    name: dict[str, Any] = next(iter(fhir_json.loads(row[0]).get("name") or ()), {})
    parts = [*name.get("prefix", ()), *name.get("given", ()), name.get("family")]
    return name.get("text") or " ".join(filter(None, parts)) or None
