"""Word documents (.docx, ECMA-376 part 1) as HTML, of which the words are too.

Changes that are tracked count as accepted. What is beside the text has a label, hidden text a
mark. Lists have the numbers that Word shows. Nothing is fetched.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from xml.etree.ElementTree import Element

from fhirapp.documents import office

_GONE, _ADDED = frozenset({"del", "moveFrom", "cellDel"}), frozenset({"ins", "moveTo"})
_TRACKED = _GONE | _ADDED | {"cellIns"}
_PROPERTIES = frozenset(
    {"pPr", "rPr", "sdtPr", "sdtEndPr", "tblPr", "trPr", "tcPr", "tblGrid", "sectPr", "smartTagPr"}
)
_SKIPPED = _GONE | _PROPERTIES
_INLINE = frozenset({"r", "oMath", "oMathPara", "hyperlink", "fldSimple"})
_MARKS = {"strike": "s", "dstrike": "s", "vanish": "hidden", "b": "b", "i": "i", "u": "u"}
_INHERITED: office.Marks = frozenset({"ins", "hidden"})
_NO = frozenset({"0", "false", "off", "none"})
_CHARACTERS = {"br": "<br>", "cr": "<br>", "tab": "\t", "ptab": "\t", "noBreakHyphen": "\u2011"}
# Fonts of symbols, by the last byte of the character: §17.3.3.30.
_SYMBOLS: Mapping[str, Mapping[int, str]] = {
    "Symbol": dict(
        zip(
            b"abgdmDW\xa3\xa5\xad\xae\xaf\xb0\xb1\xb3\xb4\xb7\xb9\xbb",
            "αβγδµΔΩ≤∞↑→↓°±≥\xd7•≠≈",
            strict=True,
        )
    ),
    "Wingdings": dict(
        zip(b"loqx\xa8\xdf\xe0\xe1\xe2\xfb\xfc\xfd\xfe", "●☐☐☒☐←→↑↓✗✓☒☑", strict=True)
    ),
}
# What a part of a formula begins with; it ends with a bracket: §22.1.
_FORMULA = {"num": "(", "den": "/(", "sup": "^(", "sub": "_(", "d": "(", "deg": "root("}
_FILES = {"blip": "image", "imagedata": "image", "chart": "chart", "relIds": "diagram"} | (
    dict.fromkeys(("OLEObject", "altChunk", "subDoc"), "embedded file")
)
_NOTES = {f"{kind}Reference": kind for kind in ("footnote", "endnote", "comment")}
_LETTERS = {"lowerLetter": "a", "upperLetter": "A", "lowerRoman": "i", "upperRoman": "I"}
_MOST_COLUMNS = 99
# Of the levels of a list, from 0: §17.9.3.
_DEEPEST = 8


def docx_html(data: bytes) -> str:
    """Return the HTML of a Word document. Raises Unreadable."""
    return office.convert(data, lambda archive: _Word(archive).html())


def _value(element: Element | None, path: str, default: str = "") -> str:
    found = None if element is None else element.find(path)
    return default if found is None else found.get("val", default)


@dataclass
class _Cell:
    wide: int
    high: int = 1
    html: str = ""


class _Word:
    def __init__(self, archive: office.Archive) -> None:
        self._archive = archive
        self._main = (*self._parts("", "officeDocument"), "word/document.xml")[0]
        self._is_tracked = False
        self._styles: dict[str, Element] = {}
        self._normal = ""
        for style in self._elements("styles", "style"):
            self._styles.setdefault(style.get("styleId", ""), style)
            if style.get("type") == "paragraph" and style.get("default", "0") not in _NO:
                self._normal = style.get("styleId", "")
        self._style_marks: dict[str, office.Marks] = {}
        self._nums = {num.get("numId", ""): num for num in self._elements("numbering", "num")}
        self._lists = {
            list_.get("abstractNumId", ""): list_
            for list_ in self._elements("numbering", "abstractNum")
        }
        # The last number by list and level, and the starts that were used.
        self._counts: dict[str, dict[int, int]] = {}
        self._started: set[tuple[str, int]] = set()
        # The notes and comments that the text refers to, in their order.
        self._references: dict[str, list[str]] = {kind: [] for kind in _NOTES.values()}

    def _parts(self, of: str, kind: str) -> list[str]:
        """Return the parts that belong to a part, by how the relation's type ends."""
        folder, name = posixpath.split(of)
        return [
            posixpath.normpath(posixpath.join("/", folder, relation.get("Target", ""))).lstrip("/")
            for relation in self._archive.tree(posixpath.join(folder, "_rels", f"{name}.rels"))
            if relation.get("Type", "").rpartition("/")[2] == kind
            and relation.get("TargetMode") != "External"
        ]

    def _elements(self, kind: str, tag: str) -> Iterator[Element]:
        for part in self._parts(self._main, kind):
            yield from self._tree(part).iterfind(tag)

    def _tree(self, part: str) -> Element:
        root = self._archive.tree(part)
        for element in root.iter():
            self._is_tracked |= element.tag in _TRACKED or element.tag.endswith("Change")
            if element.tag == "AlternateContent":
                # The alternatives for new and for old programs.
                del element[1:]
        return root

    def html(self) -> str:
        root = self._tree(self._main)
        if root.find("body") is None:
            raise ValueError("no body")
        html = self._asides("header") + self._blocks(root) + self._asides("footer")
        for kind, names in self._references.items():
            notes = {note.get("id"): note for note in self._elements(f"{kind}s", kind)}
            # A note may refer to others.
            for number, name in enumerate(names, 1):
                note = notes.get(name, Element(""))
                author = f" by {note.get('author')}" if note.get("author") else ""
                text = self._blocks(note) or office.block("p", [office.remark("empty")])
                html += office.aside(f"{kind.capitalize()} {number}{author}", text)
        return office.TRACKED + html if self._is_tracked else html

    def _asides(self, kind: str) -> str:
        shown = (self._blocks(self._tree(part)) for part in self._parts(self._main, kind))
        return "".join(office.aside(kind.capitalize(), html) for html in dict.fromkeys(shown))

    def _blocks(self, parent: Element, marks: office.Marks = office.NO_MARKS) -> str:
        joined: list[office.Piece] = []
        return "".join(self._each_block(parent, marks, joined)) + office.block("p", joined)

    def _each_block(
        self, parent: Element, marks: office.Marks, joined: list[office.Piece]
    ) -> Iterator[str]:
        """Yield paragraphs and tables; joined is of paragraphs whose ends were deleted."""
        for child in parent:
            inner = marks | {"ins"} if child.tag in _ADDED else marks
            if child.tag == "p":
                chain = self._chain(_value(child, "pPr/pStyle", self._normal))
                joined += self._pieces(child, marks, self._marks_of(chain))
                if all(child.find(f"pPr/rPr/{gone}") is None for gone in ("del", "moveFrom")):
                    yield self._paragraph([*chain, child], joined)
                    joined.clear()
            elif child.tag == "tbl":
                yield office.block("p", joined) + self._table(child, marks)
                joined.clear()
            elif child.tag in _INLINE or child.tag in _FILES:
                yield office.block("p", self._pieces([child], marks, office.NO_MARKS))
            elif child.tag not in _SKIPPED:
                yield from self._each_block(child, inner, joined)

    def _chain(self, name: str) -> list[Element]:
        """Return a style after those that it is based on."""
        chain: list[Element] = []
        while name in self._styles and len(chain) < 20:
            chain.insert(0, self._styles[name])
            name = _value(chain[0], "basedOn")
        return chain

    def _marks_of(self, chain: list[Element]) -> office.Marks:
        name = chain[-1].get("styleId", "") if chain else ""
        if name not in self._style_marks:
            marks = office.NO_MARKS
            for style in chain:
                marks = _marked(style.find("rPr"), marks)
            self._style_marks[name] = marks
        return self._style_marks[name]

    def _paragraph(self, chain: list[Element], pieces: list[office.Piece]) -> str:
        """Return a paragraph, which is the last of the chain of its styles."""
        tag, num, level = "p", "", "0"
        for style in chain:
            heading = re.fullmatch("heading ([1-6])", _value(style, "name").lower())
            tag = f"h{heading[1]}" if heading else tag
            num = _value(style, "pPr/numPr/numId", num)
            level = _value(style, "pPr/numPr/ilvl", level)
        return office.block(tag, pieces, self._number(num, office.whole(level, _DEEPEST)))

    def _number(self, name: str, level: int, links: int = 5) -> str:
        """Return the next number of a list, "" where there is none. §17.9"""
        num = self._nums.get(name)
        key = _value(num, "abstractNumId")
        if num is None or key not in self._lists:
            return ""
        if links and (link := _value(self._lists[key], "numStyleLink")):
            linked = _value(self._styles.get(link), "pPr/numPr/numId")
            return self._number(linked, level, links - 1)
        levels = {office.whole(e.get("ilvl", "0")): e for e in self._lists[key].iterfind("lvl")}
        counts = self._counts.setdefault(key, {})
        for override in num.iterfind("lvlOverride"):
            at, start = office.whole(override.get("ilvl", "0")), _value(override, "startOverride")
            levels |= {at: found for found in override.iterfind("lvl")}  # noqa: B035
            if start and at == level and (name, level) not in self._started:
                self._started.add((name, level))
                counts[level] = office.whole(start) - 1
        return _label(levels, level, counts) if level in levels else ""

    def _table(self, table: Element, marks: office.Marks) -> str:
        rows: list[list[_Cell]] = []
        # By the column: the cell that those below may be merged with.
        above: dict[int, _Cell] = {}
        for row in office.within(table, "tr"):
            if row.find("trPr/del") is not None:
                continue
            column = office.whole(_value(row, "trPr/gridBefore", "0"), _MOST_COLUMNS)
            rows.append([_Cell(column)] if column else [])
            for tc in office.within(row, "tc"):
                if tc.find("tcPr/cellDel") is not None:
                    continue
                wide = office.whole(_value(tc, "tcPr/gridSpan", "1"), _MOST_COLUMNS)
                merge = tc.find("tcPr/vMerge")
                upper = above.pop(column, None)
                if merge is None or merge.get("val") == "restart" or upper is None:
                    upper = _Cell(wide, high=0)
                    rows[-1].append(upper)
                upper.high += 1
                upper.html += self._blocks(tc, marks)
                if merge is not None:
                    above[column] = upper
                column += wide
        html = "</tr><tr>".join(
            "".join(office.cell(c.html, c.wide, c.high) for c in row) for row in rows
        )
        return f"<table><tr>{html}</tr></table>" if rows else ""

    def _pieces(
        self, parent: Iterable[Element], marks: office.Marks, style: office.Marks
    ) -> Iterator[office.Piece]:
        """Yield what is within a paragraph; marks are those around it, style its style's."""
        for child in parent:
            tag = child.tag
            if tag == "r":
                # A property set by both styles is off: §17.7.3.
                styles = style ^ self._marks_of(self._chain(_value(child, "rPr/rStyle")))
                run = _marked(child.find("rPr"), styles) | (marks & _INHERITED)
                font = _font(child)
                for html, inner in self._pieces(child, run, style):
                    yield _replaced(html, font), inner
            elif tag in _FORMULA:
                yield _FORMULA[tag], marks
                yield from self._pieces(child, marks, style)
                yield ")", marks
            elif tag in _NOTES:
                yield self._reference(_NOTES[tag], child.get("id", "")), marks | {"sup"}
            elif tag == "txbxContent":
                yield office.aside("Text box", self._blocks(child, marks & _INHERITED)), office.BOX
            elif tag in _FILES:
                yield office.remark(f"{_FILES[tag]} not shown", marks)
            elif tag not in _SKIPPED:
                yield _text(child), marks
                inner = marks | {"ins"} if tag in _ADDED else marks
                yield from self._pieces(child, inner, style)

    def _reference(self, kind: str, name: str) -> str:
        names = self._references[kind]
        if name not in names:
            names.append(name)
        return f"[{'comment ' if kind == 'comment' else ''}{names.index(name) + 1}]"


def _label(levels: Mapping[int, Element], level: int, counts: dict[int, int]) -> str:
    """Return the next number, or the bullet, of a level of a list; count it."""

    def count(at: int) -> int:
        return counts.get(at, office.whole(_value(levels.get(at), "start", "0")))

    def shown(place: re.Match[str]) -> str:
        at = int(place[1]) - 1
        style = _value(levels.get(at), "numFmt")
        return "" if style == "none" else office.numeral(count(at), _LETTERS.get(style, "1"))

    counts[level] = count(level) + (level in counts)
    for deeper in [at for at in counts if at > level]:
        if _value(levels.get(deeper), "lvlRestart") != "0":
            del counts[deeper]
    text = _value(levels[level], "lvlText")
    if _value(levels[level], "numFmt") == "bullet":
        # An "o" is of a font that has a circle for it.
        text = "•" if text == "o" else _replaced(text, _font(levels[level]), "•")
    return "\u2003" * level + re.sub("%([1-9])", shown, text)


def _text(element: Element) -> str:
    """Return the HTML of the characters that an element stands for, "" of all others."""
    if element.tag == "t":
        return escape(element.text or "", quote=False)
    if element.tag == "sym":
        return _symbol(element.get("font", ""), int(element.get("char", "0"), 16))
    if element.tag == "checkBox":
        states = [e.get("val", "1") for e in element if e.tag in ("default", "checked")]
        return "☐" if not states or states[-1] in _NO else "☒"
    if element.tag == "ddList":
        entries = [entry.get("val", "") for entry in element.iterfind("listEntry")]
        chosen = office.whole(_value(element, "result", _value(element, "default", "0")))
        return escape([*entries[chosen:], "[choice]"][0], quote=False)
    return _CHARACTERS.get(element.tag, "")


def _symbol(font: str, number: int, unknown: str = "[symbol]") -> str:
    """Return a symbol, whose number may be one of Unicode's private area."""
    return _SYMBOLS.get(font, {}).get(number - 0xF000 if number >= 0xF000 else number, unknown)


def _replaced(text: str, font: str, unknown: str = "[symbol]") -> str:
    return office.PRIVATE.sub(lambda found: _symbol(font, ord(found[0]), unknown), text)


def _font(element: Element) -> str:
    fonts = element.find("rPr/rFonts")
    return "" if fonts is None else fonts.get("ascii", "")


def _marked(properties: Element | None, marks: office.Marks) -> office.Marks:
    """Return marks with those that properties set, without those that they end."""
    for element in () if properties is None else properties:
        value = element.get("val", "1")
        if name := _MARKS.get(element.tag):
            marks = marks - {name} if value in _NO else marks | {name}
        elif element.tag == "vertAlign":
            marks = (marks - {"sup", "sub"}) | ({value[:3]} & {"sup", "sub"})
    return marks
