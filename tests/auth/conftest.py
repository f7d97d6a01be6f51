"""Fixtures for the tests of clients, users and tokens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask
from sqlalchemy import Connection

from fhirapp.db import writing


@pytest.fixture
def connection(app: Flask) -> Iterator[Connection]:
    """A writing transaction of the seeded app that is undone at the end of the test."""
    with app.app_context(), writing() as opened:
        nested = opened.begin_nested()
        yield opened
        nested.rollback()
