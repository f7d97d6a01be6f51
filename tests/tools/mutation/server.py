"""A fork server for pytest: reads requests on standard input, and forks a child for each.

It has imported the third-party libraries but neither the code under test nor the tests, so that a
child starts at once and reads both anew. A request and a response are a line of JSON each:

    {"tests": [...], "seconds": 60.0, "excluded": [...], "mutated": true, "collect": false}
    {"failed": [...], "started": "...", "code": 1, "ran": 8, "seconds": 3.2, "output": "..."}

A test is a node id, a function without its cases, or a module; tests that do not exist are left
out. `code` is pytest's exit code, or None for a child that died or exceeded its deadline. No
process outlives its request: the server adopts and kills even those that left the process group.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import pytest

_PR_SET_CHILD_SUBREAPER = 36
_POLL_SECONDS = 0.03
# Soft limits: a mutant may allocate or write without end.
_LIMITS = {resource.RLIMIT_DATA: 6 << 30, resource.RLIMIT_FSIZE: 4 << 30, resource.RLIMIT_CORE: 0}
_CASES, _TESTS_OF_MODULE = 5, 60
# After the first failure: how long to look for failures in other modules, and how many to find.
_FURTHER_SECONDS, _MODULES = 2.0, 3
_OPTIONS = ("-q", "-n", "0", "--dist", "no", "-p", "no:cacheprovider", "--tb=short", "-m")
_OPTIONS += ("not postgres", "-W", "ignore:Module already imported:pytest.PytestWarning")


class Recorder:
    """A pytest plugin: selects and orders the tests of a request, and writes what they do."""

    def __init__(self, request: dict[str, Any], output: IO[str]) -> None:
        self._tests: list[str] = request["tests"]
        self._mutated: bool = request["mutated"]
        self._excluded = set(request["excluded"])
        self._output = output
        self._failed: set[str] = set()
        self._until = 0.0

    def _write(self, **event: Any) -> None:
        self._output.write(json.dumps(event) + "\n")
        self._output.flush()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        gc.enable()
        present = {item.nodeid for item in items}
        ranks: dict[str, int] = {}
        for rank, test in enumerate(self._tests):
            ranks.setdefault(test if test in present else test.partition("[")[0], rank)
        counts: Counter[int] = Counter()
        selected = []
        for item in items:
            function, module = item.nodeid.partition("[")[0], module_of(item.nodeid)
            if item.nodeid in self._excluded:
                continue
            rank = ranks.get(item.nodeid, ranks.get(function, ranks.get(module, -1)))
            counts[rank] += 1
            if rank >= 0 and counts[rank] <= (_TESTS_OF_MODULE if module in ranks else _CASES):
                selected.append((rank, item))
        items[:] = [item for _, item in sorted(selected, key=lambda pair: pair[0])]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            module = module_of(report.nodeid)
            self._write(failed=next((t for t in self._tests if module_of(t) == module), module))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if self._mutated and module_of(item.nodeid) in self._failed:
            pytest.skip("its module has failed already")
        self._write(started=item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._write(failed=report.nodeid)
            self._failed.add(module_of(report.nodeid))
            self._until = self._until or time.monotonic() + _FURTHER_SECONDS

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        late = time.monotonic() > self._until or len(self._failed) >= _MODULES
        if self._mutated and self._failed and late:
            item.session.shouldstop = "enough tests have failed"


def module_of(test: str) -> str:
    """Return the path of the module of a node id."""
    return test.partition("::")[0]


def _run(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run the tests of a request in a child process, and end all that it has started."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tmp").mkdir(parents=True)
    events, output = folder / "events", folder / "output"
    begin = time.monotonic()
    # The children's garbage collections pass over what the server has imported.
    gc.freeze()
    child = os.fork()
    if child == 0:
        _be_child(request, folder)
    code = None
    while time.monotonic() - begin < request["seconds"]:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            break
        # No request comes before the response: readable means closed.
        if select.select([0], [], [], _POLL_SECONDS)[0]:
            _end_children(child)
            sys.exit()
    seconds = time.monotonic() - begin
    _end_children(child)
    found: dict[str, Any] = {"failed": [], "started": None, "modules": None, "ran": 0}
    for line in events.read_text("utf-8").splitlines() if events.exists() else ():
        # The last line may be incomplete.
        with suppress(json.JSONDecodeError):
            event = json.loads(line)
            found["ran"] += "started" in event
            failed = event.pop("failed", None)
            found["failed"] += [failed] if failed and failed not in found["failed"] else []
            found.update(event)
    imported = found.pop("modules")
    if not request["mutated"]:
        _import(imported or [])
    text = output.read_text("utf-8", errors="replace")[-1500:] if output.exists() else ""
    # Without the last event, the code is not pytest's.
    code = code if imported is not None else None
    return {**found, "code": code, "seconds": seconds, "output": text}


def _be_child(request: dict[str, Any], folder: Path) -> None:
    """Run pytest in this process, which ends with it."""
    code = 70
    try:
        os.setsid()
        # Until the tests run: most of what is imported stays.
        gc.disable()
        for limit, value in _LIMITS.items():
            hard = resource.getrlimit(limit)[1]
            soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(limit, (soft, hard))
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        # Byte code of a mutant would be taken for that of the original.
        sys.dont_write_bytecode = request["mutated"]
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        if request["mutated"]:
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        os.environ["TMPDIR"] = str(folder / "tmp")
        modules = [m for m in dict.fromkeys(map(module_of, request["tests"])) if Path(m).exists()]
        options = [*_OPTIONS, f"--basetemp={folder / 'tmp' / 'pytest'}"]
        options += ["--collect-only"] * request["collect"]
        with (folder / "events").open("w", encoding="utf-8") as events:
            code = 5
            if modules:
                code = pytest.main([*options, *modules], [Recorder(request, events)])
            imported = [name for name, module in sys.modules.items() if _is_library(module)]
            events.write(json.dumps({"modules": imported}) + "\n")
    finally:
        os._exit(code)


def _is_library(module: object) -> bool:
    file = getattr(module, "__file__", None)
    return bool(file) and ("site-packages" in file or not file.startswith(str(Path.cwd())))


def _import(modules: list[str]) -> None:
    """Import what the child of an unmutated run has imported: the next ones need not."""
    for name in modules:
        if name not in sys.modules:
            with suppress(Exception):
                importlib.import_module(name)


def _end_children(child: int) -> None:
    """Kill a child's process group, and each process that has left it, until none is left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    while True:
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                if stat.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                    os.kill(int(stat.parent.name), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def main() -> None:
    """Serve requests until standard input is closed."""
    folder = Path(sys.argv[1])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # The code under test, and not the modules beside this one.
    sys.path[0] = str(Path.cwd())
    for line in iter(sys.stdin.readline, ""):
        print(json.dumps(_run(json.loads(line), folder)), flush=True)


if __name__ == "__main__":
    main()
