"""Features: what each imports, and the server without one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Set
from pathlib import Path

import grimp
import pytest

from fhirapp.feature import Feature, features
from fhirapp.features.exports.jobs import BULK_EXPORT
from fhirapp.web.admin.audit_descriptions import vias
from tests import ROOT
from tests.support.browsing import Browser

_FOLDER = "fhirapp.features"
FEATURES = {feature.name: feature for feature in features()}
CONTRACT = "tests/rest/test_contract.py"


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    """Which module of the package imports which, also within functions."""
    return grimp.build_graph("fhirapp", cache_dir=None)


def feature_of(module: str) -> str:
    """Return the feature that a module belongs to, "" for the core."""
    found = re.match(rf"{re.escape(_FOLDER)}\.(\w+)", module)
    return found[1] if found else ""


def test_each_folder_is_a_feature_of_the_list():
    folders = {path.parent.name for path in (ROOT / "fhirapp" / "features").glob("*/__init__.py")}
    assert folders == FEATURES.keys()


@pytest.mark.parametrize("name", FEATURES)
def test_feature_imports_only_what_it_requires(imports, name):
    imported = {
        feature_of(module)
        for importer in imports.find_descendants(f"{_FOLDER}.{name}") | {f"{_FOLDER}.{name}"}
        for module in imports.find_modules_directly_imported_by(importer)
    }
    assert imported - {"", name} == set(FEATURES[name].requires)


def test_kinds_that_are_begun_again_are_declared():
    requeued = {kind for feature in FEATURES.values() for kind in feature.requeued}
    assert requeued == {BULK_EXPORT}
    for feature in FEATURES.values():
        assert {*feature.requeued} <= feature.jobs.keys()


def test_features_require_each_other_without_cycles():
    def check(feature: Feature, path: tuple[str, ...]) -> None:
        assert feature.name not in path, path
        for name in feature.requires:
            check(FEATURES[name], (*path, feature.name))

    for feature in FEATURES.values():
        check(feature, ())


def dependents(name: str) -> Set[str]:
    """Return a feature and all that cannot do without it."""
    found = {name}
    while (
        more := {feature.name for feature in FEATURES.values() if found & set(feature.requires)}
        - found
    ):
        found |= more
    return found


def test_core_imports_no_feature(imports):
    core = {module for module in imports.modules if not module.startswith(_FOLDER)}
    importers = {
        module
        for module in core
        if any(map(feature_of, imports.find_modules_directly_imported_by(module)))
    }
    assert importers == set()


def keep_demo_data_for_tests(root: Path) -> None:
    """Move the demo's seed and accounts to tests/support, whose fixtures fill databases with them.

    They import only the core.
    """
    moved = root / "tests" / "support" / "demo"
    moved.mkdir()
    for name in ("__init__", "accounts", "seed"):
        shutil.copy(root / "fhirapp" / "features" / "demo" / f"{name}.py", moved)
    for path in (root / "tests").rglob("*.py"):
        text = path.read_text("utf-8")
        path.write_text(text.replace(f"{_FOLDER}.demo", "tests.support.demo"), "utf-8")


def run_without(root: Path, name: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Copy the project into a folder without a feature, and run a Python module there."""
    without = dependents(name)
    for part in ("fhirapp", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "node_modules")
        shutil.copytree(ROOT / part, root / part, ignore=ignored)
    for file in ("pyproject.toml", "seed.sql", "app.py"):
        shutil.copy(ROOT / file, root / file)
    if "demo" in without:
        keep_demo_data_for_tests(root)
    for gone in without:
        shutil.rmtree(root / "fhirapp" / "features" / gone)
        shutil.rmtree(root / "tests" / "features" / gone, ignore_errors=True)
    listed = [left for left in FEATURES if left not in without]
    (root / "fhirapp/features/__init__.py").write_text(f"FEATURES = {tuple(listed)!r}\n")
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.process
@pytest.mark.parametrize("name", FEATURES)
def test_server_without_a_feature_passes_the_contract_of_fhir(tmp_path: Path, name: str) -> None:
    done = run_without(tmp_path, name, "pytest", "-q", "-n0", CONTRACT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


@pytest.mark.process
def test_server_without_the_demo_refuses_demo_mode(tmp_path: Path) -> None:
    done = run_without(tmp_path, "demo", "fhirapp", "serve", "--demo")
    message = "fhirapp: This server has no demo: leave out --demo.\n"
    assert (done.returncode, done.stderr) == (2, message)
    assert not [*tmp_path.rglob("demo.db")]


def test_each_page_that_asks_for_records_has_a_label_in_the_audit_trail():
    assigned = re.compile(r'^(?:SENT_|_)?VIA = "([a-z]+)"$', re.MULTILINE)
    sources = (path.read_text("utf-8") for path in (ROOT / "fhirapp").rglob("*.py"))
    codes = {code for source in sources for code in assigned.findall(source)}
    assert len(codes) > 8
    assert codes <= vias().keys()


def test_home_page_links_to_the_pages_of_features_that_are_there(make_app, monkeypatch):
    left = tuple(feature for feature in FEATURES.values() if feature.name != "learn")
    whole = Browser(make_app(demo=True))
    for module in ("fhirapp.web", "fhirapp.web.navigation"):
        monkeypatch.setattr(f"{module}.features", lambda: left)
    without = Browser(make_app(demo=True))
    for path, lesson in (("/", "/learn"), ("/sign-in", "/learn/join")):
        assert lesson in whole.get(path).offered.values()
        assert lesson not in without.get(path).links.values()
