"""`$export` as the server describes it: in its CapabilityStatement and its OpenAPI document."""

from __future__ import annotations

from flask import Flask

from fhirapp.exchange.bulk import openapi
from fhirapp.rest import capability
from fhirapp.rest.openapi import describe
from fhirapp.store.definition import Operation, OperationParameter

_GUIDE = "http://hl7.org/fhir/uv/bulkdata/"
_COMMON = (
    OperationParameter(
        "_outputFormat", "string", "application/fhir+ndjson, application/ndjson or ndjson"
    ),
    OperationParameter("_since", "instant", "What changed after this time, and what was deleted"),
    OperationParameter("_until", "instant", "What changed last at this time, or before"),
    OperationParameter("_type", "string", "Types wanted, separated by commas", repeats=True),
    OperationParameter(
        "_elements",
        "string",
        "Elements wanted, separated by commas: `identifier`, `Patient.name`",
        repeats=True,
    ),
    OperationParameter(
        "_typeFilter",
        "string",
        "Searches of which a resource of their type must meet one, separated by commas: "
        "`AllergyIntolerance?clinical-status=active`",
        repeats=True,
    ),
    OperationParameter(
        "includeAssociatedData",
        "code",
        "Not followed: Provenance comes where it is among the types",
        repeats=True,
    ),
)
_PATIENTS = OperationParameter(
    "patient", "Reference", "By POST alone: the patients wanted, and no others", repeats=True
)

EXPORT = Operation(
    "export",
    _GUIDE + "OperationDefinition/export",
    "Write all that the client may see into files.",
    _COMMON,
)
PATIENT_EXPORT = Operation(
    "export",
    _GUIDE + "OperationDefinition/patient-export",
    "Write what belongs to patients into files.",
    (*_COMMON, _PATIENTS),
)
GROUP_EXPORT = Operation(
    "export",
    _GUIDE + "OperationDefinition/group-export",
    "Write what belongs to the patients of a group into files.",
    (*_COMMON, _PATIENTS),
    instance=True,
)


def init_app(app: Flask) -> None:
    """Tell of the three operations."""
    offered = {"": EXPORT, "Patient": PATIENT_EXPORT, "Group": GROUP_EXPORT}
    for type_name, operation in offered.items():
        capability.offer(app, operation, type_name)
    guide = _GUIDE + "ImplementationGuide/hl7.fhir.uv.bulkdata"
    capability.follow(app, guide, _GUIDE + "CapabilityStatement/bulk-data")
    describe(app, lambda: openapi.described(offered))
