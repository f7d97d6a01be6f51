"""Text of RTF. Source: Rich Text Format Specification 1.9.1.

One pass, in time that grows with the length alone. Headers, footnotes, comments and text boxes are
read too; they follow the text that they are attached to.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field

from fhirapp.documents.media import Unreadable, codec_of

_START = 1024
_TOKEN = re.compile(
    rb"(?P<control>\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?\d{1,10})? ?)"
    rb"|\\'(?P<hex>[0-9a-fA-F]{2})"
    rb"|\\(?P<symbol>.)"
    rb"|(?P<brace>[{}])"
    rb"|(?P<text>[^\\{}]+)"
    # Half a token, at the end.
    rb"|.",
    re.DOTALL,
)

# Destinations that are not the document's text. Of those marked with {\* only the known are read.
_NOT_READ = frozenset(
    {
        *(b"colortbl", b"filetbl", b"fonttbl", b"info", b"nonesttables", b"pict", b"private"),
        *(b"rxe", b"shprslt", b"sp", b"stylesheet", b"tc", b"txe", b"xe"),
    }
)
_MARKED = frozenset({b"annotation", b"do", b"shpinst", b"ud"})
# Attached to the text where they stand, but no part of its sentence.
_ASIDE = frozenset(
    {
        *(b"annotation", b"dptxbxtext", b"footer", b"footerf", b"footerl", b"footerr", b"footnote"),
        *(b"header", b"headerf", b"headerl", b"headerr", b"shptxt"),
    }
)
_CHARACTERS = {
    **dict.fromkeys((b"column", b"line", b"nestrow", b"page", b"par", b"row", b"sect"), "\n"),
    **dict.fromkeys((b"cell", b"emspace", b"enspace", b"nestcell", b"qmspace", b"tab"), " "),
    b"bullet": "\u2022",
    b"emdash": "\u2014",
    b"endash": "\u2013",
    b"ldblquote": "\u201c",
    b"lquote": "\u2018",
    b"rdblquote": "\u201d",
    b"rquote": "\u2019",
    b"zwj": "\u200d",
    b"zwnj": "\u200c",
}
_SYMBOLS = {
    b"\t": " ",
    b"\n": "\n",
    b"\r": "\n",
    b"-": "\xad",
    b"\\": "\\",
    b"_": "\u2011",
    b"{": "{",
    b"}": "}",
    b"~": " ",
}
_CODE_PAGES = {b"ansi": "cp1252", b"mac": "mac_roman", b"pc": "cp437", b"pca": "cp850"}
# \fcharset of a font. 1, and what is not here, is the document's code page.
_CHARSETS = {
    0: "cp1252",
    2: "cp1252",
    77: "mac_roman",
    128: "cp932",
    129: "cp949",
    130: "cp1361",
    134: "gb18030",
    136: "cp950",
    161: "cp1253",
    162: "cp1254",
    163: "cp1258",
    177: "cp1255",
    178: "cp1256",
    186: "cp1257",
    204: "cp1251",
    222: "cp874",
    238: "cp1250",
    254: "cp437",
    255: "cp850",
}


def read_rtf(data: bytes, _codec: str) -> str:
    """Return the text of RTF, which names its charsets itself. Raises Unreadable."""
    place = data.find(b"{\\rtf", 0, _START)
    if place < 0:
        raise Unreadable("what is called RTF and is not")
    document = _Document()
    while token := _TOKEN.match(data, place):
        place = token.end()
        kind = token.lastgroup
        if kind == "text":
            # Line breaks in the file have no meaning.
            document.characters(token[0].translate(None, b"\r\n\0"))
        elif kind == "control":
            number = int(token["number"]) if token["number"] else None
            if token["word"] == b"bin":
                place += max(number or 0, 0)
            else:
                document.word(token["word"], number)
        elif kind == "brace":
            document.brace(token[0])
        elif kind == "hex":
            document.characters(bytes.fromhex(token["hex"].decode()))
        elif kind == "symbol":
            document.symbol(token["symbol"])
    return document.text()


def _character(number: int) -> str:
    """Return the character of a \\u, which has 16 bits with a sign; some write Unicode's number."""
    if -0x8000 <= number <= 0xFFFF:
        return chr(number % 0x10000)
    return chr(number) if 0 < number <= sys.maxunicode else "\N{REPLACEMENT CHARACTER}"


@dataclass(slots=True)
class _Group:
    """What holds until a group ends."""

    font: int | None = None
    # The number of fallback characters after a \u.
    fallback: int = 1
    marked: bool = False
    read: bool = True
    fonts: bool = False
    aside: bool = False

    def inner(self) -> _Group:
        """Return a group in this one, which begins with what holds in it."""
        return _Group(self.font, self.fallback, False, self.read, self.fonts, self.aside)


@dataclass(slots=True)
class _Stream:
    """Characters, of which the last came as bytes that are not decoded yet."""

    characters: list[str] = field(default_factory=list)
    waiting: bytearray = field(default_factory=bytearray)
    codec: str = "cp1252"

    def add_bytes(self, data: bytes, codec: str) -> None:
        if codec != self.codec:
            self.decode()
            self.codec = codec
        self.waiting += data

    def add(self, text: str) -> None:
        self.decode()
        self.characters.append(text)

    def decode(self) -> None:
        if self.waiting:
            self.characters.append(self.waiting.decode(self.codec, "replace"))
            self.waiting.clear()


class _Document:
    """Receives the tokens of an RTF document and gathers its text."""

    def __init__(self) -> None:
        self._group = _Group()
        self._outer: list[_Group] = []
        self._codec = "cp1252"
        self._fonts: dict[int | None, str] = {}
        self._font: int | None = None
        self._default_font: int | None = None
        # The fallback characters after a \u that are still to be skipped.
        self._skip = 0
        self._body, self._asides = _Stream(), _Stream()

    def text(self) -> str:
        for stream in (self._body, self._asides):
            stream.decode()
        text = "".join([*self._body.characters, "\n", *self._asides.characters])
        # \u is one of UTF-16's: two make a character beyond U+FFFF.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def brace(self, brace: bytes) -> None:
        self._skip = 0
        if brace == b"{":
            self._outer.append(self._group)
            self._group = self._group.inner()
        elif self._outer:
            self._group = self._outer.pop()

    def symbol(self, symbol: bytes) -> None:
        if symbol == b"*":
            self._group.marked = True
        elif self._skip:
            self._skip -= 1
        elif symbol in _SYMBOLS:
            self._add(_SYMBOLS[symbol])

    def characters(self, data: bytes) -> None:
        skipped = min(self._skip, len(data))
        self._skip -= skipped
        if self._group.read:
            codec = self._fonts.get(self._group.font, self._codec)
            self._stream().add_bytes(data[skipped:], codec)

    def word(self, word: bytes, number: int | None) -> None:
        self._skip = 0
        group = self._group
        if group.marked:
            group.marked = False
            group.read = group.read and word in _MARKED
        if word in _CHARACTERS:
            self._add(_CHARACTERS[word])
        elif word in _NOT_READ:
            group.read = False
            group.fonts = word == b"fonttbl"
        elif word in _ASIDE:
            group.aside = True
            self._add("\n")
        elif word in _CODE_PAGES:
            self._codec = _CODE_PAGES[word]
        elif word == b"plain":
            group.font = self._default_font
        elif number is not None:
            self._number(word, number)

    def _number(self, word: bytes, number: int) -> None:
        """Take a control word that has a number."""
        group = self._group
        if word == b"u":
            self._add(_character(number))
            self._skip = group.fallback
        elif word == b"uc":
            group.fallback = max(number, 0)
        elif word == b"f" and group.fonts:
            self._font = number
        elif word == b"f":
            group.font = number
        elif word == b"fcharset" and number in _CHARSETS:
            self._fonts[self._font] = _CHARSETS[number]
        elif word == b"deff":
            self._default_font = group.font = number
        elif word == b"ansicpg":
            self._codec = codec_of(f"cp{number}") or self._codec

    def _add(self, text: str) -> None:
        if self._group.read:
            self._stream().add(text)

    def _stream(self) -> _Stream:
        return self._asides if self._group.aside else self._body
