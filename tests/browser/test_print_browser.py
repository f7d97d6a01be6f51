"""A chart on paper in Chromium: the clinic's name stands at its head, and no menu."""

from __future__ import annotations

import pytest

pytest_plugins = ["tests.support.live", "tests.support.browser"]


@pytest.mark.parametrize("name", ["Riverside Clinic", ""])
def test_name_of_the_clinic_is_on_paper_without_the_menu(visit, name):
    visitor = visit()
    visitor.open("/sign-in?next=/admin/settings")
    visitor.sign_in("admin")
    visitor.page.locator("#value-clinic_name").fill(name)
    visitor.press("Save Name of the clinic")
    visitor.open("/patients/p1")
    visitor.page.emulate_media(media="print")
    assert visitor.page.locator(".mark").is_visible() is bool(name)
    assert not visitor.page.get_by_role("link", name="Explore").is_visible()
