"""Node, and the packages of tests/node, where they are there."""

from __future__ import annotations

import shutil

import pytest

from tests.support.shell import ROOT

NODE = ROOT / "tests" / "node"


def node_is_there(package: str = "") -> None:
    """Fail without Node, or without the packages of tests/node."""
    if shutil.which("node") is None or not (NODE / "node_modules" / package).is_dir():
        pytest.fail("needs Node, and its packages: run `npm ci` in tests/node")
