"""The table of Group."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Mapped

from fhirapp.db import DomainVersioned


class Group(DomainVersioned):
    """A group, a row for each version."""

    # GROUP is a word of SQL: seed.sql would have to quote it.
    __tablename__ = "fhir_group"

    identifier: Mapped[Any | None]
    active: Mapped[bool | None]
    type: Mapped[str | None]
    actual: Mapped[bool | None]
    code: Mapped[Any | None]
    name: Mapped[str | None]
    quantity: Mapped[int | None]
    managing_entity: Mapped[Any | None]
    characteristic: Mapped[Any | None]
    member: Mapped[Any | None]
