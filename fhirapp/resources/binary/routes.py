"""What Binary declares of itself, and its read: FHIR JSON, or the bytes themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response

from fhirapp.auth.compartment import Access
from fhirapp.db import reader
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.outcome import Gone, NotFound
from fhirapp.resources.binary.model import Binary
from fhirapp.resources.binary.schema import BinarySchema
from fhirapp.rest.access import access_to
from fhirapp.rest.blueprint import ResourceBlueprint, check_id
from fhirapp.rest.negotiation import Form, arguments, prefers_json, wanted_form
from fhirapp.rest.response import respond
from fhirapp.rest.visibility import carried_visibly
from fhirapp.store.attachments import sha1
from fhirapp.store.definition import Definition, Visibility


def _size_and_hash(columns: Mapping[str, Any]) -> Mapping[str, Any]:
    data = columns.get("data") or b""
    return {"size": len(data), "hash": sha1(data)}


class BinaryBlueprint(ResourceBlueprint):
    """Binary is read whole; its earlier versions are not served."""

    def read(self, resource_id: str) -> Response:
        """Return the bytes, or with an Accept of FHIR JSON the resource. FHIR R4 binary §2.41.4.

        Raises NotFound, Gone.
        """
        check_id(self.definition, resource_id)
        access = access_to(self.definition, "r")
        row = self._row(resource_id, access)
        etag = f'W/"{row["version_id"]}"'
        if prefers_json():
            form = wanted_form(arguments())
            body = fhir_json.dumps_indented(self.definition.schema.dump_resource(row))
            return respond(body, form, etag=etag, last_modified=row["last_updated"])
        response = respond(
            row["data"] or b"",
            Form(),
            etag=etag,
            last_modified=row["last_updated"],
            content_type=row["content_type"],
        )
        # Never executable in a browser: a stored page must not run as this server's own.
        response.headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Content-Disposition"] = "attachment"
        return response

    def _row(self, resource_id: str, access: Access) -> dict[str, Any]:
        snapshot = reader()
        found = snapshot.first(
            f"SELECT pk, version_id, last_updated, deleted, content_type"
            f" FROM {self.definition.sql_table} WHERE id = ? ORDER BY version_id DESC LIMIT 1",
            (resource_id,),
        )
        if found is None or not carried_visibly(snapshot, access, resource_id):
            raise NotFound(f"Binary/{resource_id} is not known here.")
        names = ("pk", "version_id", "last_updated", "deleted", "content_type")
        row = dict(zip(names, found, strict=True)) | {"id": resource_id}
        if row["deleted"]:
            raise Gone(f"Binary/{resource_id} was deleted.")
        # Read last: that it is here must not show in how long a refusal takes.
        data = snapshot.all(f"SELECT data FROM {self.definition.sql_table} WHERE pk = ?", found[:1])
        return row | {"data": data[0][0]}


blueprint = BinaryBlueprint(
    __name__,
    Definition(
        name="Binary",
        model=Binary,
        schema=BinarySchema(),
        interactions=("read",),
        visibility=Visibility.CARRIER,
        stores_body=False,
        derive=_size_and_hash,
        doc="The bytes of attachments.",
    ),
)
