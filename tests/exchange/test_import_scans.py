"""Scans that an import reads by OCR: found by their words, which are called machine-read."""

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
from fhirapp.ops.backups.drill import read_everything
from fhirapp.ops.check import Faults
from fhirapp.store.migrate import read_scans, reindex
from fhirapp.store.version import INDEX, StoreState
from tests.support.browsing import Browser, add_person
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
# Of the demo's own notes.
DEMO = ("doc-p1-scan-2023", "doc-p6-scan-2024")
TYPED = note("n-typed", attached("Xylometazoline is tolerated."))


@pytest.fixture
def scanned(make_app: Callable[..., Flask], tmp_path: Path, tesseract) -> Flask:
    """Return an app that has machine-read scans."""
    tesseract(READ)
    app = make_app(ocr_languages="eng")
    add(app, tmp_path, SCAN, PHOTO, FAX, TYPED)
    tesseract("exit 9")
    return app


def found(app: Flask, words: str = "xylometazoline") -> list[str]:
    return sorted(asking(app).ids(f"DocumentReference?_content={words}"))


def again(app: Flask) -> None:
    """Make bodies and index rows anew, which then are as the records say."""
    with app.app_context():
        with writing() as connection:
            reindex(connection, types(), RENDERING)
        faults = Faults()
        read_everything(faults, db.engine, types(), RENDERING)
    assert faults.lines() == []


def test_an_import_reads_scans_and_counts_them(make_app, tmp_path, tesseract):
    tesseract(READ)
    app = make_app(ocr_languages="eng")
    entries = [{"resource": one} for one in (SCAN, PHOTO, TYPED)]
    bundle = write(tmp_path, {"resourceType": "Bundle", "type": "collection", "entry": entries})
    report = load(app, bundle)
    assert report.also() == [("machine-read documents", 2, "by OCR: may be wrong")]
    assert report.content()["machineRead"] == 2
    assert found(app) == ["n-photo", "n-scan", "n-typed"]


def test_what_tesseract_cannot_read_is_counted_and_imported(make_app, tmp_path, tesseract):
    tesseract("exit 3")
    app = make_app(ocr_languages="eng")
    report = load(app, write(tmp_path, SCAN))
    reason = "text recognition failed: tesseract ended with 3"
    assert report.also() == [("documents without words", 1, reason)]
    assert asking(app).ids("DocumentReference?_id=n-scan") == ["n-scan"]


def test_a_search_shows_the_words_of_a_scan_as_machine_read(scanned):
    page = Browser(scanned).resume(add_person(scanned, CLINICIAN)).get("/notes?q=xylometazoline")
    assert page.words.count(f"Known allergy: Xylometazoline , hives. {WARNING}") == 3
    assert "Xylometazoline is tolerated." in page.words


@pytest.mark.parametrize("note_id", ["n-scan", "n-photo", "n-fax"])
def test_a_note_shows_the_words_of_a_scan_as_machine_read(scanned, note_id):
    browser = Browser(scanned).resume(add_person(scanned, CLINICIAN))
    words = browser.get(f"/notes/{note_id}?q=hives").words
    assert "Machine-read text (OCR): may be wrong Known allergy: Xylometazoline, hives ." in words
    assert WARNING in words
    assert "1 match, highlighted below." in words
    assert "Its text cannot be read or searched" not in words
    assert "Machine-read" not in browser.get("/notes/n-typed").words


def test_two_versions_are_compared_by_what_was_machine_read(scanned, tmp_path, tesseract):
    tesseract("echo 'No allergy is known.'")
    add(scanned, tmp_path, note("n-scan", attached(pdf_of_pages(b" "), "application/pdf")))
    browser = Browser(scanned).resume(add_person(scanned, CLINICIAN))
    words = browser.get("/notes/n-scan/difference?from=1&to=2").words
    assert words.count(WARNING) == 2
    assert "added: No allergy" in words


def test_pages_say_how_far_scans_are_searched(scanned, own_app):
    for app, said in (
        (scanned, "a page that could not be read, or a word that was misread, is not found"),
        (own_app, "Scanned pages cannot be searched."),
    ):
        browser = Browser(app).resume(add_person(app, CLINICIAN))
        for path in ("/notes", "/notes?q=zzz", "/notes?q=zzz&patient=p1"):
            assert said in browser.get(path).words
    fhir = asking(own_app)
    outcome = fhir.get("DocumentReference?_content=zzz&_explain=true").json["entry"][0]["resource"]
    assert "machine-read them (OCR), which may be wrong" in str(outcome["issue"])


def test_scans_that_were_imported_without_ocr_are_read_later(own_app, tmp_path, tesseract):
    report = load(own_app, write(tmp_path, SCAN))
    assert report.also() == [("documents without words", 1, "has no text, as a scan")]
    add(own_app, tmp_path, PHOTO, FAX, TYPED)
    tesseract(READ)
    # The same file again holds nothing new, and is not read.
    load(own_app, write(tmp_path, SCAN))
    assert found(own_app) == ["n-typed"]
    with own_app.app_context():
        assert read_scans(types()["Binary"], "eng") == 3 + len(DEMO)
    assert found(own_app) == ["n-typed"]
    again(own_app)
    assert found(own_app) == [*DEMO, "n-fax", "n-photo", "n-scan", "n-typed"]
    with own_app.app_context():
        assert read_scans(types()["Binary"], "eng") == 0


def test_the_words_of_scans_outlast_new_rules_without_ocr(scanned):
    with scanned.app_context(), writing() as connection:
        connection.execute(delete(StoreState).where(StoreState.name == INDEX))
    again(scanned)
    assert found(scanned) == ["n-fax", "n-photo", "n-scan", "n-typed"]


def test_the_shell_reads_scans_and_says_what_is_missing(tmp_path, tesseract):
    tesseract(READ)
    assert fhirapp(tmp_path, "import", str(write(tmp_path, SCAN))).returncode == 0
    done = fhirapp(tmp_path, "db", "reindex", OCR_LANGUAGES="eng")
    assert "Scans that were machine-read: 1." in done.stderr
    done = fhirapp(tmp_path, "db", "reindex", OCR_LANGUAGES="deu")
    assert "lacks deu; on Debian: apt-get install tesseract-ocr-deu. Until then" in done.stderr
    assert "machine-read" not in done.stderr
    done = fhirapp(tmp_path, "doctor", "--quick", OCR_LANGUAGES="deu")
    assert "WRONG  Documents: scans cannot be read by OCR, in deu" in done.stdout
    assert "apt-get install tesseract-ocr-deu" in done.stdout
    done = fhirapp(tmp_path, "import", str(write(tmp_path, PHOTO)), OCR_LANGUAGES="deu")
    assert "FHIRAPP_OCR_LANGUAGES=deu: tesseract lacks deu" in done.stderr
