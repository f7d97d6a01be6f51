"""Node, and the packages of tests/node, where they are there."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.support.shell import ROOT

# Set where the tests that need Node must run; read here, before the tests' own settings are made.
_REQUIRED = bool(os.environ.get("FHIRAPP_TEST_NODE"))
NODE = ROOT / "tests" / "node"


def node_is_there(package: str = "") -> None:
    """Skip the test where Node is not there, or its packages; fail where they must be."""
    if shutil.which("node") is None or not (NODE / "node_modules" / package).is_dir():
        reason = "needs Node, and its packages: run `npm ci` in tests/node"
        (pytest.fail if _REQUIRED else pytest.skip)(reason)
