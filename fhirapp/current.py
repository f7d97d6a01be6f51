"""What is current: the app, the request that is answered, and what is kept while it is.

Flask's `current_app`, `request` and `g` look each time anew for what they stand for, in five calls;
where every request passes, it is taken once and passed on. Outside of an app, or of a request,
each raises RuntimeError as Flask's do.
"""

from __future__ import annotations

from flask import Flask, Request, current_app, g, request
from flask.ctx import _AppCtxGlobals


def this_app() -> Flask:
    """Return the app that is running."""
    found: Flask = current_app._get_current_object()  # type: ignore[attr-defined]
    return found


def this_request() -> Request:
    """Return the request that is answered."""
    found: Request = request._get_current_object()  # type: ignore[attr-defined]
    return found


def kept() -> _AppCtxGlobals:
    """Return what is kept until the request, or the command, has ended."""
    found: _AppCtxGlobals = g._get_current_object()
    return found
