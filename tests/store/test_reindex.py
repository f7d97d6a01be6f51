"""Bodies and index rows are rebuilt from the columns, and come out the same."""

from __future__ import annotations

import pytest
from flask import Flask
from sqlalchemy import delete, update

from fhirapp.db import db, writing
from fhirapp.definition import types
from fhirapp.search.fulltext import full_text, words_table
from fhirapp.server.check import Depth, check_database
from fhirapp.server.prepare import prepare
from fhirapp.store.migrate import reindex
from fhirapp.store.version import GENERATION, INDEX, StoreState, get_state
from fhirapp.store.write import stored_rendering
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.importing import asking
from tests.support.reindexing import RENDERING, contents


def table_names(app: Flask) -> list[str]:
    """Return the names of the resource tables."""
    return [definition.table.name for definition in types(app).values()]


BOTH = pytest.mark.databases(SQLITE, POSTGRESQL)


@BOTH
def test_lost_bodies_and_index_rows_are_rebuilt(own_app):
    before = contents(own_app)
    with own_app.app_context(), writing() as connection:
        for definition in types().values():
            connection.execute(update(definition.table).values(body=None))
            for table in definition.tables:
                connection.execute(delete(table))
    assert contents(own_app) != before
    with own_app.app_context(), writing() as connection:
        generation = int(get_state(connection, GENERATION) or 0)
        count = reindex(connection, types(), RENDERING)
        assert int(get_state(connection, GENERATION) or 0) > generation
    assert contents(own_app) == before
    assert count == sum(len(before[name]) for name in table_names(own_app))


@pytest.mark.campaign
def test_start_with_other_settings_rebuilds_bodies_of_the_same_versions(make_app, new_database):
    """A start with other settings makes bodies again, and versions stay as they are."""
    url = new_database()
    app = make_app(database_url=url)
    path, empty = "DocumentReference/doc-p1-ed-2024", "DocumentReference/doc-p9-lab-2025-03"
    assert "data" in asking(app).read(path)["content"][0]["attachment"]
    assert "content" not in asking(app).read(empty)
    changed = asking(make_app(seed=False, database_url=url, inline_max=10, empty_content="dar"))
    attachment = changed.read(path)["content"][0]["attachment"]
    assert ("data" in attachment, attachment["size"]) == (False, 994)
    extension = changed.read(empty)["content"][0]["attachment"]["_url"]["extension"]
    assert extension[0]["url"] == "http://hl7.org/fhir/StructureDefinition/data-absent-reason"
    version = changed.read(path)["meta"]
    found = asking(make_app(seed=False, database_url=url)).read(path)
    assert "data" in found["content"][0]["attachment"]
    assert found["meta"] == version


def test_start_with_the_same_settings_does_not_reindex(own_app):
    app = own_app
    said: list[str] = []
    prepare(app, said.append, serving=True)
    assert said == []
    with app.app_context(), writing() as connection:
        assert stored_rendering(connection) == RENDERING


OLD_WORDS = "patient takes 2 5 mg old"


def as_older_release(app: Flask) -> None:
    """Leave a database as a release before the rules of now: other words, rows and no number."""
    with app.app_context(), writing() as connection:
        binary = types()["Binary"].table
        connection.execute(update(binary).values(words=OLD_WORDS))
        connection.execute(delete(types()["DocumentReference"].tables.token))
        words = words_table(types()["DocumentReference"].tables)
        full_text().clear(connection, words)
        connection.execute(delete(StoreState).where(StoreState.name == INDEX))


@BOTH
@pytest.mark.campaign
def test_database_of_older_rules_is_indexed_again(make_app, new_database):
    url = new_database()
    app = make_app(database_url=url)
    before = contents(app)
    search = "DocumentReference?_content=discharge&patient=p1"
    found = asking(app).ids(search)
    assert found
    as_older_release(app)
    assert asking(app).ids(search) == []
    with app.app_context():
        # The next start makes the index anew.
        assert check_database(db.engine, types(), Depth.CONTENT).faults == []
    said: list[str] = []
    prepare(app, said.append)
    count = sum(len(before[name]) for name in table_names(app))
    assert said == [f"The search index was rebuilt by this release's rules: {count} versions."]
    assert contents(app) == before
    assert asking(app).ids(search) == found
    prepare(app, said.append, serving=True)
    assert len(said) == 1
