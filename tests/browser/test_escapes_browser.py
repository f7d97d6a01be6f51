"""No text that a script shows escapes translation: the demo runs in a language of brackets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from flask import Flask

from tests.support.brackets import data_of, is_data, outside_of
from tests.tools.translations import pseudo_translation

if TYPE_CHECKING:
    from tests.support.browser import Visit
    from tests.support.live import Demo

pytest_plugins = ["tests.support.live", "tests.support.browser"]


@pytest.fixture(scope="module")
def data(make_app: Callable[..., Flask]) -> frozenset[str]:
    return data_of(make_app(demo=True, base_url=""))


@pytest.fixture(scope="module", name="demo")
def demo_in_brackets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The demo in a process of its own, with every message in brackets."""
    from tests.support.live import run

    folder = tmp_path_factory.mktemp("brackets")
    path = folder / "brackets.mo"
    path.write_bytes(pseudo_translation())
    with run(folder, TRANSLATION=str(path)) as running:
        yield running


def use_app(visitor: Visit) -> None:
    visitor.press("Connect to my records")
    visitor.allow()
    visitor.page.locator("#notes li").first.wait_for()
    visitor.unfold()


def refuse_app(visitor: Visit) -> None:
    visitor.press("Connect to my records")
    visitor.press("Don't allow")
    visitor.page.locator("#message span").wait_for()


def choose_file(visitor: Visit) -> None:
    file = {"name": "a.ndjson", "mimeType": "text/plain", "buffer": b"{}"}
    visitor.page.locator("#files").set_input_files([file])
    visitor.page.get_by_text("Selected:").wait_for()


def wait_to_copy(visitor: Visit) -> None:
    visitor.page.locator("button.copy").first.wait_for(state="attached")


@pytest.mark.parametrize(
    ("username", "path", "act"),
    [
        ("patient", "/demo/app", use_app),
        ("patient", "/demo/app", refuse_app),
        ("clinician", "/explore?address=/fhir/Patient/p1", wait_to_copy),
        ("clinician", "/learn/dates", wait_to_copy),
        ("admin", "/admin/imports", choose_file),
    ],
)
def test_no_text_that_a_script_shows_escapes(visit, data, username, path, act):
    visitor = visit()
    visitor.open("/sign-in")
    visitor.sign_in(username)
    visitor.open(path)
    sent = {*outside_of(visitor.page.evaluate("fetch(location).then((answer) => answer.text())"))}
    act(visitor)
    shown = [text for text in outside_of(visitor.page.content()) if text not in sent]
    assert [text for text in shown if not is_data(text, data)] == []
