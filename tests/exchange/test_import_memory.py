"""What an import leaves in memory: of a batch, nothing."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from sqlalchemy import Column, MetaData, String, Table, create_engine, select
from sqlalchemy.sql.elements import BindParameter

from fhirapp.exchange.imports.batches import collect, tune_gc
from tests.support.effort import sample


@pytest.fixture
def _as_before() -> Iterator[None]:
    """Leave the collector of the tests as it was."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("_as_before")
def test_statements_of_batches_do_not_pile_up() -> None:
    engine = create_engine("sqlite://")
    table = Table("held", MetaData(), Column("id", String, primary_key=True))
    tune_gc()
    with engine.begin() as connection:
        table.create(connection)
        for batch in range(sample(40, 300)):
            ids = [f"{batch}-{number}" for number in range(1_000)]
            connection.execute(select(table).where(table.c.id.in_(ids))).all()
            collect()
    held = [one for one in gc.get_objects() if isinstance(one, BindParameter)]
    assert len(held) < 20
