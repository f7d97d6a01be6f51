"""The clinic's name and logo, which stand at the head of each page."""

from __future__ import annotations

from pathlib import Path

import pytest

from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.config import ConfigurationError
from fhirapp.environment import load_settings
from tests.support.browsing import Browser, add_person

LOGO = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


@pytest.fixture
def logo(tmp_path: Path) -> Path:
    path = tmp_path / "logo.svg"
    path.write_bytes(LOGO)
    return path


def test_name_of_the_clinic_is_at_the_head_of_each_page(make_app):
    app = make_app(seed=False)
    assert ">fhirapp</a>" in Browser(app).get("/sign-in").response.text
    admin = Browser(app).resume(add_person(app, ADMINISTRATOR))
    form = admin.get("/admin/settings").form_to("/clinic_name")
    admin.post(form.action, {**form.fields, "clinic_name": "Riverside <Clinic>"})
    text = Browser(app).get("/sign-in").response.text
    assert '<a class="mark" href="/">Riverside &lt;Clinic&gt;</a>' in text
    assert " Riverside &lt;Clinic&gt;</title>" in text
    form = admin.get("/admin/settings").form_to("/clinic_name")
    assert admin.post(form.action, {**form.fields, "clinic_name": "x" * 81}).status == 400


def test_logo_is_shown_and_cannot_run_scripts(make_app, logo):
    browser = Browser(make_app(seed=False, clinic_logo=str(logo)))
    text = browser.get("/sign-in").response.text
    address = text.partition('<img src="')[2].partition('"')[0]
    answer = browser.client.get(address)
    assert (answer.data, answer.mimetype) == (LOGO, "image/svg+xml")
    assert answer.headers["Content-Security-Policy"].endswith("sandbox")
    assert "immutable" in answer.headers["Cache-Control"]
    assert browser.client.get("/clinic-logo").headers["Cache-Control"] == "no-cache"


def test_without_a_logo_there_is_none(make_app):
    browser = Browser(make_app(seed=False))
    assert "<img" not in browser.get("/sign-in").response.text
    assert browser.client.get("/clinic-logo").status_code == 404


@pytest.mark.parametrize("name", ["missing.svg", "logo.exe"])
def test_file_that_can_be_no_logo_is_refused_at_the_start(tmp_path, name):
    (tmp_path / "logo.exe").write_bytes(LOGO)
    with pytest.raises(ConfigurationError, match="FHIRAPP_CLINIC_LOGO"):
        load_settings({"FHIRAPP_CLINIC_LOGO": str(tmp_path / name)})
