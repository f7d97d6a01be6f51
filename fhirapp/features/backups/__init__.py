"""Backups of the database and keys: taken, verified, kept, restored."""

from __future__ import annotations

from fhirapp.feature import DATA, N_, Feature, MenuLink

FEATURE = Feature(
    name="backups",
    blueprints=("fhirapp.features.backups.pages:blueprint",),
    commands={
        "backup": (
            "fhirapp.features.backups.cli:backup",
            "Back up the database and keys while the server runs.",
        ),
        "restore": (
            "fhirapp.features.backups.cli:restore_",
            "Restore the database and keys from a backup.",
        ),
    },
    jobs={
        "backup": "fhirapp.features.backups.jobs:take_backup",
        "drill": "fhirapp.features.backups.jobs:verify",
        "restore": "fhirapp.features.backups.jobs:prepare_restore",
    },
    schedule_kinds=("fhirapp.features.backups.jobs:SCHEDULE",),
    recovery="fhirapp.features.backups.prepared:recover",
    dump="fhirapp.features.backups.backup:dump_before_upgrade",
    sweeps=("fhirapp.features.backups.jobs:sweep",),
    probes=("fhirapp.features.backups.probes:PROBES",),
    setup_steps=("fhirapp.features.backups.probes:take_backup",),
    navigation=(MenuLink(DATA, 80, "/admin/backups", N_("Backups")),),
)
