"""Apps and users for the explorer's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from flask import Flask

from fhirapp.auth.models import CLINICIAN
from tests.support.browsing import Browser
from tests.support.helpers import BASE_URL
from tests.support.pages import browser_of


@pytest.fixture(scope="package")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """The seeded app, not in demo mode."""
    return make_app()


@pytest.fixture(scope="package")
def demo(make_app: Callable[..., Flask]) -> Flask:
    """An app in demo mode."""
    return make_app(demo=True)


@pytest.fixture
def clinician(clinic: Flask) -> Browser:
    """The browser of a new clinician, who has sent nothing yet."""
    return browser_of(clinic, CLINICIAN)


@pytest.fixture
def in_app(clinic: Flask) -> Iterator[None]:
    """A request to the app."""
    with clinic.test_request_context(base_url=BASE_URL):
        yield
