"""Plain text of attached documents, so that a search for words finds those of the notes.

    media     which reader a document needs, by its media type and its first bytes
    words     bytes to characters, and characters to tidy text
    markup    HTML, XML and C-CDA
    rtf, pdf, json
    reading   one document, by the reader it needs
    showing   one document as a page shows it: safe HTML, pictures of pages; narrative is of C-CDA
    worker    the process that reads, within limits; start starts it, protocol is how it is asked
    extractor the one to call

A document comes from anywhere, so what reads it must be bounded: see extractor.
"""

from __future__ import annotations

from fhirapp.documents.extractor import Extractor
from fhirapp.documents.media import Unreadable

__all__ = ["Extractor", "Unreadable"]
