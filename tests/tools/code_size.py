"""`python -m tests.tools.code_size`: the size of the package, and the files that each call enters.

A call enters a file of the package if one of its functions runs, in any thread. Each call is made
twice and the second is counted, so that work done once per process is not.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from flask import Flask

from fhirapp import create_app
from fhirapp.definition import types
from fhirapp.environment import load_settings
from fhirapp.features.imports.importer import import_paths
from fhirapp.server.prepare import prepare
from tests import ROOT
from tests.support.browsing import Browser
from tests.support.helpers import Fhir

PACKAGE = ROOT / "fhirapp"
# Files that may be short: package markers, tables, and the declarations of a type.
_MAY_BE_SHORT = ("__init__.py", "__main__.py", "models.py", "routes.py")
_SHORT, _LONG = 40, 350
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
    entered = {f"files, {name}": len(files) for name, files in files_entered().items()}
    figures = {**size(), **entered}
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        print(*(f"{name:40} {value:>8}" for name, value in figures.items()), sep="\n")


def size() -> dict[str, int]:
    """Return the numbers of lines and files of the package, and of lines of README."""
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
    """Count the lines that are not blank, comment, docstring or import."""
    tree = ast.parse(text)
    excluded: set[int] = set()
    for node in ast.walk(tree):
        is_import = isinstance(node, (ast.Import, ast.ImportFrom))
        is_docstring = (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
        if is_import or is_docstring:
            excluded.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in excluded
        for number, line in enumerate(text.splitlines(), 1)
    )


def files_entered() -> dict[str, set[str]]:
    """Return the files of the package that each call enters."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        app = create_app(load_settings({}, demo=True, instance_path=folder / "instance"))
        prepare(app, lambda _message: None, serving=True)
        token: dict[str, str] = {}

        def issue_token() -> None:
            answer = app.test_client().post(
                "/oauth/token",
                data={"grant_type": "client_credentials", "scope": "system/*.rs"},
                auth=("demo-backend", "demo"),
            )
            assert answer.status_code == 200, answer.text
            token.update(answer.get_json())

        def get(path: str) -> None:
            answer = Fhir(app, token["access_token"]).get(path)
            assert answer.status_code == 200, answer.text

        clinician = Browser(app)
        clinician.sign_in("clinician", "demo")

        def open_chart() -> None:
            assert clinician.get("/patients/p1").status == 200

        calls: dict[str, Callable[[], None]] = {
            "token": issue_token,
            "read": lambda: get("AllergyIntolerance/al-p1-penicillin"),
            "search": lambda: get(_SEARCH),
            "import": _importer(app, folder),
            "chart": open_chart,
        }
        return {name: entered_by(call) for name, call in calls.items()}


def _importer(app: Flask, folder: Path) -> Callable[[], None]:
    """Return a function that imports one resource, a new one in each call."""
    number = iter(range(100))

    def load() -> None:
        path = folder / f"{next(number)}.json"
        path.write_text(json.dumps({**_ALLERGY, "id": f"peanut-{path.stem}"}), encoding="utf-8")
        with app.app_context():
            report = import_paths([path], types(), app.config["FHIRAPP"])
        assert sum(report.changes["AllergyIntolerance"].values()) == 1, report

    return load


def entered_by(call: Callable[[], None]) -> set[str]:
    call()
    with _profiled() as files:
        call()
    return {Path(name).relative_to(PACKAGE).as_posix() for name in files}


@contextmanager
def _profiled() -> Iterator[set[str]]:
    """Collect the files of the package whose functions are called in the context."""
    inside = f"{PACKAGE}{os.sep}"
    files: set[str] = set()

    def record(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(inside):
            files.add(frame.f_code.co_filename)

    threading.setprofile(record)
    sys.setprofile(record)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


if __name__ == "__main__":
    main()
