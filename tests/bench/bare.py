"""The bare server, which ours is compared with: waitress and a dictionary of recorded responses.

`python -m tests.bench.bare RESPONSES CORE…`: one process per core, on a free port, which it prints.
Waitress has the options of our server (fhirapp/server/serve.py), so a ratio shows what we add.
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

# By path and query: the status line, the headers without those of waitress, the body.
Responses = Mapping[tuple[str, str], tuple[str, list[tuple[str, str]], bytes]]

_WAITRESS = {"threads": 8, "connection_limit": 500, "channel_timeout": 30, "ident": None}


def application(responses: Responses) -> Callable[..., Iterable[bytes]]:
    """Return the WSGI application that sends these responses."""

    def respond(environ: Mapping[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        status, headers, body = responses[environ["PATH_INFO"], environ["QUERY_STRING"]]
        start_response(status, headers)
        return [body]

    return respond


def serve(responses: Responses, cores: list[int]) -> None:
    """Serve until SIGTERM, which also ends the forked processes."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(f"serves at http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
    if len(cores) == 1:
        _serve_on(cores[0], listener, responses)
        return
    children = []
    for core in cores:
        pid = os.fork()
        if pid == 0:
            _serve_on(core, listener, responses)
            os._exit(0)
        children.append(pid)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(pid, signal.SIGTERM) for pid in children])
    for pid in children:
        os.waitpid(pid, 0)


def _serve_on(core: int, listener: socket.socket, responses: Responses) -> None:
    os.sched_setaffinity(0, {core})
    create_server(
        application(responses), sockets=[listener], asyncore_use_poll=True, **_WAITRESS
    ).run()


if __name__ == "__main__":
    path, *cores = sys.argv[1:]
    serve(pickle.loads(Path(path).read_bytes()), [int(core) for core in cores])
