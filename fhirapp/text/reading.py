"""Read one document, by the reader that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fhirapp.text.json import read_json
from fhirapp.text.markup import read_html, read_xml
from fhirapp.text.media import Kind, Reading, Unread, Unreadable, kind_of
from fhirapp.text.pdf import read_pdf
from fhirapp.text.rtf import read_rtf
from fhirapp.text.words import decode, tidy


def read(kind: Kind, data: bytes) -> Reading:
    """Return the tidy text of a document. Raises Unreadable, and MemoryError."""
    if kind.reader in ("xml", "xml-alone"):
        return _read_clinical(kind, data)
    return Reading(tidy(_READERS[kind.reader](data, kind.codec)))


def _read_clinical(kind: Kind, data: bytes) -> Reading:
    """Return the text of XML and of the files within; base64 in base64 soon comes to an end.

    A file that cannot be read takes nothing from the others.
    """
    text, enclosed = read_xml(data, kind.codec)
    texts, unread = [text], []
    for file in enclosed:
        try:
            if kind.reader == "xml-alone":
                raise Unreadable("")
            content = file.content()
            found = read(kind_of(file.content_type, content), content)
        except Unreadable as error:
            unread.append(Unread(tidy(file.section), str(error)))
        else:
            texts.append(found.text)
            unread += found.unread
    return Reading(tidy("\n".join(texts)), tuple(unread))


_READERS: Mapping[str, Callable[[bytes, str], str]] = {
    "html": read_html,
    "json": read_json,
    "pdf": read_pdf,
    "plain": decode,
    "rtf": read_rtf,
}
