"""The pages of the manual at /docs, and the search in them."""

from __future__ import annotations

from flask import Response, request

from fhirapp.features.manual.contents import pages, search
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
    return page("manual/search.html", words=words, found=search(words), pages=_page_links())


@blueprint.get("/docs/<name>")
def manual_page(name: str) -> Response:
    """Show a page of the manual. 404 where there is none."""
    shown = pages().get(name)
    if shown is None:
        raise PageError(404, _("The manual does not have this page."))
    return page("manual/page.html", shown=shown, text=manual_html(shown.text), pages=_page_links())


def _page_links() -> list[tuple[str, str]]:
    """Return the address and title of each page, in the order of the contents."""
    return [
        ("/docs" if name == "index" else f"/docs/{name}", shown.title)
        for name, shown in pages().items()
    ]
