"""Markdown as HTML: lessons, whoever wrote them, and the manual. No HTML passes through it.

In a lesson, links to /fhir/… lead into the explorer, and so does a block of code marked `fhir`. In
the manual, headings have anchors, and links to its pages lead to /docs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from typing import Any
from urllib.parse import urlencode

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

from fhirapp.config import base_url
from fhirapp.docs import anchor_of
from fhirapp.web.texts import _

# What the address of this server stands for in the text.
SERVER = "{server}"
_TAGS = {
    *("a", "blockquote", "br", "code", "em", "h2", "h3", "h4", "hr", "li", "ol", "p", "pre"),
    *("strong", "table", "tbody", "td", "th", "thead", "tr", "ul", "wbr"),
}
_ATTRIBUTES = {"a": {"href", "class"}, "code": {"class"}, "ol": {"start"}}
_OF_MANUAL = {
    "div": {"class", "tabindex"},
    "td": {"data-label"},
    "th": {"scope"},
    **{name: {"id"} for name in ("h2", "h3", "h4")},
}
_OPEN = _("Open it in the explorer")
# What tests fill in stands between comments, on lines of their own.
_COMMENT = re.compile(r"^<!-- .* -->$\n?", re.M)
_MANUAL = re.compile(r"(?P<page>[a-z]+)\.md(?P<anchor>#.*)?")


def explorer(address: str, lesson: str = "") -> str:
    """Return the address of the explorer that asks for an address below /fhir.

    With the name of a lesson the explorer leads back there.
    """
    return f"/explore?{urlencode({'address': address} | ({'lesson': lesson} if lesson else {}))}"


def rendered(text: str, lesson: str = "") -> Markup:
    """Return the Markdown of a lesson as HTML, with this server's address filled in."""
    return as_html(text.replace(SERVER, base_url()), lesson, _(_OPEN))


@lru_cache(maxsize=200)
def as_html(text: str, lesson: str = "", opens: str = _OPEN) -> Markup:
    """Return Markdown as HTML that is safe whoever wrote it; opens are the words of its links."""
    return _cleaned(_MARKDOWN.render(text, {"lesson": lesson, "opens": opens}), _TAGS, _ATTRIBUTES)


@lru_cache(maxsize=50)
def manual_html(text: str) -> Markup:
    """Return a page of the manual as HTML."""
    shown = _COMMENT.sub("", text)
    html = _MARKDOWN.render(shown, {"lesson": "", "opens": _OPEN, "manual": True})
    return _cleaned(html, _TAGS | {"div"}, _ATTRIBUTES | _OF_MANUAL)


def _cleaned(html: str, tags: set[str], attributes: dict[str, set[str]]) -> Markup:
    return Markup(
        nh3.clean(
            html,
            tags=tags,
            attributes=attributes,
            url_schemes={"http", "https"},
            link_rel="noreferrer",
        )
    )


class _Renderer(RendererHTML):
    """Renders links, headings, tables and code for these pages; env tells the manual from lessons.

    The library takes each method without an underscore as the rule of that name.
    """

    def heading_open(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        if "manual" in env:
            tokens[at].attrSet("id", anchor_of(tokens[at + 1].content))
        return self.renderToken(tokens, at, options, env)

    def table_open(self, tokens: Sequence[Token], at: int, _options: Any, env: Any) -> str:
        """Let a wide table of the manual scroll, by keyboard too.

        The first cell of a row is its heading; the others name their column.
        """
        if "manual" not in env:
            return "<table>"
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

    def table_close(self, _tokens: Any, _at: int, _options: Any, env: Any) -> str:
        return "</table></div>" if "manual" in env else "</table>"

    def link_open(self, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
        href = str(tokens[at].attrGet("href") or "")
        if page := _MANUAL.fullmatch(href):
            tokens[at].attrSet("href", f"/docs/{page['page']}{page['anchor'] or ''}")
        elif href.startswith("/fhir/"):
            tokens[at].attrSet("href", explorer(href, env["lesson"]))
        return self.renderToken(tokens, at, options, env)

    def fence(self, tokens: Sequence[Token], at: int, _options: Any, env: Any) -> str:
        code = tokens[at].content.rstrip("\n")
        shown = f"<pre><code>{escape(code)}</code></pre>"
        if tokens[at].info.strip() != "fhir":
            return shown
        address = escape(explorer(code.removeprefix("GET ").strip(), env["lesson"]))
        return f'{shown}<p><a class="target" href="{address}">{escape(env["opens"])}</a></p>'

    def code_inline(self, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
        """Let the lines of an address break where its parts begin, and not within a word."""
        pieces = re.split(r"(?<=[/=|?&,])", tokens[at].content)
        return f"<code>{'<wbr>'.join(map(escape, pieces))}</code>"


_MARKDOWN = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer).enable("table")
