"""Tables of imports: sources, ids that sources share, runs, and what they may not undo."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.db import Base

# What imports take turns at.
TURN = "import"
# How many seconds an import waits for another writer.
PATIENCE = 60


class ImportSource(Base):
    """A named source of imports, which the resources from it refer to."""

    __tablename__ = "import_source"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)


class ImportShared(Base):
    """A resource that a source has with the content of another: its id means the same there."""

    __tablename__ = "import_shared"

    source_id: Mapped[int] = mapped_column(primary_key=True)
    type: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)


class ImportRun(Base):
    """A run of an import."""

    __tablename__ = "import_run"

    id: Mapped[int] = mapped_column(primary_key=True)
    # The paths of the command, and the account of the system that ran it.
    inputs: Mapped[Any]
    who: Mapped[str]
    source_id: Mapped[int | None]
    # Instants in the format that is served.
    began_at: Mapped[str]
    # None while it runs; of one that was killed, until the next run begins.
    ended_at: Mapped[str | None]
    # The last row number of each type as it began: rows beyond came with it.
    last_rows: Mapped[Any]
    # Counts by type and outcome.
    outcome: Mapped[Any | None]


class PatientChange(Base):
    """What an administrator did with a patient's record, which imports must not undo."""

    __tablename__ = "patient_change"

    id: Mapped[int] = mapped_column(primary_key=True)
    # DELETED, ERASED, CORRECTED or MERGED.
    kind: Mapped[str]
    patient_id: Mapped[str] = mapped_column(index=True)
    reason: Mapped[str]
    # The user name, or the account of the command line.
    who: Mapped[str]
    # Instants in the format that is served; ended_at once it was undone.
    at: Mapped[str]
    ended_at: Mapped[str | None]
    # Of the version that was corrected: the source may bring it again.
    digest: Mapped[bytes | None]


class PatientMerge(Base):
    """Whom the patient of a PatientChange was merged into."""

    __tablename__ = "patient_merge"

    change_id: Mapped[int] = mapped_column(primary_key=True)
    target_id: Mapped[str] = mapped_column(index=True)
    # Those that saw the record that was merged, each as (user id, whether it is their own, whether
    # it was linked to the one who stays).
    accounts: Mapped[Any]


DELETED, ERASED, CORRECTED, MERGED = "deleted", "erased", "corrected", "merged"
