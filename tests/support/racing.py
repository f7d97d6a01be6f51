"""Processes whose threads all ask for the same thing at the same moment.

    with racers(app, processes=2, threads=4) as race:
        answers = race({"path": "/oauth/token", "form": {…}})   status and content of each
        answers = race({"park": {…}})                           what each is told, "" if nothing
        answers = race({"decide": handle, "session": secret})   where each is sent, "" if nowhere
    answers = race({"due": seconds})                        nothing: each begins what is due

Each process is a server's: it has an app of its own on the same database and instance folder.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any

from flask import Flask
from werkzeug.datastructures import MultiDict

from fhirapp import create_app
from fhirapp.auth.oauth import authorize
from fhirapp.auth.oauth.authorize import SendBack, Unanswerable
from fhirapp.auth.users import sessions
from fhirapp.config import settings_of
from fhirapp.jobs.schedules import run_due
from tests.support.shell import ROOT, environment


def together(program: str, folder: Path) -> list[str]:
    """Start a program twice, let both go on at the same moment; return what each printed.

    It is given the folder, and says "ready" before it waits for a line.
    """
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    printed = [process.communicate()[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    return printed


@contextmanager
def racers(
    app: Flask, *, processes: int, threads: int
) -> Iterator[Callable[[dict[str, Any]], list[Any]]]:
    """Start the processes; return what has every thread of each ask once, and its answers."""
    settings = settings_of(app)
    named = {
        "DATABASE_URL": settings.database_uri,
        "BASE_URL": settings.base_url,
        # Each thread needs a place to write, and there is one fewer.
        "THREADS": str(threads + 1),
    }
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.support.racing", str(threads)],
                    cwd=ROOT,
                    env=environment(settings.instance, **named),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    bufsize=1,
                )
            )
            for _ in range(processes)
        ]

        def race(question: dict[str, Any]) -> list[Any]:
            for process in started:
                assert process.stdin is not None
                process.stdin.write(json.dumps(question) + "\n")
            return [answer for process in started for answer in _line(process)]

        for process in started:
            assert _line(process) == "ready"
        yield race
        for process in started:
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(60) == 0


def _line(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def _park(parameters: dict[str, str], start: Barrier) -> str:
    start.wait()
    try:
        authorize.park(MultiDict(parameters))
    except SendBack as error:
        return error.location
    return ""


def _decide(handle: str, session: str, start: Barrier) -> str:
    parked, signed = authorize.find(handle), sessions.find(session)
    assert signed is not None
    offered = authorize.offer(parked, signed.user) if parked is not None else None
    start.wait()
    # The other process may have been faster.
    if parked is None or offered is None:
        return ""
    try:
        return authorize.decide(parked, offered, signed, offered.scopes, 1)
    except Unanswerable:
        return ""


def _begin_due(app: Flask, now: int, start: Barrier) -> None:
    with app.app_context():
        start.wait()
        while run_due(now):
            pass


def _ask(app: Flask, question: dict[str, Any], start: Barrier) -> Any:
    if "due" in question:
        return _begin_due(app, question["due"], start)
    if "path" not in question:
        with app.test_request_context("/oauth/authorize"):
            if "park" in question:
                return _park(question["park"], start)
            return _decide(question["decide"], question["session"], start)
    client = app.test_client()
    start.wait()
    answer = client.post(
        question["path"], data=question["form"], headers=question.get("headers", {})
    )
    return answer.status_code, answer.get_json()


def main() -> None:
    """Ask what comes on stdin, a JSON object a line, in so many threads; answer line by line."""
    threads = int(sys.argv[1])
    app = create_app()
    sys.stdout.write('"ready"\n')
    sys.stdout.flush()
    with ThreadPoolExecutor(threads) as pool:
        for line in sys.stdin:
            question, start = json.loads(line), Barrier(threads)
            asked = [pool.submit(_ask, app, question, start) for _ in range(threads)]
            sys.stdout.write(json.dumps([one.result() for one in asked]) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
