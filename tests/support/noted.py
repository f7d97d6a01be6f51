"""Notes that somebody writes, and some that nobody would, for the tests of the pages of notes."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from flask import Flask

from tests.support.documents import lines, pdf, pdf_of_pages, stream
from tests.support.importing import load, write

MARKUP = '<img src=x onerror="run()"><b>Eve</b>'
TURNED = "Dr. \u202eevE\u202c Turner"
SCRIPTED = b"""<!doctype html><html><head><title>T</title><style>p { color: red }</style>
<script>window.top.ran = 1</script></head><body onload="window.top.ran = 1">
<h1>Visit</h1><p onclick="window.top.ran = 1">Hives after <b>amoxicillin</b>.</p>
<script>window.top.ran = 1</script><iframe src="https://evil.example/"></iframe>
<img src="https://evil.example/pixel.png" alt="a picture from elsewhere">
<a href="javascript:window.top.ran=1">link</a><form action="https://evil.example/"><input></form>
<svg onload="window.top.ran = 1"><script>window.top.ran = 1</script></svg>
<meta http-equiv="refresh" content="0; url=https://evil.example/"><base href="https://evil.example/">
</body></html>"""
DRAWING = (
    b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script></svg>'
)
BOMB = b"""<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;">]>
<ClinicalDocument xmlns="urn:hl7-org:v3"><title>&b;</title></ClinicalDocument>"""
ACTIVE_PDF = pdf(
    b"<< /Type /Catalog /Pages 2 0 R /OpenAction 6 0 R >>",
    b"<< /Type /Pages /Kids [4 0 R] /Count 1 /MediaBox [0 0 595 842]"
    b" /Resources << /Font << /F 3 0 R >> >> >>",
    b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    b"<< /Type /Page /Parent 2 0 R /Contents 5 0 R >>",
    stream(lines("Potassium 7.1, repeat at once")),
    b"<< /Type /Action /S /JavaScript /JS (app.alert\\(1\\)) >>",
)
TWO_PAGES = pdf_of_pages(lines("First page: furosemide"), lines("Second page: torasemide"))
RTF = rb"{\rtf1\ansi Rash after {\b ceftriaxone}.\par Better now.}"
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)

# Texts with numbers, scripts without spaces, hyphens at line ends, and operators, by a name.
TEXTS_OF_NOTES = {
    "five": "Metformin 5 mg daily, 37 C",
    "close": "Metformin 5mg daily",
    "half": "Metformin 2.5 mg daily",
    "comma": "Metformin 12,5 mg daily",
    "naked": "Metformin .5 mg daily",
    "many": "Heparin 1,234,567.5 mg",
    "dated": "Seen on 01.03.2024, 5 tablets of 10 mg",
    "code": "Asthma J45.0, vitamin B12",
    "chinese": "患者主诉胸痛三天\uff0c每次2.5毫克。",
    "japanese": "患者は胸の痛みを訴え、アレルギーはない。\n発熱あ\nり",
    "thai": "ผู้ป่วยปวดหัวมาก",
    "korean": "환자는 두통을 호소한다",
    "turkish": "Şiddetli baş AĞRISI, k\u0131r\u0131k",
    "hyphen": "Suspected pneu-\nmonia and well-\nknown COPD, follow-up",
    "pain": "chest pain, NOT fever and cough",
}


def note(note_id: str, *attached: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a note of p1's; more are its elements, without those that are None."""
    given = {
        "resourceType": "DocumentReference",
        "id": note_id,
        "status": "current",
        "type": {"coding": [{"system": "http://loinc.org", "code": "11506-3"}], "text": "Note"},
        "subject": {"reference": "Patient/p1"},
        "date": "2025-06-01T10:00:00Z",
        "content": [{"attachment": one} for one in attached],
        **more,
    }
    return {name: value for name, value in given.items() if value is not None and value != []}


def attached(content: bytes | str, content_type: str = "text/plain", **more: Any) -> dict[str, Any]:
    """Return an attachment with its bytes."""
    content = content.encode() if isinstance(content, str) else content
    return {"contentType": content_type, "data": base64.b64encode(content).decode(), **more}


def add(app: Flask, folder: Path, *resources: dict[str, Any]) -> None:
    """Import resources; each must be taken."""
    entries = [{"resource": one} for one in resources]
    report = load(
        app, write(folder, {"resourceType": "Bundle", "type": "collection", "entry": entries})
    )
    assert not report.faults, report.faults
