"""The demo and its learners."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import delete, update

from fhirapp.auth.models import Grant
from fhirapp.features.learn.models import LessonProgress
from tests.support.authorizing import alter
from tests.support.learning import Learner


@pytest.fixture(scope="package")
def app(make_app: Callable[..., Flask]) -> Flask:
    """A demo."""
    return make_app(demo=True)


@pytest.fixture
def learner(app: Flask) -> Learner:
    """A clinician who has started no lesson, and whose consents are a minute old."""
    # Consents are dated to the second, and count from the start of a lesson.
    alter(app, update(Grant).values(created_at=Grant.created_at - 60))
    alter(app, update(Grant).values(revoked_at=Grant.revoked_at - 60))
    alter(app, delete(LessonProgress))
    return Learner(app)
