"""Scans that are machine-read (OCR) during an import: searchable, and shown as machine-read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import delete

from fhirapp.auth.models import CLINICIAN
from fhirapp.db import db, writing
from fhirapp.definition import types
from fhirapp.server.check import Depth, check_database
from fhirapp.store.migrate import read_scans, reindex
from fhirapp.store.version import INDEX, StoreState
from tests.support.browsing import Browser, add_person
from tests.support.bundles import bundle, plain
from tests.support.documents import pdf_of_pages
from tests.support.importing import asking, load, write
from tests.support.noted import PICTURE, add, attached, note
from tests.support.reindexing import RENDERING
from tests.support.shell import fhirapp

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="scans are read on Linux only")

READ = "echo 'Known allergy: Xylometazoline, hives.'"
WARNING = "Machine-read (OCR): may be wrong or incomplete. Compare it with the scan."
SCAN = note("n-scan", attached(pdf_of_pages(b""), "application/pdf"))
PHOTO = note("n-photo", attached(PICTURE, "image/png"))
FAX = note("n-fax", attached(b"II*\0...", "image/tiff"))
TYPED = note("n-typed", attached("Xylometazoline is tolerated."))
# Of the demo's own notes.
DEMO = ("doc-p1-scan-2023", "doc-p6-scan-2024")


@pytest.fixture
def scanned(make_app: Callable[..., Flask], tmp_path: Path, tesseract) -> Flask:
    """An app with machine-read scans, whose tesseract is broken by now."""
    tesseract(READ)
    app = make_app(ocr_languages="eng")
    add(app, tmp_path, SCAN, PHOTO, FAX, TYPED)
    tesseract("exit 9")
    return app


def found(app: Flask) -> list[str]:
    return sorted(asking(app).ids("DocumentReference?_content=xylometazoline"))


def rebuild(app: Flask) -> None:
    """Rebuild bodies and index rows, and verify them against the records."""
    with app.app_context():
        with writing() as connection:
            reindex(connection, types(), RENDERING)
        assert check_database(db.engine, types(), Depth.CONTENT).faults == []


def test_scans_are_machine_read_and_counted_by_an_import(make_app, tmp_path, tesseract):
    tesseract(READ)
    app = make_app(ocr_languages="eng")
    path = write(tmp_path, bundle("collection", *map(plain, (SCAN, PHOTO, TYPED))))
    report = load(app, path)
    assert report.also() == [("machine-read documents", 2, "by OCR: may be wrong")]
    assert report.content()["machineRead"] == 2
    assert found(app) == ["n-photo", "n-scan", "n-typed"]


def test_scan_that_tesseract_cannot_read_is_counted_and_imported(make_app, tmp_path, tesseract):
    tesseract("exit 3")
    app = make_app(ocr_languages="eng")
    report = load(app, write(tmp_path, SCAN))
    reason = "text recognition failed: tesseract ended with 3"
    assert report.also() == [("documents without words", 1, reason)]
    assert asking(app).ids("DocumentReference?_id=n-scan") == ["n-scan"]


def test_pages_call_the_words_of_a_scan_machine_read(scanned):
    browser = Browser(scanned).resume(add_person(scanned, CLINICIAN))
    words = browser.get("/notes?q=xylometazoline").words
    assert words.count(f"Known allergy: Xylometazoline , hives. {WARNING}") == 3
    assert "Xylometazoline is tolerated." in words
    for note_id in ("n-scan", "n-photo", "n-fax"):
        words = browser.get(f"/notes/{note_id}?q=hives").words
        assert "(OCR): may be wrong Known allergy: Xylometazoline, hives ." in words
        assert WARNING in words
        assert "1 match, highlighted below." in words
        assert "Its text cannot be read or searched" not in words
    assert "Machine-read" not in browser.get("/notes/n-typed").words


@pytest.mark.process
def test_scans_that_were_imported_without_ocr_are_read_later(own_app, tmp_path, tesseract):
    report = load(own_app, write(tmp_path, SCAN))
    assert report.also() == [("documents without words", 1, "has no text, as a scan")]
    add(own_app, tmp_path, PHOTO, FAX, TYPED)
    tesseract(READ)
    # The same file again has nothing new, and is not read.
    load(own_app, write(tmp_path, SCAN))
    assert found(own_app) == ["n-typed"]
    with own_app.app_context():
        assert read_scans(types()["Binary"], "eng") == 3 + len(DEMO)
    assert found(own_app) == ["n-typed"]
    rebuild(own_app)
    assert found(own_app) == [*DEMO, "n-fax", "n-photo", "n-scan", "n-typed"]
    with own_app.app_context():
        assert read_scans(types()["Binary"], "eng") == 0


@pytest.mark.process
def test_words_of_scans_are_kept_by_a_rebuild_without_ocr(scanned):
    with scanned.app_context(), writing() as connection:
        connection.execute(delete(StoreState).where(StoreState.name == INDEX))
    rebuild(scanned)
    assert found(scanned) == ["n-fax", "n-photo", "n-scan", "n-typed"]


@pytest.mark.process
def test_commands_read_scans_and_name_a_missing_language(tmp_path, tesseract):
    tesseract(READ)
    assert fhirapp(tmp_path, "import", str(write(tmp_path, SCAN))).returncode == 0
    done = fhirapp(tmp_path, "db", "reindex", OCR_LANGUAGES="eng")
    assert "Scans that were machine-read: 1." in done.stderr
    done = fhirapp(tmp_path, "db", "reindex", OCR_LANGUAGES="deu")
    assert "lacks deu; on Debian: apt-get install tesseract-ocr-deu. Until then" in done.stderr
    assert "machine-read" not in done.stderr
    done = fhirapp(tmp_path, "doctor", "--quick", OCR_LANGUAGES="deu")
    assert "WRONG  Documents: Scans cannot be read by OCR: " in done.stdout
    assert "apt-get install tesseract-ocr-deu" in done.stdout
    done = fhirapp(tmp_path, "import", str(write(tmp_path, PHOTO)), OCR_LANGUAGES="deu")
    assert "FHIRAPP_OCR_LANGUAGES=deu: tesseract lacks deu" in done.stderr
