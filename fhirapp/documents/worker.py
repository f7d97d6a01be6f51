"""The process that reads documents, one after the other: `python -P …/worker.py SECONDS MEGABYTES`.

What it gives up before it sees a document is in confine.py.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from types import ModuleType
from typing import IO

if __name__ == "__main__":
    # fhirapp/__init__.py is the whole application: importing it would take ten times the time and
    # three times the memory. This package of the same name has a path and nothing else.
    package = ModuleType("fhirapp")
    package.__path__ = [str(Path(__file__).parents[1])]
    sys.modules["fhirapp"] = package

from fhirapp.documents import media
from fhirapp.documents.docx import read_docx
from fhirapp.documents.markup import read_html, read_json, read_xml
from fhirapp.documents.odt import read_odt
from fhirapp.documents.pdf import read_pdf
from fhirapp.documents.rendering import show
from fhirapp.documents.rtf import read_rtf

if sys.platform != "win32":
    import resource

    from fhirapp.documents.confine import confine
else:

    def confine(megabytes: int) -> list[str]:  # noqa: ARG001
        """Return what this system cannot take away."""
        return ["on Windows it is not confined"]


_Request = tuple[media.DocumentFormat, bytes]


def read(kind: media.DocumentFormat, data: bytes) -> media.ExtractedText:
    """Return the tidy text of a document. Raises Unreadable, and MemoryError."""
    if kind.reader in ("xml", "xml-alone"):
        return _read_clinical(kind, data)
    return media.ExtractedText(media.tidy(_READERS[kind.reader](data, kind.codec)))


def _read_clinical(kind: media.DocumentFormat, data: bytes) -> media.ExtractedText:
    """Return the text of XML and of the files within; nested base64 shrinks, so this ends.

    A file that cannot be read does not affect the others.
    """
    text, enclosed = read_xml(data, kind.codec)
    texts, unread = [text], []
    for file in enclosed:
        try:
            if kind.reader == "xml-alone":
                raise media.Unreadable("")
            content = file.content()
            inner = read(media.kind_of(file.content_type, content), content)
        except media.Unreadable as error:
            title = media.tidy(file.section)[: media.LONGEST_REMARK]
            unread.append(media.Unread(title, str(error)))
        else:
            texts.append(inner.text)
            unread += inner.unread
    return media.ExtractedText(media.tidy("\n".join(texts)), tuple(unread))


_READERS: Mapping[str, Callable[[bytes, str], str]] = {
    "docx": read_docx,
    "html": read_html,
    "json": read_json,
    "odt": read_odt,
    "pdf": read_pdf,
    "plain": media.decode,
    "rtf": read_rtf,
}


def main(*, seconds: float, megabytes: int) -> None:
    """Answer requests on standard input, each within so many seconds of the processor."""
    # Ctrl-C is meant for the parent, but reaches the whole group of processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _make_way()
    media.load_codecs()
    requests: SimpleQueue[_Request] = SimpleQueue()
    Thread(target=_receive, args=(sys.stdin.buffer, requests), daemon=True).start()
    lacking = confine(megabytes)
    media.write_frame(sys.stdout.buffer, media.READY, "; ".join(lacking).encode())
    while True:
        kind, data = requests.get()
        _allow(seconds)
        answer(sys.stdout.buffer, kind, data)
        del data


def _make_way() -> None:
    """Leave the core that the server is pinned to, and let it go first on every other."""
    with suppress(AttributeError, OSError):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        os.nice(5)


def _receive(stream: IO[bytes], requests: SimpleQueue[_Request]) -> None:
    """Hand on requests; end the process with whoever started it, even amid a document."""
    try:
        while True:
            requests.put(media.read_request(stream))
    except EOFError:
        os._exit(0)
    except MemoryError:
        os._exit(media.OUT_OF_MEMORY)


def answer(stream: IO[bytes], kind: media.DocumentFormat, data: bytes) -> None:
    """Answer one request."""
    try:
        shown = kind.reader.startswith("show-")
        answered = show(kind, data) if shown else media.pack(read(kind, data))
    except media.Unreadable as error:
        media.write_frame(stream, media.UNREADABLE, str(error).encode())
    except MemoryError:
        # The remaining memory is fragmented.
        os._exit(media.OUT_OF_MEMORY)
    else:
        if len(answered) >= media.LONGEST_ANSWER:
            media.write_frame(stream, media.UNREADABLE, b"too long to be shown")
        else:
            media.write_frame(stream, media.TEXT, answered)


def _allow(seconds: float) -> None:
    """Let the process run so much longer; the limit counts from its start, in whole seconds."""
    if sys.platform != "win32":
        used = resource.getrusage(resource.RUSAGE_SELF)
        until = math.ceil(used.ru_utime + used.ru_stime + seconds)
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CPU, (until, most))


if __name__ == "__main__":
    main(seconds=float(sys.argv[1]), megabytes=int(sys.argv[2]))
