"""The administrator's page of settings: all of them, forms for some, and never a secret.

Which values are refused is tested in tests/server/test_live_settings.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import insert, make_url

from fhirapp.audit.entries import ADMINISTRATION, entries
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN
from fhirapp.config import declared, settings_of
from fhirapp.server import live_settings
from fhirapp.server.live_settings import LIVE, StoredSetting
from fhirapp.web.admin.settings import GROUPS, masked
from tests.support.authorizing import alter
from tests.support.browsing import Browser, Page, add_person

PATH = "/admin/settings"


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app with settings of its own."""
    return make_app(seed=False, page_size=7, log_format="json")


@pytest.fixture
def admin(app: Flask) -> Browser:
    return Browser(app).resume(add_person(app, ADMINISTRATOR))


def change(admin: Browser, name: str, **filled: str) -> Page:
    """Send a setting's form as the page has it, with what is filled in."""
    form = admin.get(PATH).form_to(f"/{name}")
    return admin.post(form.action, {**form.fields.to_dict(), **filled})


def test_every_setting_is_shown_with_its_sentence_and_origin(admin, app):
    words = admin.get(PATH).words
    for setting in declared():
        sentence = " ".join(setting.metadata["doc"].replace("`", "").split())
        assert f"FHIRAPP_{setting.name.upper()}" in words
        assert sentence in words
    grouped = [name for _title, names in GROUPS for name in names]
    assert sorted(grouped) == sorted(setting.name for setting in declared())
    for shown in (
        "Log format command line FHIRAPP_LOG_FORMAT How it is logged: text or json Default: text",
        "FHIRAPP_THREADS Threads in each process Default: 4 4",
        str(settings_of(app).instance),
        "one per processor core not set; effective value:",
        "with commas between Default: none not set",
    ):
        assert shown in words


def test_what_can_be_changed_here_is_first_and_the_rest_is_folded(admin):
    shown, folded = admin.get(PATH).response.text.split("<details", 1)
    for setting in declared():
        title = f'id="{setting.name}"'
        assert (title in shown, title in folded) == (
            setting.metadata["live"],
            not setting.metadata["live"],
        )


def test_time_zone_is_chosen_from_a_list_that_has_the_current_one(admin, app):
    page = admin.get(PATH)
    assert '<option value="Asia/Kolkata"' in page.response.text
    page = change(admin, "timezone", timezone="EST5EDT")
    assert page.form_to("/timezone").fields["timezone"] == "EST5EDT"
    change(admin, "timezone", timezone="")
    assert admin.get(PATH).form_to("/timezone").fields["timezone"] == ""


def test_only_what_is_safe_to_change_has_a_form(admin):
    page = admin.get(PATH)
    forms = {action.rpartition("/")[2] for action in page.actions} - {"language", "sign-out"}
    # The app of these tests was started with page_size.
    assert forms == LIVE.keys() - {"page_size"}
    assert forms.isdisjoint({"audit_keep", "fetch_private", "oidc_roles", "trusted_proxy"})
    assert "FHIRAPP_PAGE_SIZE is set where the server is started (command line)." in page.words
    for name in ("audit_keep", "nonsense"):
        assert admin.post_with_token(f"{PATH}/{name}", **{name: "1"}).status == 404


def test_change_is_in_force_at_once_and_can_be_reset(admin, app):
    page = change(admin, "export_hours", export_hours="48")
    assert "Changed by Robin Example" in page.words
    assert "Default: 24 Saved." in page.words
    assert page.form_to("/export_hours").fields["export_hours"] == "48"
    assert settings_of(app).export_hours == 48
    page = change(admin, "export_hours", default="yes")
    assert ("Saved." in page.words, "Changed by" in page.words) == (True, False)
    assert settings_of(app).export_hours == 24
    # An empty field is the default.
    change(admin, "timezone", timezone="Asia/Kolkata")
    assert "times are in Asia/Kolkata" in admin.get("/admin/audit").words
    change(admin, "timezone", timezone="")
    assert str(settings_of(app).zone) == "UTC"


def test_form_that_changes_nothing_says_so_and_writes_no_audit_entry(admin, app):
    with app.app_context():
        before = entries(kind=ADMINISTRATION)
    for filled in ({}, {"default": "yes"}, {"export_hours": "24"}):
        assert "Default: 24 Nothing was changed." in change(admin, "export_hours", **filled).words
    with app.app_context():
        assert entries(kind=ADMINISTRATION) == before


def test_refused_value_is_shown_beside_its_field(admin, app):
    page = change(admin, "export_hours", export_hours="a day")
    assert (page.status, len(page.alerts)) == (400, 1)
    assert page.form_to("/export_hours").fields["export_hours"] == "a day"
    assert 'aria-describedby="doc-export_hours fault-export_hours"' in page.response.text
    page = change(admin, "page_max", page_max="5")
    assert "FHIRAPP_PAGE_SIZE=7 is more than FHIRAPP_PAGE_MAX=5" in page.words
    assert (settings_of(app).export_hours, settings_of(app).page_max) == (24, 1000)


def test_second_factor_can_be_required_of_staff(admin, app):
    clinician = Browser(app).resume(add_person(app, CLINICIAN))
    assert clinician.get("/patients").path == "/patients"
    change(admin, "second_factor", second_factor="staff")
    # The administrator too must have one now.
    for browser, path in ((clinician, "/patients"), (admin, PATH)):
        assert browser.get(path).path == "/account/second-factor"
    with app.app_context():
        live_settings.change("second_factor", None, "somebody")
    assert admin.get(PATH).path == PATH


def test_stored_setting_without_effect_is_shown_and_can_be_removed(admin, app):
    stored = {"page_size": "50", "self_link": "graph", "of_a_later_release": "7"}
    about = {"changed_at": 1, "changed_by": "gone"}
    rows = [{"name": name, "value": value, **about} for name, value in stored.items()]
    alter(app, insert(StoredSetting).values(rows))
    with app.app_context():
        live_settings.refresh(app)
    assert (settings_of(app).page_size, settings_of(app).self_link) == (7, "api")
    words = admin.get(PATH).words
    for shown in (
        "50 was set here but has no effect, by gone, 1 Jan",
        "graph, set here, has no effect: FHIRAPP_SELF_LINK='graph' cannot be used",
        "Unknown settings of_a_later_release = 7",
    ):
        assert shown in words
    for name in stored:
        change(admin, name, default="yes")
    words = admin.get(PATH).words
    assert ("has no effect" in words, "Unknown settings" in words) == (False, False)


def test_password_of_a_database_is_never_shown(admin, app):
    shown = {
        "postgresql://ann:s3cret@db/clinic": "postgresql://ann:***@db/clinic",
        "postgresql://db/x?password=s3cret": "postgresql://db/x?password=hidden",
        "postgresql://db/x?sslpassword=s3cret": "postgresql://db/x?sslpassword=hidden",
        "postgresql://db/x?PASSWORD=s3cret&a=b": "postgresql://db/x?PASSWORD=hidden&a=b",
        "sqlite:////srv/clinic.db": "sqlite:////srv/clinic.db",
        "s3cret": "not shown",
    }
    assert {url: masked(url) for url in shown} == shown
    url, text = make_url(settings_of(app).database_uri), admin.get(PATH).response.text
    assert url.password is None or f":{url.password}@" not in text
    assert url.database is not None
    assert url.database in text
