"""The probe of the last import, and the step that imports the first records."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from sqlalchemy import select

from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.feature import N_
from fhirapp.fhir.temporal import moment_of
from fhirapp.probe import GOOD, NOTE, Counts, Finding, Gauge, Moment, Probe, SetupStep
from fhirapp.store.import_models import ImportRun

_PATH = "/admin/imports"


def _last_import() -> Iterator[Finding | Gauge]:
    runs = select(ImportRun).order_by(ImportRun.id.desc())
    last = db.session.scalars(runs.limit(1)).first()
    if last is not None and last.ended_at is None:
        values = {"time": _moment(last.began_at), "who": last.who or "?"}
        text = N_(
            "The last import, of %(time)s by %(who)s, has not finished: it is still running or was "
            "interrupted."
        )
        yield Finding(NOTE, text, path=_PATH, values=values)
    elif last is not None:
        values = {
            "time": _moment(last.ended_at),
            "who": last.who or "?",
            "counts": _counts(last.outcome),
        }
        text = N_("The last import ended %(time)s, by %(who)s: %(counts)s.")
        yield Finding(GOOD, text, path=_PATH, values=values)
    if not _has_records():
        yield Finding(NOTE, N_("There are no records yet. Import some."), path=_PATH)
    ended = db.session.scalars(runs.where(ImportRun.ended_at.is_not(None)).limit(1)).first()
    if ended is None:
        return
    age = time.time() - _moment(ended.ended_at)
    yield Gauge("import_age_seconds", "Time since the last import ended", age)
    for name, counts in (ended.outcome or {}).items():
        for outcome, count in counts.items():
            labels = {"type": name, "outcome": outcome}
            yield Gauge("import_resources", "Resources of the last import", count, labels)


def _moment(instant: str | None) -> Moment:
    return Moment(moment_of(instant or "").timestamp())


def _counts(outcome: Any) -> Counts:
    """Return the numbers of an import, of all types together: 7 new, 1 unchanged."""
    counts: Counter[str] = Counter()
    for of_type in (outcome or {}).values():
        counts.update(of_type)
    return Counts(
        {"unchanged" if name == "same" else name: count for name, count in counts.items()}
    )


def _has_records() -> bool:
    tables = [definition.table for definition in types().values() if not definition.view]
    return any(
        db.session.execute(select(table.c.pk).where(table.c.is_current).limit(1)).first()
        for table in tables
    )


def import_records() -> SetupStep:
    """Return the step that imports the first records."""
    description = N_(
        "FHIR, C-CDA or tables. Begin with a dry run: it shows the result, and stores nothing."
    )
    return SetupStep(30, N_("Import the first records"), description, _PATH, _has_records())


PROBES = (Probe(N_("Imports"), _last_import),)
