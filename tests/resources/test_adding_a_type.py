"""Adding a type is adding its folder, deleting one is deleting it: tried on a copy of the project.

The copy's own tests run there, in a process of their own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import ROOT
from tests.support.importing import ALLERGY, PATIENT

# FHIR's word and ours, and what they become in the new folder.
RENAMED = {"AllergyIntolerance": "Sensitivity", "allergy_intolerance": "sensitivity"}
SEARCH = """
import sys
from fhirapp import create_app
answer = create_app().test_client().get(
    "/fhir/Sensitivity?patient=one&_revinclude=Provenance:target",
    headers={"Authorization": f"Bearer {sys.argv[1]}"},
)
print(answer.text)
"""

# What an app shows and enforces of its types, as JSON.
SHOWN = """
import json
from fhirapp import create_app
from fhirapp.auth.scopes import enforceable, parse_scope
from fhirapp.web.explore.form import type_names
app = create_app()
client = app.test_client()
scopes = (
    "system/Sensitivity.rs",
    "user/Sensitivity.rs?clinical-status=active",
    "user/Sensitivity.rs?unheard-of=active",
    "user/Unheard.rs",
)
with app.test_request_context():
    print(json.dumps({
        "openapi": client.get("/openapi.json").get_json(),
        "types": type_names(),
        "scopes": [scope for scope in scopes if enforceable(parse_scope(scope))],
    }))
"""


PAGES = """
from fhirapp import create_app
from fhirapp.web.apps import _offered_scopes
from fhirapp.web.labels import in_words, one_of, plural_of
from fhirapp.web.explore.form import type_names
from fhirapp.web.explore.tables import tables_of
with create_app().app_context():
    print(type_names()[:3])
    print(tables_of({"resourceType": "Sensitivity", "id": "a"}).tables[0].columns)
    print(_offered_scopes("backend"))
    print(one_of("Sensitivity"), plural_of("Sensitivity"), sep="; ")
    print(in_words("patient/Sensitivity.rs").sentence)
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the project: the package, its tests and its seed."""
    root = tmp_path / "project"
    for name in ("fhirapp", "tests"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "seed.sql"):
        shutil.copy(ROOT / name, root / name)
    return root


@pytest.fixture
def run(copy: Path) -> Callable[..., str]:
    """Return a runner of Python in the copy; what must end well says its standard output."""
    # What covers the copy says nothing of the project, and its tests run by themselves.
    left_out = ("FHIRAPP_", "COVERAGE_", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    instance = str(copy / "instance")

    def python(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=copy,
            env={**kept, "PYTHONPATH": str(copy), "FHIRAPP_INSTANCE_PATH": instance},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return python


def contract(run: Callable[..., str], *names: str) -> set[str]:
    """Return the tests of the contract that passed for these types, by default for all.

    None may fail.
    """
    of_all = ("deleted", "writes", "without", "capability")
    chosen = ("-m", "not postgres", "-k", " or ".join((*names, *of_all)))
    options = ("-v", "-n", "0", "-p", "no:cacheprovider", *chosen)
    said = run("-m", "pytest", "tests/rest/test_contract.py", *options)
    return set(re.findall(r"^\S+::(\S+) PASSED", said, re.MULTILINE))


def add_type(copy: Path) -> None:
    """Add the folder of AllergyIntolerance again, under the new name."""
    types = copy / "fhirapp/resources"
    shutil.copytree(types / "allergy_intolerance", types / "sensitivity")
    for path in (types / "sensitivity").glob("*.py"):
        path.write_text(renamed(path.read_text(encoding="utf-8")), encoding="utf-8")


def renamed(text: str) -> str:
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    return text


def test_the_copy_is_what_runs(copy, run):
    assert run("-c", "import fhirapp; print(fhirapp.__file__)").startswith(str(copy))


def test_a_new_folder_is_a_type_that_keeps_the_contract(copy, run):
    add_type(copy)
    passed = contract(run, "AllergyIntolerance", "Sensitivity")
    model = {name for name in passed if "AllergyIntolerance" in name}
    assert len(model) >= 8
    assert {renamed(name) for name in model} == {name for name in passed if "Sensitivity" in name}


def test_a_new_type_is_shown_and_enforced_as_the_type_it_copies_is(copy, run):
    add_type(copy)
    shown = json.loads(run("-c", SHOWN))
    document = shown["openapi"]

    assert {"AllergyIntolerance", "Sensitivity"} <= {tag["name"] for tag in document["tags"]}
    assert {"AllergyIntolerance", "Sensitivity"} <= document["components"]["schemas"].keys()
    model = {path for path in document["paths"] if "/AllergyIntolerance" in path}
    assert len(model) > 5
    assert {renamed(path) for path in model} == {
        path for path in document["paths"] if "/Sensitivity" in path
    }
    parameters = document["components"]["parameters"]
    model = {name for name in parameters if name.startswith("AllergyIntolerance.")}
    assert model
    assert {renamed(name) for name in model} <= parameters.keys()

    assert "Sensitivity" in shown["types"]
    assert shown["scopes"] == [
        "system/Sensitivity.rs",
        "user/Sensitivity.rs?clinical-status=active",
    ]


def test_data_of_a_new_type_are_imported_and_found(copy, run):
    add_type(copy)
    (copy / "Patient.ndjson").write_text(json.dumps(PATIENT))
    entry = {**ALLERGY, "resourceType": "Sensitivity"}
    (copy / "Sensitivity.ndjson").write_text(json.dumps(entry))
    main = ("-c", "from fhirapp.cli import main; main()")
    run(*main, "import", "Patient.ndjson", "Sensitivity.ndjson")
    token = run(*main, "token", "issue", "--scope", "system/Sensitivity.rs").strip()
    bundle = json.loads(run("-c", SEARCH, token))
    assert [one["resource"]["resourceType"] for one in bundle["entry"]] == ["Sensitivity"]


def test_pages_show_a_new_type_as_its_folder_declares(copy, run):
    add_type(copy)
    names, columns, scopes, called, consent = run("-c", PAGES).splitlines()
    assert names == "['AllergyIntolerance', 'DocumentReference', 'Sensitivity']"
    assert columns == (
        "['id', 'Patient', 'Substance', 'Status', 'Verification', 'Criticality', 'Severity',"
        " 'Since', 'Recorded']"
    )
    assert "'system/Sensitivity.rs'" in scopes
    assert called == "an allergy; allergies and intolerances"
    assert consent == "See allergies and intolerances"


def test_without_its_folder_a_type_is_not_served_and_the_others_are(copy, run):
    shutil.rmtree(copy / "fhirapp/resources/allergy_intolerance")
    passed = contract(run, "AllergyIntolerance", "DocumentReference", "Binary")
    assert "test_capability_statement_lists_each_type_as_it_is_declared[sqlite]" in passed
    assert [name for name in passed if "AllergyIntolerance" in name] == []
