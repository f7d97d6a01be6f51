"""The administrator's page of settings: all of them, forms for some, and never a secret."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import insert, make_url

from fhirapp.audit.read import ADMINISTRATION, entries
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN
from fhirapp.config import declared, settings_of
from fhirapp.db import writing
from fhirapp.ops import live_settings
from fhirapp.ops.live_settings import LIVE, StoredSetting
from fhirapp.web.admin.settings import GROUPS, masked
from tests.support.browsing import Browser, Page, add_person

PATH = "/admin/settings"


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app with settings of its own."""
    return make_app(seed=False, page_size=7, log_format="json")


@pytest.fixture
def admin(app: Flask) -> Browser:
    return Browser(app).resume(add_person(app, ADMINISTRATOR))


def value_of(page: Page, name: str) -> str:
    """Return what a setting's form has."""
    (form,) = (one for one in page.forms if one.action == f"{PATH}/{name}")
    return form.fields[name]


def change(admin: Browser, name: str, **filled: str) -> Page:
    """Send a setting's form as the page has it, with what is filled in."""
    (form,) = (one for one in admin.get(PATH).forms if one.action == f"{PATH}/{name}")
    return admin.post(form.action, {**form.fields.to_dict(), **filled})


def test_every_setting_is_shown_with_its_sentence(admin):
    words = admin.get(PATH).words
    for one in declared():
        sentence = " ".join(one.metadata["doc"].replace("`", "").split())
        assert f"FHIRAPP_{one.name.upper()}" in words
        assert sentence in words
    grouped = [name for _title, names in GROUPS for name in names.split()]
    assert sorted(grouped) == sorted(one.name for one in declared())


def test_where_a_value_came_from_is_told(admin):
    words = admin.get(PATH).words
    assert "FHIRAPP_LOG_FORMAT command line How it is logged: text or json Default: text" in words
    assert "FHIRAPP_THREADS Threads in each process Default: 4 4" in words


def test_what_an_empty_setting_comes_to_is_told(admin, app):
    words = admin.get(PATH).words
    assert str(settings_of(app).instance) in words
    assert "one per processor core not set; effective value:" in words
    assert "with commas between Default: none not set" in words


def test_only_what_is_safe_has_a_form(admin):
    page = admin.get(PATH)
    forms = {one.action.rpartition("/")[2] for one in page.forms}
    # These are on every page.
    forms -= {"language", "sign-out"}
    # The app of these tests was started with page_size.
    assert forms == LIVE.keys() - {"page_size"}
    assert forms.isdisjoint({"audit_keep", "fetch_private", "oidc_roles", "trusted_proxy"})
    assert "FHIRAPP_PAGE_SIZE is set where the server is started (command line)." in page.words
    for name in ("audit_keep", "nonsense"):
        token = page.forms[-1].fields["form_token"]
        assert admin.post(f"{PATH}/{name}", {name: "1", "form_token": token}).status == 404


def test_a_change_is_in_force_at_once_and_told(admin, app):
    page = change(admin, "export_hours", export_hours="48")
    assert page.status == 200
    assert "Changed by Robin Example" in page.words
    assert "Default: 24 Saved." in page.words
    assert "Changed on this page: export_hours" in page.words
    assert value_of(page, "export_hours") == "48"
    assert settings_of(app).export_hours == 48
    page = change(admin, "export_hours", default="yes")
    assert "Changed by" not in page.words
    assert settings_of(app).export_hours == 24


def test_a_form_that_changes_nothing_says_so_and_is_not_in_the_trail(admin, app):
    with app.app_context():
        before = entries(kind=ADMINISTRATION)
    for filled in ({}, {"default": "yes"}):
        assert "Default: 24 Nothing was changed." in change(admin, "export_hours", **filled).words
    with app.app_context():
        assert entries(kind=ADMINISTRATION) == before
    page = change(admin, "export_hours", export_hours="12")
    assert "Nothing was changed." in change(admin, "export_hours").words
    assert "Saved." in change(admin, "export_hours", default="yes").words
    assert "Saved." in page.words


def test_a_value_that_cannot_be_used_is_shown_beside_its_field(admin, app):
    page = change(admin, "export_hours", export_hours="a day")
    assert page.status == 400
    assert "FHIRAPP_EXPORT_HOURS='a day' cannot be used: Not a valid integer." in page.words
    assert value_of(page, "export_hours") == "a day"
    assert 'aria-describedby="doc-export_hours fault-export_hours"' in page.response.text
    page = change(admin, "page_max", page_max="5")
    assert "FHIRAPP_PAGE_SIZE=7 is more than FHIRAPP_PAGE_MAX=5" in page.words
    assert (settings_of(app).export_hours, settings_of(app).page_max) == (24, 1000)


def test_an_empty_field_is_the_default(admin, app):
    change(admin, "timezone", timezone="Asia/Kolkata")
    assert str(settings_of(app).zone) == "Asia/Kolkata"
    assert "times are in Asia/Kolkata" in admin.get("/admin/audit").words
    change(admin, "timezone", timezone="")
    assert str(settings_of(app).zone) == "UTC"


def test_a_second_factor_can_be_asked_of_everybody(admin, app):
    clinician = Browser(app).resume(add_person(app, CLINICIAN))
    assert clinician.get("/patients").heading == "Patients"
    change(admin, "second_factor", second_factor="staff")
    assert "second factor" in clinician.get("/patients").heading
    # The administrator too must have one now.
    assert "second factor" in admin.get(PATH).heading
    with app.app_context():
        live_settings.change("second_factor", None, "somebody")
    assert admin.get(PATH).heading == "Settings"


def test_what_has_no_effect_is_shown_and_can_be_removed(admin, app):
    rows = [
        {"name": "page_size", "value": "50"},
        {"name": "self_link", "value": "graph"},
        {"name": "of_a_later_release", "value": "7"},
    ]
    with app.app_context(), writing() as connection:
        about = {"changed_at": 1, "changed_by": "gone"}
        connection.execute(insert(StoredSetting), [{**row, **about} for row in rows])
    with app.app_context():
        live_settings.refresh(app)
    assert (settings_of(app).page_size, settings_of(app).self_link) == (7, "api")
    words = admin.get(PATH).words
    assert "50 was set here but has no effect, by gone, 1 Jan" in words
    assert "graph, set here, has no effect: FHIRAPP_SELF_LINK='graph' cannot be used" in words
    assert "Unknown settings of_a_later_release = 7" in words
    for row in rows:
        change(admin, row["name"], default="yes")
    words = admin.get(PATH).words
    assert "has no effect" not in words
    assert "Unknown settings" not in words


def test_only_administrators_change_settings(app):
    clinician = Browser(app).resume(add_person(app, CLINICIAN))
    token = clinician.get("/account").forms[-1].fields["form_token"]
    answer = clinician.post(f"{PATH}/export_hours", {"export_hours": "1", "form_token": token})
    assert answer.status == 403
    admin = Browser(app).resume(add_person(app, ADMINISTRATOR))
    assert admin.post(f"{PATH}/export_hours", {"export_hours": "1"}).status == 400
    assert settings_of(app).export_hours == 24


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
