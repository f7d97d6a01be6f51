"""The administrator's page of settings: all of them, as they are, and never a secret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import pytest
from flask import Flask
from sqlalchemy import make_url

from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.config import Settings, settings_of
from fhirapp.web.admin.settings import masked
from tests.support.browsing import Browser, add_person

PATH = "/admin/settings"


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app with settings of its own."""
    return make_app(seed=False, page_size=7, log_format="json")


@pytest.fixture
def admin(app: Flask) -> Browser:
    return Browser(app).resume(add_person(app, ADMINISTRATOR))


def test_every_setting_is_shown_with_its_sentence(admin):
    words = admin.get(PATH).words
    for one in fields(Settings):
        sentence = " ".join(one.metadata["doc"].replace("`", "").split())
        assert f"FHIRAPP_{one.name.upper()} {sentence}" in words


def test_where_a_value_came_from_is_told(admin, monkeypatch):
    monkeypatch.setenv("FHIRAPP_PAGE_SIZE", "7")
    # Something else overrode it.
    monkeypatch.setenv("FHIRAPP_LOG_FORMAT", "text")
    words = admin.get(PATH).words
    assert "Results on a page 7 environment 100" in words
    assert "text or json json command line text" in words
    assert "Threads in each process 4 default 4" in words


def test_what_an_empty_setting_comes_to_is_told(admin, app):
    words = admin.get(PATH).words
    assert str(settings_of(app).instance) in words
    assert "Server processes not set; in effect:" in words
    assert "with commas between not set default none" in words


def test_nothing_can_be_changed(admin):
    page = admin.get(PATH)
    assert [form.action for form in page.forms] == ["/sign-out"]
    assert "cannot be changed here" in page.words
    assert admin.post(PATH, {"page_size": "1"}).status == 405


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ann:s3cret@db/clinic", "postgresql://ann:***@db/clinic"),
        ("postgresql://db/clinic?password=s3cret", "postgresql://db/clinic?password=hidden"),
        ("postgresql://db/clinic?sslpassword=s3cret", "postgresql://db/clinic?sslpassword=hidden"),
        (
            "postgresql://db/x?PASSWORD=s3cret&user=ann",
            "postgresql://db/x?PASSWORD=hidden&user=ann",
        ),
        ("sqlite:////srv/clinic.db", "sqlite:////srv/clinic.db"),
        ("s3cret", "not shown"),
    ],
)
def test_no_password_of_an_address_is_shown(address, shown):
    assert masked(address) == shown


def test_the_password_of_the_database_in_use_is_not_on_the_page(admin, app):
    url = make_url(settings_of(app).database_uri)
    text = admin.get(PATH).response.text
    assert url.password is None or f":{url.password}@" not in text
    assert url.database is not None
    assert url.database in text
