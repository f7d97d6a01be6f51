"""Read documents in a process of its own, limited in time and memory."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Event, Lock, Timer
from types import TracebackType
from typing import IO

from fhirapp.documents import media
from fhirapp.documents.ocr import PICTURES, Recognition

MAX_BYTES = 50_000_000
# Plain text up to here takes a few milliseconds at worst: no reason to start a process.
_LIGHT_BYTES = 64 * 1024
# Seconds for a worker to start on the slowest machine.
_START_SECONDS = 60

_SCRIPT = Path(__file__).with_name("worker.py")
# Cache marker: this document crashed the worker.
_DIED, _DIED_SECONDS = b"D", 60
_BROKEN = "broke down its reader"
_SHOWERS: dict[str, media.Shower] = {
    "docx": "show-docx",
    "html": "show-html",
    "odt": "show-odt",
    "xml": "show-xml",
}
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
        if len(data) > MAX_BYTES:
            raise media.Unreadable(f"larger than {MAX_BYTES // 1_000_000} MB")
        if self._languages and data.startswith(PICTURES):
            return self._recognized([""], lambda _number: data)
        kind = media.kind_of(content_type, data)
        if self._languages and kind.reader == "pdf":
            texts = self._answer(media.DocumentFormat("show-texts", ""), data).decode().split("\0")
            return self._recognized(texts, lambda number: self._page(data, f"{number}:ocr"))
        if kind.reader == "plain" and len(data) <= _LIGHT_BYTES:
            return media.ExtractedText(media.tidy(media.decode(data, kind.codec)))
        try:
            return media.unpack(self._answer(kind, data))
        except _WorkerCrashed as error:
            if kind.reader != "xml" or b"B64" not in data.replace(b"\0", b""):
                raise
            reason = f"left out: of the files within, one {error}"
        # Whichever file it was, the sections are read without the files.
        reading = media.unpack(self._answer(media.DocumentFormat("xml-alone", kind.codec), data))
        unread = tuple(file._replace(reason=reason) for file in reading.unread)
        return reading._replace(unread=unread)

    def _recognized(self, texts: list[str], picture: Callable[[int], bytes]) -> media.ExtractedText:
        recognition = Recognition(self._languages)
        for number, text in enumerate(texts, 1):
            recognition.add(text, partial(picture, number))
        return recognition.reading()

    def html_of(self, data: bytes, content_type: str) -> str:
        """Return safe HTML of HTML, C-CDA, Word or OpenDocument. Raises Unreadable."""
        kind = media.kind_of(content_type, data)
        if kind.reader not in _SHOWERS:
            raise media.Unreadable("neither HTML, XML, Word nor OpenDocument")
        return self._answer(media.DocumentFormat(_SHOWERS[kind.reader], kind.codec), data).decode()

    def pages_of(self, data: bytes) -> int:
        """Return how many pages a PDF has. Raises Unreadable."""
        return int(self._answer(media.DocumentFormat("show-pdf", "0"), data))

    def page_of(self, data: bytes, number: int) -> bytes:
        """Return the PNG of a PDF's page, from 1. Raises Unreadable."""
        return self._page(data, str(number))

    def _page(self, data: bytes, codec: str) -> bytes:
        return self._answer(media.DocumentFormat("show-pdf", codec), data)

    def _answer(self, kind: media.DocumentFormat, data: bytes) -> bytes:
        if len(data) > MAX_BYTES:
            raise media.Unreadable(f"larger than {MAX_BYTES // 1_000_000} MB")
        # An import remembers nothing, and need not hash what it reads.
        key = (kind, sha256(data).digest() if self._remembers else b"")
        # Before anything is waited for, and again: others may have waited for the same.
        if (answer := self._answers.get(key)) is None:
            with self._lock:
                if (answer := self._answers.get(key)) is None:
                    try:
                        answer = self._request(kind, data)
                    except _WorkerCrashed as error:
                        answer = _DIED + str(error).encode()
                    self._answers.keep(key, answer)
        if answer[:1] == _DIED:
            raise _WorkerCrashed(answer[1:].decode())
        if answer[:1] == media.UNREADABLE:
            raise media.Unreadable(answer[1:].decode())
        return answer[1:]

    def _request(self, kind: media.DocumentFormat, data: bytes) -> bytes:
        try:
            if self._worker is None or not self._worker.is_alive():
                self._stop()
                self._worker = _Worker(self._seconds, self._megabytes)
                self.lacking = self._worker.lacking
            return self._worker.ask(kind, data)
        except BaseException:
            # Dead, or still at a document whose answer must not be taken for the next one's.
            self._stop()
            raise

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.stop()
            self._worker = None


class _Answers:
    """The last answers, by document and what was wanted of it, up to so many bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        # Each with its expiry time.
        self._kept: OrderedDict[tuple[media.DocumentFormat, bytes], tuple[bytes, float]] = (
            OrderedDict()
        )
        self._lock = Lock()

    def get(self, key: tuple[media.DocumentFormat, bytes]) -> bytes | None:
        """Return an answer, None where it is not remembered."""
        with self._lock:
            answer, until = self._kept.get(key, (None, 0.0))
            if answer is None:
                return None
            if time.monotonic() > until:
                del self._kept[key]
                self._size -= len(answer)
                return None
            self._kept.move_to_end(key)
            return answer

    def keep(self, key: tuple[media.DocumentFormat, bytes], answer: bytes) -> None:
        """Remember an answer, and forget the oldest that there is no room for."""
        with self._lock:
            if key not in self._kept and len(answer) <= self._most:
                # The machine may have been busy, and the document readable.
                seconds = _DIED_SECONDS if answer[:1] == _DIED else math.inf
                self._kept[key] = (answer, time.monotonic() + seconds)
                self._size += len(answer)
            while self._size > self._most:
                _, (forgotten, _) = self._kept.popitem(last=False)
                self._size -= len(forgotten)


class _Worker:
    """A process that reads documents."""

    def __init__(self, seconds: float, megabytes: int) -> None:
        """Start it, and wait until it is ready. Raises Unreadable."""
        self._seconds = seconds
        self._megabytes = megabytes
        self._overdue = Event()
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
        try:
            ready = self._exchange(_START_SECONDS, None, media.LONGEST_REMARK)
            # Restrictions that this system cannot apply, in words.
            self.lacking = ready[len(media.READY) :].decode(errors="replace")
        except BaseException:
            self.stop()
            raise

    def is_alive(self) -> bool:
        return self._process.poll() is None and not self._overdue.is_set()

    def ask(self, kind: media.DocumentFormat, data: bytes) -> bytes:
        """Return the answer to a request.

        Raises Unreadable when the worker dies of it, or answers what it was not asked for.
        """
        answer = self._exchange(self._seconds, (kind, data), media.LONGEST_ANSWER)
        try:
            media.check_answer(kind, answer)
        except media.InvalidAnswer:
            raise _WorkerCrashed(_BROKEN) from None
        return answer

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        # Unsent data can no longer be sent.
        for pipe in self._pipes():
            with suppress(OSError):
                pipe.close()

    def _exchange(
        self, seconds: float, request: tuple[media.DocumentFormat, bytes] | None, most: int
    ) -> bytes:
        timer = Timer(seconds, self._give_up)
        timer.daemon = True
        timer.start()
        requests, answers = self._pipes()
        try:
            if request is not None:
                media.write_request(requests, *request)
            return media.read_frame(answers, most)
        except media.InvalidAnswer:
            # The caller ends the process.
            raise _WorkerCrashed(_BROKEN) from None
        except (EOFError, OSError):
            status = self._process.wait()
        finally:
            timer.cancel()
            timer.join()
        raise _WorkerCrashed(self._cause(status))

    def _give_up(self) -> None:
        self._overdue.set()
        self._process.kill()

    def _cause(self, status: int) -> str:
        if self._overdue.is_set() or status == _OUT_OF_TIME:
            return f"takes longer than {self._seconds:g} s"
        if status == media.OUT_OF_MEMORY:
            return f"needs more than {self._megabytes} MB of memory"
        return _BROKEN

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        return requests, answers


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
