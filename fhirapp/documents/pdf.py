"""Text of PDF, read by PDFium.

A scan has none, unless the scanner wrote what it recognised beneath the picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise

from pypdfium2 import PdfDocument, PdfiumError, PdfPage, raw

from fhirapp.documents.media import MAX_CHARACTERS, Unreadable

# The character that PDFium writes for a hyphen and a line break.
_HYPHEN = "\x02"
# A page is at most 14,400 units wide (ISO 32000-1, annex C). What stands beside it is read too:
# what is cut off has not always been told so.
_ALL = 1e6


def read_pdf(data: bytes, _codec: str) -> str:
    """Return the text of a PDF, page by page. Raises Unreadable.

    Encrypted PDFs that open without a password are read.
    """
    with closing(open_pdf(data)) as document:
        return "\n".join(texts_of(document))


def open_pdf(data: bytes) -> PdfDocument:
    """Return an open PDF, which the caller closes. Raises Unreadable."""
    try:
        return PdfDocument(data)
    except PdfiumError as error:
        locked = error.err_code == raw.FPDF_ERR_PASSWORD
        raise Unreadable("PDF that needs a password" if locked else "broken PDF") from None


def texts_of(document: PdfDocument) -> Iterator[str]:
    """Yield the text of each page, "" of a broken one. Raises Unreadable where nothing is left."""
    length = 0
    broken = 0
    for index in range(len(document)):
        try:
            text = _text_of_page(document, index)
        except PdfiumError:
            broken += 1
            text = ""
        yield text
        length += len(text)
        if length > MAX_CHARACTERS:
            break
    if broken and not length:
        raise Unreadable("broken PDF")


def _text_of_page(document: PdfDocument, index: int) -> str:
    with closing(document[index]) as page:
        # What is filled in and stamped becomes a part of the page, which then is read anew.
        if raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) != raw.FLATTEN_SUCCESS:
            return _text(page)
    with closing(document[index]) as page:
        return _text(page)


def _text(page: PdfPage) -> str:
    with closing(page.get_textpage()) as text_page:
        return _whole_words(text_page.get_text_bounded(-_ALL, -_ALL, _ALL, _ALL))


def _whole_words(text: str) -> str:
    """Write the words that a line end splits a second time, in one, after the page.

    Nobody knows whether "beta-/blocker" or "hyper-/tension" was meant, so both are found.
    """
    parts = text.split(_HYPHEN)
    whole = [
        left.rsplit(maxsplit=1)[-1] + right.split(maxsplit=1)[0]
        for left, right in pairwise(parts)
        if left[-1:].isalpha() and right[:1].isalpha()
    ]
    return "\n".join(["-".join(parts), *whole])
