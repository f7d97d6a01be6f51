"""Markdown as HTML that is safe whoever wrote it: no HTML of the text passes through it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

_TAGS = {
    *("a", "blockquote", "br", "code", "em", "h2", "h3", "h4", "hr", "li", "ol", "p", "pre"),
    *("strong", "table", "tbody", "td", "th", "thead", "tr", "ul", "wbr"),
}
_ATTRIBUTES = {"a": {"href", "class"}, "code": {"class"}, "ol": {"start"}}


class Renderer(RendererHTML):
    """Renders code; a subclass renders more, with a method for each kind of token.

    The library takes each method without an underscore as the rule of that name.
    """

    def fence(self, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
        code = tokens[at].content.rstrip("\n")
        return f"<pre><code>{escape(code)}</code></pre>"

    def code_inline(self, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
        """Let the lines of an address break where its parts begin, and not within a word."""
        pieces = re.split(r"(?<=[/=|?&,])", tokens[at].content)
        return f"<code>{'<wbr>'.join(map(escape, pieces))}</code>"


def parser(renderer: type[Renderer]) -> MarkdownIt:
    """Return a parser of CommonMark with tables, whose HTML is escaped."""
    return MarkdownIt("commonmark", {"html": False}, renderer_cls=renderer).enable("table")


def clean_html(html: str, more: Mapping[str, set[str]] | None = None) -> Markup:
    """Return HTML with text elements only; more maps further elements to their attributes."""
    more = more or {}
    return Markup(
        nh3.clean(
            html,
            tags=_TAGS | more.keys(),
            attributes={**_ATTRIBUTES, **more},
            url_schemes={"http", "https"},
            link_rel="noreferrer",
        )
    )
