"""The Markdown of lessons as HTML.

Links to /fhir/… lead into the explorer, and so does a block of code that is marked `fhir`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from html import escape
from typing import Any

from markdown_it.token import Token
from markupsafe import Markup

from fhirapp import urls
from fhirapp.features.explore.address import PAGE, explorer_link
from fhirapp.web.markdown import Renderer, clean_html, parser
from fhirapp.web.texts import _

# What the address of this server stands for in the text.
SERVER = "{server}"
_OPEN = _("Open it in the explorer")


def lesson_html(text: str, lesson: str = "") -> Markup:
    """Return the Markdown of a lesson as HTML, with this server's address filled in."""
    return as_html(text.replace(SERVER, urls.base_url()), lesson, _(_OPEN))


@lru_cache(maxsize=200)
def as_html(text: str, lesson: str = "", link_text: str = _OPEN) -> Markup:
    """Return Markdown as HTML; link_text is the text of its links to the explorer."""
    html = _PARSER.render(text, {"lesson": lesson, "link_text": link_text})
    return clean_html(html, {"table": {"tabindex"}})


def _explorer(address: str, lesson: str) -> str:
    """Return the page that starts the lesson, if there is one, and opens a request."""
    return explorer_link(address, f"/learn/{lesson}/explore" if lesson else PAGE)


class _Renderer(Renderer):
    def table_open(self, _tokens: Sequence[Token], _at: int, _options: Any, _env: Any) -> str:
        """Let a table that is too wide be scrolled by keyboard: its words are not broken."""
        return '<table tabindex="0">'

    def link_open(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        href = str(tokens[at].attrGet("href") or "")
        if href.startswith("/fhir/"):
            tokens[at].attrSet("href", _explorer(href, env["lesson"]))
        return self.renderToken(tokens, at, options, env)

    def fence(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        shown = super().fence(tokens, at, options, env)
        if tokens[at].info.strip() != "fhir":
            return shown
        request = tokens[at].content.strip().removeprefix("GET ").strip()
        address = escape(_explorer(request, env["lesson"]))
        return f'{shown}<p><a class="target" href="{address}">{escape(env["link_text"])}</a></p>'


_PARSER = parser(_Renderer)
