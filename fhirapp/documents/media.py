"""Which reader a document needs, by its media type or its first bytes; and bytes to characters.

Also the protocol between the extractor and its worker: frames on standard input and output, each
led by its length. The worker begins with READY. A request is two frames, the kind and the document.
Its answer is a frame of TEXT and the text, or of UNREADABLE and the reason; a text is followed by
the section and the reason of each file within that could not be read, each led by a NUL. A worker
that dies gives the cause as its exit status.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator
from encodings import normalize_encoding
from encodings.aliases import aliases
from typing import IO, Literal, NamedTuple

# Characters of a document's text that are searched.
MAX_CHARACTERS = 1_000_000

# Those of WHATWG Encoding §4.2 and the code pages of old word processors. Not every codec of
# Python: some are slow on purpose-made input (punycode, idna), some are no charset (rot13).
_CODECS = frozenset(
    {
        *("utf_8", "utf_16", "utf_16_le", "utf_16_be", "cp437", "cp850", "cp852", "cp858", "cp866"),
        *("cp874", "cp932", "cp949", "cp950", "cp1250", "cp1251", "cp1252", "cp1253", "cp1254"),
        *("cp1255", "cp1256", "cp1257", "cp1258", "cp1361", "mac_roman", "mac_cyrillic"),
        *("mac_greek", "mac_latin2", "mac_turkish", "koi8_r", "koi8_u", "iso8859_2", "iso8859_3"),
        *("iso8859_4", "iso8859_5", "iso8859_6", "iso8859_7", "iso8859_8", "iso8859_10"),
        *("iso8859_13", "iso8859_14", "iso8859_15", "iso8859_16", "gb18030", "big5hkscs"),
        *("euc_jp", "iso2022_jp"),
    }
)
# Labels that stand for a larger set, as everywhere on the web: WHATWG Encoding §4.2.
_LARGER = {
    "ascii": "cp1252",
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859_11": "cp874",
    "iso8859_9": "cp1254",
    "latin_1": "cp1252",
    "shift_jis": "cp932",
    "tis_620": "cp874",
}
_MARKS = (
    (codecs.BOM_UTF8, "utf_8"),
    (codecs.BOM_UTF16_LE, "utf_16_le"),
    (codecs.BOM_UTF16_BE, "utf_16_be"),
)


def load_codecs() -> None:
    """Import every codec now: Python would read each one's file when it is first used."""
    for codec in _CODECS:
        codecs.lookup(codec)


def codec_of(label: str) -> str:
    """Return the codec of a charset's name, or "" if it is unknown."""
    if not label.isascii():
        return ""
    name = normalize_encoding(label).lower()
    name = aliases.get(name, name)
    name = _LARGER.get(name, name)
    return name if name in _CODECS else ""


def decode(data: bytes, outer: str, inner: str = "") -> str:
    """Return the characters of a document.

    outer is the codec of its media type, inner the one that it declares itself; either may be empty
    or wrong. A byte order mark overrides both: WHATWG Encoding §6.1. The fallback is windows-1252.
    """
    for mark, codec in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(codec, "replace")
    if inner.startswith("utf_16"):
        # Its name could be read as bytes, so it is something else: HTML §13.2.3.2.
        inner = "utf_8"
    for codec in filter(None, (outer, inner, "utf_8")):
        try:
            return data.decode(codec)
        except UnicodeDecodeError:
            continue
    # A stray byte in a document that is declared as UTF-8 must not spoil all the others.
    return data.decode("utf_8" if "utf_8" in (outer, inner) else "cp1252", "replace")


# A soft hyphen may be followed by the end of the line that it splits a word at.
_NOTHING = re.compile("\xad(?:[ \t]*\r?\n[ \t]*)?|[\0\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
_NO_TEXT = re.compile(
    "[\x01-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u200b\ud800-\udfff\ufdd0-\ufdef\ufff9-\uffff]"
)
# Marks stand on a letter: no letter or digit, no space, never ASCII.
_MANY_MARKS = re.compile(r"[^\w\s\x00-\x7f]{31,}")
_MOST_MARKS = 30
# A longer line is cut, or its words would take too much memory.
_LINE = re.compile(f"[^\n\v\f\r\x1c-\x1e\x85\u2028\u2029]{{1,{MAX_CHARACTERS}}}")


def tidy(text: str) -> str:
    """Return text in NFC, without empty lines, with single spaces between the words of a line.

    Control characters, and characters beyond MAX_CHARACTERS, are removed.
    """
    text = "\n".join(_lines(_NO_TEXT.sub(" ", _NOTHING.sub("", text))))[:MAX_CHARACTERS]
    if not text.isascii():
        text = unicodedata.normalize("NFC", _MANY_MARKS.sub(_fewer_marks, text))
    return text[:MAX_CHARACTERS].rstrip()


def _lines(text: str) -> Iterator[str]:
    """Return the lines that are not empty, as many as are needed."""
    length = 0
    for match in _LINE.finditer(text):
        line = " ".join(match[0].split())
        if line:
            yield line
            length += len(line)
        if length > MAX_CHARACTERS:
            break


def _fewer_marks(match: re.Match[str]) -> str:
    """Leave thirty marks to a letter: UAX #15 §13, Stream-Safe Text.

    Normal forms sort the marks of a letter, in time that grows with the square of their number.
    """
    kept = []
    marks = 0
    for character in match[0]:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= _MOST_MARKS:
            kept.append(character)
    return "".join(kept)


# "xml-alone" leaves the files within a C-CDA unread.
Reader = Literal["plain", "html", "xml", "xml-alone", "json", "rtf", "pdf", "docx", "odt"]
# Readers that display a document, instead of reading its text.
Shower = Literal["show-html", "show-xml", "show-pdf", "show-docx", "show-odt", "show-texts"]


class Unreadable(ValueError):
    """A document whose words cannot be read; the message is why, and quotes nothing of it."""


class InvalidAnswer(ValueError):
    """What a worker that keeps to the protocol does not answer."""


class Unread(NamedTuple):
    """A file within a document whose words cannot be read: the title of its section, and why."""

    section: str
    reason: str


class ExtractedText(NamedTuple):
    """The tidy text of a document, what of it could not be read, and if it was recognized (OCR)."""

    text: str
    unread: tuple[Unread, ...] = ()
    machine_read: bool = False


class DocumentFormat(NamedTuple):
    """The reader of a document, and the codec of the charset that its media type names, or ""."""

    reader: Reader | Shower
    codec: str


_READERS: dict[str, Reader] = {
    "application/json": "json",
    "application/pdf": "pdf",
    "application/rtf": "rtf",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/x-pdf": "pdf",
    "application/x-rtf": "rtf",
    "application/xhtml+xml": "html",
    "application/xml": "xml",
    "text/html": "html",
    "text/json": "json",
    "text/rtf": "rtf",
    "text/xml": "xml",
}
# RFC 6839: what a media type with such an end can be read as.
_FAMILIES: tuple[tuple[re.Pattern[str], Reader], ...] = (
    (re.compile(r"(?:application|text)/.+\+xml"), "xml"),
    (re.compile(r"(?:application|text)/.+\+json"), "json"),
    (re.compile(r"text/.+"), "plain"),
)
# RFC 6838 §4.2
_NAME = "[a-z0-9][a-z0-9!#$&^_.+-]{0,126}"
_MEDIA_TYPE = re.compile(f"{_NAME}/{_NAME}")
_CHARSET = re.compile(r"""charset\s*=\s*["']?([^"';\s]+)""", re.IGNORECASE)
# Media types for arbitrary bytes.
_UNSPECIFIC = frozenset({"", "application/octet-stream", "binary/octet-stream"})

# No document of another kind begins with these, so they count for more than the media type: a
# .doc that is RTF is called application/msword.
_SIGNATURES: tuple[tuple[bytes, Reader], ...] = ((b"%PDF-", "pdf"), (b"{\\rtf", "rtf"))
# A zip with such an entry: OpenDocument has its media type first, uncompressed.
_ODT = re.compile(
    rb"PK\x03\x04.{26}mimetype.{0,99}?application/vnd\.oasis\.opendocument\.text", re.DOTALL
)
_MAYBE_ZIPPED = _UNSPECIFIC | {"application/msword", "application/zip", "text/plain"}
_HTML = re.compile(
    rb"(?:<!--.{0,500}?-->\s*)?<(?:!doctype\s+html|html|head|body)[\s>]", re.IGNORECASE | re.DOTALL
)
_XML = re.compile(rb"<\?xml\s|<(?:\w+:)?ClinicalDocument[\s>]")
_START = 1024


def kind_of(content_type: str, data: bytes) -> DocumentFormat:
    """Return the format that reads a document. Raises Unreadable if there is none.

    content_type may have any case and parameters, be empty, or be no media type.
    """
    essence, _, parameters = content_type.partition(";")
    essence = essence.strip().lower()
    charset = _CHARSET.search(parameters)
    codec = codec_of(charset[1]) if charset else ""
    start = data[:_START].removeprefix(codecs.BOM_UTF8).lstrip()
    for signature, reader in _SIGNATURES:
        if start.startswith(signature):
            return DocumentFormat(reader, codec)
    if essence in _MAYBE_ZIPPED and data.startswith(b"PK\3\4"):
        if _ODT.match(data):
            return DocumentFormat("odt", codec)
        if b"word/document" in data:
            return DocumentFormat("docx", codec)
    if essence in _READERS:
        return DocumentFormat(_READERS[essence], codec)
    for pattern, reader in _FAMILIES:
        if pattern.fullmatch(essence):
            return DocumentFormat(reader, codec)
    if _MEDIA_TYPE.fullmatch(essence) and essence not in _UNSPECIFIC:
        raise Unreadable(f"{essence} is not read")
    return DocumentFormat(_guess(start, data), codec)


def _guess(start: bytes, data: bytes) -> Reader:
    """Return what reads a document without a media type. Raises Unreadable."""
    if _HTML.match(start):
        return "html"
    if _XML.match(start):
        return "xml"
    if b"\0" not in data:
        try:
            data.decode()
        except UnicodeDecodeError:
            pass
        else:
            return "plain"
    raise Unreadable(
        "what has no media type is read only if it is text, PDF, RTF, Word or OpenDocument"
    )


# The longest frames: of an answer a picture of a page, of a request a document.
LONGEST_ANSWER, LONGEST_REQUEST = 64_000_000, 64_000_000
# The most characters of a reason, of a section's title, and of what a worker could not be denied.
LONGEST_REMARK = 1_000
_MOST_PARTS = 1_000_000
READY = b"!"
TEXT = b"+"
UNREADABLE = b"-"
# The exit status of a worker that could get no more memory.
OUT_OF_MEMORY = 3
_LENGTH = 4
_PNG = b"\x89PNG\r\n\x1a\n"
_PAGES = re.compile(rb"\d{1,9}")


def write_frame(stream: IO[bytes], *parts: bytes) -> None:
    """Write one frame. Raises OSError when the other side is gone."""
    stream.write(sum(map(len, parts)).to_bytes(_LENGTH))
    for part in parts:
        stream.write(part)
    stream.flush()


def read_frame(stream: IO[bytes], most: int = LONGEST_ANSWER) -> bytes:
    """Return one frame. Raises EOFError at the end of the pipe, InvalidAnswer if it is too long.

    A frame longer than most is not read: a document may control the worker.
    """
    length = int.from_bytes(_read(stream, _LENGTH))
    if length > most:
        raise InvalidAnswer(f"a frame of {length} bytes")
    return _read(stream, length)


def _read(stream: IO[bytes], length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return data


def pack(reading: ExtractedText) -> bytes:
    """Return a reading as bytes: tidy text has no NUL."""
    return "\0".join([reading.text, *(part for file in reading.unread for part in file)]).encode()


def unpack(answer: bytes) -> ExtractedText:
    """Return the reading of a worker's answer. Raises InvalidAnswer."""
    text, *parts = _decoded(answer).split("\0")
    if len(text) > MAX_CHARACTERS or len(parts) % 2 or any(map(_is_long, parts)):
        raise InvalidAnswer("a reading of other lengths than asked for")
    return ExtractedText(text, tuple(map(Unread, parts[::2], parts[1::2])))


def check_answer(kind: DocumentFormat, answer: bytes) -> None:
    """Check that a worker's answer is one to a request of this kind. Raises InvalidAnswer."""
    sign, content = answer[:1], answer[1:]
    if sign == UNREADABLE:
        if _is_long(_decoded(content)):
            raise InvalidAnswer("a reason that is too long")
    elif sign != TEXT:
        raise InvalidAnswer("neither a text nor a reason")
    elif kind.reader == "show-pdf":
        is_right = _PAGES.fullmatch(content) if kind.codec == "0" else content.startswith(_PNG)
        if not is_right:
            raise InvalidAnswer("neither a number of pages nor a picture")
    elif kind.reader.startswith("show-"):
        _decoded(content)
    else:
        unpack(content)


def _decoded(content: bytes) -> str:
    if content.count(b"\0") > _MOST_PARTS:
        raise InvalidAnswer("too many parts")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidAnswer("text that is not UTF-8") from None


def _is_long(remark: str) -> bool:
    return len(remark) > LONGEST_REMARK


def write_request(stream: IO[bytes], kind: DocumentFormat, data: bytes) -> None:
    """Ask for the text of a document."""
    write_frame(stream, " ".join(kind).encode())
    write_frame(stream, data)


def read_request(stream: IO[bytes]) -> tuple[DocumentFormat, bytes]:
    """Return the next request. Raises EOFError when the other side is gone."""
    reader, _, codec = read_frame(stream, LONGEST_REQUEST).decode().partition(" ")
    return DocumentFormat(reader, codec), read_frame(stream, LONGEST_REQUEST)  # type: ignore[arg-type]
