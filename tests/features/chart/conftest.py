"""The seeded app, in which tests of the chart publish patients of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask

from fhirapp.auth.models import CLINICIAN
from tests.support.browsing import Browser
from tests.support.pages import browser_of


@pytest.fixture(scope="package")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """The seeded app."""
    return make_app()


@pytest.fixture(scope="package")
def clinician(clinic: Flask) -> Browser:
    """The browser of a clinician."""
    return browser_of(clinic, CLINICIAN)
