"""The app without its pages: database, access, types. What the shell and background tasks use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, tzinfo
from typing import Any

from flask import Flask, current_app
from werkzeug.routing import Rule

from fhirapp import audit, auth, resources, rest
from fhirapp import db as database
from fhirapp.config import Settings, settings
from fhirapp.db import db
from fhirapp.fhir.temporal import init_zone


def bare_app(settings: Settings) -> Flask:
    """Return an app that knows its settings, and no address."""
    app = Flask("fhirapp", instance_path=str(settings.instance), static_folder=None)
    app.config["FHIRAPP"] = settings
    app.url_rule_class = _Rule
    init_zone(_clinic_zone)
    # A redirect would name whatever host the client named.
    app.url_map.merge_slashes = False
    app.json.sort_keys = False  # type: ignore[attr-defined]
    return app


class _Rule(Rule):
    """A route that compiles its two functions for addresses when one is first made by it.

    Of 213 routes few are ever asked for one; compiled at once, they took half of `create_app`.
    """

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        compile_builder = super()._compile_builder
        compiled: Callable[..., tuple[str, str]] | None = None

        def build(rule: Rule, **values: Any) -> tuple[str, str]:
            nonlocal compiled
            compiled = compiled or compile_builder(append_unknown)
            return compiled(rule, **values)

        return build


def core_app(settings: Settings) -> Flask:
    """Return an app that is not served; its database is not opened yet. Raises ConfigurationError.

    Commands ask for no page, and do not wait until all are imported.
    """
    app = bare_app(settings)
    for part in (database, auth, audit, rest, resources):
        part.init_app(app)
    return app


def _clinic_zone() -> tzinfo:
    return settings().zone if current_app else UTC


@contextmanager
def current_core(settings: Settings) -> Iterator[Flask]:
    """Return such an app, current meanwhile, on a database that was made ready."""
    app = core_app(settings)
    with app.app_context():
        try:
            yield app
        finally:
            db.engine.dispose()
