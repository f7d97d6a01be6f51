"""Features: what each imports, and the server without one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Set
from pathlib import Path

import grimp
import pytest

from fhirapp.feature import Feature, features
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


def test_features_require_each_other_without_cycles():
    def required(feature: Feature, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        assert feature.name not in path, path
        for name in feature.requires:
            yield from required(FEATURES[name], (*path, feature.name))

    for feature in FEATURES.values():
        assert list(required(feature, ())) == []


def dependents(name: str) -> Set[str]:
    """Return a feature and all that cannot do without it."""
    found = {name}
    while (
        more := {feature.name for feature in FEATURES.values() if found & set(feature.requires)}
        - found
    ):
        found |= more
    return found


# The jobs and schedules of the core still import the others.
REMOVABLE = [name for name in FEATURES if name not in ("imports", "pull", "exports", "backups")]


@pytest.mark.process
@pytest.mark.parametrize("name", REMOVABLE)
def test_server_without_a_feature_passes_the_contract_of_fhir(tmp_path: Path, name: str) -> None:
    without = dependents(name)
    for part in ("fhirapp", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "node_modules")
        shutil.copytree(ROOT / part, tmp_path / part, ignore=ignored)
    for file in ("pyproject.toml", "seed.sql", "app.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    for gone in without:
        shutil.rmtree(tmp_path / "fhirapp" / "features" / gone)
        shutil.rmtree(tmp_path / "tests" / "features" / gone)
    listed = [left for left in FEATURES if left not in without]
    (tmp_path / "fhirapp/features/__init__.py").write_text(f"FEATURES = {tuple(listed)!r}\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n0",
            "-p",
            "no:cacheprovider",
            "tests/rest/test_contract.py",
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def test_home_page_links_to_the_pages_of_features_that_are_there(make_app, monkeypatch):
    left = tuple(feature for feature in FEATURES.values() if feature.name != "learn")
    whole = Browser(make_app(demo=True))
    for module in ("fhirapp.web", "fhirapp.web.navigation"):
        monkeypatch.setattr(f"{module}.features", lambda: left)
    without = Browser(make_app(demo=True))
    for path, lesson in (("/", "/learn"), ("/sign-in", "/learn/join")):
        assert lesson in whole.get(path).offered.values()
        assert lesson not in without.get(path).links.values()
