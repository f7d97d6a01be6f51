"""What was typed into a form that came too late: the browser keeps it for the form's page.

A form comes too late where nobody is signed in any more, or where its token was another session's.
Nothing is done then. What a view names is kept for a while, never a password, and only of a form of
our own pages: another site's would put its words into ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from flask import current_app, request
from werkzeug.datastructures import MultiDict

from fhirapp.web import cookies

View = TypeVar("View", bound=Callable[..., Any])
_KEPT, _PAGE = "keeps_typed", "page_of_form"
# In characters: with more, browsers drop a cookie.
_MOST = 3_500


def keeps(*names: str, page: str = "") -> Callable[[View], View]:
    """Say which fields of a form are kept; page is the one that has it, where that is not above."""

    def named(view: View) -> View:
        setattr(view, _KEPT, names)
        setattr(view, _PAGE, page)
        return view

    return named


def is_ours() -> bool:
    """Say whether the browser tells that one of our own pages sends this form."""
    return request.headers.get("Sec-Fetch-Site") == "same-origin"


def page_of_form() -> str:
    """Return the path of the page that has the form: the same one, or the nearest above it."""
    adapter, path = current_app.create_url_adapter(request), request.path
    if told := str(getattr(_view(), _PAGE, "")):
        return told
    while path and adapter is not None and not adapter.test(path, "GET"):
        path = path.rpartition("/")[0]
    return path or "/"


def keep() -> bool:
    """Keep what was typed; say whether there was something, and room for it."""
    names = getattr(_view(), _KEPT, ())
    pairs = [(name, one) for name in names for one in request.form.getlist(name) if one]
    text = urlencode(pairs)
    if not pairs or len(text) > _MOST:
        return False
    cookies.set_typed(f"{page_of_form()}?{text}")
    return True


def typed() -> MultiDict[str, str]:
    """Return what stands in the form of this page: what is sent now, or was kept of it, once."""
    if request.method == "POST":
        return request.form
    path, _sign, query = (cookies.typed() or "").partition("?")
    if path != request.path:
        return MultiDict()
    cookies.set_typed("")
    return MultiDict(parse_qsl(query))


def _view() -> object:
    return current_app.view_functions.get(request.endpoint or "")
