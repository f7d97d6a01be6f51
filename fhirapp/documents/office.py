"""What Word and OpenDocument files have in common: XML in a zip, and how it becomes HTML.

Elements and attributes are known by their names without prefix. Remarks on what is not shown are
<em>, which nothing else is; the search leaves them out.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from html import escape
from io import BytesIO
from itertools import groupby
from operator import itemgetter
from xml.etree.ElementTree import Element, TreeBuilder
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from fhirapp.documents.markup import parse_xml, read_html, xml_characters
from fhirapp.documents.media import MAX_CHARACTERS, Unreadable

_MAX_FILES, _MAX_BYTES = 5_000, 30_000_000
_OLE, _ENCRYPTED = b"\xd0\xcf\x11\xe0", "EncryptedPackage".encode("utf-16-le")
TRACKED = (
    "<p><strong><em>This document has tracked changes. It is shown as if they were accepted:"
    " deleted text is left out. Open the file to see it.</em></strong></p>"
)
PASSWORD = "document that needs a password"
# Characters that only their font gives a meaning.
PRIVATE = re.compile("[\ue000-\uf8ff]")
_REMARK = re.compile("<em>[^<]*</em>")
_ORDER = ("hidden", "ins", "s", "b", "i", "u", "sup", "sub")
# Groups of rows, fields of a form, what was inserted.
_AROUND = frozenset(
    {
        *("table-header-rows", "table-rows", "table-row-group"),
        *("customXml", "ins", "moveTo", "sdt", "sdtContent"),
    }
)
_ROMAN = tuple(
    zip(
        (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
        ("m", "cm", "d", "cd", "c", "xc", "l", "xl", "x", "ix", "v", "iv", "i"),
        strict=True,
    )
)

Marks = frozenset[str]
# HTML within a paragraph with its marks, or with BOX what follows the paragraph.
Piece = tuple[str, Marks]
NO_MARKS: Marks = frozenset()
BOX: Marks = frozenset({"box"})


class Archive:
    """The XML within a document, of which no more is unpacked than fits in memory."""

    def __init__(self, data: bytes) -> None:
        if data.startswith(_OLE):
            raise Unreadable(PASSWORD if _ENCRYPTED in data else "Word file of before 2007 (.doc)")
        self._zip = ZipFile(BytesIO(data))
        self._files = {file.filename: file for file in self._zip.infolist()}
        if len(self._zip.infolist()) > _MAX_FILES:
            raise Unreadable(f"more than {_MAX_FILES:,} files in a document")
        self._left = _MAX_BYTES
        self._trees: dict[str, Element] = {}

    def tree(self, name: str) -> Element:
        """Return the root of a file, an empty one where the file is missing. Raises Unreadable."""
        if name not in self._trees:
            self._trees[name] = self._parse(name)
        return self._trees[name]

    def _parse(self, name: str) -> Element:
        if (file := self._files.get(name)) is None:
            return Element("")
        if file.flag_bits & 1:
            raise Unreadable(PASSWORD)
        if file.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise BadZipFile
        with self._zip.open(file) as stream:
            content = stream.read(self._left + 1)
        self._left -= len(content)
        if self._left < 0:
            raise Unreadable(f"more than {_MAX_BYTES // 1_000_000} MB when unpacked")
        tree = _Tree()
        parse_xml(xml_characters(content, ""), tree)
        return tree.close()


class _Tree:
    """Receives the elements of XML, with names without prefix; close() returns the root."""

    def __init__(self) -> None:
        self._builder = TreeBuilder()
        self.characters, self.close = self._builder.data, self._builder.close

    def start(self, name: str, attributes: dict[str, str]) -> None:
        values = {key.rpartition(":")[2]: value for key, value in attributes.items()}
        self._builder.start(name.rpartition(":")[2], values)

    def end(self, name: str) -> None:
        self._builder.end(name.rpartition(":")[2])


def convert(data: bytes, converter: Callable[[Archive], str]) -> str:
    """Return the HTML of a document. Raises Unreadable."""
    try:
        return converter(Archive(data))
    except Unreadable:
        raise
    # What zipfile raises for what is damaged, and ours for numbers that are none.
    except (BadZipFile, EOFError, LookupError, OSError, RuntimeError, ValueError, zlib.error):
        raise Unreadable("broken Word or OpenDocument file") from None


def words(html: str) -> str:
    """Return the text of such HTML, without the remarks."""
    return read_html(_REMARK.sub("", html)[: 8 * MAX_CHARACTERS].encode(), "utf_8")


def remark(what: str, marks: Marks = NO_MARKS) -> Piece:
    """Return a remark within a paragraph."""
    return f"<em>[{escape(what)}]</em>", marks


def within(table: Element, tag: str) -> Iterator[Element]:
    """Yield the rows of a table, or the cells of a row, but not those of tables within."""
    for child in table:
        if child.tag == tag:
            yield child
        elif child.tag in _AROUND:
            yield from within(child, tag)


def cell(html: str, wide: int, high: int) -> str:
    """Return a cell of a table that spans so many columns and rows."""
    spans = {"colspan": wide, "rowspan": high}
    attributes = "".join(f' {name}="{span}"' for name, span in spans.items() if span > 1)
    return f"<td{attributes}>{html}</td>"


def aside(label: str, html: str) -> str:
    """Return what stands beside the text under its label, "" where nothing does."""
    return f"<div><strong>{escape(label)}:</strong> {html}</div>" if html else ""


def block(tag: str, pieces: Iterable[Piece], label: str = "") -> str:
    """Return a paragraph that begins with a label, and the boxes in it; "" where it is empty.

    Neighbours with the same marks are marked as one.
    """
    pieces = list(pieces)
    label = label if tag == "p" else label.strip()
    text = escape(f"{label} ", quote=False) if label else ""
    lines = (piece for piece in pieces if piece[0] and piece[1] is not BOX)
    for marks, group in groupby(lines, key=itemgetter(1)):
        html = "".join(map(itemgetter(0), group))
        for mark in reversed(_ORDER):
            if mark == "hidden" and mark in marks:
                html = f"<mark>[hidden text: {html}]</mark>"
            elif mark in marks:
                html = f"<{mark}>{html}</{mark}>"
        text += html
    boxes = "".join(html for html, marks in pieces if marks is BOX)
    return f"<{tag}>{text}</{tag}>{boxes}" if text else boxes


def whole(text: str, most: int = 2_147_483_647) -> int:
    """Return a whole number, at most so far from zero. Raises ValueError for what is none."""
    return max(-most, min(int(text), most))


def numeral(number: int, style: str) -> str:
    """Return the number of a list's item: as "a", "A", "i", "I", or else in digits."""
    text = str(number)
    if style in ("a", "A") and 0 < number < 1_000:
        text = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
    elif style in ("i", "I") and 0 < number < 4_000:
        text = ""
        for value, letters in _ROMAN:
            text += letters * (number // value)
            number %= value
    return text.upper() if style in ("A", "I") else text
