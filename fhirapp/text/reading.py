"""Read one document, by the reader that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fhirapp.text.json import read_json
from fhirapp.text.markup import read_html, read_xml
from fhirapp.text.media import Kind, kind_of
from fhirapp.text.pdf import read_pdf
from fhirapp.text.rtf import read_rtf
from fhirapp.text.words import decode, tidy


def read(kind: Kind, data: bytes) -> str:
    """Return the tidy text of a document. Raises Unreadable, and MemoryError."""
    return tidy(_READERS[kind.reader](data, kind.codec))


def _read_clinical(data: bytes, codec: str) -> str:
    """Return the text of XML and of the documents within; base64 in base64 soon comes to an end."""
    text, enclosed = read_xml(data, codec)
    return "\n".join([text, *(read(kind_of(*document), document.data) for document in enclosed)])


_READERS: Mapping[str, Callable[[bytes, str], str]] = {
    "html": read_html,
    "json": read_json,
    "pdf": read_pdf,
    "plain": decode,
    "rtf": read_rtf,
    "xml": _read_clinical,
}
