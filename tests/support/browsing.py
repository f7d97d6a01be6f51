"""A browser without JavaScript: opens pages, fills in their forms, follows what they answer.

    browser = Browser(app)
    page = browser.get("/sign-in")
    page = page.submit("Sign in", username="patient", password="demo")
    page.heading, page.words, page.links["Connected apps"], page.offered["Sign in"]

A form is named by one of its buttons, as a person finds it, or by the end of its action:

    page.send("/approve"), page.send("/link", patient="p1", whose="own")

What it holds is sent as it stands but for what a test fills in; a field that is not there is an
error of the test's. A page is parsed when a test looks at it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, cached_property
from html.parser import HTMLParser
from itertools import count
from typing import Any
from urllib.parse import urljoin, urlsplit
from uuid import uuid4

from flask import Flask
from sqlalchemy import insert, select
from werkzeug.datastructures import MultiDict
from werkzeug.test import TestResponse

from fhirapp.auth.models import User
from fhirapp.auth.users import sessions
from fhirapp.auth.users.accounts import link
from fhirapp.auth.users.passwords import hashed
from fhirapp.config import settings_of
from fhirapp.db import db, writing
from fhirapp.web.cookies import SESSION, name_of

PASSWORD = "demo"
# Failures to sign in are counted by address: each browser has one of its own.
_ADDRESSES = (f"198.19.{n // 250 % 250}.{n % 250}" for n in count())
# Elements without an end, and those within a line.
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})
_INLINE = frozenset({"a", "bdi", "code", "em", "small", "span", "strong"})


def add_person(app: Flask, role: str, *patients: str, name: str = "Robin Example") -> str:
    """Add a user with the password PASSWORD, linked to these records; return the user name."""
    key = uuid4()
    row = {"id": str(key), "username": f"u{key.hex}", "name": name, "role": role}
    row |= {"password_hash": _hash(), "created_at": 0}
    with app.app_context(), writing() as connection:
        connection.execute(insert(User), [row])
        for patient_id in patients:
            link(connection, row["id"], patient_id, is_self=patient_id == patients[0])
    return row["username"]


def id_of(app: Flask, username: str) -> str:
    """Return a user's id."""
    with app.app_context():
        found = select(User.id).where(User.username == username)
        return str(db.session.execute(found).scalar_one())


def address_of(app: Flask) -> str:
    """Return the address that a browser opens."""
    return settings_of(app).base_url or "http://localhost"


def cookie_name(app: Flask, cookie: str = SESSION) -> str:
    """Return the name of a cookie of this app's."""
    with app.test_request_context(base_url=address_of(app)):
        return name_of(cookie)


@cache
def _hash() -> str:
    """Return the hash of PASSWORD: to make one takes longer than most tests."""
    return hashed(PASSWORD)


class Browser:
    """One person's browser: its cookies, and where it asks from."""

    def __init__(self, app: Flask, address: str | None = None) -> None:
        self.client = app.test_client()
        self.address = address or next(_ADDRESSES)

    def get(self, path: str, **options: Any) -> Page:
        """Open a page, and follow where it sends on, unless that is another site."""
        return self._open("GET", path, **options)

    def post(self, path: str, form: Any = None, **options: Any) -> Page:
        """Send a form that no page showed."""
        return self._open("POST", path, data=form, **options)

    def sign_in(self, username: str, password: str = PASSWORD) -> Page:
        """Sign in; return the page that comes of it, which is the account's."""
        form = {"username": username, "password": password}
        return self.get("/sign-in?next=/account").submit("Sign in", **form)

    def resume(self, username: str) -> Browser:
        """Be signed in already, without the page and the password's hash; return this browser."""
        app = self.client.application
        user_id = id_of(app, username)
        with app.app_context(), writing() as connection:
            self.set_cookie(sessions.begin(connection, user_id, complete=True))
        return self

    def post_with_token(self, path: str, **form: Any) -> Page:
        """Send a form that no page showed, with the token of this browser's session."""
        return self.post(path, {"form_token": self.get("/sign-in").token, **form})

    def cookie(self, cookie: str = SESSION) -> str | None:
        """Return a cookie's value."""
        name = cookie_name(self.client.application, cookie)
        found = self.client.get_cookie(name, domain=self._domain)
        return None if found is None else found.value

    def set_cookie(self, value: str, cookie: str = SESSION) -> None:
        """Give the browser a cookie, by default a session's that another browser had."""
        name = cookie_name(self.client.application, cookie)
        self.client.set_cookie(name, value, domain=self._domain)

    @property
    def _domain(self) -> str:
        return urlsplit(address_of(self.client.application)).hostname or ""

    def _open(self, method: str, path: str, **options: Any) -> Page:
        options.setdefault("environ_base", {"REMOTE_ADDR": self.address})
        for _ in range(10):
            # The path of the service, where it has one, is part of what is asked.
            base = "{0.scheme}://{0.netloc}".format(urlsplit(address_of(self.client.application)))
            response = self.client.open(path, method=method, base_url=base, **options)
            location = response.headers.get("Location")
            if location is None or not location.startswith("/"):
                return Page(self, path, response)
            method, path = "GET", location
            options = {"environ_base": options["environ_base"]}
        raise AssertionError(f"{path} sends on and on")


@dataclass
class Form:
    """A form as it stands on the page; buttons are by their label: (name, value)."""

    method: str = "GET"
    action: str = ""
    fields: MultiDict[str, str] = field(default_factory=MultiDict)
    # What is on the page but not sent as it stands: a checkbox without its tick.
    unticked: set[str] = field(default_factory=set)
    buttons: MultiDict[str, tuple[str, str]] = field(default_factory=MultiDict)


class Page:
    """What the browser shows: where it is, the answer, what a person reads and can do there."""

    def __init__(self, browser: Browser, path: str, response: TestResponse) -> None:
        self.browser, self.path, self.response = browser, path, response
        self.status, self.headers = response.status_code, response.headers
        # Where another site is, to which the browser is sent.
        self.location = response.headers.get("Location")

    @cached_property
    def _read(self) -> _Reader:
        read = _Reader()
        if self.response.mimetype == "text/html":
            read.feed(self.response.text)
        return read

    @property
    def forms(self) -> list[Form]:
        return self._read.forms

    @property
    def heading(self) -> str:
        return self._read.heading

    @property
    def links(self) -> dict[str, str]:
        """Return the addresses of the whole page's links, by their text."""
        return self._read.links

    @property
    def offered(self) -> dict[str, str]:
        """Return the addresses of the links in the main part, by their text."""
        return self._read.offered

    @cached_property
    def words(self) -> str:
        return _said(self._read.text)

    @property
    def alerts(self) -> list[str]:
        """Return the texts that say what is wrong (role=alert)."""
        return self._read.told["alert"]

    @property
    def confirmations(self) -> list[str]:
        """Return the texts that say what was done (role=status)."""
        return self._read.told["status"]

    @property
    def buttons(self) -> list[str]:
        return [label for form in self.forms for label in form.buttons]

    @property
    def actions(self) -> list[str]:
        """Return the path that each form is sent to."""
        return [self._target(form) for form in self.forms]

    @property
    def token(self) -> str:
        """Return the form token of the session."""
        return next(form.fields["form_token"] for form in self.forms if "form_token" in form.fields)

    def _target(self, form: Form) -> str:
        return urlsplit(urljoin(self.path, form.action)).path

    def form_to(self, end: str) -> Form:
        """Return the first form whose action ends so."""
        for form in self.forms:
            if self._target(form).endswith(end):
                return form
        raise AssertionError(f"no form to {end!r}; there are {self.actions}")

    def send(self, end: str, **filled: str | list[str]) -> Page:
        """Fill in and send the first form whose action ends so.

        The button is the first one of the form, unless what is filled in names another.
        """
        form = self.form_to(end)
        pressed = [button for _, button in form.buttons.items(multi=True) if button[0]]
        chosen = [button for button in pressed if filled.get(button[0]) == button[1]]
        for name, _value in chosen:
            del filled[name]
        return self._send(form, (chosen or pressed or [("", "")])[0], filled)

    def form(self, button: str) -> Form:
        """Return the form with this button."""
        for one in self.forms:
            if button in one.buttons:
                return one
        there = [label for one in self.forms for label in one.buttons]
        raise AssertionError(f"no button {button!r}; there are {there}")

    def submit(self, button: str, **filled: str | list[str]) -> Page:
        """Fill in a form and press its button; of a list, each is ticked."""
        form = self.form(button)
        pressed = form.buttons.getlist(button)
        assert len(pressed) == 1, f"{len(pressed)} buttons {button!r}"
        return self._send(form, pressed[0], filled)

    def _send(
        self, form: Form, pressed: tuple[str, str], filled: dict[str, str | list[str]]
    ) -> Page:
        sent = MultiDict(form.fields)
        for name, value in filled.items():
            assert name in form.fields or name in form.unticked, f"no field {name!r}"
            sent.setlist(name, [value] if isinstance(value, str) else value)
        name, value = pressed
        if name:
            sent.add(name, value)
        how = {"query_string": sent} if form.method == "GET" else {"data": sent}
        return self.browser._open(form.method, urljoin(self.path, form.action), **how)


def _said(texts: list[str]) -> str:
    return " ".join("".join(texts).split())


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.links: dict[str, str] = {}
        self.offered: dict[str, str] = {}
        self.heading = ""
        self.text: list[str] = []
        self.told: dict[str, list[str]] = {"alert": [], "status": []}
        self._open: list[tuple[str, dict[str, str], int]] = []
        self._in_form = False

    def handle_starttag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in given}
        self._part(tag)
        if tag == "form":
            method = attributes.get("method", "get").upper()
            self.forms.append(Form(method, attributes.get("action", "")))
            self._in_form = True
        elif tag in ("input", "option", "textarea") and self._in_form:
            self._field(tag, attributes)
        if tag not in _VOID:
            self._open.append((tag, attributes, len(self.text)))

    def handle_startendtag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        # As XHTML and SVG write an element without content.
        self.handle_starttag(tag, given)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        opened, attributes, start = self._open.pop()
        assert opened == tag, f"<{opened}> is ended by </{tag}>"
        said = _said(self.text[start:])
        self._part(tag)
        if attributes.get("role") in self.told and "hidden" not in attributes:
            self.told[attributes["role"]].append(said)
        if tag == "form":
            self._in_form = False
        elif tag == "a":
            self.links[said] = attributes["href"]
            if any(one == "main" for one, _, _ in self._open):
                self.offered[said] = attributes["href"]
        elif tag == "h1":
            self.heading = said
        elif tag == "button" and self._in_form:
            place = attributes.get("name", ""), attributes.get("value", "")
            self.forms[-1].buttons.add(said, place)
        elif tag == "textarea":
            self.forms[-1].fields[attributes["name"]] = "".join(self.text[start:]).removeprefix(
                "\n"
            )

    def handle_data(self, data: str) -> None:
        if not any(tag in ("title", "style", "option") for tag, _, _ in self._open):
            self.text.append(data)

    def _part(self, tag: str) -> None:
        if tag not in _INLINE:
            self.text.append(" ")

    def _field(self, tag: str, attributes: dict[str, str]) -> None:
        form = self.forms[-1]
        if "disabled" in attributes:
            return
        if tag == "option":
            (select,) = [one for name, one, _ in self._open if name == "select"]
            name, value = select["name"], attributes["value"]
            if "selected" in attributes or name not in form.fields:
                form.fields[name] = value
            return
        name, value = attributes["name"], attributes.get("value", "")
        if attributes.get("type") not in ("checkbox", "radio") or "checked" in attributes:
            form.fields.add(name, value)
        else:
            form.unticked.add(name)
