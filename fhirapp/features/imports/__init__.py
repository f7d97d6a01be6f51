"""Records in: inputs of every kind become versions of resources, with a report.

The way of a record: inputs (files and archives) → reader (records) → intake (id, repair) → stage
(all records, grouped by resource) → publication (groups by type) → admission (references, check)
→ batches (one transaction each) → store. importer.py runs it from start to end.

Here is what pages and jobs know of imports: they do without the rest, and so start sooner.
"""

from __future__ import annotations

import re

from fhirapp.feature import DATA, N_, Feature, MenuLink

# Short enough that most ids, with it, stay within FHIR's 64 characters.
ID_PREFIX = re.compile(r"[A-Za-z0-9.-]{0,20}")
LINES = (".ndjson", ".jsonl")
# Names that promise records: such a file without records is rejected, another one is skipped.
SUFFIXES = (
    *(*LINES, ".json", ".gz", ".zip", ".xml", ".csv", ".tsv"),
    *(".ccd", ".ccda", ".cda", ".hl7"),
)
# Of a report: so many of a kind are listed; all are counted.
LISTED = 10_000
# The columns of its counts, in their order.
OUTCOMES = ("read", "new", "changed", "same", "deleted", "rejected")

FEATURE = Feature(
    name="imports",
    requires=("exports",),
    blueprints=("fhirapp.features.imports.pages:blueprint",),
    commands={
        "import": (
            "fhirapp.features.imports.cli:import_",
            "Import records: FHIR, C-CDA and tables.",
        ),
    },
    jobs={
        "import": "fhirapp.features.imports.jobs:import_uploaded",
        "folder": "fhirapp.features.imports.folder:take_folder",
    },
    schedule_kinds=("fhirapp.features.imports.folder:SCHEDULE",),
    probes=("fhirapp.features.imports.probes:PROBES",),
    setup_steps=("fhirapp.features.imports.probes:import_records",),
    navigation=(MenuLink(DATA, 60, "/admin/imports", N_("Imports")),),
)
