"""`python -m tests.support.figures`: the size of the project, and how many files each call enters.

Lines and files are counted in the checkout. A call enters a file of the package when one of its
functions runs, in any thread. Each call is made twice and the second counts: what a process makes
once does not. The start is from `app.py --demo` on an existing database to the first 200.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.request import urlopen

from flask import Flask

from fhirapp import create_app
from fhirapp.config import load_settings
from fhirapp.definition import types
from fhirapp.exchange.imports.importer import import_paths
from fhirapp.ops.prepare import prepare
from tests import ROOT
from tests.support.browsing import Browser
from tests.support.helpers import Fhir

PACKAGE = ROOT / "fhirapp"
# May be short: markers of packages, tables, and declarations of a type.
_MAY_BE_SHORT = ("__init__.py", "__main__.py", "model.py", "models.py", "routes.py")
_SHORT, _LONG = 40, 350
_STARTS = 5
_SEARCH = "AllergyIntolerance?patient=p1&_revinclude=Provenance:target"
_ALLERGY = {
    "resourceType": "AllergyIntolerance",
    "patient": {"reference": "Patient/p1"},
    "code": {"text": "Peanut"},
    "clinicalStatus": {
        "coding": [
            {
                "system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical",
                "code": "active",
            }
        ]
    },
}


def main() -> None:
    """Print the figures, as a table or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--files", metavar="CALL", help="list the files that a call enters")
    options = parser.parse_args()
    if options.files:
        print(*sorted(files_entered()[options.files]), sep="\n")
        return
    found = {**size(), **{f"files, {name}": len(v) for name, v in files_entered().items()}}
    found["seconds to the first 200"] = start_seconds()
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        print(*(f"{name:40} {value:>8}" for name, value in found.items()), sep="\n")


def size() -> dict[str, int]:
    """Return the lines and files of the package, and the lines of README."""
    code = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    short = [
        path
        for path, text in code.items()
        if path.name not in _MAY_BE_SHORT
        and "migrations" not in path.parts
        and lines_of_code(text) < _SHORT
    ]
    return {
        "Python lines in fhirapp": sum(len(text.splitlines()) for text in code.values()),
        "Python files in fhirapp": len(code),
        f"files under {_SHORT} lines of code": len(short),
        f"files over {_LONG} lines": sum(len(text.splitlines()) > _LONG for text in code.values()),
        "lines of README": len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()),
    }


def lines_of_code(text: str) -> int:
    """Return how many lines are neither blank nor comment, docstring or import."""
    tree = ast.parse(text)
    left_out: set[int] = set()
    for node in ast.walk(tree):
        is_import = isinstance(node, (ast.Import, ast.ImportFrom))
        is_docstring = (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
        if is_import or is_docstring:
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in left_out
        for number, line in enumerate(text.splitlines(), 1)
    )


def files_entered() -> dict[str, set[str]]:
    """Return, for each call, the files of the package that it enters."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        app = create_app(load_settings({}, demo=True, instance_path=folder / "instance"))
        prepare(app, lambda _message: None, serving=True)
        token: dict[str, str] = {}

        def ask_token() -> None:
            answer = app.test_client().post(
                "/oauth/token",
                data={"grant_type": "client_credentials", "scope": "system/*.rs"},
                auth=("demo-backend", "demo"),
            )
            assert answer.status_code == 200, answer.text
            token.update(answer.get_json())

        def ask(path: str) -> None:
            answer = Fhir(app, token["access_token"]).get(path)
            assert answer.status_code == 200, answer.text

        clinician = Browser(app)
        clinician.sign_in("clinician", "demo")

        def look() -> None:
            assert clinician.get("/patients/p1").status == 200

        calls: dict[str, Callable[[], None]] = {
            "token": ask_token,
            "read": lambda: ask("AllergyIntolerance/al-p1-penicillin"),
            "search": lambda: ask(_SEARCH),
            "import": _importer(app, folder),
            "chart": look,
        }
        return {name: _entered(call) for name, call in calls.items()}


def _importer(app: Flask, folder: Path) -> Callable[[], None]:
    """Return what imports one resource, another one each time."""
    number = iter(range(100))

    def load() -> None:
        path = folder / f"{next(number)}.json"
        path.write_text(json.dumps({**_ALLERGY, "id": f"peanut-{path.stem}"}), encoding="utf-8")
        with app.app_context():
            report = import_paths([path], types(), app.config["FHIRAPP"])
        assert sum(report.changes["AllergyIntolerance"].values()) == 1, report

    return load


def _entered(call: Callable[[], None]) -> set[str]:
    call()
    with _watched() as files:
        call()
    return {Path(name).relative_to(PACKAGE).as_posix() for name in files}


@contextmanager
def _watched() -> Iterator[set[str]]:
    """Gather the files of the package whose functions are called meanwhile."""
    inside = f"{PACKAGE}{os.sep}"
    files: set[str] = set()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(inside):
            files.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def start_seconds() -> float:
    """Return the seconds from the start of `app.py --demo` to its first 200, the best of some."""
    with tempfile.TemporaryDirectory() as folder:
        return round(min(_start(Path(folder)) for _ in range(_STARTS + 1)), 2)


def _start(folder: Path) -> float:
    log = folder / "log"
    environ = {name: value for name, value in os.environ.items() if name[:8] != "FHIRAPP_"}
    with log.open("w") as output:
        began = time.perf_counter()
        server = subprocess.Popen(
            [sys.executable, str(ROOT / "app.py"), "--demo", "--port", "0"],
            env={**environ, "FHIRAPP_INSTANCE_PATH": str(folder)},
            stderr=output,
        )
    try:
        greeting = "serves FHIR R4 at http://127.0.0.1:"
        while greeting not in (said := log.read_text()):
            if server.poll() is not None:
                raise SystemExit(said)
            time.sleep(0.002)
        port = said.partition(greeting)[2].partition("/")[0]
        with urlopen(f"http://127.0.0.1:{port}/health/ready"):
            return time.perf_counter() - began
    finally:
        server.terminate()
        server.wait(60)


if __name__ == "__main__":
    main()
