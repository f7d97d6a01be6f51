"""Versions on their way into the tables, the current ones there, and the store's generation.

Every writing transaction raises the generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, select, update
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


@dataclass
class Version:
    """A version to be written: one that was restored has its own number and time."""

    prepared: PreparedResource
    version_id: int = 0
    last_updated: str = ""
    # The number of the version of each Binary that its attachments mean, by Binary id; where it is
    # None they mean what the Binaries are now.
    made_with: Mapping[str, int] | None = None
    source_id: int | None = None
    # Its row, and that of the next version, where there is one.
    pk: int = 0
    replaced_pk: int | None = None
    # The rows of the Binaries that its attachments point to, by Binary id.
    attached: Mapping[str, int] | None = None

    @property
    def deleted(self) -> bool:
        return self.prepared.deleted

    @property
    def digest(self) -> bytes | None:
        return self.prepared.digest

    @property
    def patient_id(self) -> str | None:
        return self.prepared.patient_id


class StoredVersion(NamedTuple):
    """A version in the table."""

    pk: int
    version_id: int
    digest: bytes | None
    last_updated: str
    patient_id: str | None
    deleted: bool
    source_id: int | None


def stored_versions(
    connection: Connection, definition: Definition, ids: Iterable[str]
) -> dict[str, list[StoredVersion]]:
    """Return the versions of these resources, oldest first, by id."""
    columns = definition.table.c
    query = select(columns.id, *(columns[name] for name in StoredVersion._fields))
    versions: dict[str, list[StoredVersion]] = {}
    which = columns.id.in_(sorted(set(ids)))
    for resource_id, *values in connection.execute(query.where(which).order_by(columns.version_id)):
        versions.setdefault(resource_id, []).append(StoredVersion(*values))
    return versions


def row_of(definition: Definition, version: Version) -> dict[str, Any]:
    """Return a version's row, every column named, the body still to be made."""
    row = dict.fromkeys(definition.table.columns.keys())
    row.update(version.prepared.columns)
    row.update(
        pk=version.pk,
        id=version.prepared.id,
        version_id=version.version_id,
        last_updated=version.last_updated,
        is_current=version.replaced_pk is None and not version.deleted,
        deleted=version.deleted,
        replaced_pk=version.replaced_pk,
        source_id=version.source_id,
        digest=version.digest,
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
    return connection.execute(
        select(StoreState.value).where(StoreState.name == name)
    ).scalar_one_or_none()


def set_state(connection: Connection, name: str, value: str) -> None:
    """Remember a value."""
    changed = connection.execute(
        update(StoreState).where(StoreState.name == name).values(value=value)
    )
    if changed.rowcount == 0:
        connection.execute(insert(StoreState).values(name=name, value=value))
