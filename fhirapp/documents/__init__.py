"""Attached documents: their words, so that a search finds them, and how pages show them.

    extractor  the interface: reads documents in a process with limits
    worker     that process
    media      which reader a document needs; bytes to characters; how the worker is called
    markup, cda, rtf, pdf, docx, odt
               the readers; office is what the last two have in common
    ocr        words of scans, recognized by Tesseract
    rendering  a document as a page shows it: safe HTML, pictures of pages

A document can come from anyone, so whatever reads it is bounded in time and memory.
"""

from __future__ import annotations

from fhirapp.documents.extractor import Extractor
from fhirapp.documents.media import Unreadable

__all__ = ["Extractor", "Unreadable"]
