"""Sources, kept apart: what an id means where it is used is what it means in that source.

Two sources that have a name may use the same ids for different people. What one refers to by an id
is what it brought itself, or what it brought just as it is here; where it did neither, and another
source did, the reference would lead to a stranger's record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, insert, select

from fhirapp.db import Reader
from fhirapp.exchange.models import ImportShared, ImportSource
from fhirapp.store.definition import Definition

# So many answers are remembered.
_REMEMBERED = 50_000
ANOTHERS = (
    "stands for a record of another source here, and this source brought none like it: it may be "
    "somebody else's; give its ids a prefix (--id-prefix), or import both under one name (--source)"
)


class Apart:
    """What one source may refer to, for an import of it."""

    def __init__(self, definitions: Mapping[str, Definition]) -> None:
        self._definitions = definitions
        # None where the source has no name, or is the only one.
        self._source_id: int | None = None
        self._own: set[str] = set()

    def begin(self, source_id: int) -> None:
        """Note that the import is of a source beside which there are others."""
        self._source_id = source_id

    @property
    def is_on(self) -> bool:
        """Whether there is anything to keep apart."""
        return self._source_id is not None

    def stranger(self, targets: Iterable[str], snapshot: Reader) -> str:
        """Return the first of some Type/id that is another source's; nothing if none is."""
        if self._source_id is None:
            return ""
        return next((one for one in sorted(set(targets)) if self._is_strange(one, snapshot)), "")

    def _is_strange(self, target: str, snapshot: Reader) -> bool:
        if target in self._own:
            return False
        type_name, _, resource_id = target.partition("/")
        definition = self._definitions.get(type_name)
        if definition is None or definition.view:
            return False
        row = snapshot.first(
            f"SELECT source_id FROM {definition.sql_table} WHERE id = ?"
            " ORDER BY version_id DESC LIMIT 1",
            (resource_id,),
        )
        if row is not None and row[0] not in (None, self._source_id):
            key = (self._source_id, type_name, resource_id)
            shared = "SELECT 1 FROM import_shared WHERE source_id = ? AND type = ? AND id = ?"
            if snapshot.first(shared, key) is None:
                return True
        if len(self._own) >= _REMEMBERED:
            self._own.clear()
        self._own.add(target)
        return False


def has_others(connection: Connection, source_id: int) -> bool:
    """Say whether there are sources beside this one."""
    others = select(ImportSource.id).where(ImportSource.id != source_id).limit(1)
    return connection.execute(others).first() is not None


def note_shared(connection: Connection, source_id: int, names: Iterable[str]) -> None:
    """Note that a source has these resources, Type/id, just as they came from another."""
    by_type: dict[str, set[str]] = {}
    for name in names:
        type_name, _, resource_id = name.partition("/")
        by_type.setdefault(type_name, set()).add(resource_id)
    for type_name, ids in by_type.items():
        row = {"source_id": source_id, "type": type_name}
        known = select(ImportShared.id).filter_by(**row).where(ImportShared.id.in_(sorted(ids)))
        new = sorted(ids.difference(connection.execute(known).scalars()))
        if new:
            connection.execute(insert(ImportShared), [row | {"id": one} for one in new])
