"""The table of Encounter."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.db import DomainVersioned


class Encounter(DomainVersioned):
    """An encounter, a row for each version."""

    __tablename__ = "encounter"

    identifier: Mapped[Any | None]
    status: Mapped[str | None]
    class_: Mapped[Any | None] = mapped_column("class")
    type: Mapped[Any | None]
    service_type: Mapped[Any | None]
    priority: Mapped[Any | None]
    subject: Mapped[Any | None]
    episode_of_care: Mapped[Any | None]
    participant: Mapped[Any | None]
    appointment: Mapped[Any | None]
    period: Mapped[Any | None]
    length: Mapped[Any | None]
    reason_code: Mapped[Any | None]
    reason_reference: Mapped[Any | None]
    diagnosis: Mapped[Any | None]
    account: Mapped[Any | None]
    hospitalization: Mapped[Any | None]
    location: Mapped[Any | None]
    service_provider: Mapped[Any | None]
    part_of: Mapped[Any | None]
