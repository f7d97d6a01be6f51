"""The table of Patient."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Mapped

from fhirapp.db import DomainVersioned


class Patient(DomainVersioned):
    """A patient, a row for each version."""

    __tablename__ = "patient"

    identifier: Mapped[Any | None]
    active: Mapped[bool | None]
    name: Mapped[Any | None]
    telecom: Mapped[Any | None]
    gender: Mapped[str | None]
    birth_date: Mapped[str | None]
    deceased_boolean: Mapped[bool | None]
    deceased_date_time: Mapped[str | None]
    address: Mapped[Any | None]
    marital_status: Mapped[Any | None]
    multiple_birth_boolean: Mapped[bool | None]
    multiple_birth_integer: Mapped[int | None]
    photo: Mapped[Any | None]
    contact: Mapped[Any | None]
    communication: Mapped[Any | None]
    general_practitioner: Mapped[Any | None]
    managing_organization: Mapped[Any | None]
    link: Mapped[Any | None]
