"""A document as a page shows it: safe HTML of all that is no PDF, pictures of a PDF's pages.

The result has no script, no style, no address, and loads nothing.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing

import nh3
from pypdfium2 import PdfiumError, PdfPage, raw

from fhirapp.documents.cda import narrative
from fhirapp.documents.docx import docx_html
from fhirapp.documents.markup import UNSEEN, html_characters, xml_characters
from fhirapp.documents.media import DocumentFormat, Unreadable, tidy
from fhirapp.documents.odt import odt_html
from fhirapp.documents.pdf import open_pdf, texts_of

# Of what is shown; the rest is downloaded.
MAX_CHARACTERS = 2_000_000
# Pixels: a page of a usual size is as wide, one of an unusual size is made to fit.
_WIDTH, _MOST_PIXELS = 1_200, 4_000_000
# As scanners have it for text recognition: 300 dots per inch of A4.
_OCR_WIDTH, _OCR_PIXELS = 2_480, 9_000_000
_INLINE_PICTURE = re.compile(r"data:image/(?:png|jpeg|gif);base64,[A-Za-z0-9+/=\s]*")
_TAGS = {
    *("abbr", "address", "article", "b", "bdi", "bdo", "blockquote", "br", "caption", "center"),
    *("cite", "code", "col", "colgroup", "dd", "del", "dfn", "div", "dl", "dt", "em", "figcaption"),
    *("figure", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "i", "img", "ins"),
    *("kbd", "li", "main", "mark", "ol", "p", "pre", "q", "s", "samp", "section", "small", "span"),
    *("strike", "strong", "sub", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "time"),
    *("tr", "tt", "u", "ul", "var"),
}
_ATTRIBUTES = {
    "*": {"dir", "lang", "title"},
    "img": {"alt", "src"},
    "ol": {"start", "type"},
    "td": {"colspan", "headers", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
}


def show(kind: DocumentFormat, data: bytes) -> bytes:
    """Return a document as it is displayed; kind.codec is the page of a PDF, from 1, or 0.

    Page 0 is the number of pages, in digits; `1:ocr` is page 1, larger and gray. Raises Unreadable,
    MemoryError.
    """
    return _SHOWN[kind.reader](data, kind.codec)


def _safe_html(data: bytes, codec: str) -> bytes:
    return _clean(html_characters(data, codec))


def _clinical(data: bytes, codec: str) -> bytes:
    # Cleaned again, since it is made of a document that anyone may have sent.
    return _clean(narrative(xml_characters(data, codec)))


def _clean(text: str) -> bytes:
    if len(text) > MAX_CHARACTERS:
        raise Unreadable(f"longer than {MAX_CHARACTERS:,} characters")
    shown = nh3.clean(
        text,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        attribute_filter=_filter,
        clean_content_tags={*UNSEEN, "svg", "math", "title"},
        url_schemes={"data"},
        link_rel=None,
    )
    return shown.encode()


def _filter(element: str, attribute: str, value: str) -> str | None:
    if (element, attribute) == ("img", "src") and not _INLINE_PICTURE.fullmatch(value):
        return None
    return value


def _texts(data: bytes, _codec: str) -> bytes:
    """Return the tidy text of each page of a PDF, a NUL between two."""
    with closing(open_pdf(data)) as document:
        return "\0".join(map(tidy, texts_of(document))).encode()


def _page(data: bytes, page_and_use: str) -> bytes:
    number, _, use = page_and_use.partition(":")
    with closing(open_pdf(data)) as document:
        count, index = len(document), int(number) - 1
        if index < 0:
            return str(count).encode()
        if index >= count:
            raise Unreadable(f"PDF that has {count} pages")
        try:
            with closing(document[index]) as page:
                # What is filled in and stamped becomes a part of the page, which is read anew.
                raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY)
            with closing(document[index]) as page:
                return _picture(page, is_read=bool(use))
        except PdfiumError:
            raise Unreadable("broken page of a PDF") from None


def _picture(page: PdfPage, *, is_read: bool) -> bytes:
    width, height = page.get_size()
    most_wide, most_pixels = (_OCR_WIDTH, _OCR_PIXELS) if is_read else (_WIDTH, _MOST_PIXELS)
    if not (width > 0 and height > 0):
        raise Unreadable("PDF page without a size")
    scale = min(most_wide / width, (most_pixels / (width * height)) ** 0.5)
    if min(width, height) * scale < 1:
        raise Unreadable("PDF page that is a line")
    with closing(
        page.render(scale=scale, rev_byteorder=True, prefer_bgrx=False, grayscale=is_read)
    ) as bitmap:
        if bitmap.n_channels not in _PNG_COLOURS:
            raise Unreadable("PDF page in colours that are not known")
        return _png(
            bytes(bitmap.buffer), bitmap.width, bitmap.height, bitmap.stride, bitmap.n_channels
        )


# Of a PNG, by the number of channels: grey, RGB, RGBA.
_PNG_COLOURS = {1: 0, 3: 2, 4: 6}


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


_SHOWN: Mapping[str, Callable[[bytes, str], bytes]] = {
    "show-docx": lambda data, _: _clean(docx_html(data)),
    "show-html": _safe_html,
    "show-odt": lambda data, _: _clean(odt_html(data)),
    "show-pdf": _page,
    "show-texts": _texts,
    "show-xml": _clinical,
}
