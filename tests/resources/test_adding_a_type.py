"""A folder in `resources` adds a type: tested in copies of the project, by their own tests."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

pytestmark = pytest.mark.process

# FHIR's word and ours, and what they become in the new folder.
RENAMED = {"AllergyIntolerance": "Sensitivity", "allergy_intolerance": "sensitivity"}
# What an app shows and enforces of its types, as JSON.
SHOWN = """
import json
from fhirapp import create_app
from fhirapp.auth.scopes import enforceable, parse_scope
from fhirapp.features.apps.registration import _offered_scopes
from fhirapp.features.explore.form import type_names
from fhirapp.features.explore.tables import tables_of
from fhirapp.web.labels import in_words, one_of, plural_of
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
        "columns": tables_of({"resourceType": "Sensitivity", "id": "a"}).tables[0].columns,
        "offered": [*_offered_scopes("backend")],
        "labels": [one_of("Sensitivity"), plural_of("Sensitivity")],
        "consent": in_words("patient/Sensitivity.rs").sentence,
    }, default=str))
"""


def copied(root: Path) -> Path:
    """Return a copy of the project: the package, its tests and its seed."""
    for name in ("fhirapp", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "node_modules", "kept")
        shutil.copytree(ROOT / name, root / name, ignore=ignored)
    for name in ("pyproject.toml", "seed.sql"):
        shutil.copy(ROOT / name, root / name)
    return root


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the folder of AllergyIntolerance again, under the new name."""
    root = copied(tmp_path_factory.mktemp("added") / "project")
    types = root / "fhirapp/resources"
    shutil.copytree(types / "allergy_intolerance", types / "sensitivity")
    for path in (types / "sensitivity").glob("*.py"):
        path.write_text(renamed(path.read_text(encoding="utf-8")), encoding="utf-8")
    return root


def run(root: Path, *arguments: str) -> str:
    """Run Python in a copy and return its standard output."""
    # Coverage, settings and options of this run are not those of the copy.
    left_out = ("FHIRAPP_", "COVERAGE_", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    own = {"PYTHONPATH": str(root), "FHIRAPP_INSTANCE_PATH": str(root / "instance")}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env=kept | own,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def contract(root: Path, *names: str) -> set[str]:
    """Return the tests of the contract that passed for these types and for all; none may fail."""
    of_all = ("deleted", "writes", "without", "capability")
    chosen = ("-m", "not postgres", "-k", " or ".join((*names, *of_all)))
    options = ("-v", "-n", "0", "-p", "no:cacheprovider", *chosen)
    said = run(root, "-m", "pytest", "tests/rest/test_contract.py", *options)
    return set(re.findall(r"^\S+::(\S+) PASSED", said, re.MULTILINE))


def renamed(text: str) -> str:
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    return text


def test_a_new_folder_is_a_type_that_keeps_the_contract(added):
    passed = contract(added, "AllergyIntolerance", "Sensitivity")
    model = {name for name in passed if "AllergyIntolerance" in name}
    assert len(model) >= 8
    assert {renamed(name) for name in model} == {name for name in passed if "Sensitivity" in name}


def test_a_new_type_is_shown_and_enforced_as_the_type_it_copies_is(added):
    shown = json.loads(run(added, "-c", SHOWN))
    document = shown["openapi"]
    parameters = document["components"]["parameters"]
    tags = {tag["name"] for tag in document["tags"]}
    for names in (tags, document["components"]["schemas"].keys(), {*shown["types"]}):
        assert {"AllergyIntolerance", "Sensitivity"} <= names
    for names in (document["paths"], parameters):
        model = {name for name in names if "AllergyIntolerance" in name}
        assert len(model) > 5
        assert {renamed(name) for name in model} <= set(names)
    assert shown["scopes"] == [
        *("system/Sensitivity.rs", "user/Sensitivity.rs?clinical-status=active")
    ]
    assert shown["columns"] == [
        *("id", "Patient", "Substance", "Status", "Verification", "Criticality", "Severity"),
        *("Since", "Recorded"),
    ]
    assert "system/Sensitivity.rs" in str(shown["offered"])
    assert shown["labels"] == ["an allergy", "allergies and intolerances"]
    assert shown["consent"] == "See allergies and intolerances"


def test_without_its_folder_a_type_is_not_served_and_the_others_are(tmp_path):
    root = copied(tmp_path / "project")
    shutil.rmtree(root / "fhirapp/resources/allergy_intolerance")
    passed = contract(root, "AllergyIntolerance", "DocumentReference", "Binary")
    assert "test_capability_statement_lists_each_type_as_it_is_declared[sqlite]" in passed
    assert [name for name in passed if "AllergyIntolerance" in name] == []
