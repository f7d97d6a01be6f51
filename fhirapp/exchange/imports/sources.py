"""Sources, kept apart: what an id means where it is used is what it means in that source.

Two sources that have a name may use the same ids for different people. What one refers to by an id
is what it brought itself, or what it brought just as it is here; where it did neither, and another
source did, the reference would lead to a stranger's record.

Exports of a part: what such a one lacks is not gone, and nothing is deleted for it.
What a source held before and holds no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import Connection, func, insert, select

from fhirapp.config import ConfigurationError
from fhirapp.db import Reader, db
from fhirapp.definition import Definition
from fhirapp.exchange.imports.archives import Archives, Broken, is_archive
from fhirapp.exchange.imports.inputs import MANIFEST, shown
from fhirapp.exchange.imports.scratch import Scratch
from fhirapp.exchange.models import ImportShared, ImportSource
from fhirapp.exchange.remote import address
from fhirapp.fhir import json as fhir_json

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


_COMMAND = "fhirapp export"
# Options of the command that leave nothing out.
_OF_FORM = frozenset({"--history", "--gzip"})
_LONGEST = 20_000_000
_UNTOLD = "how it was asked for, nobody can tell"


def refuse_narrowed(paths: Sequence[Path], spool: Path, archives: Archives) -> None:
    """Refuse to delete for an import of exports that were asked for a part of the records.

    spool has what came by a pipe. Raises ConfigurationError.
    """
    for where, opens in _manifests([*paths, *sorted(spool.iterdir())], archives):
        if why := _why(opens):
            raise refusal(where, why)


def refusal(where: str, why: str) -> ConfigurationError:
    """Return what is raised for an export that has not all records, with the reason."""
    return ConfigurationError(
        f"{where} is not an export of all records ({why}): what it lacks is not gone, so nothing "
        "can be deleted for it. Import it without deleting what is missing (--delete-missing), or "
        "export everything. Nothing was imported."
    )


def why_narrowed(request: object) -> str:
    """Return why an export that was asked for so may lack records, empty where it has all."""
    if not isinstance(request, str) or not request.strip():
        return _UNTOLD
    if request.startswith(_COMMAND):
        given = request.removeprefix(_COMMAND).split()
        narrows = dict.fromkeys(one for one in given if one not in _OF_FORM)
        asked = " ".join(one for one in narrows if one.startswith("--")) or " ".join(narrows)
        return f"asked for with {address.shown(asked, 100)}" if narrows else ""
    left_out = address.left_out(request)
    return f"asked for with {left_out}" if left_out else ""


def _why(opens: Callable[[], BinaryIO]) -> str:
    try:
        with opens() as file:
            content = fhir_json.loads(file.read(_LONGEST))
    except (OSError, Broken, ValueError):
        return f"{_UNTOLD}: {MANIFEST} cannot be read"
    if not isinstance(content, dict) or not isinstance(content.get("output"), list):
        # Something else that has this name.
        return ""
    return why_narrowed(content.get("request"))


def _manifests(
    paths: Sequence[Path], archives: Archives
) -> Iterator[tuple[str, Callable[[], BinaryIO]]]:
    """Yield what opens the manifests in folders and archives, and beside files, each once."""
    known: set[Path] = set()
    for path in paths:
        for file in path.rglob("*") if path.is_dir() else [path]:
            if not file.is_file():
                continue
            beside = file.with_name(MANIFEST)
            if beside not in known and beside.is_file():
                yield shown(file.parent), partial(_opened, beside)
            known.add(beside)
            yield from _members(file, archives)


def _members(path: Path, archives: Archives) -> Iterator[tuple[str, Callable[[], BinaryIO]]]:
    try:
        members = archives.members(path) if is_archive(path) else []
    except (OSError, Broken):
        # It is rejected when its turn comes.
        return
    for member, _, opens in members:
        if Path(member).name == MANIFEST:
            yield shown(path), partial(opens, _nobody)


def _opened(path: Path) -> BinaryIO:
    return path.open("rb")


def _nobody(_count: int) -> None:
    return None


# So few may go without being asked for twice, if others stay.
FEW = 10
_PAGE = 1_000


def count(
    definitions: Mapping[str, Definition], source_id: int | None, scratch: Scratch
) -> tuple[int, int]:
    """Return how many resources of a source did not come, and how many it has in all."""
    gone = sum(len(ids) for _, ids in pages(definitions, source_id, scratch))
    all_of_it = 0
    with db.engine.connect() as connection:
        for definition in definitions.values():
            columns = definition.table.c
            held = select(func.count()).where(columns.is_current, columns.source_id == source_id)
            all_of_it += connection.execute(held).scalar_one()
    return gone, all_of_it


def pages(
    definitions: Mapping[str, Definition], source_id: int | None, scratch: Scratch
) -> Iterator[tuple[Definition, list[str]]]:
    """Yield the ids of what did not come; documents before their bytes, records before people."""
    if source_id is None:
        return
    for definition in sorted(definitions.values(), key=lambda one: -one.rank):
        if definition.view:
            continue
        columns, last = definition.table.c, 0
        while True:
            held = (
                select(columns.pk, columns.id)
                .where(columns.is_current, columns.source_id == source_id, columns.pk > last)
                .order_by(columns.pk)
                .limit(_PAGE)
            )
            with db.engine.connect() as connection:
                rows = connection.execute(held).all()
            if not rows:
                break
            last = rows[-1].pk
            unseen = scratch.unseen(definition.name, [row.id for row in rows])
            if unseen:
                yield definition, unseen
