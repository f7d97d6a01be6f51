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

from fhirapp.documents import media, office, pdf
from fhirapp.documents.cda import clinical_html, read_xml
from fhirapp.documents.docx import docx_html
from fhirapp.documents.markup import clean_html, html_characters, read_html, read_json
from fhirapp.documents.odt import odt_html
from fhirapp.documents.rtf import read_rtf

if sys.platform != "win32":
    import resource

    from fhirapp.documents.confine import confine
else:

    def confine(megabytes: int) -> list[str]:  # noqa: ARG001
        """Return what this system cannot take away."""
        return ["on Windows it is not confined"]


def answer(request: media.DocumentRequest, data: bytes) -> media.Answer:
    """Return the answer to a request. Raises Unreadable, MemoryError."""
    if request.task in ("text", "outer text"):
        return _text(request, data)
    return media.Answer(_TASKS[request.task](request, data))


def _text(request: media.DocumentRequest, data: bytes) -> media.Answer:
    """Return the tidy text of a document, of XML also of the files within, save for outer text.

    Nested base64 shrinks, so this ends. A file that cannot be read does not affect the others.
    """
    if request.reader != "xml":
        return media.Answer(media.tidy(_READERS[request.reader](data, request.codec)).encode())
    document = read_xml(data, request.codec)
    texts, unread = [document.text], []
    for file in document.enclosed:
        try:
            if request.task == "outer text":
                raise media.Unreadable("")
            content = file.content()
            kind = media.kind_of(file.content_type, content)
            inner = _text(media.DocumentRequest("text", *kind), content)
        except media.Unreadable as error:
            title = media.tidy(file.section)[: media.LONGEST_REMARK]
            unread.append(media.Unread(title, str(error)))
        else:
            texts.append(inner.content.decode())
            unread += inner.unread
    return media.Answer(media.tidy("\n".join(texts)).encode(), tuple(unread[: media.MOST_UNREAD]))


_READERS: Mapping[str, Callable[[bytes, str], str]] = {
    "docx": lambda data, _: office.words(docx_html(data)),
    "html": read_html,
    "json": read_json,
    "odt": lambda data, _: office.words(odt_html(data)),
    "pdf": pdf.read_pdf,
    "plain": media.decode,
    "rtf": read_rtf,
}
_SHOWN: Mapping[str, Callable[[bytes, str], str]] = {
    "docx": lambda data, _: docx_html(data),
    "html": html_characters,
    "odt": lambda data, _: odt_html(data),
    "xml": clinical_html,
}


def _html(request: media.DocumentRequest, data: bytes) -> bytes:
    # Not safe before the parent has sanitized it: a document may control this process.
    return clean_html(_SHOWN[request.reader](data, request.codec)).encode()


_TASKS: Mapping[str, Callable[[media.DocumentRequest, bytes], bytes]] = {
    "html": _html,
    "page": lambda request, data: pdf.page_picture(data, request.page, is_scan=False),
    "page count": lambda _, data: str(pdf.page_count(data)).encode(),
    "page texts": lambda _, data: "\0".join(map(media.tidy, pdf.page_texts(data))).encode(),
    "scan": lambda request, data: pdf.page_picture(data, request.page, is_scan=True),
}


def main(*, seconds: float, megabytes: int) -> None:
    """Answer requests on standard input, each within so many seconds of the processor."""
    # Ctrl-C is meant for the parent, but reaches the whole group of processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _make_way()
    media.load_codecs()
    requests: SimpleQueue[tuple[media.DocumentRequest, bytes]] = SimpleQueue()
    Thread(target=_receive, args=(sys.stdin.buffer, requests), daemon=True).start()
    lacking = confine(megabytes)
    media.write_message(sys.stdout.buffer, lacking)
    while True:
        request, data = requests.get()
        _allow(seconds)
        media.write_answer(sys.stdout.buffer, _answer(request, data))
        del data


def _answer(request: media.DocumentRequest, data: bytes) -> media.Answer:
    """Return the answer to a request, or the reason why there is none."""
    try:
        found = answer(request, data)
    except media.Unreadable as error:
        return media.Answer(reason=str(error))
    except MemoryError:
        # The remaining memory is fragmented.
        os._exit(media.OUT_OF_MEMORY)
    if len(found.content) > media.MOST_BYTES[request.task]:
        return media.Answer(reason="too long to be shown")
    return found


def _make_way() -> None:
    """Leave the core that the server is pinned to, and let it go first on every other."""
    with suppress(AttributeError, OSError):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        os.nice(5)


def _receive(stream: IO[bytes], requests: SimpleQueue[tuple[media.DocumentRequest, bytes]]) -> None:
    """Hand on requests; end the process with whoever started it, even amid a document."""
    try:
        while True:
            requests.put(media.read_request(stream))
    except EOFError:
        os._exit(0)
    except MemoryError:
        os._exit(media.OUT_OF_MEMORY)


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
