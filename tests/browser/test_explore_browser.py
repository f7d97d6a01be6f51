"""The explorer in a browser with scripts: form and address follow each other."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

pytest_plugins = ["tests.support.live", "tests.support.browser"]

ALLERGIES, NOTES = "/fhir/AllergyIntolerance", "/fhir/DocumentReference"
IMAGE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def explorer(visit):
    """A clinician's explorer; what the policy forbids fails the test (tests/support/browser.py)."""
    visitor = visit()
    failed: list[str] = []
    visitor.page.on("pageerror", lambda error: failed.append(str(error)))
    visitor.open("/explore")
    visitor.sign_in("clinician")
    yield visitor
    assert failed == []


def stands(visitor, selector: str, value: str | re.Pattern[str]) -> None:
    """Wait until a field has a value."""
    expect(visitor.page.locator(selector).first).to_have_value(value)


def test_address_follows_the_form(explorer):
    page = explorer.page
    page.locator("#f-patient").fill("p1")
    stands(explorer, "#address", f"{ALLERGIES}?patient=p1&_explain=true")
    page.get_by_label("Modifier or prefix of code").select_option(":text")
    page.locator("#f-code").fill('<b>"&')
    stands(explorer, "#address", f"{ALLERGIES}?patient=p1&code:text=%3Cb%3E%22%26&_explain=true")
    # Of another type the form has other fields; what it has no field for stays.
    page.get_by_text("more parameters").click()
    page.locator("#f-criticality").fill("high")
    page.locator("#type").select_option("DocumentReference")
    page.locator("#f-author").wait_for(state="attached")
    assert "criticality=high" in page.locator("#address").input_value()
    assert page.locator("[name=x]").first.input_value() == "criticality=high"


def test_address_that_is_too_long_is_not_sent(explorer):
    page = explorer.page
    page.locator("#f-code").fill("a" * 1_000_000)
    page.get_by_text("The address would be too long, s").wait_for()
    page.get_by_role("button", name="Send").click()
    assert page.url.endswith("/explore")
    page.locator("#f-code").fill("latex")
    stands(explorer, "#address", re.compile("code=latex"))
    expect(page.get_by_text("The address would be too long, s")).to_be_hidden()


def test_form_follows_the_address(explorer):
    page = explorer.page
    page.locator("#address").fill(f"{NOTES}?date=ge2024&date=lt2025-03&foo.bar={IMAGE}&_count=2")
    stands(explorer, "#type", "DocumentReference")
    stands(explorer, "#f-date", "2024")
    stands(explorer, "[name='f.date~2']", "2025-03")
    stands(explorer, "[name='m.date~2']", "lt")
    stands(explorer, "#f-_count", "2")
    assert page.locator("[name=x]").first.input_value().startswith("foo.bar=%3Cimg")
    # And what is filled in now goes on from there.
    page.locator("#f-status").fill("current")
    stands(explorer, "#address", re.compile("status=current"))
    assert "foo.bar=" in page.locator("#address").input_value()
    # What programs send follows too.
    expect(page.locator("#beside")).to_contain_text("status=current")


def test_field_that_was_filled_in_last_is_sent(explorer):
    page = explorer.page
    page.locator("#f-patient").fill("p2")
    with page.expect_navigation(url=re.compile("address=")):
        page.locator("#f-patient").press("Enter")
    assert page.locator("#address").input_value() == f"{ALLERGIES}?patient=p2&_explain=true"
    page.locator("#address").fill("/fhir/Patient/p1")
    with page.expect_navigation(url=re.compile("Patient/p1")):
        page.locator("#address").press("Enter")
    assert page.locator("#address").input_value() == "/fhir/Patient/p1"
    assert "Patient/p1, version" in page.locator("#answer").inner_text()


def test_json_is_folded_and_its_links_lead_on(explorer):
    page = explorer.page
    explorer.open(f"/explore?address={ALLERGIES}?patient=p1&view=json")
    text = page.locator(".json")
    assert '"fullUrl"' in text.inner_text()
    text.locator("summary").first.click()
    assert '"fullUrl"' not in text.inner_text()
    text.locator("summary").first.click()
    text.get_by_role("link", name="Patient/p1").first.click()
    page.wait_for_url(re.compile("Patient/p1"))
    assert "Patient/p1, version" in page.locator("#answer").inner_text()
