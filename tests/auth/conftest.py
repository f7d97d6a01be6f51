"""Fixtures for the tests of clients, users and tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from flask import Flask
from sqlalchemy import Connection

from fhirapp.auth.models import CLINICIAN
from fhirapp.db import writing
from tests.support.browsing import add_person


@pytest.fixture
def connection(app: Flask) -> Iterator[Connection]:
    """A writing transaction of the seeded app that is undone at the end of the test."""
    with app.app_context(), writing() as opened:
        nested = opened.begin_nested()
        yield opened
        nested.rollback()


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app with users of its own."""
    return make_app()


@pytest.fixture
def person(clinic: Flask) -> str:
    """A clinician's user name."""
    return add_person(clinic, CLINICIAN)
