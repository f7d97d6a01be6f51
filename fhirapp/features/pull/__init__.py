"""Fetch the export of another FHIR server: the client's side of Bulk Data Access.

download       the whole of a download         files          one file, fetched and checked
state          the folder and its progress     authorization  backend services: tokens
connection     one request, bounded; retries   address        addresses, where tokens may go

Source: FHIR Bulk Data Access 2.0; SMART App Launch 2.2, Backend Services.
"""

from __future__ import annotations

from fhirapp.feature import Feature

FEATURE = Feature(
    name="pull",
    requires=("imports",),
    jobs={"pull": "fhirapp.features.pull.jobs:pull"},
    schedule_kinds=("fhirapp.features.pull.jobs:SCHEDULE",),
    download="fhirapp.features.pull.downloads:download_all",
)
