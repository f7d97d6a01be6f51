"""The table of Provenance."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Mapped

from fhirapp.db import DomainVersioned


class Provenance(DomainVersioned):
    """Where a resource comes from, a row for each version."""

    __tablename__ = "provenance"

    target: Mapped[Any | None]
    occurred_period: Mapped[Any | None]
    occurred_date_time: Mapped[str | None]
    recorded: Mapped[str | None]
    policy: Mapped[Any | None]
    location: Mapped[Any | None]
    reason: Mapped[Any | None]
    activity: Mapped[Any | None]
    agent: Mapped[Any | None]
    entity: Mapped[Any | None]
    signature: Mapped[Any | None]
