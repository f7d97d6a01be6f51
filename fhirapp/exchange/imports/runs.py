"""Runs of imports: noted as they begin and end, and told in Provenance: what was loaded, when.

Patients read a Provenance. It names the source and the run, no file and nobody who has an account
here: a file may be called after another patient.

Source: FHIR R4 provenance §6.3; US Core's Provenance (an author or transmitter, and when).

What may be chosen of an import.
A copy of the database, to try an import in: what it would do is told, and nothing stays.
How a process that imports collects garbage.
"""

from __future__ import annotations

import gc
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from sqlalchemy import Connection, func, insert, literal, select, union_all, update

from fhirapp.config import ConfigurationError, Settings, sqlite_url
from fhirapp.definition import Definition
from fhirapp.disk import database_path, scratch
from fhirapp.exchange.models import ImportRun, ImportSource
from fhirapp.store.prepare import prepare
from fhirapp.store.publish import Publisher

# What may be put before every id: with it, most ids stay within 64 characters.
PREFIX = re.compile(r"[A-Za-z0-9.-]{0,20}")


@dataclass(frozen=True)
class Options:
    """How to import.

    source names where the records come from; delete_missing deletes what that source holds no
    more, force even where that is most of it. prefix is put before every id. bases are addresses
    of FHIR servers, each with its last slash, whose absolute references mean records here. who
    gave the command.
    """

    source: str = ""
    delete_missing: bool = False
    force: bool = False
    repair: bool = False
    prefix: str = ""
    bases: Sequence[str] = ()
    provenance: bool = True
    rejected: Path | None = None
    who: str = ""


class Trial(NamedTuple):
    """Where a copy is: the address of its database, the folder that takes the place of instance."""

    database_url: str
    instance_path: str


@contextmanager
def trial_copy(settings: Settings) -> Iterator[Trial]:
    """Copy the database as it is now, for as long as the context lasts.

    Raises ConfigurationError.
    """
    path = database_path(settings)
    if path is None:
        raise ConfigurationError(
            "A dry run works on a copy of the database, which is made of SQLite's alone; on "
            "PostgreSQL restore a dump into a database of its own, and import there."
        )
    settings.instance.mkdir(parents=True, exist_ok=True)
    with scratch(settings.instance) as folder:
        # Below it: the folder itself is held.
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
        yield Trial(sqlite_url(copy), str(instance))


def collect_young() -> None:
    """Look for cycles from now on among what is made from now on, and hardly within a batch."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 2, 2)


def collect() -> None:
    """Free the cycles of the batch that ended, in a process that collects what is young."""
    if gc.get_freeze_count():
        gc.collect()


# Targets of one Provenance.
_TARGETS = 500
# What FHIR takes in no string.
_NO_TEXT = re.compile(r"[\x00-\x1f\x7f]")
# Provenances that are published at once.
_BATCH = 500
# Bytes and provenance itself need none.
_WITHOUT = ("Binary", "Provenance")
_AGENT_TYPE = "http://terminology.hl7.org/CodeSystem/provenance-participant-type"
_ACTIVITY = "http://terminology.hl7.org/CodeSystem/v3-DataOperation"


class Run(NamedTuple):
    """A run that began: its number, its source's, the last row of each type before it.

    untold has the last rows before runs that were killed, which told of nothing.
    """

    id: int
    source_id: int | None
    last_rows: Mapping[str, int]
    untold: Mapping[str, int]
    source: str = ""


def begin(
    connection: Connection,
    definitions: Mapping[str, Definition],
    inputs: Sequence[str],
    options: Options,
    now: str,
) -> Run:
    """Note that a run begins; what earlier ones published that were killed is told with it."""
    last_rows = {
        name: connection.execute(select(func.max(one.table.c.pk))).scalar() or 0
        for name, one in definitions.items()
        if not one.view
    }
    untold = last_rows
    killed = select(ImportRun.last_rows).where(ImportRun.ended_at.is_(None))
    for (rows,) in connection.execute(killed).all():
        untold = {name: min(last, rows.get(name, last)) for name, last in untold.items()}
    connection.execute(update(ImportRun).where(ImportRun.ended_at.is_(None)).values(ended_at=now))
    source_id = _source_id(connection, options.source) if options.source else None
    row = {
        "inputs": [*inputs],
        "who": options.who,
        "source_id": source_id,
        "began_at": now,
        "last_rows": untold,
    }
    run_id = connection.execute(insert(ImportRun).values(row).returning(ImportRun.id)).scalar_one()
    return Run(run_id, source_id, last_rows, untold, options.source)


def end(connection: Connection, run: Run, now: str, outcome: Any) -> None:
    """Note that a run ended, and what came of it."""
    connection.execute(
        update(ImportRun).where(ImportRun.id == run.id).values(ended_at=now, outcome=outcome)
    )


def provenances(
    connection: Connection, definitions: Mapping[str, Definition], run: Run, now: str
) -> Iterator[dict[str, Any]]:
    """Yield the Provenances of what a run published: one for each patient, more for many records.

    No Provenance has records of two patients: whoever may not see one of them would see neither.
    """
    loaded = _loaded(connection, definitions, run.untold)
    for _, rows in groupby(loaded, lambda row: row.patient_id):
        targets = [f"{row.type}/{row.id}/_history/{row.version_id}" for row in rows]
        for at in range(0, len(targets), _TARGETS):
            yield _provenance(targets[at : at + _TARGETS], run, now)


def write_provenance(
    publisher: Publisher,
    connection: Connection,
    definitions: Mapping[str, Definition],
    run: Run,
    now: str,
) -> int:
    """Publish the Provenances of a run; return how many."""
    definition = definitions.get("Provenance")
    if definition is None:
        return 0
    batch, count = [], 0
    for resource in provenances(connection, definitions, run, now):
        batch.append(prepare(definition, resource))
        count += 1
        if len(batch) == _BATCH:
            publisher.publish(batch)
            batch = []
            collect()
    publisher.publish(batch)
    return count


def _loaded(
    connection: Connection, definitions: Mapping[str, Definition], last_rows: Mapping[str, int]
) -> Any:
    """Return (type, id, version_id, patient_id) of what was published since, by patient."""
    parts = []
    for name, last in sorted(last_rows.items()):
        if name in definitions and name not in _WITHOUT:
            table = definitions[name].table
            columns = (literal(name).label("type"), table.c.id, table.c.version_id)
            since = (table.c.pk > last) & table.c.deleted.is_(False)
            parts.append(select(*columns, table.c.patient_id, table.c.pk).where(since))
    together = union_all(*parts).subquery()
    order = (together.c.patient_id, together.c.type, together.c.pk)
    streamed = select(together).order_by(*order).execution_options(yield_per=1_000)
    return connection.execute(streamed)


def _provenance(targets: Sequence[str], run: Run, now: str) -> dict[str, Any]:
    source = f", from {_NO_TEXT.sub('�', run.source)}" if run.source else ""
    return {
        "resourceType": "Provenance",
        # No other server's, whose Provenance may be imported here.
        "id": f"import-{uuid4()}",
        "target": [{"reference": one} for one in targets],
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


def _source_id(connection: Connection, name: str) -> int:
    asked = select(ImportSource.id).where(ImportSource.name == name)
    found = connection.execute(asked).scalar()
    if found is None:
        added = insert(ImportSource).values(name=name).returning(ImportSource.id)
        found = connection.execute(added).scalar_one()
    return int(found)
