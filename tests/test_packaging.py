"""What is shipped: the files of the wheel, and the top level of the repository."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests import ROOT

TOP_LEVEL = {
    ".ci",
    ".dockerignore",
    ".gitignore",
    "CHANGELOG.md",
    "Dockerfile",
    "LICENSE",
    "README.md",
    "app.py",
    "constraints.txt",
    "fhirapp",
    "instance",
    "pyproject.toml",
    "seed.sql",
    "tests",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZipFile]:
    """Build the wheel, without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    (built,) = folder.iterdir()
    with ZipFile(built) as opened:
        yield opened


# What each file of the package is: code, templates, texts, and what browsers load.
SUFFIXES = {".py", ".html", ".md", ".css", ".js", ".svg", ".ico", ".png", ".txt", ".pot", ".typed"}


def test_the_package_holds_no_file_that_an_editor_or_a_merge_left():
    files = tracked("fhirapp")
    assert len(files) > 200
    assert sorted(path for path in files if Path(path).suffix not in SUFFIXES) == []


def test_the_wheel_holds_the_package_and_the_seed_and_nothing_else(wheel):
    package = ROOT / "fhirapp"
    expected = {
        path.relative_to(ROOT).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pot"
    }
    assert "fhirapp/web/templates/base.html" in expected
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == expected | {"fhirapp/seed.sql"}
    assert wheel.read("fhirapp/seed.sql") == (ROOT / "seed.sql").read_bytes()


def test_the_wheel_brings_the_command(wheel):
    (entry_points,) = [name for name in wheel.namelist() if name.endswith("/entry_points.txt")]
    assert "fhirapp = fhirapp.cli:main" in wheel.read(entry_points).decode().splitlines()


def test_the_top_level_of_the_repository_is_the_agreed_one():
    assert {path.split("/")[0] for path in tracked()} == TOP_LEVEL


def tracked(*folders: str) -> list[str]:
    """Return the files that the repository holds, below these folders or all."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        # Also where the checkout belongs to another user, as in a container.
        ["git", "-c", "safe.directory=*", "ls-files", *folders],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return listed.stdout.splitlines()
