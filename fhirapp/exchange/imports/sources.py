"""Sources and their ids: two named sources may use the same ids for different people.

A source may refer by id to what it brought itself, and to what it brought with the same content as
is here. An id that only another source brought would lead to a stranger's record. decisions §5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, insert, select

from fhirapp.db import Reader
from fhirapp.definition import Definition
from fhirapp.exchange.models import ImportShared, ImportSource

# Targets that are remembered as the source's own.
_REMEMBERED = 50_000
ANOTHER_SOURCE = (
    "is a record of another source here, and this source sent none with the same content: it may "
    "be about another person; give its ids a prefix (--id-prefix), or import both under one name "
    "(--source)"
)


class SourceIds:
    """The ids that the source of an import may refer to."""

    def __init__(self, definitions: Mapping[str, Definition]) -> None:
        self._definitions = definitions
        # Set where the source has a name and there are others; otherwise no id is foreign.
        self.source_id: int | None = None
        self._own: set[str] = set()

    @property
    def are_checked(self) -> bool:
        return self.source_id is not None

    def first_foreign(self, targets: Iterable[str], snapshot: Reader) -> str:
        """Return the first of some Type/id that is another source's, "" if none is."""
        for target in sorted({*targets} - self._own):
            if self._is_foreign(target, snapshot):
                return target
            if len(self._own) >= _REMEMBERED:
                self._own.clear()
            self._own.add(target)
        return ""

    def _is_foreign(self, target: str, snapshot: Reader) -> bool:
        type_name, _, resource_id = target.partition("/")
        definition = self._definitions.get(type_name)
        if definition is None or definition.view:
            return False
        newest = snapshot.first(
            f"SELECT source_id FROM {definition.sql_table} WHERE id = ?"
            " ORDER BY version_id DESC LIMIT 1",
            (resource_id,),
        )
        if newest is None or newest[0] in (None, self.source_id):
            return False
        shared = "SELECT 1 FROM import_shared WHERE source_id = ? AND type = ? AND id = ?"
        return snapshot.first(shared, (self.source_id, type_name, resource_id)) is None


def has_others(connection: Connection, source_id: int) -> bool:
    """Say whether there are sources beside this one."""
    others = select(ImportSource.id).where(ImportSource.id != source_id).limit(1)
    return connection.execute(others).first() is not None


def record_shared(connection: Connection, source_id: int, names: Iterable[str]) -> None:
    """Record that a source has these resources, Type/id, with the content of another source."""
    by_type: dict[str, set[str]] = {}
    for name in names:
        type_name, _, resource_id = name.partition("/")
        by_type.setdefault(type_name, set()).add(resource_id)
    for type_name, ids in by_type.items():
        row = {"source_id": source_id, "type": type_name}
        known = select(ImportShared.id).filter_by(**row).where(ImportShared.id.in_(sorted(ids)))
        new = sorted(ids.difference(connection.execute(known).scalars()))
        if new:
            connection.execute(insert(ImportShared), [row | {"id": new_id} for new_id in new])
