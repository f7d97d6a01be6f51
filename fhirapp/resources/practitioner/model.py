"""The table of Practitioner."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Mapped

from fhirapp.db import DomainVersioned


class Practitioner(DomainVersioned):
    """A practitioner, a row for each version."""

    __tablename__ = "practitioner"

    identifier: Mapped[Any | None]
    active: Mapped[bool | None]
    name: Mapped[Any | None]
    telecom: Mapped[Any | None]
    address: Mapped[Any | None]
    gender: Mapped[str | None]
    birth_date: Mapped[str | None]
    photo: Mapped[Any | None]
    qualification: Mapped[Any | None]
    communication: Mapped[Any | None]
