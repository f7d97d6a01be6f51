"""How a transaction writes, each page once; and what is left of one whose database went away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import text

from fhirapp.db import db, writing
from tests.support.databases import POSTGRESQL

IO = Path("/proc/self/io")


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """Return an app with a table of 8 MB: more than SQLite holds in memory of itself."""
    app = make_app(seed=False)
    with app.app_context(), writing() as connection:
        connection.exec_driver_sql("CREATE TABLE plenty (pk INTEGER PRIMARY KEY, held BLOB)")
        connection.exec_driver_sql(
            "WITH RECURSIVE n(pk) AS (SELECT 1 UNION ALL SELECT pk + 1 FROM n WHERE pk < 500) "
            "INSERT INTO plenty SELECT pk, zeroblob(16000) FROM n"
        )
    return app


def written(app: Flask, *, much: bool) -> int:
    """Return how many bytes a transaction writes that goes through the table five times."""
    with app.app_context():
        before = _bytes()
        with writing(much=much) as connection:
            for _ in range(5):
                for pk in range(1, 501):
                    asked = "UPDATE plenty SET held = randomblob(16000) WHERE pk = ?"
                    connection.exec_driver_sql(asked, (pk,))
        return _bytes() - before


def _bytes() -> int:
    counts = dict(line.split(": ") for line in IO.read_text().splitlines())
    return int(counts["wchar"])


@pytest.mark.skipif(not IO.exists(), reason="only Linux counts what is written")
def test_who_writes_much_writes_each_page_once(app: Flask) -> None:
    assert written(app, much=False) > 35_000_000
    assert written(app, much=True) < 20_000_000


@pytest.mark.databases(POSTGRESQL)
def test_an_answer_stays_where_its_session_is_lost_at_the_end(own_app: Flask) -> None:
    def answer() -> str:
        pid = db.session.execute(text("SELECT pg_backend_pid()")).scalar_one()
        with db.engine.connect() as connection:
            # True once it has ended.
            connection.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
        return "answered"

    own_app.add_url_rule("/answer", view_func=answer)
    client = own_app.test_client()
    assert [client.get("/answer").text for _ in range(3)] == ["answered"] * 3
