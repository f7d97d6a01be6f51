"""The process that reads documents: one after the other, within limits, until nobody asks any more.

A document that broke the reader itself would find little here: where the platform has limits, no
file, no other process's memory and no network can be opened any more.
"""

from __future__ import annotations

import math
import os
import signal
import sys
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import IO

from fhirapp.text import protocol
from fhirapp.text.media import Kind, Unreadable
from fhirapp.text.reading import read
from fhirapp.text.showing import show
from fhirapp.text.words import load_codecs

if sys.platform != "win32":
    import resource

_Request = tuple[Kind, bytes]


def main(*, seconds: float, megabytes: int) -> None:
    """Answer requests on standard input, each within so many seconds of the processor."""
    # Ctrl-C is for the one who asks, and reaches the whole group of processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    load_codecs()
    requests: SimpleQueue[_Request] = SimpleQueue()
    Thread(target=_receive, args=(sys.stdin.buffer, requests), daemon=True).start()
    _confine(megabytes)
    protocol.write_frame(sys.stdout.buffer, protocol.READY)
    while True:
        kind, data = requests.get()
        _allow(seconds)
        answer(sys.stdout.buffer, kind, data)
        del data


def _receive(stream: IO[bytes], requests: SimpleQueue[_Request]) -> None:
    """Hand on requests; end the process with whoever started it, even amid a document."""
    try:
        while True:
            requests.put(protocol.read_request(stream))
    except EOFError:
        os._exit(0)
    except MemoryError:
        os._exit(protocol.OUT_OF_MEMORY)


def answer(stream: IO[bytes], kind: Kind, data: bytes) -> None:
    """Answer one request."""
    try:
        shown = kind.reader.startswith("show-")
        answered = show(kind, data) if shown else protocol.pack(read(kind, data))
    except Unreadable as error:
        protocol.write_frame(stream, protocol.UNREADABLE, str(error).encode())
    except MemoryError:
        # What is left of the memory is in pieces.
        os._exit(protocol.OUT_OF_MEMORY)
    else:
        protocol.write_frame(stream, protocol.TEXT, answered)


def _confine(megabytes: int) -> None:
    if sys.platform != "win32":
        size = megabytes * 1024 * 1024
        for limit, value in (
            (resource.RLIMIT_AS, size),
            # A core dump would hold a patient's document.
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_NOFILE, 0),
        ):
            # macOS refuses some.
            with suppress(OSError, ValueError):
                resource.setrlimit(limit, (value, value))


def _allow(seconds: float) -> None:
    """Let the process run so much longer; the limit counts from its start, in whole seconds."""
    if sys.platform != "win32":
        used = resource.getrusage(resource.RUSAGE_SELF)
        until = math.ceil(used.ru_utime + used.ru_stime + seconds)
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CPU, (until, most))
