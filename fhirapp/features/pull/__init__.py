"""Fetch the export of another FHIR server: the client's side of Bulk Data Access.

jobs           the schedule and its job    download   the download of an export
folder         its files and its progress  remote     requests to the other server
authorization  tokens of Backend Services

Source: FHIR Bulk Data Access 2.0; SMART App Launch 2.2, Backend Services.
"""

from __future__ import annotations

from fhirapp.feature import Feature

FEATURE = Feature(
    name="pull",
    requires=("imports",),
    jobs={"pull": "fhirapp.features.pull.jobs:pull"},
    schedule_kinds=("fhirapp.features.pull.jobs:SCHEDULE",),
    sweeps=("fhirapp.features.pull.jobs:sweep",),
    download="fhirapp.features.pull.download:download_all",
)
