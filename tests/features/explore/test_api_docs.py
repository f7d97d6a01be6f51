"""The documentation of the API, which is a client of the server."""

from __future__ import annotations

from fhirapp.auth.clients.administration import set_disabled
from fhirapp.auth.clients.registration import API_DOCS
from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.db import writing
from tests.support.browsing import Browser
from tests.support.pages import browser_of


def test_documentation_of_a_clinic_has_no_client_of_the_demo(clinic):
    text = Browser(clinic).get("/api-docs").response.text
    assert f'data-client="{API_DOCS}"' in text
    assert "demo" not in text
    assert "data-secret" not in text


def test_documentation_is_a_client_that_can_be_disabled(make_app):
    app = make_app()
    browser = Browser(app)
    text = browser.get("/api-docs").response.text
    request = f"/oauth/authorize?client_id={API_DOCS}&redirect_uri={{}}/api-docs/signed-in"
    address = text.partition('data-redirect="')[2].partition("/api-docs")[0]
    assert browser.get(request.format("https://elsewhere.example")).status == 400
    assert "response_type" in str(browser.get(request.format(address)).location)
    with app.app_context(), writing() as connection:
        set_disabled(connection, API_DOCS, disabled=True)
    browser.get("/api-docs")
    assert browser.get(request.format(address)).status == 400


def test_administrator_sees_the_clients_of_the_server_itself(clinic):
    browser = browser_of(clinic, ADMINISTRATOR)
    browser.get("/api-docs")
    # The home page reads with the token of the pages.
    browser.get("/")
    for client, heading in (
        (API_DOCS, "Documentation of the API"),
        ("pages", "The pages of this server"),
    ):
        page = browser.get(f"/admin/clients/{client}")
        assert (page.status, page.heading) == (200, heading)
        # Its scopes and addresses are the server's.
        assert [form for form in page.forms if "scope" in form.fields] == []
    page = browser.get(f"/admin/clients/{API_DOCS}")
    assert any(form.action == f"/admin/clients/{API_DOCS}/disable" for form in page.forms)
