"""Which source an id belongs to, and what an import may publish for its source.

Two named sources may use the same ids for different people. A source may refer by id to what it
sent itself, and to what it sent with the same content as is here; an id that only another source
sent would lead to a stranger's record (decisions §5).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import Connection, insert, select

from fhirapp.db import Reader, db
from fhirapp.definition import Definition
from fhirapp.search.reference import Reference
from fhirapp.store.import_models import ImportShared, ImportSource
from fhirapp.store.prepare import CARRIES, PreparedResource
from fhirapp.store.publish import by_content
from fhirapp.store.version import Change, StoredVersion, Version

# Targets that are remembered.
_REMEMBERED = 50_000
ANOTHER_SOURCE = (
    "belongs to another source here, and this source sent none with the same content: it may be"
    " about another person; give its ids a prefix (--id-prefix), or import both under one name "
    "(--source)"
)
# Why a resource is not published: it is known from another source, records of another source refer
# to its id, or the same import brought it as another patient's.
_FOREIGN = (
    "is known from another source, with other content; give the ids of one of them a prefix "
    "(--id-prefix), or import both under one name (--source)"
)
_CLAIMED = (
    "is what records of another source refer to, and may be another person there; give its ids a "
    "prefix (--id-prefix), or import both under one name (--source)"
)
MISFILED = (
    "is the id of another patient's record in this import; each record needs an id of its own"
)


class SourceRules:
    """The rule of one import for ids: an id belongs to the source that brought it, or refers to it.

    Another source may bring it with the same content only, and refer to it only if it did so.
    source_id is None where the source has no name or there is no other: then no id is foreign.
    last_rows has the last row of each type before the import. shared collects the ids by type of
    what the source has with the content of another.
    """

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        source_id: int | None,
        last_rows: Mapping[str, int],
    ) -> None:
        self.source_id = source_id
        self.shared: defaultdict[str, set[str]] = defaultdict(set)
        self._definitions = definitions
        self._last_rows = last_rows
        # Type/id of what the source may refer to.
        self._own: set[str] = set()
        # Type/id of the batch that is not here and that records of other sources refer to.
        self._claimed: set[str] = set()

    @property
    def are_checked(self) -> bool:
        return self.source_id is not None

    def is_foreign(self, source_id: int | None) -> bool:
        """Say whether a version's source is another one, where an id may mean another patient."""
        return None not in (self.source_id, source_id) and source_id != self.source_id

    def first_foreign(self, targets: Iterable[str], snapshot: Reader) -> str:
        """Return the first of some Type/id that is another source's, "" if none is."""
        for target in sorted({*targets} - self._own):
            if self.is_foreign_target(target, snapshot):
                return target
            if len(self._own) >= _REMEMBERED:
                self._own.clear()
            self._own.add(target)
        return ""

    def is_foreign_target(self, target: str, snapshot: Reader) -> bool:
        """Say whether Type/id is another source's, and not shared with this one."""
        type_name, _, resource_id = target.partition("/")
        definition = self._definitions.get(type_name)
        if self.source_id is None or definition is None or definition.view:
            return False
        newest = snapshot.first(
            f"SELECT source_id FROM {definition.sql_table} WHERE id = ?"
            " ORDER BY version_id DESC LIMIT 1",
            (resource_id,),
        )
        if newest is None:
            # Whose patient it is matters also before that patient is here.
            return definition.compartment == "id" and self._is_claimed(definition, resource_id)
        shared = "SELECT 1 FROM import_shared WHERE source_id = ? AND type = ? AND id = ?"
        return (
            self.is_foreign(newest[0])
            and snapshot.first(shared, (self.source_id, type_name, resource_id)) is None
        )

    def _is_claimed(self, definition: Definition, resource_id: str) -> bool:
        with db.engine.connect() as connection:
            return bool(self._claims(connection, definition, [resource_id]))

    # What is published.

    def look_up(
        self,
        connection: Connection,
        batch: Sequence[PreparedResource],
        latest: Mapping[str, StoredVersion],
    ) -> None:
        """Read what decide() needs to know of a batch of one type.

        latest has the newest version of each resource that has one, by id.
        """
        self._claimed = set()
        if self.source_id is not None:
            new = {prepared.id for prepared in batch} - latest.keys()
            self._claimed = self._claims(connection, batch[0].definition, new)

    def decide(
        self, prepared: PreparedResource, latest: StoredVersion | Version | None
    ) -> Change | str:
        """Return what comes of a resource of the batch: its change, or why it is not published."""
        change = by_content(prepared, latest)
        if change is Change.SAME:
            if latest and not prepared.deleted and self.is_foreign(latest.source_id):
                self.shared[prepared.definition.name].add(prepared.id)
            return change
        return self._refusal(prepared, latest) or change

    def is_claimed(self, name: str) -> bool:
        """Say whether Type/id of the batch is not here, and records of other sources name it."""
        return name in self._claimed

    def record_shared(self, connection: Connection) -> None:
        """Record what the source has with the content of another."""
        for type_name, ids in self.shared.items():
            row = {"source_id": self.source_id, "type": type_name}
            known = select(ImportShared.id).filter_by(**row).where(ImportShared.id.in_(sorted(ids)))
            new = sorted(ids.difference(connection.execute(known).scalars()))
            if new:
                connection.execute(insert(ImportShared), [row | {"id": new_id} for new_id in new])
        self.shared.clear()

    def _refusal(self, prepared: PreparedResource, latest: StoredVersion | Version | None) -> str:
        """Return why a resource is not published, "" where it is."""
        if latest and prepared.deleted:
            return _FOREIGN if self.is_foreign(latest.source_id) else ""
        if latest is None:
            return _CLAIMED if prepared.name in self._claimed else ""
        is_moved = latest.patient_id not in (None, prepared.patient_id)
        if self.is_foreign(latest.source_id) and (is_moved or not latest.deleted):
            return _FOREIGN
        last_row = self._last_rows.get(prepared.definition.name, 0)
        is_of_import = isinstance(latest, Version) or latest.pk > last_row
        return MISFILED if is_moved and not latest.deleted and is_of_import else ""

    def _claims(
        self, connection: Connection, definition: Definition, ids: Collection[str]
    ) -> set[str]:
        """Return the Type/id, of these ids of a type, that records of other sources refer to."""
        claimed: set[str] = set()
        if not ids:
            return claimed
        for other in self._definitions.values():
            if other.view:
                continue
            columns, index = other.table.c, other.tables.reference.c
            params = [param.name for param in other.params if isinstance(param, Reference)]
            referred = (
                select(index.target_id)
                .distinct()
                .where(index.param.in_([*params, CARRIES]))
                .where(index.target_id.in_(sorted(ids)), index.target_type == definition.name)
                .where(columns.pk == index.pk, columns.is_current)
                .where(columns.source_id.is_not(None), columns.source_id != self.source_id)
            )
            claimed.update(connection.execute(referred).scalars())
        return {f"{definition.name}/{resource_id}" for resource_id in claimed}


def has_others(connection: Connection, source_id: int) -> bool:
    """Say whether there are sources beside this one."""
    others = select(ImportSource.id).where(ImportSource.id != source_id).limit(1)
    return connection.execute(others).first() is not None
