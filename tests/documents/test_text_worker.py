"""The worker process that reads documents: limits, reuse and shutdown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import zlib
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fhirapp.documents import Extractor, Unreadable, media, worker
from fhirapp.documents import extractor as extractor_module
from fhirapp.documents.media import Answer, DocumentRequest, Unread
from tests.support.documents import base64_section, clinical, laughs, lines, pdf_of_pages, section

pytestmark = pytest.mark.process

HTML = b"<p>Takes warfarin"
# The parser goes up through all open elements for each: hours.
ENDLESS = b"<div>" * 200_000
START = [sys.executable, "-P", worker.__file__]


def test_documents_one_after_the_other_are_read_by_one_process(children):
    with Extractor() as extractor:
        first = extractor.text_of(HTML, "text/html")
        (one,) = children()
        second = extractor.text_of(pdf_of_pages(lines("Takes heparin")), "application/pdf")
        assert (first, second) == ("Takes warfarin", "Takes heparin")
        assert children() == {one}
    assert children() == set()


def test_recently_read_document_is_cached(children):
    with Extractor(remembered_megabytes=1) as extractor:
        assert extractor.text_of(HTML, "text/html") == "Takes warfarin"
        (one,) = children()
        os.kill(one, signal.SIGKILL)
        assert extractor.text_of(HTML, "text/html") == "Takes warfarin"
        time.sleep(0.5)
        # Another document, or the same shown in another way, is read anew.
        assert extractor.html_of(HTML, "text/html") == "<p>Takes warfarin</p>"
        assert children() - {one}


@pytest.mark.parametrize(("remembered", "tries"), [(60, 1), (0, 2)])
def test_document_that_took_too_long_is_tried_again_after_a_while(monkeypatch, remembered, tries):
    monkeypatch.setattr("fhirapp.documents.extractor._CRASH_SECONDS", remembered)
    asked = []
    monkeypatch.setattr(Extractor, "_ask", lambda _self, *_: asked.append(1) or died())

    def died() -> bytes:
        raise extractor_module._WorkerCrashed("takes longer than 5 s")

    with Extractor(remembered_megabytes=1) as extractor:
        for _ in range(2):
            with pytest.raises(Unreadable, match="takes longer than 5 s"):
                extractor.text_of(HTML, "text/html")
    assert len(asked) == tries


def test_plain_text_needs_no_process(children):
    with Extractor() as extractor:
        assert extractor.text_of(b"Takes warfarin", "text/plain") == "Takes warfarin"
        assert children() == set()


def test_unreadable_document_does_not_end_the_process(children):
    with Extractor() as extractor:
        extractor.text_of(HTML, "text/html")
        before = children()
        with pytest.raises(Unreadable):
            extractor.text_of(b"<a>", "text/xml")
        assert extractor.text_of(HTML, "text/html") == "Takes warfarin"
        assert children() == before


def test_document_that_takes_too_long_is_unreadable(children):
    with Extractor(seconds=0.3) as extractor:
        extractor.text_of(HTML, "text/html")
        before = children()
        began = time.monotonic()
        with pytest.raises(Unreadable) as error:
            extractor.text_of(ENDLESS, "text/html")
        assert str(error.value) == "takes longer than 0.3 s"
        assert time.monotonic() - began < 5
        assert children() == set()
        assert extractor.text_of(HTML, "text/html") == "Takes warfarin"
        assert children().isdisjoint(before)


def test_file_within_that_takes_too_long_takes_nothing_from_the_sections():
    endless = base64_section("Letter", "text/html", b64encode(ENDLESS).decode())
    letter = base64_section("Other", "text/html", b64encode(HTML).decode())
    document = clinical(section("Plan", "Takes heparin"), endless, letter)
    with Extractor(seconds=2) as extractor:
        found = extractor.read(document, "text/xml")
        reason = "left out: of the files within, one takes longer than 2 s"
        assert found.unread == (Unread("Letter", reason), Unread("Other", reason))
        assert found.text.split("\n") == ["Visit", "Plan", "Takes heparin", "Letter", "Other"]
        assert extractor.text_of(HTML, "text/html") == "Takes warfarin"


def test_document_that_needs_too_much_memory_is_unreadable():
    large = b"word " * 4_000_000
    with Extractor(megabytes=140) as extractor:
        with pytest.raises(Unreadable) as error:
            extractor.text_of(large, "text/plain")
        assert str(error.value) == "needs more than 140 MB of memory"
        assert extractor.text_of(HTML, "text/html") == "Takes warfarin"
    with Extractor() as extractor:
        assert extractor.text_of(large, "text/plain").startswith("word word")


@pytest.mark.parametrize(
    ("content_type", "document"),
    [
        pytest.param("application/pdf", "spaces", id="a PDF of 400 MB of nothing"),
        pytest.param("application/pdf", "text", id="a PDF of a page of 100 million letters"),
        pytest.param("text/html", b"<" * 10_000_000, id="10 MB of <"),
        pytest.param("text/xml", b"<a>" * 1_000_000, id="an XML of a million elements"),
        pytest.param("text/xml", laughs(20).encode(), id="a billion laughs"),
        pytest.param("text/rtf", b"{\\rtf1" + b"{" * 10_000_000, id="an RTF of groups"),
        pytest.param("application/json", b"[" * 10_000_000, id="a JSON of arrays"),
        pytest.param("text/plain", b"\0" * 10_000_000, id="10 MB of NUL"),
        pytest.param("text/plain", b"\xff" * 10_000_000, id="10 MB of no UTF-8"),
        pytest.param("text/plain", "\u0316\u0301".encode() * 2_000_000, id="10 MB of accents"),
    ],
)
def test_bomb_is_text_or_unreadable_and_what_follows_is_read(bombs, content_type, document):
    data = PDF_BOMBS[document]() if isinstance(document, str) else document
    began = time.monotonic()
    with suppress(Unreadable):
        bombs.text_of(data, content_type).encode()
    assert time.monotonic() - began < 30
    assert bombs.text_of(HTML, "text/html") == "Takes warfarin"


@pytest.fixture(scope="module")
def bombs() -> Iterator[Extractor]:
    with Extractor(seconds=1, megabytes=300) as extractor:
        yield extractor


def _bomb(piece: bytes, times: int) -> bytes:
    packer = zlib.compressobj()
    packed = b"".join(packer.compress(piece) for _ in range(times)) + packer.flush()
    return pdf_of_pages(packed, entries=b"/Filter /FlateDecode")


PDF_BOMBS = {
    "spaces": lambda: _bomb(b" " * 10_000_000, 40),
    "text": lambda: _bomb(lines("x" * 1_000) * 1_000, 100),
}


def test_worker_that_was_killed_is_replaced(children):
    with Extractor() as extractor:
        assert extractor.text_of(HTML, "text/html") == "Takes warfarin"
        (killed,) = children()
        os.kill(killed, signal.SIGKILL)
        os.waitid(os.P_PID, killed, os.WEXITED | os.WNOWAIT)
        assert extractor.text_of(HTML, "text/html") == "Takes warfarin"
        assert children().isdisjoint({killed})


def test_threads_share_an_extractor(children):
    texts: set[tuple[str, str]] = set()
    with Extractor() as extractor:

        def ask(number: int) -> None:
            for turn in range(20):
                name = f"{number}-{turn}"
                texts.add((name, extractor.text_of(f"<p>{name}".encode(), "text/html")))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(children()) == 1
    assert len(texts) == 160
    assert all(asked == answered for asked, answered in texts)


def test_interrupted_request_leaves_no_answer_for_the_next(children):
    """After Ctrl-C the worker's answer must not become the text of another document."""
    with Extractor(seconds=60) as extractor:
        extractor.text_of(HTML, "text/html")

        def interrupt(_signal: int, _frame: object) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt):
                extractor.text_of(ENDLESS, "text/html")
        finally:
            signal.signal(signal.SIGALRM, before)
        assert children() == set()
        assert extractor.text_of(HTML, "text/html") == "Takes warfarin"


def test_document_is_unreadable_where_no_worker_starts(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with Extractor() as extractor, pytest.raises(Unreadable) as error:
        extractor.text_of(HTML, "text/html")
    assert str(error.value) == "no process to read it could be started"


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A worker that nobody but its own limits bounds; it may run for a tenth of a second."""
    with subprocess.Popen(
        [*START, "0.1", "512"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as one:
        assert media.read_message(one.stdout, 0) == ([""], b"")
        yield one
        one.kill()


def test_worker_ends_when_it_has_used_up_its_time(process):
    media.write_request(process.stdin, DocumentRequest("text", "html", ""), HTML)
    assert media.read_answer(process.stdout, 99) == Answer(b"Takes warfarin")
    media.write_request(process.stdin, DocumentRequest("text", "html", ""), ENDLESS)
    assert process.wait(timeout=60) == -signal.SIGXCPU


def test_worker_ends_with_its_owner():
    """Even amid a document: the pipe closes."""
    with subprocess.Popen(
        [*START, "600", "512"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert media.read_message(process.stdout, 0) == ([""], b"")
        media.write_request(process.stdin, DocumentRequest("text", "html", ""), ENDLESS)
        process.stdin.close()
        assert process.wait(timeout=30) == 0


def test_worker_can_open_nothing_and_leaves_no_core(process):
    limits = Path(f"/proc/{process.pid}/limits").read_text("ascii")
    found = {line[:26].strip(): line[26:].split()[:2] for line in limits.splitlines()}
    assert found["Max open files"] == found["Max core file size"] == ["0", "0"]
    assert found["Max address space"] == [str(512 * 1024**2)] * 2


def test_worker_does_not_know_the_secrets_of_the_server(monkeypatch, children):
    monkeypatch.setenv("FHIRAPP_DATABASE_URL", "postgresql://fhirapp:hunter2@db/fhirapp")
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    with Extractor() as extractor:
        extractor.text_of(HTML, "text/html")
        (one,) = children()
        environment = Path(f"/proc/{one}/environ").read_bytes()
    assert b"PATH=" in environment
    assert b"hunter2" not in environment


# A worker that a document has taken over answers what it likes.

HIJACKED = """
import struct, sys
def send(words, content=b"", length=None):
    lengths = struct.pack(">II", len(words), len(content) if length is None else length)
    sys.stdout.buffer.write(lengths + words + content)
    sys.stdout.buffer.flush()
send(b"")
sys.stdin.buffer.read(8)
{answer}
sys.stdin.buffer.read()
"""


def hijacked(tmp_path, monkeypatch, answer: str) -> Extractor:
    """Return an extractor whose worker answers so."""
    script = tmp_path / "hijacked.py"
    script.write_text(HIJACKED.replace("{answer}", answer))
    monkeypatch.setattr(extractor_module, "_SCRIPT", script)
    return Extractor(seconds=10)


TASKS = {
    "text": lambda extractor: extractor.text_of(HTML, "text/html"),
    "html": lambda extractor: extractor.html_of(HTML, "text/html"),
    "count": lambda extractor: extractor.pages_of(b"%PDF-"),
    "page": lambda extractor: extractor.page_of(b"%PDF-", 1),
}


@pytest.mark.parametrize(
    ("task", "answer"),
    [
        # More bytes than such an answer may have, which never come.
        ("text", "send(b'', b'', 0xFFFFFFFF)"),
        ("text", "send(b'', b'', 4_000_001)"),
        ("text", "sys.stdout.buffer.write(bytes([255] * 8)); sys.stdout.flush()"),
        ("html", "send(b'', b'', 8_000_001)"),
        ("count", "send(b'', b'', 10)"),
        ("page", "send(b'', b'', 20_000_001)"),
        ("text", "send(b'', b'x' * 1_000_001)"),
        ("text", "send(b'', b'te\\0xt')"),
        ("text", "send(b'', b'\\xff')"),
        ("text", "send(b'\\0section', b'text')"),
        ("text", "send(b'\\0' + b's' * 1_001 + b'\\0reason', b'text')"),
        ("text", "send(b'\\0section\\0' + b'r' * 1_001, b'text')"),
        ("text", "send(b'\\0' * 2_002, b'text')"),
        ("text", "send(b'r' * 1_001)"),
        ("text", "send(b'\\xff')"),
        ("text", "send(b'reason', b'text')"),
        ("html", "send(b'', b'\\xff')"),
        ("html", "send(b'', b'<p>a')"),
        ("html", "send(b'', b'a</p>')"),
        ("html", "send(b'', b'<p><b></p></b>')"),
        ("html", "send(b'', b'<p onclick=x>a</p>')"),
        ("html", "send(b'', b'<p' + b' a=\"\"' * 7 + b'>a</p>')"),
        ("html", "send(b'', b'<!-- a -->')"),
        ("html", "send(b'', b'a < b')"),
        # nh3 would need hours for these, and longer than a worker has.
        ("html", "send(b'', b'<div>' * 257 + b'</div>' * 257)"),
        ("html", "send(b'', b'<div>' * 700_000 + b'</div>' * 700_000)"),
        ("html", "send(b'', b'<b></b>' * 1_000_000)"),
        ("count", "send(b'', b'')"),
        ("count", "send(b'', b'-1')"),
        ("count", "send(b'', b'\\xd9\\xa1')"),
        ("page", "send(b'', b'<script>')"),
        ("page", "send(b'', b'\\x89PNG\\r\\n\\x1a\\n')"),
        ("page", "send(b'', b'\\x89PNG\\r\\n\\x1a\\n' + bytes(8) + b'\\0\\0\\xff\\xff' * 2)"),
    ],
)
def test_worker_answer_that_breaks_the_protocol_is_refused(
    tmp_path, monkeypatch, task, answer, children
):
    with hijacked(tmp_path, monkeypatch, answer) as extractor:
        began = time.monotonic()
        with pytest.raises(Unreadable) as error:
            TASKS[task](extractor)
        assert str(error.value) == "broke down its reader"
        # It is not waited for, and has no second document.
        assert time.monotonic() - began < 9
        assert children() == set()


def test_html_of_a_worker_that_a_document_controls_is_sanitized(tmp_path, monkeypatch):
    html = (
        '<script>alert(1)</script><img src="https://evil.example/x"><p onclick="x()">a</p>'
        '<a href="javascript:x()">b</a><style>c</style><svg><g onload="x()"></g></svg>'
    )
    with hijacked(tmp_path, monkeypatch, f"send(b'', {html.encode()!r})") as extractor:
        assert extractor.html_of(HTML, "text/html") == "<img><p>a</p>b"


def test_worker_that_read_many_documents_is_replaced(monkeypatch, children):
    monkeypatch.setattr(extractor_module, "_MOST_DOCUMENTS", 2)
    found = []
    with Extractor() as extractor:
        for _ in range(5):
            assert extractor.text_of(HTML, "text/html") == "Takes warfarin"
            found.append(children())
    assert all(len(workers) == 1 for workers in found)
    assert found[0] == found[1] != found[2] == found[3] != found[4]


@pytest.fixture
def children():
    """Return the processes that the extractors of a test have started."""
    if not Path("/proc/self/task").is_dir():
        pytest.skip("no /proc to look for processes in")
    before = _children()
    return lambda: _children() - before


def _children() -> set[int]:
    pids: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        # A thread may end meanwhile.
        with suppress(FileNotFoundError, ProcessLookupError):
            pids.update(map(int, (task / "children").read_text().split()))
    return pids
