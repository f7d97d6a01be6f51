r"""An answer's content as JSON that folds.

Records are hostile: every text is escaped, and characters that are invisible or reverse the reading
direction are written as JSON's escapes. The JSON's markup is short, for there is much of it:
<b> a name, <i> a number or a keyword, <p> a line. It is cut where it gets too long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from fhirapp.features.explore.address import UNSEEN
from fhirapp.features.explore.tables import name_of, text_of
from fhirapp.fhir import json as fhir_json
from fhirapp.web.texts import _, numeral

# Returns the page for an address in an answer; None where the text is none of ours.
Link = Callable[[str], str | None]

# Characters of markup.
MOST = 30_000
_LONGEST_TEXT, _LONGEST_LINE, _DEEPEST = 400, 72, 60
_OPEN_ENTRIES, _MOST_BRIEF = 3, 100
# Elements that are about the resource, not of what it says.
_FOLDED = frozenset({"meta", "text", "link", "extension"})


class FoldedJson(NamedTuple):
    """JSON as markup, and what of it is cut: long texts, or parts as a whole."""

    markup: Markup
    cuts_texts: bool
    cuts_parts: bool


def fold_json(content: Any, link: Link, most: int = MOST) -> FoldedJson:
    """Return JSON as markup that folds."""
    view = _View(link, most)
    view.write("", content, "", 0)
    return FoldedJson(Markup("".join(view.parts)), view.cuts_texts, view.cuts_parts)


def visible(text: str) -> str:
    """Return a text whose invisible characters are written as JSON's escapes."""
    return UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class _View:
    def __init__(self, link: Link, most: int) -> None:
        self.parts: list[str] = []
        self.cuts_texts = self.cuts_parts = False
        self._link = link
        self._left = most

    def write(
        self,
        label: str,
        value: Any,
        after: str,
        depth: int,
        *,
        is_open: bool = True,
        summary: str = "",
    ) -> None:
        """Write a value between its name and what comes after it, a comma."""
        line = self._line(value)
        if line is not None:
            self._add(f"<p>{label}{line}{after}</p>")
            return
        if depth > _DEEPEST:
            self._leave_out(f"{label}<small>… {len(value)}</small>")
            return
        start, end = "{}" if isinstance(value, dict) else "[]"
        small = f"<small>{escape(visible(summary)) or len(value)}</small>"
        mark = " open" if is_open else ""
        self._add(f"<details{mark}><summary>{label}{start} {small}</summary>")
        if isinstance(value, dict):
            self._items([*value.items()], depth)
        elif label == _label("entry") and depth == 1:
            self._entries(value, depth)
        else:
            self._items([(None, item) for item in value], depth)
        self._add(f"<p class=e>{end}{after}</p></details>")

    def _items(self, items: Sequence[tuple[str | None, Any]], depth: int) -> None:
        for number, (name, item) in enumerate(items, 1):
            if self._left <= 0:
                self._leave_out_rest(len(items) - number + 1)
                return
            after = "," if number < len(items) else ""
            label = "" if name is None else _label(name)
            self.write(label, item, after, depth + 1, is_open=name not in _FOLDED)

    def _entries(self, entries: Sequence[Any], depth: int) -> None:
        """Write a Bundle's entries: the first open, the next closed, then a line for each."""
        for number, entry in enumerate(entries, 1):
            after = "," if number < len(entries) else ""
            summary = summary_of(entry)
            if self._left > 0:
                is_open = number <= _OPEN_ENTRIES
                self.write("", entry, after, depth + 1, is_open=is_open, summary=summary)
            elif number <= _MOST_BRIEF:
                address = entry.get("fullUrl") if isinstance(entry, dict) else None
                shown = self._linked(escape(visible(summary)), address)
                self._leave_out(f"{{ {shown} … }}{after}")
            else:
                self._leave_out_rest(len(entries) - number + 1)
                return

    def _leave_out(self, line: str) -> None:
        self.cuts_parts = True
        self.parts.append(f"<p>{line}</p>")

    def _leave_out_rest(self, count: int) -> None:
        self.cuts_parts = True
        self.parts.append(f"<p class=soft>{escape(_('… and %(count)s more', count=count))}</p>")

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
        parts = [*value.values()] if isinstance(value, dict) else value
        if len(value) > 4 or not all(map(_is_short, parts)):
            return None
        if len(fhir_json.text(value)) > _LONGEST_LINE:
            return None
        lines = [str(self._line(part)) for part in parts]
        if isinstance(value, list):
            return f"[{', '.join(lines)}]"
        named = (f"{_label(name)}{line}" for name, line in zip(value, lines, strict=True))
        return f"{{ {', '.join(named)} }}"

    def _text(self, text: str) -> str:
        if len(text) < _LONGEST_TEXT:
            return self._linked(escape(visible(fhir_json.text(text))), text)
        quoted = escape(visible(fhir_json.text(text[:_LONGEST_TEXT])))
        if len(text) == _LONGEST_TEXT:
            return quoted
        self.cuts_texts = True
        count = numeral(len(text) - _LONGEST_TEXT)
        more = escape(_("… and %(count)s more characters", count=count))
        return f"{quoted} <small>{more}</small>"

    def _linked(self, markup: Markup, address: Any) -> str:
        href = self._link(address) if isinstance(address, str) else None
        return Markup('<a href="{}">{}</a>').format(href, markup) if href else markup


def _is_short(value: Any) -> bool:
    """Return whether a value may stand beside others on a line."""
    return isinstance(value, int) or (isinstance(value, str) and len(value) <= _LONGEST_LINE)


def _label(name: str) -> str:
    shown = name if len(name) <= _LONGEST_TEXT else f"{name[:_LONGEST_TEXT]}…"
    return f"<b>{escape(visible(fhir_json.text(shown)))}</b>: "


def summary_of(entry: Any) -> str:
    """Return an entry of a Bundle in a few words: AllergyIntolerance/al-1 · Latex."""
    parts = entry if isinstance(entry, dict) else {}
    resource, sent = parts.get("resource"), parts.get("request")
    if isinstance(resource, dict):
        elements = ("code", "type", "name", "class")
        texts = filter(None, (text_of(resource.get(element)) for element in elements))
        return " · ".join([name_of(resource), *(text[:80] for text in [*texts][:1])])
    if isinstance(sent, dict) and sent.get("method") == "DELETE":
        return _("deleted: %(what)s", what=str(sent.get("url", ""))[:_LONGEST_LINE])
    return _("no resource")
