"""Bodies and index rows can be made anew from the columns, and come out the same."""

from __future__ import annotations

import pytest
from flask import Flask
from sqlalchemy import delete, update

from fhirapp.db import db, writing
from fhirapp.definition import types
from fhirapp.ops.backups.drill import read_everything
from fhirapp.ops.check import Faults
from fhirapp.ops.prepare import prepare
from fhirapp.search.fulltext import full_text, words_table
from fhirapp.store.migrate import reindex
from fhirapp.store.version import GENERATION, INDEX, StoreState, get_state
from fhirapp.store.write import stored_rendering
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.importing import asking
from tests.support.reindexing import RENDERING, contents

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)


def test_reindexing_the_seed_changes_nothing(make_app):
    app = make_app()
    before = contents(app)
    with app.app_context(), writing() as connection:
        count = reindex(connection, types(), RENDERING)
    assert contents(app) == before
    assert count == sum(len(before[definition]) for definition in table_names(app))


def table_names(app: Flask) -> list[str]:
    """Return the names of the resource tables."""
    return [definition.table.name for definition in types(app).values()]


def test_bodies_and_index_rows_that_were_lost_come_back(make_app):
    app = make_app()
    before = contents(app)
    with app.app_context(), writing() as connection:
        for definition in types().values():
            connection.execute(update(definition.table).values(body=None))
            for table in definition.tables:
                connection.execute(delete(table))
    assert contents(app) != before
    with app.app_context(), writing() as connection:
        reindex(connection, types(), RENDERING)
    assert contents(app) == before


def test_reindexing_raises_the_generation(make_app):
    app = make_app()
    with app.app_context(), writing() as connection:
        before = int(get_state(connection, GENERATION) or 0)
        reindex(connection, types(), RENDERING)
        assert int(get_state(connection, GENERATION) or 0) > before


def test_a_start_with_other_settings_makes_the_bodies_anew(make_app, new_database):
    url = new_database()
    app = make_app(database_url=url)
    path = "DocumentReference/doc-p1-ed-2024"
    assert "data" in asking(app).read(path)["content"][0]["attachment"]
    smaller = make_app(seed=False, database_url=url, inline_max=10)
    attachment = asking(smaller).read(path)["content"][0]["attachment"]
    assert "data" not in attachment
    assert attachment["size"] == 994
    version = asking(smaller).read(path)["meta"]
    again = make_app(seed=False, database_url=url)
    found = asking(again).read(path)
    assert "data" in found["content"][0]["attachment"]
    assert found["meta"] == version


def test_a_document_without_content_follows_the_setting(make_app, new_database):
    url = new_database()
    path = "DocumentReference/doc-p9-lab-2025-03"
    assert "content" not in asking(make_app(database_url=url)).read(path)
    absent = make_app(seed=False, database_url=url, empty_content="dar")
    extension = asking(absent).read(path)["content"][0]["attachment"]["_url"]["extension"]
    assert extension[0]["url"] == "http://hl7.org/fhir/StructureDefinition/data-absent-reason"


def test_a_start_with_the_same_settings_does_not_reindex(make_app):
    app = make_app()
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


def test_a_database_of_older_rules_is_read_and_indexed_anew(make_app, new_database):
    url = new_database()
    app = make_app(database_url=url)
    before = contents(app)
    search = "DocumentReference?_content=discharge&patient=p1"
    found = asking(app).ids(search)
    assert found
    as_older_release(app)
    assert asking(app).ids(search) == []
    said: list[str] = []
    prepare(app, said.append)
    count = sum(len(before[name]) for name in table_names(app))
    assert said == [f"The search index was rebuilt by this release's rules: {count} versions."]
    assert contents(app) == before
    assert asking(app).ids(search) == found
    prepare(app, said.append, serving=True)
    assert len(said) == 1


def test_a_database_of_older_rules_is_no_fault_of_a_backup(make_app):
    app = make_app()
    for is_older in (False, True):
        if is_older:
            as_older_release(app)
        faults = Faults()
        with app.app_context():
            read_everything(faults, db.engine, types(), RENDERING)
        assert faults.lines() == []
