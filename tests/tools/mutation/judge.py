"""Runs tests against a mutant in a copy of the checkout, until one fails that passes without it."""

from __future__ import annotations

import json
import os
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.tools.mutation.mutants import Mutant
from tests.tools.mutation.selection import Selection

_NOT_COPIED = (".git", ".venv", "node_modules", ".mutation", ".hypothesis", ".*_cache")
_LEAST_SECONDS, _TIMES_EXPECTED = 60, 8
_FIRST, _ATTEMPTS = 8, 3
_COLLECT_SECONDS, _MODULE_SECONDS = 1800, 20.0


class Verdict(NamedTuple):
    """Whether tests catch a mutant, which do, and how many tests were run."""

    caught: bool
    by: list[str]
    ran: int
    timeout: bool = False


class Copy:
    """A copy of the checkout, and the fork server that runs tests in it."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self._mutations = folder / root.name, 0
        shutil.copytree(root, self.root, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        # Some tests read the folder beside the checkout.
        shared = root.parent / "shared"
        if shared.is_dir():
            (folder / shared.name).symlink_to(shared)
        server = Path(__file__).with_name("server.py")
        self._server = subprocess.Popen(
            [sys.executable, str(server), str(folder / "run")],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(self.root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    def run(
        self,
        tests: list[str],
        seconds: float,
        *,
        excluded: Iterable[str] = (),
        mutated: bool = False,
        collect: bool = False,
    ) -> dict[str, Any]:
        """Run tests, with a mutant until some fail, and return the server's response."""
        request = {
            "tests": tests,
            "seconds": seconds,
            "excluded": list(excluded),
            "mutated": mutated,
            "collect": collect,
        }
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        response: dict[str, Any] = json.loads(self._server.stdout.readline())
        return response

    def run_mutant(
        self, file: str, mutant: Mutant, tests: list[str], seconds: float, excluded: list[str]
    ) -> dict[str, Any]:
        """Run tests until the first fails, while a file is changed."""
        path = self.root / file
        text, times = path.read_text("utf-8"), path.stat()
        path.write_text(mutant.apply(text), "utf-8")
        # Byte code is valid for a time in seconds and a size: no two mutants have the same time.
        self._mutations += 1
        moved = times.st_mtime_ns - self._mutations * 1_000_000_000
        os.utime(path, ns=(times.st_atime_ns, moved))
        try:
            return self.run(tests, seconds, excluded=excluded, mutated=True)
        finally:
            path.write_text(text, "utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            py_compile.compile(str(path), doraise=True)

    def close(self) -> None:
        """End the server, which ends what it runs."""
        self._server.communicate()


class Judge:
    """Judges mutants in a copy, by recorded tests and by those of a selection."""

    def __init__(self, copy: Copy, selection: Selection, most: int) -> None:
        self._copy, self._selection, self._most = copy, selection, most
        # Whether tests that failed with a mutant pass without one.
        self._passes: dict[str, bool] = {}
        self._ran = 0

    def prepare(self, modules: Iterable[str]) -> None:
        """Compile these modules of tests, and let the server import the libraries they use."""
        self._copy.run(sorted(modules), _COLLECT_SECONDS, collect=True)

    def judge(self, file: str, mutant: Mutant, recorded: Iterable[str] = ()) -> Verdict:
        """Run the recorded tests, the nearest ones, and then many, until one catches the mutant."""
        self._ran, tried = 0, set()
        for stage in self._stages(file, mutant, list(recorded)):
            tests = [test for test in stage if test not in tried]
            tried.update(tests)
            expected = sum(map(self._expected, tests))
            seconds = _LEAST_SECONDS + _TIMES_EXPECTED * expected
            for _ in range(_ATTEMPTS if tests else 0):
                response = self._copy.run_mutant(file, mutant, tests, seconds, self._excluded)
                self._ran += response["ran"]
                if not response["failed"] and response["code"] in (0, 5):
                    break
                # A child that died or hung did so in the test that it began last.
                failed = response["failed"] or [response["started"] or tests[0]]
                timeout = response["code"] is None and response["seconds"] >= seconds
                by = [test for test in failed if self._confirm(test, tests, seconds, timeout)]
                if by:
                    return Verdict(True, by, self._ran, timeout)
        return Verdict(False, [], self._ran)

    def _stages(self, file: str, mutant: Mutant, recorded: list[str]) -> Iterator[list[str]]:
        yield recorded
        for limit in (_FIRST, self._most):
            # SQLite deadlocks when two threads query a connection with a function in Python.
            with self._selection.lock:
                chosen = self._selection.choose(file, mutant.statement, limit)
            yield chosen
        if not self._ran:
            # All of these tests have been renamed or moved.
            yield self._selection.nearest(file)[:3]

    def _expected(self, test: str) -> float:
        return self._selection.seconds.get(test, 1.0 if "::" in test else _MODULE_SECONDS)

    def _confirm(self, test: str, tests: list[str], seconds: float, timeout: bool) -> bool:
        """Return whether a test passes unmutated, after the same ones, and well within its time."""
        if test not in self._passes or timeout:
            before = tests[: tests.index(test) + 1] if test in tests else [*tests, test]
            response = self._copy.run(before, seconds, excluded=self._excluded)
            ended = response["seconds"] < (seconds / 2 if timeout else seconds)
            passed = response["code"] in (0, 1) and test not in response["failed"]
            self._passes[test] = ended and passed
        return self._passes[test]

    @property
    def _excluded(self) -> list[str]:
        return [test for test, passes in self._passes.items() if not passes]
