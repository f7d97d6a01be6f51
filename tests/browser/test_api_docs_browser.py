"""The documentation of the API in Chromium: signed in by OAuth, a search is tried there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Error as BrowserError

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.support.browser import Visit

pytest_plugins = ["tests.support.live", "tests.support.browser"]
# The contrast of an element's text with what is behind it (WCAG 2.2 §1.4.3).
CONTRAST = """
(element) => {
  const luminance = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
    const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = parts.map(linear);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ink = luminance(getComputedStyle(element).color);
  const ground = luminance(getComputedStyle(element.closest("button")).backgroundColor);
  return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
}
"""


@pytest.fixture
def documentation(visit: Callable[..., Visit]) -> Visit:
    """The documentation, open at the search for allergies."""
    visitor = visit()
    open_at_search(visitor)
    return visitor


def open_at_search(visitor: Visit) -> None:
    """Open the documentation at the search for allergies."""
    visitor.open("/api-docs")
    visitor.page.locator('[data-tag="AllergyIntolerance"]').click()
    visitor.page.get_by_role("button", name="GET /fhir/AllergyIntolerance Search").first.click()
    visitor.page.get_by_role("button", name="Try it out").wait_for()


def authorize(visitor: Visit) -> Visit:
    """Press what opens the window in which the user signs in; return that."""
    visitor.page.locator(".btn.authorize").click()
    form = visitor.page.locator(".auth-container").filter(has_text="authorizationCode")
    with visitor.page.expect_popup() as opened:
        form.get_by_role("button", name="Authorize", exact=True).click()
    opened.value.wait_for_load_state()
    return visitor.at(opened.value)


def answer_in(other: Visit, button: str) -> None:
    """Press a button that ends the window."""
    with other.page.expect_event("close"):
        other.page.get_by_role("button", name=button).click()


def execute(visitor: Visit, patient: str) -> Locator:
    """Search a patient's allergies; return what is told of the answer."""
    visitor.page.locator(".close-modal").click()
    visitor.page.get_by_role("button", name="Try it out").click()
    row = visitor.page.locator('tr[data-param-name="patient"]')
    row.get_by_role("textbox").fill(patient)
    visitor.page.get_by_role("button", name="Execute").click()
    told = visitor.page.locator(".live-responses-table .response")
    told.wait_for()
    return told


def test_clinician_authorizes_and_tries_a_search(documentation):
    other = authorize(documentation)
    other.sign_in("clinician")
    assert other.page.get_by_role("heading", name="Allow Documentation of the API").is_visible()
    answer_in(other, "Allow selected")
    told = execute(documentation, "p1")
    assert told.locator(".response-col_status").inner_text().split()[0] == "200"
    bundle = json.loads(told.locator(".highlight-code code").first.inner_text())
    assert {entry["resource"]["patient"]["reference"] for entry in bundle["entry"]} == {
        "Patient/p1"
    }


def test_demo_is_authorized_by_one_click(documentation):
    page = documentation.page
    page.locator(".btn.authorize").click()
    form = page.locator(".auth-container").first
    assert "clientCredentials" in form.inner_text()
    assert form.get_by_label("client_id").input_value() == "demo-backend"
    ticked = form.locator("input[type=checkbox]:checked").all()
    assert [box.get_attribute("data-value") for box in ticked] == ["system/*.rs"]
    button = form.get_by_role("button", name="Authorize", exact=True)
    button.and_(page.locator(":focus")).wait_for()
    assert form.get_by_role("heading").first.bounding_box()["y"] > 0
    assert page.locator(".modal-ux-content").evaluate("box => box.scrollTop") == 0
    page.keyboard.press("Enter")
    form.get_by_role("button", name="Logout").wait_for()
    told = execute(documentation, "p1")
    assert told.locator(".response-col_status").inner_text().split()[0] == "200"
    bundle = json.loads(told.locator(".highlight-code code").first.inner_text())
    assert "Penicillin" in json.dumps(bundle["entry"])


def test_swagger_ui_is_usable_with_screen_readers_and_keyboards(documentation):
    page = documentation.page
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    page.locator(".live-responses-table .response").wait_for()
    page.get_by_role("combobox", name="_summary").wait_for()
    page.wait_for_function("() => !document.querySelector('#api select:not([aria-label])')")
    page.wait_for_function("() => !document.querySelector('#api pre.microlight:not([tabindex])')")
    page.get_by_role("button", name="Authorize", exact=True).first.click()
    page.get_by_role("dialog").get_by_role("button", name="Close").first.click()


def test_documentation_lists_each_address_once_with_plain_parameters(documentation):
    page = documentation.page
    addresses = page.locator("[data-tag=AllergyIntolerance] ~ div .opblock-summary-path").all()
    paths = [address.get_attribute("data-path") for address in addresses]
    assert "/fhir/AllergyIntolerance" in paths
    assert [path for path in paths if path.startswith("/api/")] == []
    names = [
        row.get_attribute("data-param-name") for row in page.locator("tr[data-param-name]").all()
    ]
    assert names[0] == "patient"
    ordered = ["code", "_id", "_count", "_sort", "_lastUpdated", "_format", "Prefer"]
    assert sorted(ordered, key=names.index) == ordered
    assert set(page.locator("tr[data-param-name] .parameter__type").all_inner_texts()) <= {
        *("string", "integer", "boolean")
    }
    codes = page.locator(".responses-table tr.response").all()
    assert [code.get_attribute("data-code") for code in codes] == ["200"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_authorize_buttons_are_readable(visit, scheme):
    visitor = visit(color_scheme=scheme)
    visitor.open("/api-docs")
    button = visitor.page.locator(".scheme-container .btn.authorize")
    button.click()
    for shown in (button.locator("span"), visitor.page.locator(".modal-btn.authorize").first):
        assert shown.evaluate(CONTRAST) > 4.5


def test_refused_authorization_is_shown(documentation):
    other = authorize(documentation)
    other.sign_in("clinician")
    answer_in(other, "Don't allow")
    documentation.page.get_by_text("The user refused").first.wait_for()


def test_answer_to_another_request_is_refused(documentation):
    other = authorize(documentation)
    with other.page.expect_event("close"):
        # The page closes while it is opened.
        try:
            other.open("/api-docs/signed-in?code=stolen&state=of-another")
        except BrowserError:
            assert other.page.is_closed()
    documentation.page.get_by_text("belongs to another request").first.wait_for()
