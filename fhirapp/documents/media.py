"""Which reader a document needs, by its media type or its first bytes; and bytes to characters.

Also the protocol between the extractor and its worker: messages on standard input and output, each
of words and bytes led by their lengths. The worker begins with the restrictions that this system
could not apply. A request is its fields and the document. An answer is the reason why there is
none, the section and the reason of each file within that could not be read, and the content. A
worker that dies gives the cause as its exit status.
"""

from __future__ import annotations

import codecs
import re
import struct
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
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


Reader = Literal["plain", "html", "xml", "json", "rtf", "pdf", "docx", "odt"]


class Unreadable(ValueError):
    """A document whose words cannot be read; the message is why, and quotes nothing of it."""


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

    reader: Reader
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


# "outer text" leaves the files within a C-CDA unread; "scan" is a page as OCR needs it.
Task = Literal["text", "outer text", "html", "page texts", "page count", "page", "scan"]


class DocumentRequest(NamedTuple):
    """What is wanted of a document, and its format; page counts from 1."""

    task: Task
    reader: Reader
    codec: str
    page: int = 0


class Answer(NamedTuple):
    """The content that was asked for, or the reason why there is none.

    It is UTF-8, with a NUL between the texts of two pages, or the PNG of a page. unread are the
    files within that are left out of a text.
    """

    content: bytes = b""
    unread: tuple[Unread, ...] = ()
    reason: str = ""


class InvalidMessage(ValueError):
    """A message that a worker which keeps to the protocol does not send."""


# The most characters of a reason or of a section's title, and the most files within that are named.
LONGEST_REMARK, MOST_UNREAD = 1_000, 1_000
# Bytes: those of the words of a message, of a document, and of the content of an answer.
_MOST_WORDS, _MOST_DOCUMENT = 9_000_000, 64_000_000
MOST_BYTES: Mapping[Task, int] = {
    "text": 4 * MAX_CHARACTERS,
    "outer text": 4 * MAX_CHARACTERS,
    "html": 8_000_000,
    "page texts": 10_000_000,
    "page count": 9,
    "page": 20_000_000,
    "scan": 20_000_000,
}
# The exit status of a worker that could get no more memory.
OUT_OF_MEMORY = 3
_LENGTHS = struct.Struct(">II")


def write_message(stream: IO[bytes], words: Sequence[str], content: bytes = b"") -> None:
    """Write words, which have no NUL, and bytes. Raises OSError when the other side is gone."""
    head = "\0".join(words).encode()
    stream.write(_LENGTHS.pack(len(head), len(content)) + head)
    stream.write(content)
    stream.flush()


def read_message(stream: IO[bytes], most: int) -> tuple[list[str], bytes]:
    """Return words, and at most so many bytes.

    Raises EOFError at the end of the pipe, and InvalidMessage before it reads what is too long: a
    document may control the worker.
    """
    words, content = _LENGTHS.unpack(_read(stream, _LENGTHS.size))
    if words > _MOST_WORDS or content > most:
        raise InvalidMessage(f"words of {words} bytes, and {content} bytes")
    try:
        return _read(stream, words).decode().split("\0"), _read(stream, content)
    except UnicodeDecodeError:
        raise InvalidMessage("words that are not UTF-8") from None


def _read(stream: IO[bytes], length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return data


def write_request(stream: IO[bytes], request: DocumentRequest, data: bytes) -> None:
    """Ask for something of a document."""
    write_message(stream, [*request[:3], str(request.page)], data)


def read_request(stream: IO[bytes]) -> tuple[DocumentRequest, bytes]:
    """Return the next request. Raises EOFError when the other side is gone."""
    (task, reader, codec, page), data = read_message(stream, _MOST_DOCUMENT)
    return DocumentRequest(task, reader, codec, int(page)), data  # type: ignore[arg-type]


def write_answer(stream: IO[bytes], answer: Answer) -> None:
    """Answer a request."""
    remarks = (word for file in answer.unread for word in file)
    write_message(stream, [answer.reason, *remarks], answer.content)


def read_answer(stream: IO[bytes], most: int) -> Answer:
    """Return an answer of at most so many bytes. Raises EOFError, InvalidMessage."""
    (reason, *remarks), content = read_message(stream, most)
    is_long = any(len(word) > LONGEST_REMARK for word in (reason, *remarks))
    if is_long or len(remarks) % 2 or len(remarks) > 2 * MOST_UNREAD or (reason and content):
        raise InvalidMessage("remarks of another form")
    return Answer(content, tuple(map(Unread, remarks[::2], remarks[1::2])), reason)
