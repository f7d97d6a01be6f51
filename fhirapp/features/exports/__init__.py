"""Records out: `fhirapp export`, the pages of exports, and `$export` of Bulk Data Access.

Records leave as NDJSON: as their sources sent them, with the history where that is wanted, or, by
`$export`, as they are served.
"""

from __future__ import annotations

from fhirapp.feature import DATA, N_, Feature, MenuLink

FEATURE = Feature(
    name="exports",
    init=("fhirapp.features.exports.routes:init_app",),
    blueprints=("fhirapp.features.exports.pages:blueprint",),
    commands={
        "export": ("fhirapp.features.exports.cli:export", "Export all records as FHIR."),
    },
    jobs={
        "export": "fhirapp.features.exports.jobs:export",
        "bulk-export": "fhirapp.features.exports.jobs:bulk_export",
    },
    requeued=("bulk-export",),
    sweeps=("fhirapp.features.exports.jobs:sweep",),
    navigation=(MenuLink(DATA, 70, "/admin/exports", N_("Exports")),),
)
