"""Read documents in a process of its own, limited in time and memory.

A document may control that process. So an answer is bounded before it is read, checked to be of the
kind that was asked for, and HTML is sanitized here.
"""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from threading import Event, Lock, Timer
from types import TracebackType
from typing import NamedTuple

from fhirapp.documents import media
from fhirapp.documents.markup import clean_again
from fhirapp.documents.ocr import PICTURES, recognized

MAX_BYTES = 50_000_000
# Plain text up to here takes a few milliseconds at worst: no reason to start a process.
_LIGHT_BYTES = 64 * 1024
# Seconds for a worker to start on the slowest machine.
_START_SECONDS = 60

_SCRIPT = Path(__file__).with_name("worker.py")
# A worker is replaced after so many documents: one that a document controls has no more of them.
_MOST_DOCUMENTS = 500
# How long it is remembered that a document crashed the worker.
_CRASH_SECONDS = 60
_BROKEN = "broke down its reader"
_SHOWN = ("docx", "html", "odt", "xml")
_PNG = b"\x89PNG\r\n\x1a\n"
# Pixels of a page for OCR, and some of rounding.
_MOST_PIXELS = 9_100_000
_COUNT = re.compile(rb"[0-9]+")
# Workers do not need the database URL and password.
_SECRET = ("FHIRAPP_", "PG")
_OUT_OF_TIME = -signal.SIGXCPU if sys.platform != "win32" else None


class _WorkerCrashed(media.Unreadable):
    """The worker died of a document; the message is of what."""


class Extractor:
    """Turns documents into plain text; owns at most one worker, from the first that needs it on.

    A document may take so many seconds, and the worker so many megabytes (on Linux; Windows and
    macOS know no such limit). One that takes more is unreadable, and the next has a new worker.
    It remembers so many megabytes of its last answers. With languages, pages without text and
    pictures are machine-read, within the limits of ocr.py. Threads may share an extractor;
    processes that are forked must not.
    """

    def __init__(
        self,
        seconds: float = 10,
        megabytes: int = 512,
        remembered_megabytes: int = 0,
        languages: str = "",
    ) -> None:
        self._languages = languages
        self._seconds = seconds
        self._megabytes = megabytes
        self._remembers = remembered_megabytes > 0
        self._answers = _Answers(remembered_megabytes * 1_000_000)
        self._worker: _Worker | None = None
        # Restrictions that this system could not apply to the last worker, in words.
        self.lacking = ""
        self._lock = Lock()

    def __enter__(self) -> Extractor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._stop()

    def text_of(self, data: bytes, content_type: str) -> str:
        """Return a document's text alone. Raises Unreadable."""
        return self.read(data, content_type).text

    def read(self, data: bytes, content_type: str) -> media.ExtractedText:
        """Return the text of a document: NFC, single spaces between words, no empty lines.

        At most media.MAX_CHARACTERS; "" if there is none. For a C-CDA also the enclosed files that
        could not be read. Raises Unreadable.
        """
        _check_size(data)
        if self._languages and data.startswith(PICTURES):
            return recognized([""], lambda _number: data, self._languages)
        kind = media.kind_of(content_type, data)
        if self._languages and kind.reader == "pdf":
            texts = self._answer(media.DocumentRequest("page texts", *kind), data).content.decode()
            scan = media.DocumentRequest("scan", *kind)
            return recognized(
                texts.split("\0"),
                lambda number: self._answer(scan._replace(page=number), data).content,
                self._languages,
            )
        if kind.reader == "plain" and len(data) <= _LIGHT_BYTES:
            return media.ExtractedText(media.tidy(media.decode(data, kind.codec)))
        try:
            answer = self._answer(media.DocumentRequest("text", *kind), data)
        except _WorkerCrashed as error:
            if kind.reader != "xml" or b"B64" not in data.replace(b"\0", b""):
                raise
            # Whichever file it was, the sections are read without the files.
            reason = f"left out: of the files within, one {error}"
            answer = self._answer(media.DocumentRequest("outer text", *kind), data)
            unread = tuple(file._replace(reason=reason) for file in answer.unread)
            answer = answer._replace(unread=unread)
        return media.ExtractedText(answer.content.decode(), answer.unread)

    def html_of(self, data: bytes, content_type: str) -> str:
        """Return safe HTML of HTML, C-CDA, Word or OpenDocument. Raises Unreadable."""
        kind = media.kind_of(content_type, data)
        if kind.reader not in _SHOWN:
            raise media.Unreadable("neither HTML, XML, Word nor OpenDocument")
        return self._answer(media.DocumentRequest("html", *kind), data).content.decode()

    def pages_of(self, data: bytes) -> int:
        """Return how many pages a PDF has. Raises Unreadable."""
        return int(self._answer(media.DocumentRequest("page count", "pdf", ""), data).content)

    def page_of(self, data: bytes, number: int) -> bytes:
        """Return the PNG of a PDF's page, from 1. Raises Unreadable."""
        return self._answer(media.DocumentRequest("page", "pdf", "", number), data).content

    def _answer(self, request: media.DocumentRequest, data: bytes) -> media.Answer:
        _check_size(data)
        # An import remembers nothing, and need not hash what it reads.
        key = (request, sha256(data).digest() if self._remembers else b"")
        # Before anything is waited for, and again: others may have waited for the same.
        if (found := self._answers.get(key)) is None:
            with self._lock:
                if (found := self._answers.get(key)) is None:
                    try:
                        found = _Outcome(self._ask(request, data))
                    except _WorkerCrashed as error:
                        found = _Outcome(media.Answer(reason=str(error)), is_crash=True)
                    self._answers.keep(key, found)
        if found.is_crash:
            raise _WorkerCrashed(found.answer.reason)
        if found.answer.reason:
            raise media.Unreadable(found.answer.reason)
        return found.answer

    def _ask(self, request: media.DocumentRequest, data: bytes) -> media.Answer:
        try:
            if self._worker is None or not self._worker.is_usable():
                self._stop()
                self._worker = _Worker(self._seconds, self._megabytes)
                self.lacking = self._worker.lacking
            return self._worker.ask(request, data)
        except BaseException:
            # Dead, or still at a document whose answer must not be taken for the next one's.
            self._stop()
            raise

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.stop()
            self._worker = None


def _check_size(data: bytes) -> None:
    if len(data) > MAX_BYTES:
        raise media.Unreadable(f"larger than {MAX_BYTES // 1_000_000} MB")


class _Outcome(NamedTuple):
    """An answer, or why the worker crashed."""

    answer: media.Answer
    is_crash: bool = False


_Key = tuple[media.DocumentRequest, bytes]


class _Answers:
    """The last answers, by what was asked and the document, up to so many bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        # Each with its expiry time.
        self._kept: OrderedDict[_Key, tuple[_Outcome, float]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: _Key) -> _Outcome | None:
        """Return an answer, None where it is not remembered."""
        with self._lock:
            found, until = self._kept.get(key, (None, 0.0))
            if found is None:
                return None
            if time.monotonic() > until:
                self._forget(key)
                return None
            self._kept.move_to_end(key)
            return found

    def keep(self, key: _Key, found: _Outcome) -> None:
        """Remember an answer, and forget the oldest that there is no room for."""
        with self._lock:
            if key not in self._kept and _size(found) <= self._most:
                # The machine may have been busy, and the document readable.
                seconds = _CRASH_SECONDS if found.is_crash else math.inf
                self._kept[key] = (found, time.monotonic() + seconds)
                self._size += _size(found)
            while self._size > self._most:
                self._forget(next(iter(self._kept)))

    def _forget(self, key: _Key) -> None:
        found, _ = self._kept.pop(key)
        self._size -= _size(found)


def _size(found: _Outcome) -> int:
    """Return about how many bytes an answer takes: each of its words some hundred."""
    return len(found.answer.content) + 200 * (1 + len(found.answer.unread))


class _Worker:
    """A process that reads documents."""

    def __init__(self, seconds: float, megabytes: int) -> None:
        """Start it, and wait until it is ready. Raises Unreadable."""
        self._seconds = seconds
        self._megabytes = megabytes
        self._overdue = Event()
        self._documents = 0
        environment = {k: v for k, v in os.environ.items() if not k.startswith(_SECRET)}
        try:
            self._process = subprocess.Popen(
                # Without -P the modules beside the script would hide the standard library's.
                [sys.executable, "-P", str(_SCRIPT), str(seconds), str(megabytes)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # Error output may quote a document.
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        except OSError:
            raise media.Unreadable("no process to read it could be started") from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        try:
            with self._within(_START_SECONDS):
                lacking, _ = media.read_message(self._answers, most=0)
        except BaseException:
            self.stop()
            raise
        # Restrictions that this system cannot apply, in words.
        self.lacking = "; ".join(lacking)[: media.LONGEST_REMARK]

    def is_usable(self) -> bool:
        """Say whether it may have another document."""
        is_alive = self._process.poll() is None and not self._overdue.is_set()
        return is_alive and self._documents < _MOST_DOCUMENTS

    def ask(self, request: media.DocumentRequest, data: bytes) -> media.Answer:
        """Return the answer to a request.

        Raises Unreadable when the worker dies of it, or answers what it was not asked for.
        """
        self._documents += 1
        with self._within(self._seconds):
            media.write_request(self._requests, request, data)
            answer = media.read_answer(self._answers, media.MOST_BYTES[request.task])
        try:
            return answer if answer.reason else _checked(request, answer)
        except ValueError:
            raise _WorkerCrashed(_BROKEN) from None

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        # Unsent data can no longer be sent.
        for pipe in (self._requests, self._answers):
            with suppress(OSError):
                pipe.close()

    @contextmanager
    def _within(self, seconds: float) -> Iterator[None]:
        """End the process after so many seconds. Raises Unreadable where it dies or misbehaves."""
        timer = Timer(seconds, self._give_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        except media.InvalidMessage:
            # The caller ends the process.
            raise _WorkerCrashed(_BROKEN) from None
        except (EOFError, OSError):
            raise _WorkerCrashed(self._cause(self._process.wait())) from None
        finally:
            timer.cancel()
            timer.join()

    def _give_up(self) -> None:
        self._overdue.set()
        self._process.kill()

    def _cause(self, status: int) -> str:
        if self._overdue.is_set() or status == _OUT_OF_TIME:
            return f"takes longer than {self._seconds:g} s"
        if status == media.OUT_OF_MEMORY:
            return f"needs more than {self._megabytes} MB of memory"
        return _BROKEN


def _checked(request: media.DocumentRequest, answer: media.Answer) -> media.Answer:
    """Return an answer that is of the kind asked for, its HTML sanitized. Raises ValueError."""
    if request.task in ("page", "scan"):
        start = answer.content[:24]
        pixels = int.from_bytes(start[16:20]) * int.from_bytes(start[20:])
        if not start.startswith(_PNG) or not 0 < pixels <= _MOST_PIXELS:
            raise ValueError("no picture of a page")
    elif request.task == "page count":
        if not _COUNT.fullmatch(answer.content):
            raise ValueError("no number of pages")
    else:
        text = answer.content.decode()
        if request.task == "html":
            return answer._replace(content=clean_again(text).encode())
        if request.task != "page texts" and (len(text) > media.MAX_CHARACTERS or "\0" in text):
            raise ValueError("no tidy text")
    return answer


# What is shown of a document is shown again soon: to whoever turns its pages, and to others.
_REMEMBERED_MEGABYTES = 32
# By the process: one that is forked has another.
_shared: dict[int, Extractor] = {}
_lock = Lock()


def shared_extractor() -> Extractor:
    """Return the extractor that all threads of this process use to show documents.

    They wait for each other, so it takes less time for a document than an import may.
    """
    with _lock:
        if os.getpid() not in _shared:
            _shared[os.getpid()] = Extractor(5, remembered_megabytes=_REMEMBERED_MEGABYTES)
        return _shared[os.getpid()]


def missing_confinement() -> str:
    """Return which limits the shared extractor's process lacks; empty if none or not started."""
    found = _shared.get(os.getpid())
    return found.lacking if found else ""
