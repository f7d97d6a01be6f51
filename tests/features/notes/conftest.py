"""The seeded app with notes of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from tests.support.noted import add


@pytest.fixture(scope="package")
def app_with(
    make_app: Callable[..., Flask], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Flask]:
    """Return a factory of seeded apps into which resources are imported, list after list."""

    def make(*imports: list[dict[str, Any]]) -> Flask:
        app = make_app()
        for resources in imports:
            add(app, tmp_path_factory.mktemp("notes"), *resources)
        return app

    return make
