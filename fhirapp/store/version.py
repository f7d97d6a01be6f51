"""Versions on their way into the tables, the current ones there, and the store's generation.

Every writing transaction raises the generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, cast

from sqlalchemy import Connection, Table, select
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.db import Base
from fhirapp.definition import Definition
from fhirapp.store.prepare import PreparedResource


class Change(Enum):
    """What publishing a resource came to."""

    NEW = "new"
    CHANGED = "changed"
    SAME = "same"
    DELETED = "deleted"
    # Not published: an earlier version had this content already.
    OLDER = "older"
    # Not published: it is known from another source, with other content.
    FOREIGN = "foreign"
    # Not published: records of another source refer to something of that id.
    CLAIMED = "claimed"
    # Not published: the same import brought it as another patient's.
    MISFILED = "misfiled"


class RestoredVersion(NamedTuple):
    """A version as it was: its number and time, and what it was made with.

    made_with has the number of the version of each Binary that its attachments meant, by Binary
    id; where it is None they mean what the Binaries are now.
    """

    prepared: PreparedResource
    version_id: int
    last_updated: str
    deleted: bool = False
    made_with: Mapping[str, int] | None = None


@dataclass
class Version:
    """A version on its way into the tables."""

    prepared: PreparedResource
    version_id: int
    last_updated: str
    pk: int
    deleted: bool = False
    # The row of the next version, where there is one.
    replaced_pk: int | None = None
    source_id: int | None = None
    # The rows of the Binaries that its attachments point to, by Binary id.
    attached: Mapping[str, int] | None = None
    # Which versions of the Binaries it means; None for what they are now.
    made_with: Mapping[str, int] | None = None

    @property
    def is_current(self) -> bool:
        return self.replaced_pk is None and not self.deleted


@dataclass
class LatestVersion:
    """What a resource's newest version is, before a batch."""

    pk: int
    version_id: int
    digest: bytes | None
    last_updated: str
    patient_id: str | None
    deleted: bool = False
    source_id: int | None = None


def follow(
    before: LatestVersion | None, pk: int, versions: Mapping[int, Version], replaced: dict[int, int]
) -> None:
    """Note that a row comes after the one before, which is in this batch or in the table."""
    if before and before.pk in versions:
        versions[before.pk].replaced_pk = pk
    elif before:
        replaced[before.pk] = pk


def row_of(definition: Definition, version: Version) -> dict[str, Any]:
    """Return a version's row, every column named, the body still to be made."""
    row = dict.fromkeys(definition.table.columns.keys())
    row.update(source_id=version.source_id)
    row.update(version.prepared.columns)
    row.update(
        pk=version.pk,
        id=version.prepared.id,
        version_id=version.version_id,
        last_updated=version.last_updated,
        is_current=version.is_current,
        deleted=version.deleted,
        replaced_pk=version.replaced_pk,
        digest=version.prepared.digest or None,
    )
    if version.attached:
        row["attached"] = version.attached
    return row


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


def raise_generation(connection: Connection) -> None:
    """Say, within a writing transaction, that the data changed."""
    current = get_state(connection, GENERATION)
    set_state(connection, GENERATION, str(int(current or 0) + 1))


def get_state(connection: Connection, name: str) -> str | None:
    """Return a remembered value, None where there is none."""
    table = cast(Table, StoreState.__table__)
    value: str | None = connection.execute(
        select(table.c.value).where(table.c.name == name)
    ).scalar_one_or_none()
    return value


def set_state(connection: Connection, name: str, value: str) -> None:
    """Remember a value."""
    table = cast(Table, StoreState.__table__)
    changed = connection.execute(table.update().where(table.c.name == name).values(value=value))
    if changed.rowcount == 0:
        connection.execute(table.insert().values(name=name, value=value))
