"""`_text` and `_content`: words of a resource and of the documents attached to it.

Words are runs of letters and digits, without case and accents. A search lists words, all of which
must be there, in any order; "words in quotes" stand together; a word with a star at its end is the
beginning of one. Source: FHIR R4 search §3.1.1.4.20, which leaves the syntax to the server.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from fhirapp.search.condition import AnyCondition, IndexCondition
from fhirapp.search.fulltext import Phrase, full_text, words_table
from fhirapp.search.index import IndexRow, TokenRow
from fhirapp.search.parameter import Context, Parameter
from fhirapp.search.string import fold
from fhirapp.search.values import unescape

# Words of a search, and characters: more would say nothing of what is looked for.
MAX_WORDS = 20
MAX_LENGTH = 500
_WORD = re.compile(r"[^\W_]+")
_TAG = re.compile(r"<[^>]*>")
_ASKED = re.compile(r'"(?P<phrase>[^"]*)"(?P<end>\*?)|(?P<word>[^\s"*()]+)(?P<star>\*?)|\s+')
# Members of JSON whose text is no word of the content: addresses, bytes, and the narrative.
_NO_WORDS = frozenset(
    {"system", "url", "profile", "div", "data", "hash", "versionId", "lastUpdated", "resourceType"}
)


class Text(NamedTuple):
    """A resource's words, a space between two: those of narrative and notes, and all others."""

    narrative: str
    content: str


def words_of(resource: Mapping[str, Any], notes: Iterable[str]) -> Text:
    """Return the words of a resource and of its attached documents, these as normalised()."""
    text = resource.get("text")
    div = html.unescape(_TAG.sub(" ", text["div"])) if text and "div" in text else ""
    told = " ".join([normalised(div), *notes])
    return Text(told, " ".join(map(_short, _strings(resource))))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for name, content in value.items():
            if name not in _NO_WORDS:
                yield from _strings(content)


def normalised(text: str) -> str:
    """Return the words of a text as they are indexed, a space between two."""
    return " ".join(_words(text))


def _words(text: str) -> list[str]:
    return _WORD.findall(fold.__wrapped__(text))


@lru_cache(maxsize=10_000)
def _short(text: str) -> str:
    """Return the words of a text of the resource, most of which come again: displays, codes."""
    return normalised(text)


@dataclass(frozen=True)
class Words(Parameter):
    """A search for words; column is the one of `Text` that is searched, without it both."""

    column: str = ""

    kind = "special"
    row = TokenRow

    def rows(self, resource: Mapping[str, Any]) -> list[IndexRow]:  # noqa: ARG002
        return []

    def accepts(self, modifier: str) -> bool:  # noqa: ARG002
        return False

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:  # noqa: ARG002
        engine = full_text()
        table = words_table(context.tables)
        asked = engine.query(self.phrases(unescape(value)), self.column)
        return IndexCondition(
            table, engine.match(table, self.column), (asked,), number=engine.number
        )

    def phrases(self, value: str) -> list[Phrase]:
        """Read what is looked for. Raises InvalidParameter."""
        phrases: list[Phrase] = []
        place = 0
        while place < len(value) <= MAX_LENGTH:
            found = _ASKED.match(value, place)
            if found is None:
                raise self.invalid(
                    'is not understood; use words, "words that stand together" and beginnings*'
                )
            place = found.end()
            text = found["phrase"] or found["word"] or ""
            words = tuple(_words(text))
            if words:
                phrases.append(Phrase(words, bool(found["end"] or found["star"])))
            elif found["phrase"] is not None or found["word"] is not None:
                raise self.invalid("has no letter or digit to look for")
        if len(value) > MAX_LENGTH or sum(len(phrase.words) for phrase in phrases) > MAX_WORDS:
            raise self.invalid(f"takes at most {MAX_WORDS} words and {MAX_LENGTH} characters")
        return phrases
