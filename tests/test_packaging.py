"""What is shipped: the files of the wheel, and the top level of the repository."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from urllib.request import urlopen
from zipfile import ZipFile

import pytest

from tests import ROOT
from tests.support.serving import listening_port
from tests.support.shell import MAIN, environment

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


@pytest.mark.process
def test_the_wheel_holds_the_package_and_the_seed_and_nothing_else(wheel):
    package = ROOT / "fhirapp"
    expected = {
        path.relative_to(ROOT).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".po", ".pot")
    }
    assert "fhirapp/web/templates/base.html" in expected
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == expected | {"fhirapp/seed.sql"}
    assert wheel.read("fhirapp/seed.sql") == (ROOT / "seed.sql").read_bytes()


@pytest.mark.process
def test_the_wheel_serves_the_demo_without_the_repository(wheel, tmp_path):
    site, log = tmp_path / "site", tmp_path / "log"
    wheel.extractall(site)
    with log.open("w") as output:
        server = subprocess.Popen(
            [sys.executable, "-P", "-c", MAIN, "serve", "--demo", "--port", "0"],
            cwd=tmp_path,
            env={**environment(tmp_path / "instance"), "PYTHONPATH": str(site)},
            stderr=output,
        )
    try:
        port = listening_port(server, log)
        with urlopen(f"http://127.0.0.1:{port}/health/ready") as answer:
            assert answer.status == 200
        with urlopen(f"http://127.0.0.1:{port}/") as page:
            assert "style.css" in page.read().decode()
    finally:
        server.terminate()
        server.wait(60)
    # The editable installation of the tests' own checkout was not what ran.
    assert (
        str(site)
        in subprocess.run(
            [sys.executable, "-P", "-c", "import fhirapp; print(fhirapp.__file__)"],
            cwd=tmp_path,
            env={**environment(tmp_path), "PYTHONPATH": str(site)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )


def test_the_top_level_of_the_repository_is_the_agreed_one():
    assert {path.split("/")[0] for path in tracked()} == TOP_LEVEL


def tracked(*folders: str) -> list[str]:
    """Return the files that the repository holds, below these folders or all."""
    listed = subprocess.run(
        # Also where the checkout belongs to another user, as in a container.
        ["git", "-c", "safe.directory=*", "ls-files", *folders],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return listed.stdout.splitlines()
