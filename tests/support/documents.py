"""Documents for the tests of fhirapp.text: PDF, locked PDF, C-CDA and XML that explodes."""

from __future__ import annotations

import hashlib
import struct

# ISO 32000-1 §7.6.3.3, algorithm 2: what an empty password is filled up with.
_PADDING = bytes.fromhex("28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a")
_ID = b"0123456789abcdef"
_OWNER = bytes(range(32))
_ALLOWED = -4


def pdf(*objects: bytes, trailer: bytes = b"") -> bytes:
    """Return a PDF of these objects, numbered from 1; the first is the catalog."""
    data = b"%PDF-1.7\n"
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return data + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R %s >>\n"
        b"startxref\n%d\n%%%%EOF\n" % (size, table, size, trailer, len(data))
    )


def stream(content: bytes, entries: bytes = b"") -> bytes:
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), entries, content)


def lines(*texts: str) -> bytes:
    """Return the content of a page with these lines of Helvetica."""
    shown = b"".join(b"(%s) Tj T* " % text.encode("cp1252") for text in texts)
    return b"BT /F 12 Tf 14 TL 72 700 Td %s ET" % shown


def pdf_of_pages(
    *contents: bytes, entries: bytes = b"", trailer: bytes = b"", **more: bytes
) -> bytes:
    """Return a PDF of pages with these content streams.

    entries are further ones of each stream; more are objects that the pages' resources name as
    XObjects, the first of which is object 4.
    """
    named = b" ".join(
        b"/%s %d 0 R" % (name.encode(), 4 + number) for number, name in enumerate(more)
    )
    first = 4 + len(more)
    kids = b" ".join(b"%d 0 R" % (first + 2 * number) for number in range(len(contents)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d /MediaBox [0 0 595 842]"
        b" /Resources << /Font << /F 3 0 R >> /XObject << %s >> >> >>"
        % (kids, len(contents), named),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        *more.values(),
    ]
    for number, content in enumerate(contents):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /Contents %d 0 R >>" % (first + 2 * number + 1)
        )
        objects.append(stream(content, entries))
    return pdf(*objects, trailer=trailer)


def scanned(*pages: bytes) -> bytes:
    """Return a PDF of pages that are pictures, RGB of 8 bits in PNG, and have no text."""
    pictures = {}
    for number, png in enumerate(pages):
        width, height = struct.unpack(">II", png[16:24])
        start = png.index(b"IDAT")
        size = int.from_bytes(png[start - 4 : start])
        entries = (
            b"/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceRGB"
            b" /BitsPerComponent 8 /Filter /FlateDecode"
            b" /DecodeParms << /Predictor 15 /Colors 3 /Columns %d >>" % (width, height, width)
        )
        pictures[f"I{number}"] = stream(png[start + 4 : start + 4 + size], entries)
    contents = [b"q 595 0 0 842 0 0 cm /I%d Do Q" % number for number in range(len(pages))]
    return pdf_of_pages(*contents, **pictures)


def locked_pdf(content: bytes, *, password: bool) -> bytes:
    """Return an encrypted PDF of one page, to open with a password or without.

    ISO 32000-1 §7.6, revision 2: RC4 with 40 bits.
    """
    key = hashlib.md5(_PADDING + _OWNER + struct.pack("<i", _ALLOWED) + _ID).digest()[:5]
    # Of the page's content, object 5 of generation 0: algorithm 1.
    content_key = hashlib.md5(key + b"\5\0\0" + b"\0\0").digest()[:10]
    check = _rc4(b"other" if password else key, _PADDING)
    return pdf_of_pages(
        _rc4(content_key, content),
        trailer=b"/ID [<%s> <%s>] /Encrypt << /Filter /Standard /V 1 /R 2 /P %d /O <%s> /U <%s> >>"
        % (_hex(_ID), _hex(_ID), _ALLOWED, _hex(_OWNER), _hex(check)),
    )


def _hex(data: bytes) -> bytes:
    return data.hex().encode()


def _rc4(key: bytes, data: bytes) -> bytes:
    state = list(range(256))
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    i = j = 0
    out = bytearray()
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)


C_CDA = """<?xml version="1.0" encoding="UTF-8"?>
<?xml-stylesheet type="text/xsl" href="https://example.org/CDA.xsl"?>
<ClinicalDocument xmlns="urn:hl7-org:v3" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <templateId root="2.16.840.1.113883.10.20.22.1.2"/>
  <code code="34133-9" codeSystem="2.16.840.1.113883.6.1" displayName="Summarization of Episode"/>
  <title>Visit Summary</title>
  <recordTarget><patientRole><patient><name><given>Hidden</given></name></patient></patientRole>
  </recordTarget>
  <component><structuredBody><component><section>
    <title>Allergies</title>
    <text>
      <table><thead><tr><th>Substance</th><th>Reaction</th></tr></thead>
      <tbody><tr><td ID="a1">Penicillin <content styleCode="Bold">G</content></td>
      <td>Hi<content>ves</content><br/>Itching</td></tr></tbody></table>
      <paragraph>CO<sub>2</sub> retention &amp; wheeze</paragraph>
    </text>
    <entry><observation classCode="OBS" moodCode="EVN">
      <text><reference value="#a1"/></text>
      <value xsi:type="CD" code="419511003" displayName="Propensity to adverse reaction to drug">
        <originalText>drug allergy</originalText></value>
      <value xsi:type="CD" code="55561003" displayName="Active"/>
      <value xsi:type="CD" code="55561003" displayName="Active"/>
    </observation></entry>
  </section></component></structuredBody></component>
</ClinicalDocument>
"""


def section(title: str, text: str, *entries: str, attributes: str = "") -> str:
    """Return a section of a C-CDA; text is XML, attributes are those of its text."""
    return (
        f"<component><section><title>{title}</title><text{attributes}>{text}</text>"
        f"{''.join(f'<entry>{one}</entry>' for one in entries)}</section></component>"
    )


def base64_section(title: str, content_type: str, body: str) -> str:
    """Return a section whose text is a file, in base64."""
    return section(title, body, attributes=f' mediaType="{content_type}" representation="B64"')


def medium(content_type: str, body: str, name: str = "MM1") -> str:
    """Return an entry that holds a file, which a section's text may show."""
    return (
        f'<observationMedia ID="{name}" classCode="OBS" moodCode="EVN"><value'
        f' mediaType="{content_type}" representation="B64">{body}</value></observationMedia>'
    )


def clinical(*sections: str) -> bytes:
    """Return a C-CDA of sections."""
    return (
        '<ClinicalDocument xmlns="urn:hl7-org:v3"><title>Visit</title><component>'
        f"<structuredBody>{''.join(sections)}</structuredBody></component></ClinicalDocument>"
    ).encode()


def unstructured(content_type: str, body: str) -> bytes:
    """Return a C-CDA whose body is another document, in base64."""
    return (
        '<ClinicalDocument xmlns="urn:hl7-org:v3"><title>Scanned note</title><component>'
        f'<nonXMLBody><text mediaType="{content_type}" representation="B64">{body}</text>'
        "</nonXMLBody></component></ClinicalDocument>"
    ).encode()


def laughs(levels: int) -> str:
    """Return XML whose entities name each other ten times on each level: a billion on the ninth."""
    entities = "".join(f'<!ENTITY e{level + 1} "{f"&e{level};" * 10}">' for level in range(levels))
    return f'<!DOCTYPE a [<!ENTITY e0 "lol">{entities}]><a>&e{levels};</a>'
