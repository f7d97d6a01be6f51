"""What the store remembers of itself: a generation that every writing transaction raises.

Whoever keeps a figure made from the data (a total) keeps it with the generation it was made in.
"""

from __future__ import annotations

from typing import cast

from sqlalchemy import Connection, Table, select
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.db import Base, Reader

GENERATION = "generation"
RENDERING = "rendering"
INDEX = "index"


class StoreState(Base):
    """Names and values.

    `generation`; `rendering`, the settings that bodies were made with; `index`, the number of the
    rules that index rows and words were made by.
    """

    __tablename__ = "store_state"

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


def generation(reader: Reader) -> str:
    """Return the data's generation as this snapshot sees it."""
    row = reader.first("SELECT value FROM store_state WHERE name = ?", (GENERATION,))
    return str(row[0]) if row else "0"


def raise_generation(connection: Connection) -> None:
    """Say, within a writing transaction, that the data changed."""
    current = get_state(connection, GENERATION)
    set_state(connection, GENERATION, str(int(current or 0) + 1))


def get_state(connection: Connection, name: str) -> str | None:
    """Return a remembered value, None where there is none."""
    table = cast(Table, StoreState.__table__)
    found: str | None = connection.execute(
        select(table.c.value).where(table.c.name == name)
    ).scalar_one_or_none()
    return found


def set_state(connection: Connection, name: str, value: str) -> None:
    """Remember a value."""
    table = cast(Table, StoreState.__table__)
    changed = connection.execute(table.update().where(table.c.name == name).values(value=value))
    if changed.rowcount == 0:
        connection.execute(table.insert().values(name=name, value=value))
