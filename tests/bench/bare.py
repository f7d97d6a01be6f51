"""The bare application that ours is measured against: waitress and a look-up of ready answers.

`python -m tests.bench.bare ANSWERS CORE…`: one process for each core named, as our server; on a
port that is free, which it prints.
Waitress gets our server's options (fhirapp/ops/serve.py), so the ratios tell what we add to it.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from waitress.server import create_server

# By path and query: the status line, the headers save those that waitress writes, the body.
Answers = Mapping[tuple[str, str], tuple[str, list[tuple[str, str]], bytes]]

_WAITRESS = {"threads": 8, "connection_limit": 500, "channel_timeout": 30, "ident": None}


def application(answers: Answers) -> Callable[..., Iterable[bytes]]:
    """Return the WSGI application that gives these answers."""

    def answer(environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        status, headers, body = answers[environ["PATH_INFO"], environ["QUERY_STRING"]]
        start_response(status, headers)
        return [body]

    return answer


def serve(answers: Answers, cores: list[int]) -> None:
    """Serve until SIGTERM, which ends the forked processes too."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(f"serves at http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
    if len(cores) == 1:
        _serve_on(cores[0], listener, answers)
        return
    children = []
    for core in cores:
        pid = os.fork()
        if pid == 0:
            _serve_on(core, listener, answers)
            os._exit(0)
        children.append(pid)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(pid, signal.SIGTERM) for pid in children])
    for pid in children:
        os.waitpid(pid, 0)


def _serve_on(core: int, listener: socket.socket, answers: Answers) -> None:
    os.sched_setaffinity(0, {core})
    create_server(
        application(answers), sockets=[listener], asyncore_use_poll=True, **_WAITRESS
    ).run()


if __name__ == "__main__":
    path, *cores = sys.argv[1:]
    serve(pickle.loads(Path(path).read_bytes()), [int(core) for core in cores])
