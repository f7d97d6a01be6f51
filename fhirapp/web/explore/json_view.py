"""JSON to look at: folded, coloured, each address of ours a link; and cut where it is too long.

What comes from records is hostile: each text is escaped, and what would turn the reading direction
or is invisible stands there as JSON's escapes. The markup is as short as it can be, for there is
much of it: <b> a name, <i> a number or a word of JSON's, <p> a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from fhirapp.fhir import json as fhir_json
from fhirapp.web.explore.table import brief
from fhirapp.web.texts import _

# Turns a text of an answer into the address of the page that asks for it; None where it is none.
Link = Callable[[str], str | None]

# Characters of markup; beyond, what is left is told, not shown.
MOST = 60_000
_LONGEST_TEXT = 400
_LONGEST_LINE = 72
_DEEPEST = 60
_OPEN_ENTRIES = 3
_MOST_BRIEF = 200
_UNSEEN = re.compile("[\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]")


class Folded(NamedTuple):
    """JSON as markup; is_cut says that something of it is not there."""

    markup: Markup
    is_cut: bool


def folded(content: Any, link: Link, most: int = MOST) -> Folded:
    """Return JSON to look at."""
    view = _View(link, most)
    view.write("", content, "", 0, is_open=True)
    return Folded(Markup("".join(view.parts)), view.is_cut)


def visible(text: str) -> str:
    """Return a text whose unseen signs are written as JSON's escapes."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class _View:
    def __init__(self, link: Link, most: int) -> None:
        self.parts: list[str] = []
        self.is_cut = False
        self._link = link
        self._left = most

    def write(
        self, label: str, value: Any, after: str, depth: int, *, is_open: bool, about: str = ""
    ) -> None:
        """Write a value with what stands before it, its name, and after it, a comma."""
        line = self._line(value)
        if line is not None:
            self._add(f"<p>{label}{line}{after}</p>")
            return
        if depth > _DEEPEST:
            self._cut(label, value)
            return
        start, end = ("{", "}") if isinstance(value, dict) else ("[", "]")
        told = f" <small>{escape(visible(about)) or len(value)}</small>"
        mark = " open" if is_open else ""
        self._add(f"<details{mark}><summary>{label}{start}{told}</summary>")
        if isinstance(value, dict):
            self._members(value, depth)
        elif label == _label("entry") and depth == 1:
            self._entries(value, depth)
        else:
            self._items([("", item) for item in value], depth)
        self._add(f"<p class=e>{end}{after}</p></details>")

    def _members(self, value: dict[str, Any], depth: int) -> None:
        self._items([(_label(name), content) for name, content in value.items()], depth)

    def _items(self, items: Sequence[tuple[str, Any]], depth: int) -> None:
        for number, (label, content) in enumerate(items, 1):
            if self._left <= 0:
                self._rest(len(items) - number + 1)
                return
            after = "," if number < len(items) else ""
            self.write(label, content, after, depth + 1, is_open=True)

    def _entries(self, entries: Sequence[Any], depth: int) -> None:
        """Write a Bundle's entries: the first open, the next closed, then a line for each."""
        for number, entry in enumerate(entries, 1):
            after = "," if number < len(entries) else ""
            about = _about(entry)
            if self._left > 0:
                is_open = number <= _OPEN_ENTRIES
                self.write("", entry, after, depth + 1, is_open=is_open, about=about)
            elif number <= _MOST_BRIEF:
                self._brief(entry, about, after)
            else:
                self._rest(len(entries) - number + 1)
                return

    def _brief(self, entry: Any, about: str, after: str) -> None:
        self.is_cut = True
        address = entry.get("fullUrl") if isinstance(entry, dict) else None
        href = self._link(address) if isinstance(address, str) else None
        shown = escape(visible(about))
        if href:
            shown = Markup('<a href="{}">{}</a>').format(href, shown)
        self.parts.append(f"<p>{{ {shown} … }}{after}</p>")

    def _rest(self, count: int) -> None:
        self.is_cut = True
        self.parts.append(f"<p class=soft>{escape(_('… and %(count)s more', count=count))}</p>")

    def _cut(self, label: str, value: Any) -> None:
        self.is_cut = True
        self.parts.append(f"<p>{label}<small>… {len(value)}</small></p>")

    def _add(self, text: str) -> None:
        self.parts.append(text)
        self._left -= len(text)

    def _line(self, value: Any) -> str | None:
        """Return what fits on a line: what has no parts, or few and short ones."""
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, dict | list):
            return f"<i>{escape(fhir_json.text(value))}</i>"
        if not value:
            return "{}" if isinstance(value, dict) else "[]"
        if len(value) > 4 or any(
            not isinstance(one, str | int) or (isinstance(one, str) and len(one) > _LONGEST_LINE)
            for one in _values(value)
        ):
            return None
        if isinstance(value, list):
            parts = [self._line(one) for one in value]
        else:
            parts = [f"{_label(name)}{self._line(one)}" for name, one in value.items()]
        plain = len(fhir_json.text(value))
        inner = ", ".join(filter(None, parts))
        if plain > _LONGEST_LINE:
            return None
        return f"{{ {inner} }}" if isinstance(value, dict) else f"[{inner}]"

    def _text(self, text: str) -> str:
        shown = text
        cut: str | Markup = ""
        if len(text) > _LONGEST_TEXT:
            self.is_cut = True
            shown = text[:_LONGEST_TEXT]
            more = _("… and %(count)s more characters", count=f"{len(text) - _LONGEST_TEXT:,}")
            cut = Markup(" <small>{}</small>").format(more)
        quoted = escape(visible(fhir_json.text(shown)))
        href = self._link(text) if len(text) < _LONGEST_TEXT else None
        if href:
            quoted = Markup('<a href="{}">{}</a>').format(href, quoted)
        return f"{quoted}{cut}"


def _values(value: dict[str, Any] | list[Any]) -> Iterator[Any]:
    yield from value.values() if isinstance(value, dict) else value


def _label(name: str) -> str:
    shown = name if len(name) <= _LONGEST_TEXT else f"{name[:_LONGEST_TEXT]}…"
    return f"<b>{escape(visible(fhir_json.text(shown)))}</b>: "


def _about(entry: Any) -> str:
    """Return in short what an entry of a Bundle is."""
    resource = entry.get("resource") if isinstance(entry, dict) else None
    if isinstance(resource, dict):
        return brief(resource)
    asked = entry.get("request") if isinstance(entry, dict) else None
    if isinstance(asked, dict) and asked.get("method") == "DELETE":
        return _("deleted: %(what)s", what=str(asked.get("url", ""))[:_LONGEST_LINE])
    return _("no resource")
