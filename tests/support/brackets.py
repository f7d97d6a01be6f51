"""A language of brackets: whatever a page shows outside of ⟦brackets⟧ is not translated.

Text outside of brackets must be data of records, code, or marked as English.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html.parser import HTMLParser
from typing import Any
from zoneinfo import available_timezones

from flask import Flask
from sqlalchemy import Connection

from fhirapp.db import writing
from fhirapp.features.demo import accounts as demo
from fhirapp.features.learn import lesson
from fhirapp.features.manual.contents import pages as manual
from fhirapp.fhir.terminology import strings
from fhirapp.web.labels import _CODES, _SEXES
from tests.support.page_list import WALKER

# Attributes that people read or hear.
_READ = frozenset({"alt", "aria-label", "data-label", "placeholder", "title"})
# Elements whose text is code, or data of a record.
_UNTRANSLATED = frozenset({"bdi", "code", "pre", "script", "style", "textarea"})
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})
_LETTERS = re.compile(r"[^\W\d_]")
# Names, numbers with units, addresses, and text of HTTP, FHIR and OAuth.
_TECHNICAL = re.compile(
    r"fhirapp( \d[\d.]*)?|curl|HTTP|JavaScript|Python|HTML|PDF|RTF|C-CDA|JSON|UTC|RS256"
    r"|CRITICAL|ERROR|WARNING|INFO|DEBUG"
    r"|GET|POST|\d{3} [A-Z][A-Za-z ]+|link: \w+|Werkzeug/[\d.]+|[\d.,:]+.?(kB|MB|GB|ms|s|UTC)"
    r"|(https?://|/(fhir|static|admin)/)\S*|localhost:\d+|[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}|app-[\da-f]{16}"
    # The values of a setting or parameter that has a list of them, and parts of OAuth's.
    r"|id|code\$Type/id|api|fhir|optional|staff|none|all|true|false|accurate|estimate|count|names|text|data|x"
    r"|[\w.]+[<=>]+\?|Accept|Prefer|If-None-Match|handling=strict|application/fhir\+json|W/\"1\"|name=value"
    r"|_\w+|boolean|composite|date|http://…|number|quantity|reference|string|token|uri"
    r"|( ?(openid|fhirUser|profile|o\w+_access|launch(/\w+)?|\w+/(\*|\w+)\.\w+))+"
)
# Names that tests add to the demo, and those of the demo's users and clients.
_NAMES = frozenset(
    {
        *("Robin Walker", WALKER, "A backend", "App of kind secret", "nightly"),
        *(name for person in demo.PEOPLE for name in (person.name, person.username)),
        *("Sample app", "Demo backend", "Demo confidential app", "Documentation of the API"),
        *("demo-app", "demo-backend", "demo-confidential", "api-docs"),
    }
)


class DemoInProcess:
    """The demo as tests/support/live.py has it, in this process."""

    fhir = "http://localhost/fhir"

    def __init__(self, app: Flask) -> None:
        self._app = app

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self._app.test_request_context(), writing() as connection:
            yield connection

    def ask(self, method: str, path: str, **headers: str) -> Any:
        return self._app.test_client().open(path, method=method, headers=headers)

    def token(self, scope: str) -> str:
        secret = base64.b64encode(f"{demo.BACKEND}:{demo.SECRET}".encode()).decode()
        form = {"grant_type": "client_credentials", "scope": scope}
        headers = {"Authorization": f"Basic {secret}"}
        answer = self._app.test_client().post("/oauth/token", data=form, headers=headers)
        return str(answer.json["access_token"])


def data_of(app: Flask) -> frozenset[str]:
    """Return every text of the demo's records, capability statement, lessons and manual."""
    shown = DemoInProcess(app)
    authorization = {"Authorization": f"Bearer {shown.token('system/*.rs')}"}
    found: set[str] = set()
    description = shown.ask("GET", "/fhir/metadata").json
    for resource_type in description["rest"][0]["resource"]:
        path = f"/fhir/{resource_type['type']}?_count=1000"
        answer = shown.ask("GET", path, **authorization).json
        found |= {*strings(answer)}
        for entry in answer.get("entry", ()):
            found |= {*_names(entry["resource"])}
    found |= {*strings(description)}
    with app.test_request_context():
        found |= {each.title for each in lesson.lessons()[0]}
    found |= {page.title for page in manual().values()}
    found |= available_timezones()
    # A page translates the codes of a record.
    texts = frozenset(" ".join(text.split()) for text in found)
    return (texts | _NAMES) - {*_CODES, *_SEXES}


def _names(resource: Mapping[str, Any]) -> Iterator[str]:
    names = resource.get("name")
    for name in names if isinstance(names, list) else ():
        yield " ".join([*name.get("given", ()), str(name.get("family"))])


class _Outside(HTMLParser):
    """Collects what a page in German shows outside of brackets."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._is_untranslated: list[bool] = [False]
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        is_other = attributes.get("lang") not in (None, "de") or attributes.get("translate") == "no"
        untranslated = self._is_untranslated[-1] or tag in _UNTRANSLATED or is_other
        if not untranslated:
            for name, value in attrs:
                if (name in _READ or name.startswith("data-")) and value:
                    self.found += outside(value, 0)[0]
            if tag == "input" and attributes.get("type") in ("submit", "button"):
                self.found += outside(attributes.get("value") or "", 0)[0]
        if tag not in _VOID:
            self._is_untranslated.append(untranslated)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            self._is_untranslated.pop()

    def handle_data(self, data: str) -> None:
        if not self._is_untranslated[-1]:
            found, self._depth = outside(data, self._depth)
            self.found += found


def outside(text: str, depth: int) -> tuple[list[str], int]:
    """Return the pieces of a text outside of brackets that have letters, and its final depth."""
    pieces = [""]
    for letter in text:
        if letter == "⟦":
            depth += 1
            pieces.append("")
        elif letter == "⟧":
            depth -= 1
        elif depth <= 0:
            pieces[-1] += letter
    stripped = (" ".join(piece.split()) for piece in pieces)
    return [piece for piece in stripped if _LETTERS.search(piece)], max(depth, 0)


def outside_of(html: str) -> list[str]:
    """Return what a page in German shows outside of brackets."""
    reader = _Outside()
    reader.feed(html)
    reader.close()
    return reader.found


def is_data(text: str, data: frozenset[str]) -> bool:
    """Return whether a text is data, or a list of data."""
    parts = [part.strip(" ,;:()“”·") for part in re.split(r" · |, | \(", text)]
    return (
        text in data
        or all(
            part in data
            or not _LETTERS.search(part)
            or bool(_TECHNICAL.fullmatch(part))
            # A text that was cut short.
            or (part.endswith("…") and any(each.startswith(part[:-1]) for each in data))
            for part in parts
        )
    )
