"""Pages as tests read them: elements by tag and class, forms by where they are sent.

The texts of pages change more often than what a page is made of.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from xml.etree.ElementTree import Element, TreeBuilder

from flask import Flask
from werkzeug.datastructures import MultiDict

from tests.support.browsing import Browser, Page, add_person

_VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})


def browser_of(app: Flask, role: str, *patients: str, name: str = "Robin Example") -> Browser:
    """Return the browser of a new user of a role, signed in; patients are their records."""
    return Browser(app).resume(add_person(app, role, *patients, name=name))


class _Tree(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.builder = TreeBuilder()
        self.builder.start("document", {})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.builder.start(tag, {name: value or "" for name, value in attrs})
        if tag in _VOID:
            self.builder.end(tag)
        if tag == "br":
            self.builder.data(" ")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.builder.end(tag)

    def handle_endtag(self, tag: str) -> None:
        self.builder.end(tag)

    def handle_data(self, data: str) -> None:
        self.builder.data(data)


def elements(source: Page | Element, selector: str, **attributes: str) -> list[Element]:
    """Return the elements of a selector such as `p.headline`, in the order of the page."""
    if isinstance(source, Page):
        tree = _Tree()
        tree.feed(source.response.text)
        source = tree.builder.close()
    tag, *classes = selector.split(".")
    return [
        element
        for element in source.iter(tag or None)
        if set(classes) <= set(element.get("class", "").split())
        and all(element.get(name.replace("_", "-")) == text for name, text in attributes.items())
    ]


def texts(source: Page | Element, selector: str, **attributes: str) -> list[str]:
    """Return what each element of a selector says."""
    found = elements(source, selector, **attributes)
    return [" ".join("".join(element.itertext()).split()) for element in found]


def links(page: Page, prefix: str) -> list[str]:
    """Return where the links of the page's main part lead whose address begins so, once each."""
    found = (address for address in page.offered.values() if address.startswith(prefix))
    return list(dict.fromkeys(found))


def submit_to(
    page: Page, action: str, pressed: tuple[str, str] | None = None, **filled: str | list[str]
) -> Page:
    """Fill in the form that is sent to an address and has these fields, and send it.

    `pressed` is the name and the value of its button, where they matter.
    """
    (form, *_) = [
        form
        for form in page.forms
        if form.action.partition("#")[0] == action
        and {*filled} <= {*form.fields} | form.unticked
        and (pressed is None or pressed in form.buttons.values())
    ]
    sent = MultiDict(form.fields)
    for name, value in filled.items():
        sent.setlist(name, [value] if isinstance(value, str) else value)
    name, value = pressed or next(iter(form.buttons.values()))
    if name:
        sent.add(name, value)
    if form.method == "GET":
        return page.browser.get(action, query_string=sent)
    return page.browser.post(action, sent)


def explorer_address(address: str, **beside: Any) -> str:
    """Return the address of the explorer's page for a request."""
    return f"/explore?{urlencode({'address': address, **beside})}"


def requested(page: Page) -> list[str]:
    """Return the requests that the page's links open in the explorer."""
    queries = (parse_qs(urlsplit(address).query) for address in links(page, "/explore?"))
    return [query["address"][0] for query in queries if "address" in query]


def in_order(words: str, *parts: str) -> bool:
    """Return whether a text has these parts, one after the other."""
    at = 0
    for part in parts:
        at = words.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


# No script runs where users sign in, consent and manage access.
_NO_SCRIPTS = ("/sign-in", "/setup", "/oauth/", "/account", "/apps/")
_SCRIPTS = re.compile(r'<script src="/static/[a-z./-]+\?v=[0-9a-f]{16}" defer></script>')


def assert_page(page: Page) -> None:
    """Assert that an answer is a page, with the headers of every page."""
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = dict(
        part.split(" ", 1) for part in page.headers["Content-Security-Policy"].split("; ")
    )
    assert policy.pop("form-action", "'self'") == "'self'"
    common = {"img-src": "'self' data:", "frame-ancestors": "'none'", "base-uri": "'none'"}
    has_scripts = policy["default-src"] == "'self'"
    if has_scripts:
        assert not page.path.startswith(_NO_SCRIPTS)
        assert policy == {**common, "default-src": "'self'", "object-src": "'none'"}
    else:
        assert policy == {**common, "default-src": "'none'", "style-src": "'self'"}
    expected = {
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
        # An app may open our pages in a window of its own, and hear from it afterwards.
        "Cross-Origin-Opener-Policy": None,
        "Access-Control-Allow-Origin": None,
    }
    assert {name: page.headers.get(name) for name in expected} == expected
    text = page.response.text
    if has_scripts:
        text = _SCRIPTS.sub("", text)
    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert page.heading
    # What the policy forbids is not there either.
    assert not re.search(r"<script|<style|<iframe|<base|\sstyle=|\son[a-z]+=|javascript:", text)
