"""PDF, read by PDFium: the text and the pictures of its pages.

A scan has no text, unless the scanner wrote what it recognised beneath the picture.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise

from pypdfium2 import PdfDocument, PdfiumError, PdfPage, raw

from fhirapp.documents.media import MAX_CHARACTERS, Unreadable

# The character that PDFium writes for a hyphen and a line break.
_HYPHEN = "\x02"
# A page is at most 14,400 units wide (ISO 32000-1, annex C). What stands beside it is read too:
# what is cut off has not always been told so.
_ALL = 1e6
# Pixels: a page of a usual size is as wide, one of an unusual size is made to fit.
_WIDTH, _MOST_PIXELS = 1_200, 4_000_000
# As scanners have it for text recognition: 300 dots per inch of A4.
_OCR_WIDTH, _OCR_PIXELS = 2_480, 9_000_000
# Of a PNG, by the number of channels: grey, RGB, RGBA.
_PNG_COLOURS = {1: 0, 3: 2, 4: 6}


def read_pdf(data: bytes, _codec: str) -> str:
    """Return the text of a PDF, page by page. Raises Unreadable.

    Encrypted PDFs that open without a password are read.
    """
    return "\n".join(page_texts(data))


def page_texts(data: bytes) -> list[str]:
    """Return the text of each page, "" of a broken one. Raises Unreadable where none is left."""
    texts: list[str] = []
    length = broken = 0
    with _opened(data) as document:
        for index in range(len(document)):
            try:
                texts.append(_text_of_page(document, index))
            except PdfiumError:
                broken += 1
                texts.append("")
            length += len(texts[-1])
            if length > MAX_CHARACTERS:
                break
    if broken and not length:
        raise Unreadable("broken PDF")
    return texts


def page_count(data: bytes) -> int:
    """Return how many pages a PDF has. Raises Unreadable."""
    with _opened(data) as document:
        return len(document)


@contextmanager
def _opened(data: bytes) -> Iterator[PdfDocument]:
    try:
        document = PdfDocument(data)
    except PdfiumError as error:
        locked = error.err_code == raw.FPDF_ERR_PASSWORD
        raise Unreadable("PDF that needs a password" if locked else "broken PDF") from None
    with closing(document):
        yield document


@contextmanager
def _flat(document: PdfDocument, index: int) -> Iterator[PdfPage]:
    """Return a page with what is filled in and stamped: it is a part of it when read anew."""
    with closing(document[index]) as page:
        if raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY) != raw.FLATTEN_SUCCESS:
            yield page
            return
    with closing(document[index]) as page:
        yield page


def _text_of_page(document: PdfDocument, index: int) -> str:
    with _flat(document, index) as page, closing(page.get_textpage()) as text_page:
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


def page_picture(data: bytes, number: int, *, is_scan: bool) -> bytes:
    """Return the PNG of a page, from 1; for OCR it is larger and gray. Raises Unreadable."""
    with _opened(data) as document:
        if not 1 <= number <= len(document):
            raise Unreadable(f"PDF that has {len(document)} pages")
        try:
            with _flat(document, number - 1) as page:
                return _picture(page, is_scan=is_scan)
        except PdfiumError:
            raise Unreadable("broken page of a PDF") from None


def _picture(page: PdfPage, *, is_scan: bool) -> bytes:
    width, height = page.get_size()
    most_wide, most_pixels = (_OCR_WIDTH, _OCR_PIXELS) if is_scan else (_WIDTH, _MOST_PIXELS)
    if not (width > 0 and height > 0):
        raise Unreadable("PDF page without a size")
    scale = min(most_wide / width, (most_pixels / (width * height)) ** 0.5)
    if min(width, height) * scale < 1:
        raise Unreadable("PDF page that is a line")
    with closing(
        page.render(scale=scale, rev_byteorder=True, prefer_bgrx=False, grayscale=is_scan)
    ) as bitmap:
        return _png(
            bytes(bitmap.buffer), bitmap.width, bitmap.height, bitmap.stride, bitmap.n_channels
        )


def _png(pixels: bytes, width: int, height: int, stride: int, channels: int) -> bytes:
    """Return a PNG of rows of 8-bit grey, RGB or RGBA. ISO/IEC 15948."""
    rows = b"".join(
        b"\0" + pixels[start : start + width * channels]
        for start in range(0, stride * height, stride)
    )
    header = struct.pack(">IIBBBBB", width, height, 8, _PNG_COLOURS[channels], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(content))
        + name
        + content
        + struct.pack(">I", zlib.crc32(name + content))
        for name, content in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
