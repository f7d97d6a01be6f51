"""The resource types: a folder each, a file where it is short. Adding a type is adding that.

Nothing else knows a type by name.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from flask import Flask


def init_app(app: Flask) -> None:
    """Serve every type that is here: the `blueprint` of its file, or of its folder's `routes`."""
    for module in iter_modules(__path__, f"{__name__}."):
        name = f"{module.name}.routes" if module.ispkg else module.name
        app.register_blueprint(import_module(name).blueprint)
