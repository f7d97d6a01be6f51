"""OpenDocument texts (.odt, OASIS ODF 1.3) as HTML, of which the words are too.

As those of Word: tracked changes count as accepted, what is beside the text has a label, hidden
text a mark, and a list its numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from html import escape
from xml.etree.ElementTree import Element

from fhirapp.documents import office
from fhirapp.documents.media import Unreadable

_NOT_READ = frozenset({"tracked-changes", "forms", "script", "rt"})
# Shapes hold paragraphs, as frames do.
_BOXES = frozenset(
    {
        *("frame", "g", "custom-shape", "rect", "ellipse", "circle", "line", "polyline", "polygon"),
        *("regular-polygon", "path", "caption", "connector", "measure"),
    }
)
_BESIDE = _BOXES | {"annotation", "change-start", "change-end", "control"}
_CHARACTERS = {"s": " ", "tab": " ", "line-break": "<br>"}
_LINES = ("text-line-through-style", "text-line-through-type")
_BOLD = frozenset({"bold", "600", "700", "800", "900"})
# The marks of text without a style.
_LIST, _BULLET = Element("list-style"), Element("list-level-style-bullet")
# The most levels of an outline.
_DEEPEST = 10
# Of a row or a cell that is repeated, and of the whole.
_MOST_REPEATED, _MOST_CHARACTERS = 100, 8_000_000


def odt_html(data: bytes) -> str:
    """Return the HTML of an OpenDocument text. Raises Unreadable."""
    return office.convert(data, lambda archive: _Text(archive).html())


class _Text:
    def __init__(self, archive: office.Archive) -> None:
        if next(archive.tree("META-INF/manifest.xml").iter("encryption-data"), None) is not None:
            raise Unreadable(office.PASSWORD)
        self._common, self._content = archive.tree("styles.xml"), archive.tree("content.xml")
        if self._content.find("body") is None:
            raise ValueError("no body")
        trees = (self._common, self._content)
        self._styles = {
            (e.get("family", "list"), e.get("name", "")): e
            for tree in trees
            for tag in ("style", "list-style")
            for e in tree.iter(tag)
        }
        self._outline = next(self._common.iter("outline-style"), Element(""))
        self._controls = {e.get("id", ""): e for e in self._content.iter("checkbox")}
        changes = [e for tree in trees for e in tree.iter("changed-region")]
        self._is_tracked = bool(changes)
        self._inserted = {e.get("id", "") for e in changes if e.find("insertion") is not None}
        self._inserting: set[str] = set()
        # The last numbers by level, of lists by their id and by their style.
        self._counts: dict[str, dict[int, int]] = {}
        self._notes: dict[str, list[str]] = {"Note": [], "Comment": []}
        self._repeated = 0

    def html(self) -> str:
        html = self._asides("header") + self._blocks(self._content) + self._asides("footer")
        notes = "".join(itertools.chain(*self._notes.values()))
        return (office.TRACKED if self._is_tracked else "") + html + notes

    def _asides(self, kind: str) -> str:
        shown = (
            self._blocks(element)
            for page in self._common.iter("master-page")
            for element in page
            if element.tag.startswith(kind) and element.get("display") != "false"
        )
        return "".join(office.aside(kind.capitalize(), html) for html in dict.fromkeys(shown))

    def _marks(self, family: str, name: str, marks: office.Marks, depth: int = 20) -> office.Marks:
        """Return marks with those that a style sets, without those that it ends. ODF 1.3 §20"""
        style = self._styles.get((family, name))
        if style is None or not depth:
            return marks
        marks = self._marks(family, style.get("parent-style-name", ""), marks, depth - 1)
        values = {k: v for e in style.iterfind("text-properties") for k, v in e.items()}
        lines = [v for k, v in values.items() if k in _LINES]
        place = values.get("text-position", "")
        found = {
            "s": any(line != "none" for line in lines) if lines else None,
            "hidden": values["display"] != "true" if "display" in values else None,
            "b": values["font-weight"] in _BOLD if "font-weight" in values else None,
            "i": values["font-style"] != "normal" if "font-style" in values else None,
            "sub": place.startswith(("sub", "-")) if place else None,
            "sup": not place.startswith(("sub", "-", "0")) if place else None,
        }
        ended = {mark for mark, is_on in found.items() if is_on is False}
        return (marks - ended) | {mark for mark, is_on in found.items() if is_on}

    def _blocks(self, parent: Element, marks: office.Marks = office.NO_MARKS) -> str:
        return "".join(self._block(child, marks) for child in parent)

    def _block(self, element: Element, marks: office.Marks) -> str:
        if element.tag in ("p", "h"):
            return self._paragraph(element, marks)
        if element.tag == "list":
            return self._list(element, marks, 1, "", {})
        if element.tag == "table":
            rows = "".join(self._row(row, marks) for row in office.within(element, "table-row"))
            return f"<table>{rows}</table>"
        if element.tag in _BESIDE:
            return office.block("p", self._piece(element, marks))
        if element.tag in _NOT_READ:
            return ""
        return self._blocks(element, marks | _hidden(element.get("display"), element))

    def _paragraph(self, element: Element, marks: office.Marks, label: str = "") -> str:
        for hidden in element.iter("hidden-paragraph"):
            marks |= _hidden("condition", hidden)
        tag = "p"
        if element.tag == "h":
            level = office.whole(element.get("outline-level", "1"), _DEEPEST)
            tag = f"h{max(1, min(level, 6))}"
            if not label and element.get("is-list-header") != "true":
                label = _number(self._outline, level, self._counts.setdefault("", {}), "")
        marks = self._marks("paragraph", element.get("style-name", ""), marks)
        return office.block(tag, self._pieces(element, marks), label)

    def _list(
        self, element: Element, marks: office.Marks, level: int, style: str, counts: dict[int, int]
    ) -> str:
        style = element.get("style-name", style)
        if level == 1:
            is_continued = element.get("continue-numbering") == "true"
            before = element.get("continue-list") or (f"style {style}" if is_continued else "none")
            counts = self._counts.get(before, {})
            self._counts |= {element.get("id", "list"): counts, f"style {style}": counts}
        html = ""
        levels = self._styles.get(("list", style), _LIST)
        for item in element:
            label, start = "", item.get("start-value", "")
            if item.tag == "list-item" and any(child.tag in ("p", "h") for child in item):
                label = _number(levels, level, counts, start)
            for child in item:
                if child.tag == "list":
                    html += self._list(child, marks, level + 1, style, counts)
                elif child.tag in ("p", "h"):
                    html += self._paragraph(child, marks, label)
                    label = ""
                else:
                    html += self._block(child, marks)
        return html

    def _row(self, row: Element, marks: office.Marks) -> str:
        if row.get("visibility", "visible") != "visible":
            marks |= {"hidden"}
        html = ""
        for td in row.iterfind("table-cell"):
            wide, high = (
                office.whole(td.get(f"number-{of}-spanned", "1")) for of in ("columns", "rows")
            )
            text = office.cell(self._blocks(td, marks), wide, high)
            html += self._repeat(text, td.get("number-columns-repeated", "1"))
        return self._repeat(f"<tr>{html}</tr>", row.get("number-rows-repeated", "1"))

    def _repeat(self, html: str, times: str) -> str:
        number = max(1, office.whole(times, _MOST_REPEATED))
        self._repeated += len(html) * (number - 1)
        if self._repeated > _MOST_CHARACTERS:
            raise Unreadable(f"longer than {_MOST_CHARACTERS:,} characters")
        return html * number

    def _pieces(self, parent: Element, marks: office.Marks) -> Iterator[office.Piece]:
        """Yield what is within a paragraph; marks are those around it."""
        yield escape(parent.text or "", quote=False), self._now(marks)
        for child in parent:
            yield from self._piece(child, marks)
            yield escape(child.tail or "", quote=False), self._now(marks)

    def _now(self, marks: office.Marks) -> office.Marks:
        return marks | {"ins"} if self._inserting else marks

    def _piece(self, element: Element, marks: office.Marks) -> Iterator[office.Piece]:
        tag, name = element.tag, element.get("change-id", "")
        if tag in _CHARACTERS:
            yield _CHARACTERS[tag], self._now(marks)
        elif tag == "hidden-text":
            text = element.text or element.get("string-value") or ""
            yield escape(text, quote=False), marks | {"hidden"}
        elif tag == "change-start":
            self._inserting |= {name} & self._inserted
        elif tag == "change-end":
            self._inserting.discard(name)
        elif tag in ("note", "annotation"):
            yield self._note(element), self._now(marks) | {"sup"}
        elif tag == "control":
            yield self._control(element.get("control", "")), self._now(marks)
        elif tag in _BOXES:
            html = self._blocks(element, marks & {"hidden"})
            yield office.aside("Text box", html), office.BOX
            if not html and tag == "frame" and element.find("text-box") is None:
                yield office.remark("image or embedded file not shown", self._now(marks))
        elif tag not in _NOT_READ:
            inner = self._marks("text", element.get("style-name", ""), marks)
            yield from self._pieces(element, inner)

    def _note(self, element: Element) -> str:
        kind = "Note" if element.tag == "note" else "Comment"
        notes, author = self._notes[kind], element.findtext("creator") or ""
        number = len(notes) + 1
        # Before the notes within it, which get the next numbers.
        notes.append("")
        label = f"{kind} {number}{' by ' * bool(author)}{author}"
        notes[number - 1] = office.aside(label, self._blocks(element))
        return f"[{'comment ' * (kind == 'Comment')}{number}]"

    def _control(self, name: str) -> str:
        if (box := self._controls.get(name)) is None:
            return office.remark("form field not shown")[0]
        is_on = box.get("current-state", box.get("state")) == "checked"
        return f"{'☒' if is_on else '☐'} {escape(box.get('label', ''), quote=False)}"


def _hidden(display: str | None, element: Element) -> office.Marks:
    is_met = display == "condition" and element.get("is-hidden") != "false"
    return frozenset({"hidden"}) if display == "none" or is_met else office.NO_MARKS


def _number(levels: Element, level: int, counts: dict[int, int], start: str) -> str:
    """Return the next number of a list, "" where there is none. ODF 1.3 §16.30"""
    styles = {office.whole(style.get("level", "0")): style for style in levels}
    style = styles.get(level, _BULLET if levels.tag == "list-style" else Element(""))

    def count(at: int) -> int:
        return counts.get(at, office.whole(styles.get(at, style).get("start-value", "1")))

    counts[level] = office.whole(start) if start else count(level) + (level in counts)
    for deeper in [at for at in counts if at > level]:
        del counts[deeper]
    indent = "\u2003" * (level - 1)
    if not style.get("num-format"):
        if style.tag not in ("list-level-style-bullet", "list-level-style-image"):
            return ""
        bullet = style.get("bullet-char", "•")
        # A letter is of a font that has a bullet in its place.
        return indent + ("•" if bullet.isalnum() or office.PRIVATE.match(bullet) else bullet)
    shown = range(max(1, level + 1 - office.whole(style.get("display-levels", "1"))), level + 1)
    formats = [(at, styles.get(at, style).get("num-format", "")) for at in shown]
    text = ".".join(office.numeral(count(at), format_) for at, format_ in formats if format_)
    return indent + style.get("num-prefix", "") + text + style.get("num-suffix", "")
