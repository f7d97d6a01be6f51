"""Runs of imports: their options, their records in the database, and their Provenance.

Patients can read a Provenance, so it names the source and the run, but no file and no account: a
file may be named after another patient. Source: FHIR R4 provenance §6.3; US Core Provenance (an
author or transmitter, and when).
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from sqlalchemy import Connection, Row, func, insert, literal, select, union_all, update

from fhirapp.config import ConfigurationError, Settings, sqlite_url
from fhirapp.definition import Definition
from fhirapp.disk import database_path, temporary_folder
from fhirapp.store.import_models import ImportRun, ImportSource
from fhirapp.store.prepare import prepare
from fhirapp.store.publish import Publisher

# Targets of one Provenance.
_TARGETS = 500
# Provenances that are published at once.
_BATCH = 500
# Bytes and Provenance itself need no Provenance.
_EXCLUDED = ("Binary", "Provenance")
# Control characters, which a FHIR string must not hold.
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_AGENT_TYPE = "http://terminology.hl7.org/CodeSystem/provenance-participant-type"
_ACTIVITY = "http://terminology.hl7.org/CodeSystem/v3-DataOperation"


@dataclass(frozen=True)
class Options:
    """How to import.

    source is the name of the system that the records come from. delete_missing deletes what that
    source no longer holds, force even where that is most of its records. prefix is put before
    every id. bases are the addresses of FHIR servers, each with its last slash, whose absolute
    references mean records here. together says that the paths are like those in one folder: files
    without records are skipped. who is the person or account that runs the import.
    """

    source: str = ""
    delete_missing: bool = False
    force: bool = False
    repair: bool = False
    prefix: str = ""
    bases: Sequence[str] = ()
    provenance: bool = True
    rejected: Path | None = None
    together: bool = False
    who: str = ""


class DryRun(NamedTuple):
    """The settings of a dry run: the copy's address, and the folder used as instance folder."""

    database_url: str
    instance_path: str
    # Nothing of it is shared.
    files: str = ""


@contextmanager
def dry_run_copy(settings: Settings) -> Iterator[DryRun]:
    """Copy the database for as long as the context lasts. Raises ConfigurationError."""
    path = database_path(settings)
    if path is None:
        raise ConfigurationError(
            "A dry run works on a copy of the database, which only SQLite can make; on PostgreSQL "
            "restore a dump into a separate database and import there."
        )
    settings.instance.mkdir(parents=True, exist_ok=True)
    with temporary_folder(settings.instance) as folder:
        # A folder below: the scratch folder itself is locked.
        instance = folder / "instance"
        instance.mkdir()
        copy = instance / path.name
        if path.exists():
            try:
                with (
                    closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as source,
                    closing(sqlite3.connect(copy)) as target,
                ):
                    source.backup(target)
            except sqlite3.Error as error:
                raise ConfigurationError(
                    f"The database {path} cannot be copied for a dry run ({error})."
                ) from None
        yield DryRun(sqlite_url(copy), str(instance))


class ActiveRun(NamedTuple):
    """A run that began: its number, its source, and the last row of each type before it.

    unreported has the last rows before the earliest run that was killed, whose versions no report
    and no Provenance has named yet.
    """

    id: int
    source_id: int | None
    last_rows: Mapping[str, int]
    unreported: Mapping[str, int]
    source: str = ""


def begin(
    connection: Connection,
    definitions: Mapping[str, Definition],
    inputs: Sequence[str],
    options: Options,
    now: str,
) -> ActiveRun:
    """Record that a run begins; it takes over what killed runs published."""
    last_rows = {
        name: connection.execute(select(func.max(definition.table.c.pk))).scalar() or 0
        for name, definition in definitions.items()
        if not definition.view
    }
    unreported = last_rows
    is_open = ImportRun.ended_at.is_(None)
    for rows in connection.execute(select(ImportRun.last_rows).where(is_open)).scalars().all():
        unreported = {name: min(last, rows.get(name, last)) for name, last in unreported.items()}
    connection.execute(update(ImportRun).where(is_open).values(ended_at=now))
    source_id = _source_id(connection, options.source) if options.source else None
    row = {
        "inputs": [*inputs],
        "who": options.who,
        "source_id": source_id,
        "began_at": now,
        "last_rows": unreported,
    }
    run_id = connection.execute(insert(ImportRun).values(row).returning(ImportRun.id)).scalar_one()
    return ActiveRun(run_id, source_id, last_rows, unreported, options.source)


def _source_id(connection: Connection, name: str) -> int:
    known = connection.execute(select(ImportSource.id).where(ImportSource.name == name)).scalar()
    if known is not None:
        return known
    added = insert(ImportSource).values(name=name).returning(ImportSource.id)
    return connection.execute(added).scalar_one()


def end(connection: Connection, run: ActiveRun, now: str, outcome: Any) -> None:
    """Record that a run ended, and its counts."""
    connection.execute(
        update(ImportRun).where(ImportRun.id == run.id).values(ended_at=now, outcome=outcome)
    )


def write_provenance(
    publisher: Publisher, definitions: Mapping[str, Definition], run: ActiveRun
) -> None:
    """Publish the Provenances of a run."""
    definition = definitions.get("Provenance")
    if definition is not None:
        resources = provenances(publisher.connection, definitions, run, publisher.now)
        while batch := [prepare(definition, resource) for resource in islice(resources, _BATCH)]:
            publisher.publish(batch)


def provenances(
    connection: Connection, definitions: Mapping[str, Definition], run: ActiveRun, now: str
) -> Iterator[dict[str, Any]]:
    """Yield the Provenances of what a run published: one or more for each patient.

    No Provenance has targets of two patients: whoever may not see one of them would see neither.
    """
    for _, rows in groupby(_published(connection, definitions, run), lambda row: row.patient_id):
        targets = [f"{row.type}/{row.id}/_history/{row.version_id}" for row in rows]
        for start in range(0, len(targets), _TARGETS):
            yield _provenance(targets[start : start + _TARGETS], run, now)


def _published(
    connection: Connection, definitions: Mapping[str, Definition], run: ActiveRun
) -> Iterator[Row[Any]]:
    """Return (type, id, version_id, patient_id) of what was published, by patient."""
    parts = []
    for name, last in sorted(run.unreported.items()):
        if name in definitions and name not in _EXCLUDED:
            columns = definitions[name].table.c
            parts.append(
                select(
                    literal(name).label("type"),
                    columns.id,
                    columns.version_id,
                    columns.patient_id,
                    columns.pk,
                ).where(columns.pk > last, columns.deleted.is_(False))
            )
    rows = union_all(*parts).subquery().c
    ordered = select(*rows).order_by(rows.patient_id, rows.type, rows.pk)
    return connection.execute(ordered.execution_options(yield_per=1_000))


def _provenance(targets: Sequence[str], run: ActiveRun, now: str) -> dict[str, Any]:
    source = f", from {_CONTROL.sub('�', run.source)}" if run.source else ""
    return {
        "resourceType": "Provenance",
        # Random: a Provenance of another server, imported here, must not have the same id.
        "id": f"import-{uuid4()}",
        "target": [{"reference": target} for target in targets],
        "recorded": now,
        "activity": {
            "coding": [{"system": _ACTIVITY, "code": "CREATE", "display": "create"}],
            "text": "Imported into this server",
        },
        "agent": [
            {
                "type": {
                    "coding": [{"system": _AGENT_TYPE, "code": "assembler", "display": "Assembler"}]
                },
                "who": {"display": "fhirapp import"},
            }
        ],
        "entity": [{"role": "source", "what": {"display": f"import {run.id}{source}"}}],
    }
