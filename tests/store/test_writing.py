"""A database session that is lost at the end of a request does not lose the answer."""

from __future__ import annotations

import pytest
from flask import Flask
from sqlalchemy import text

from fhirapp.db import db
from tests.support.databases import POSTGRESQL


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
