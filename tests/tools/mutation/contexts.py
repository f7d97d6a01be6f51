"""A pytest plugin: which tests enter which lines, which pass, and how long each takes.

FHIRAPP_CONTEXTS names the files to write: NAME.coverage, with a context for each test and for its
setup, and NAME.json, the seconds of each test that passes. A worker of pytest-xdist adds its name
to NAME, and the process that started it writes nothing.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

_NAME = f"{os.environ['FHIRAPP_CONTEXTS']}{os.environ.get('PYTEST_XDIST_WORKER', '')}"
_coverage = coverage.Coverage(
    data_file=f"{_NAME}.coverage", source=["fhirapp"], branch=False, config_file=False
)
_coverage.set_option("run:relative_files", True)
_seconds: dict[str, float] = defaultdict(float)
_not_passed: set[str] = set()
_coverage.start()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    _coverage.switch_context(f"{item.nodeid}|setup")
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    _coverage.switch_context(f"{item.nodeid}|call")
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    _coverage.switch_context(f"{item.nodeid}|setup")
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what a test took to set up and run."""
    _seconds[report.nodeid] += report.duration
    if not report.passed:
        _not_passed.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was found, unless that is what workers write."""
    _coverage.stop()
    if session.config.getoption("numprocesses", 0) and not hasattr(session.config, "workerinput"):
        return
    _coverage.save()
    passed = {name: round(took, 3) for name, took in _seconds.items() if name not in _not_passed}
    Path(f"{_NAME}.json").write_text(json.dumps(passed, indent=0), encoding="utf-8")
