"""A page of the manual as HTML: headings have anchors, and links to its pages lead to /docs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from markdown_it.token import Token
from markupsafe import Markup

from fhirapp.features.manual.contents import anchor_of
from fhirapp.web.markdown import Renderer, clean_html, parser

_MORE = {
    "div": {"class", "tabindex"},
    "td": {"data-label"},
    "th": {"scope"},
    **{name: {"id"} for name in ("h2", "h3", "h4")},
}
# The server of the examples: a page names the one that shows it.
_EXAMPLE = re.compile(r"(?:http://)?localhost:8000\b")
# What tests fill in stands between comments, on lines of their own.
_COMMENT = re.compile(r"^<!-- .* -->$\n?", re.M)
_PAGE = re.compile(r"(?P<page>[a-z]+)\.md(?P<anchor>#.*)?")


@lru_cache(maxsize=50)
def manual_html(text: str, address: str) -> Markup:
    """Return a page of the manual as HTML, its examples for the server at an address."""
    text = _EXAMPLE.sub(address, _COMMENT.sub("", text))
    return clean_html(_PARSER.render(text), _MORE)


class _Renderer(Renderer):
    def heading_open(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        tokens[at].attrSet("id", anchor_of(tokens[at + 1].content))
        return self.renderToken(tokens, at, options, env)

    def table_open(self, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
        """Let a wide table scroll, by keyboard too.

        The first cell of a row is its heading; the others name their column.
        """
        headings: list[str] = []
        for number, token in enumerate(tokens[at:], at):
            if token.type == "table_close":
                break
            if token.type == "th_open":
                headings.append("".join(part.content for part in tokens[number + 1].children or ()))
            elif token.type == "tr_open":
                column = -1
            elif token.type == "td_open":
                column += 1
                if not column:
                    token.attrSet("scope", "row")
                elif tokens[number + 1].content:
                    token.attrSet("data-label", headings[column])
            if token.type in ("td_open", "td_close") and not column:
                token.tag = "th"
        return '<div class="scroll" tabindex="0"><table>'

    def table_close(self, _tokens: Any, _at: int, _options: Any, _env: Any) -> str:
        return "</table></div>"

    def link_open(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        if page := _PAGE.fullmatch(str(tokens[at].attrGet("href") or "")):
            tokens[at].attrSet("href", f"/docs/{page['page']}{page['anchor'] or ''}")
        return self.renderToken(tokens, at, options, env)


_PARSER = parser(_Renderer)
