"""Imports that are killed at random moments, again and again: run as a process of its own.

    python -m tests.support.killed FOLDER KILLS

FOLDER has `records`, what is imported. Prints JSON: how often an import was killed, how many ended,
the faults that a check found after any of them, and whether each that ended left what one that was
never killed does.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from flask import Flask
from sqlalchemy import text

from fhirapp import create_app
from fhirapp.config import load_settings, settings_of
from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.exchange.imports import batches as imports_batches
from fhirapp.exchange.imports.importer import import_paths
from fhirapp.ops.check import check_database
from fhirapp.ops.prepare import prepare

# Many small transactions: there are more moments between them.
imports_batches.MAX_RECORDS = 15


def app_in(folder: Path) -> Flask:
    """Return an app whose database is ready, and closed again."""
    app = create_app(load_settings({"FHIRAPP_INSTANCE_PATH": str(folder)}))
    prepare(app, lambda _said: None)
    return app


def load(app: Flask, records: Path) -> None:
    with app.app_context():
        report = import_paths([records], types(), settings_of(app))
    assert report.complete, report.rejected


def content(app: Flask) -> dict[str, list[str]]:
    """Return every version of every resource, without its time, and what it is found by.

    What tells of imports is left out: there are more of them where one was killed.
    """
    found: dict[str, list[str]] = {}
    with app.app_context(), db.engine.connect() as connection:
        for name, definition in types().items():
            if name == "Provenance":
                continue
            table = definition.table.name
            asked = f'SELECT id, version_id, is_current, digest, patient_id FROM "{table}"'
            found[name] = sorted(str(tuple(row)) for row in connection.execute(text(asked)))
            for index in definition.tables:
                columns = ", ".join(f"i.{one.name}" for one in index.columns if one.name != "pk")
                asked = f'SELECT t.id, {columns} FROM "{index.name}" i JOIN "{table}" t USING (pk)'
                rows = connection.execute(text(asked))
                found[index.name] = sorted(str(tuple(row)) for row in rows)
    return found


def told(app: Flask) -> list[str]:
    """Return the versions that a Provenance of an import tells of."""
    with app.app_context(), db.engine.connect() as connection:
        bodies = connection.execute(text("SELECT body FROM provenance WHERE id LIKE 'import-%'"))
        return sorted(
            target["reference"] for (body,) in bodies for target in json.loads(body)["target"]
        )


def faults(app: Flask) -> list[str]:
    with app.app_context():
        return check_database(db.engine, types(), quick=False).faults


def forked(answer: Path, work: Callable[..., Any], *arguments: Any) -> int:
    """Begin work in a process of its own, which writes what it returns; return its number."""
    child = os.fork()
    if child == 0:
        try:
            answer.write_text(json.dumps(work(*arguments)))
            os._exit(0)
        finally:
            os._exit(1)
    return child


def done(answer: Path, work: Callable[..., Any], *arguments: Any) -> Any:
    """Do work in a process of its own; return its answer."""
    _, status = os.waitpid(forked(answer, work, *arguments), 0)
    assert status == 0, "it failed: see standard error"
    return json.loads(answer.read_text())


def main(folder: Path, kills: int) -> None:
    records, answer = folder / "records", folder / "answer.json"
    random = Random(20)
    # Nothing is open here: what is open must not be carried into another process.
    whole = app_in(folder / "whole")
    began = time.perf_counter()
    done(answer, load, whole, records)
    lasts = time.perf_counter() - began
    expected = done(answer, content, whole)
    expected_told = done(answer, told, whole)
    killed = ended = 0
    wrong: list[str] = []
    differing: list[str] = []
    app = app_in(folder / "part")
    while killed < kills or not ended:
        child = forked(answer, load, app, records)
        time.sleep(random.uniform(0, lasts))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        wrong += done(answer, faults, app)
        if os.WIFSIGNALED(status):
            killed += 1
            if random.random() > 0.1:
                continue
            # Now and then one is let to its end.
            done(answer, load, app, records)
        ended += 1
        there = done(answer, content, app)
        differing += [name for name in expected if there[name] != expected[name]]
        if done(answer, told, app) != expected_told:
            differing.append("Provenance")
        shutil.rmtree(folder / "part")
        app = app_in(folder / "part")
    found = {"killed": killed, "ended": ended, "faults": wrong, "differing": differing}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
