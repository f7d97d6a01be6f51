"""Looks up the current or pending version of a record that a table row updates."""

from __future__ import annotations

from typing import Any

from fhirapp.db import Reader
from fhirapp.definition import Definition
from fhirapp.features.exports.lines import SourceJson, VersionKey
from fhirapp.features.imports.records import Rejected
from fhirapp.features.imports.references import current
from fhirapp.fhir import json as fhir_json
from fhirapp.store.prepare import PreparedResource, elements_of

_ANOTHER_PATIENT = (
    "is the id of another patient's record here; give this one another id, or merge the two"
    " patients if they are one person (Administer, Patients)"
)


class KnownRecords:
    """Finds the current version of a resource, without what is added when it is served.

    previous is what was admitted of the same resource and is not published yet.
    """

    def __init__(self) -> None:
        self._sources: dict[str, SourceJson] = {}

    def is_same(
        self, prepared: PreparedResource, previous: PreparedResource | None, snapshot: Reader
    ) -> bool:
        """Say whether a resource is here with this content."""
        if previous is not None:
            return previous.digest == prepared.digest
        digest: bytes | None = current(snapshot, prepared.definition, prepared.id, "digest")
        return digest == prepared.digest

    def find(
        self, prepared: PreparedResource, previous: PreparedResource | None, snapshot: Reader
    ) -> dict[str, Any] | None:
        """Return the current resource; None if there is none, or it has no patient here.

        Raises Rejected if it is another patient's.
        """
        if previous is None:
            return self._stored(prepared, snapshot)
        if previous.deleted or not _is_of_patient(prepared, previous.patient_id):
            return None
        return resource_of(previous)

    def _stored(self, prepared: PreparedResource, snapshot: Reader) -> dict[str, Any] | None:
        definition = prepared.definition
        source = self._source(definition)
        row = snapshot.first(
            f"SELECT patient_id, {', '.join(source.columns)} FROM {definition.sql_table}"
            " WHERE id = ? AND is_current",
            (prepared.id,),
        )
        if row is None or not _is_of_patient(prepared, row[0]):
            return None
        key = VersionKey(prepared.id, 0, "", deleted=False, pk=0, size=0)
        resource: dict[str, Any] = fhir_json.loads(b"".join(source.pieces(snapshot, key, row[1:])))
        # Those of the version that comes are not known yet.
        for name in ("versionId", "lastUpdated"):
            del resource["meta"][name]
        if not resource["meta"]:
            del resource["meta"]
        return resource

    def _source(self, definition: Definition) -> SourceJson:
        if definition.name not in self._sources:
            self._sources[definition.name] = SourceJson(definition)
        return self._sources[definition.name]


def resource_of(prepared: PreparedResource) -> dict[str, Any]:
    """Return a resource that was prepared, as JSON."""
    elements = elements_of(prepared.definition, prepared.columns)
    return {"resourceType": prepared.definition.name, "id": prepared.id, **elements}


def _is_of_patient(prepared: PreparedResource, patient_id: str | None) -> bool:
    """Say whether a record here has the patient of the one that comes. Raises Rejected."""
    coming: str | None = prepared.columns["patient_id"]
    if coming != patient_id and None not in (coming, patient_id):
        raise Rejected(_ANOTHER_PATIENT, f"{prepared.definition.name}.id")
    return coming == patient_id
