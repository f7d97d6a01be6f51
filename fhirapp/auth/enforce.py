"""Which scopes can be enforced: what a type and its filters mean, others know, and say so here."""

from __future__ import annotations

from collections.abc import Callable

from flask import Flask, current_app

from fhirapp.auth.scopes import Scope

_EXTENSION = "fhirapp.enforceable"


def init_app(app: Flask, check: Callable[[Scope], bool]) -> None:
    """Tell the app's authorization server how to check a scope's type and filters."""
    app.extensions[_EXTENSION] = check


def enforceable(scope: Scope) -> bool:
    """Say whether a scope names a type that is served, and only filters that can be enforced."""
    check: Callable[[Scope], bool] = current_app.extensions[_EXTENSION]
    return check(scope)
