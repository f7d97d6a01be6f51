"""Where records came from, and what each import did."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.db import Base


class ImportSource(Base):
    """A source that an import named: resources remember which one they came from."""

    __tablename__ = "import_source"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)


class ImportShared(Base):
    """A resource that a source has just as it came from another: its id means the same there."""

    __tablename__ = "import_shared"

    source_id: Mapped[int] = mapped_column(primary_key=True)
    type: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)


class ImportRun(Base):
    """A run of an import: who began it, when, of what; and what came of it."""

    __tablename__ = "import_run"

    id: Mapped[int] = mapped_column(primary_key=True)
    # The paths as they were given, and the name of the account of the system that gave them.
    inputs: Mapped[Any]
    who: Mapped[str]
    source_id: Mapped[int | None]
    # Instants as they are served.
    began_at: Mapped[str]
    # None while it runs, and for ever where it was killed.
    ended_at: Mapped[str | None]
    # The last row number of each type as it began: what is beyond came with it.
    last_rows: Mapped[Any]
    # Counts by type and outcome.
    outcome: Mapped[Any | None]
