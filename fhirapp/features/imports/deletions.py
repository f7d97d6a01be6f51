"""Deletions: what a source held before and no longer holds.

An export of a part does not show what is gone, so a deletion is refused for it: the manifest beside
its files holds the request that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import func, select

from fhirapp.config import ConfigurationError
from fhirapp.db import db
from fhirapp.definition import Definition
from fhirapp.features.imports import export_address
from fhirapp.features.imports.archives import Archives, Broken, is_archive
from fhirapp.features.imports.inputs import path_text
from fhirapp.features.imports.skipped import MANIFEST
from fhirapp.features.imports.staging import Stage
from fhirapp.fhir import json as fhir_json
from fhirapp.store.prepare import CARRIES

# The most that are deleted without --force even where they are most of a source's records.
FEW = 10
_PAGE = 1_000
_COMMAND = "fhirapp export"
# Options of the command that leave nothing out.
_COMPLETE_OPTIONS = frozenset({"--history", "--gzip"})
_LONGEST_MANIFEST = 20_000_000
_UNKNOWN = "how it was requested is not known"


def count_missing(
    definitions: Mapping[str, Definition], source_id: int | None, stage: Stage
) -> tuple[int, int]:
    """Return how many resources of a source did not come, and how many it has in all."""
    missing = sum(len(ids) for _, ids in missing_pages(definitions, source_id, stage))
    total = 0
    with db.engine.connect() as connection:
        for definition in definitions.values():
            columns = definition.table.c
            current = select(func.count()).where(columns.is_current, columns.source_id == source_id)
            total += connection.execute(current).scalar_one()
    return missing, total


def missing_pages(
    definitions: Mapping[str, Definition], source_id: int | None, stage: Stage
) -> Iterator[tuple[Definition, list[str]]]:
    """Yield the ids of what did not come; documents before their bytes, records before people."""
    if source_id is None:
        return
    for definition in sorted(definitions.values(), key=lambda definition: -definition.rank):
        if definition.view:
            continue
        columns, last = definition.table.c, 0
        while True:
            page = (
                select(columns.pk, columns.id)
                .where(columns.is_current, columns.source_id == source_id, columns.pk > last)
                .order_by(columns.pk)
                .limit(_PAGE)
            )
            with db.engine.connect() as connection:
                rows = connection.execute(page).all()
            if not rows:
                break
            last = rows[-1].pk
            absent = stage.absent(definition.name, [row.id for row in rows])
            if definition.name == "Binary":
                absent = _not_carried(definitions, source_id, stage, absent)
            if absent:
                yield definition, absent


def _not_carried(
    definitions: Mapping[str, Definition], source_id: int, stage: Stage, ids: Sequence[str]
) -> list[str]:
    """Return which Binaries hold the bytes of no document that stays."""
    carried: set[str] = set()
    for definition in definitions.values():
        if not definition.attachments or definition.view:
            continue
        columns, index = definition.table.c, definition.tables.reference.c
        query = (
            select(index.target_id, columns.id, columns.source_id)
            .where(index.param == CARRIES, index.target_id.in_(ids))
            .where(columns.pk == index.pk, columns.is_current)
        )
        with db.engine.connect() as connection:
            rows = connection.execute(query).all()
        own = [row.id for row in rows if row.source_id == source_id]
        missing = {*stage.absent(definition.name, own)}
        carried.update(
            row.target_id for row in rows if row.source_id != source_id or row.id not in missing
        )
    return [resource_id for resource_id in ids if resource_id not in carried]


def refuse_partial_exports(paths: Sequence[Path], spool: Path, archives: Archives) -> None:
    """Raise ConfigurationError for deletions by partial exports; spool has piped input."""
    for name, opens in _manifests([*paths, *sorted(spool.iterdir())], archives):
        if reason := _manifest_reason(opens):
            raise partial_export_error(name, reason)


def partial_export_error(name: str, reason: str) -> ConfigurationError:
    """Return the error for an export that may lack records."""
    return ConfigurationError(
        f"{name} is not an export of all records ({reason}): a record that it lacks may still "
        "exist, so nothing can be deleted for it. Import it without deleting what is missing "
        "(--delete-missing), or export everything. Nothing was imported."
    )


def partial_export_reason(request: object) -> str:
    """Return why an export with this request may lack records, "" where it has all."""
    if not isinstance(request, str) or not request.strip():
        return _UNKNOWN
    if request.startswith(_COMMAND):
        arguments = request.removeprefix(_COMMAND).split()
        limits = dict.fromkeys(word for word in arguments if word not in _COMPLETE_OPTIONS)
        names = [word for word in limits if word.startswith("--")] or limits
        return f"requested with {export_address.sanitize(' '.join(names), 100)}" if limits else ""
    restriction = export_address.restriction_of(request)
    return f"requested with {restriction}" if restriction else ""


def _manifest_reason(opens: Callable[[], BinaryIO]) -> str:
    try:
        with opens() as file:
            content = fhir_json.loads(file.read(_LONGEST_MANIFEST))
    except (OSError, Broken, ValueError):
        return f"{_UNKNOWN}: {MANIFEST} cannot be read"
    if not isinstance(content, dict) or not isinstance(content.get("output"), list):
        # Another kind of file with this name.
        return ""
    return partial_export_reason(content.get("request"))


def _manifests(
    paths: Sequence[Path], archives: Archives
) -> Iterator[tuple[str, Callable[[], BinaryIO]]]:
    """Yield (name, opener) of the manifests in folders and archives, and beside files, once."""
    known: set[Path] = set()
    for path in paths:
        for file in path.rglob("*") if path.is_dir() else [path]:
            if not file.is_file():
                continue
            beside = file.with_name(MANIFEST)
            if beside not in known and beside.is_file():
                yield path_text(file.parent), partial(_open, beside)
            known.add(beside)
            try:
                members = archives.members(file) if is_archive(file) else []
            except (OSError, Broken):
                # It is rejected when its turn comes.
                continue
            for member in members:
                if Path(member.name).name == MANIFEST:
                    yield path_text(file), partial(member.opens, lambda _count: None)


def _open(path: Path) -> BinaryIO:
    return path.open("rb")
