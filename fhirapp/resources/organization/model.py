"""The table of Organization."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Mapped

from fhirapp.db import DomainVersioned


class Organization(DomainVersioned):
    """An organization, a row for each version."""

    __tablename__ = "organization"

    identifier: Mapped[Any | None]
    active: Mapped[bool | None]
    type: Mapped[Any | None]
    name: Mapped[str | None]
    alias: Mapped[Any | None]
    telecom: Mapped[Any | None]
    address: Mapped[Any | None]
    part_of: Mapped[Any | None]
    contact: Mapped[Any | None]
    endpoint: Mapped[Any | None]
