"""The pages of the manual at /docs, and the search in them."""

from __future__ import annotations

from typing import Any

from flask import Response, request

from fhirapp import urls
from fhirapp.features.manual.contents import AUDIENCES, pages, search
from fhirapp.features.manual.html import manual_html
from fhirapp.web.pages import PageError, blueprint_of, page
from fhirapp.web.texts import _

blueprint = blueprint_of("manual", __name__)


@blueprint.get("/docs")
def contents() -> Response:
    """List the pages, or what a search found in them."""
    words = request.args.get("q", "")[:200]
    if not words.strip():
        return manual_page("index")
    return _page("manual/search.html", words=words, found=search(words))


@blueprint.get("/docs/<name>")
def manual_page(name: str) -> Response:
    """Show a page of the manual. 404 where there is none."""
    shown = pages().get(name)
    if shown is None:
        raise PageError(404, _("The manual does not have this page."))
    return _page("manual/page.html", shown=shown, text=manual_html(shown.text, urls.base_url()))


def _page(template: str, **values: Any) -> Response:
    return page(template, audiences=AUDIENCES, pages=pages(), **values)
