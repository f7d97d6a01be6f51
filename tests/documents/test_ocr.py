"""OCR of scans: the text, its label, and failures of Tesseract."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fhirapp.config import ConfigurationError
from fhirapp.documents import Extractor, Unreadable, ocr
from fhirapp.documents.confine import UID
from fhirapp.documents.media import ExtractedText, Unread
from fhirapp.environment import load_settings
from tests import ROOT
from tests.support.documents import clinical, lines, medium, pdf_of_pages, scanned, section

pytestmark = pytest.mark.process

LONG = (
    "Amelia takes warfarin 5 mg daily since the valve was replaced; she is seen every month.",
    "No other medicine is known, and no allergy was reported at any of her visits until today.",
)
READ = "Penicillin: urticaria"


@pytest.fixture(scope="module")
def reader() -> Iterator[Extractor]:
    with Extractor(languages="eng") as extractor:
        yield extractor


def why(reader: Extractor, data: bytes) -> str:
    """Return why nothing could be read."""
    with pytest.raises(Unreadable) as refused:
        reader.read(data, "")
    return str(refused.value)


def test_page_with_text_keeps_it_and_one_without_is_read(reader, tesseract):
    tesseract(f"echo '  {READ}'; echo; echo 'twice   daily'")
    assert reader.read(pdf_of_pages(lines(*LONG), b""), "application/pdf") == ExtractedText(
        "\n".join([*LONG, READ, "twice daily"]), (), machine_read=True
    )


def test_pdf_with_text_on_each_page_needs_no_ocr(reader, tesseract):
    tesseract("exit 9")
    assert reader.read(pdf_of_pages(lines(*LONG)), "application/pdf") == ExtractedText(
        "\n".join(LONG)
    )


def test_stamp_on_a_scan_is_kept_beside_the_ocr_text(reader, tesseract):
    tesseract(f"echo '{READ}'")
    found = reader.read(pdf_of_pages(lines("FAX 3/7")), "application/pdf")
    assert found == ExtractedText(f"FAX 3/7\n{READ}", (), machine_read=True)


@pytest.mark.parametrize("said", ["page 3 of 3", ""])
def test_short_page_of_which_ocr_adds_nothing_is_not_called_machine_read(reader, tesseract, said):
    tesseract(f"echo '{said}'")
    found = reader.read(pdf_of_pages(lines("Page 3 of 3")), "application/pdf")
    assert found == ExtractedText("Page 3 of 3")


@pytest.mark.parametrize("start", ocr.PICTURES)
def test_picture_is_read_whatever_its_type_is_called(reader, tesseract, start):
    tesseract(f"echo '{READ}'")
    assert reader.read(start + b"...", "application/octet-stream") == ExtractedText(READ, (), True)
    with Extractor() as without, pytest.raises(Unreadable, match="image/png is not read"):
        without.read(start + b"...", "image/png")


def test_tesseract_is_given_no_secret_one_thread_and_the_languages(reader, tesseract, monkeypatch):
    monkeypatch.setenv("FHIRAPP_SECRET", "s" * 32)
    monkeypatch.setenv("PGPASSWORD", "p")
    tesseract('echo "<$FHIRAPP_SECRET$PGPASSWORD> $OMP_THREAD_LIMIT $*"')
    found = reader.read(ocr.PICTURES[0], "")
    assert found.text == "<> 1 stdin stdout -l eng --psm 1"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 3", "text recognition failed: tesseract ended with 3"),
        ("no-such-program", "text recognition failed: tesseract ended with 127"),
        ("while :; do echo endless; done", "text recognition failed: tesseract ended with -25"),
        ("while :; do :; done", "text recognition takes longer than 1 s"),
    ],
)
def test_tesseract_that_breaks_is_a_reason(reader, tesseract, monkeypatch, script, reason):
    monkeypatch.setattr(ocr, "PAGE_SECONDS", 1 if reason.endswith("1 s") else 30)
    tesseract(script)
    started = time.monotonic()
    assert why(reader, pdf_of_pages(b"")) == reason
    assert time.monotonic() - started < 30
    tesseract(f"echo '{READ}'")
    assert reader.text_of(ocr.PICTURES[0], "") == READ


def test_tesseract_cannot_read_the_files_of_the_servers_user(reader, tesseract, monkeypatch):
    """Neither the user nor the files' modes keep it from them: the files are its own user's."""
    # As root the program has a user of its own.
    user = UID if os.geteuid() == 0 else os.geteuid()
    tesseract("")
    folder = Path(os.environ["PATH"].partition(":")[0]) / "instance"
    folder.mkdir(mode=0o700)
    os.chown(folder, user, -1)
    script = ""
    for name in ("fhirapp.db", "secret.key"):
        (folder / name).write_text(f"content of {name}\n")
        (folder / name).chmod(0o600)
        os.chown(folder / name, user, -1)
        script += f'read -r line < {folder / name} && echo "$line" || echo refused\n'
    script += f"[ -d {folder} ] && echo {folder}/*"
    unconfined = subprocess.run(
        ["/bin/sh", "-c", script], user=user, capture_output=True, text=True, check=True
    )
    assert unconfined.stdout.splitlines() == [
        *("content of fhirapp.db", "content of secret.key"),
        f"{folder}/fhirapp.db {folder}/secret.key",
    ]
    tesseract(script)
    assert reader.text_of(ocr.PICTURES[0], "").split("\n") == ["refused", "refused", f"{folder}/*"]
    # A folder that it is told to read opens no other.
    monkeypatch.setenv("TESSDATA_PREFIX", str(folder / "tessdata"))
    (folder / "tessdata").mkdir()
    assert reader.text_of(ocr.PICTURES[0], "").split("\n")[:2] == ["refused", "refused"]


_WITHOUT_LANDLOCK = """
import ctypes, errno, seccompy
# Root that cannot become another user, as in some containers: without CAP_SETGID and CAP_SETUID.
for capability in (6, 7):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
calls = seccompy.Filter()
calls.errno("landlock_create_ruleset", errno.ENOSYS)
calls.load()
from fhirapp.documents import Extractor, Unreadable, ocr
print(ocr.why_unusable("eng"))
with Extractor(languages="eng") as extractor:
    try:
        print(extractor.text_of(ocr.PICTURES[0], ""))
    except Unreadable as error:
        print(error)
"""


def test_tesseract_is_not_run_where_it_could_read_the_servers_files(tesseract):
    tesseract(f"echo '{READ}'")
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_LANDLOCK],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    reason = "tesseract could read the server's files"
    advice = "use Linux 5.13 or later with Landlock, which a container must allow"
    assert done.stdout.splitlines() == [f"{reason}; {advice}", reason]


def test_memory_beyond_the_limit_is_refused(reader, tesseract, monkeypatch):
    monkeypatch.setattr(ocr, "MEGABYTES", 1)
    tesseract(f"echo '{READ}'")
    assert why(reader, ocr.PICTURES[0]).startswith("text recognition failed: tesseract ended with")


def test_without_tesseract_a_scan_is_unreadable_and_all_else_is_read(reader, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert why(reader, ocr.PICTURES[0]) == "tesseract is not installed"
    found = reader.read(pdf_of_pages(lines(*LONG), b""), "application/pdf")
    unread = Unread("page 2", "tesseract is not installed")
    assert found == ExtractedText("\n".join(LONG), (unread,))


def test_first_pages_of_a_long_scan_are_read(reader, tesseract, monkeypatch):
    monkeypatch.setattr(ocr, "MAX_PAGES", 2)
    tesseract(f"echo '{READ}'")
    found = reader.read(pdf_of_pages(b"", lines(*LONG), b"", b""), "application/pdf")
    assert found.text.count(READ) == 2
    assert found.unread == (Unread("page 4", "text recognition stops after 2 pages"),)


def test_picture_inside_a_c_cda_stays_unread(reader, tesseract):
    tesseract(f"echo '{READ}'")
    document = clinical(section("Letter", "See the file", medium("image/png", "iVBORw0KGgo=")))
    found = reader.read(document, "text/xml")
    assert (found.machine_read, found.unread[0].reason) == (False, "image/png is not read")


def test_invalid_list_of_languages_stops_the_start(subtests):
    for languages in ["eng,deu", "-l", "eng+", "../eng", "+eng", "en g"]:
        with subtests.test(languages=languages):
            with pytest.raises(
                ConfigurationError, match=r"FHIRAPP_OCR_LANGUAGES=.* such as eng or eng\+"
            ):
                load_settings({"FHIRAPP_OCR_LANGUAGES": languages})
            assert load_settings({"FHIRAPP_OCR_LANGUAGES": "eng+chi_sim"}).ocr_languages


def test_missing_language_is_reported_with_its_package(tesseract, monkeypatch):
    tesseract("exit 9")
    assert ocr.why_unusable("eng") == ""
    lacking = "tesseract lacks deu, chi_sim; on Debian: apt-get install tesseract-ocr-"
    assert ocr.why_unusable("eng+deu+chi_sim") == f"{lacking}deu tesseract-ocr-chi-sim"
    monkeypatch.setenv("PATH", "/nowhere")
    assert "tesseract is not installed" in ocr.why_unusable("eng")


@pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract-ocr is not installed")
def test_tesseract_itself_reads_a_scan(reader):
    said = ("Known allergy to penicillin since 2011.", "Metoprolol 47.5 mg daily.")
    picture = reader.page_of(pdf_of_pages(lines(*said)), 1)
    for scan in (picture, scanned(picture)):
        found = reader.read(scan, "")
        assert found == ExtractedText("\n".join(said), (), machine_read=True)
