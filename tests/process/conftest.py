"""Fixtures of the tests that start processes: a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.serving import Server, servers


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Return a function that starts a server of the test's own."""
    with servers(tmp_path) as run:
        yield run
