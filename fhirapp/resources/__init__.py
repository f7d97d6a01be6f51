"""The resource types, a folder each. Adding a type is adding its folder; nothing else knows it."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from flask import Flask


def init_app(app: Flask) -> None:
    """Serve every type that has a folder here: its `routes.blueprint`."""
    for module in iter_modules(__path__):
        if module.ispkg:
            app.register_blueprint(import_module(f"{__name__}.{module.name}.routes").blueprint)
