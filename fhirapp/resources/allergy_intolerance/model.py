"""The table of AllergyIntolerance."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Mapped

from fhirapp.db import DomainVersioned


class AllergyIntolerance(DomainVersioned):
    """An allergy or intolerance, a row for each version."""

    __tablename__ = "allergy_intolerance"

    identifier: Mapped[Any | None]
    clinical_status: Mapped[Any | None]
    verification_status: Mapped[Any | None]
    type: Mapped[str | None]
    category: Mapped[Any | None]
    criticality: Mapped[str | None]
    code: Mapped[Any | None]
    patient: Mapped[Any | None]
    encounter: Mapped[Any | None]
    onset_date_time: Mapped[str | None]
    onset_period: Mapped[Any | None]
    recorded_date: Mapped[str | None]
    recorder: Mapped[Any | None]
    asserter: Mapped[Any | None]
    last_occurrence: Mapped[str | None]
    note: Mapped[Any | None]
    reaction: Mapped[Any | None]
