"""`_text` and `_content`: words of a resource and of the documents attached to it.

A search lists words, all of which must be there, in any order. "Words in quotes" stand together,
and so do a number and its unit. A star at the end of a word makes it the beginning of one. A comma
outside of quotes means or. Operators of other servers are refused: here they would be words, and a
minus would mean the opposite. tokenizer.py defines words.
Source: FHIR R4 search §3.1.1.4.20, which leaves the syntax to the server.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from fhirapp.fhir.outcome import UnsupportedParameter
from fhirapp.fhir.words import worded
from fhirapp.search.fulltext import Phrase, full_text, words_table
from fhirapp.search.index import IndexTables, TokenRow
from fhirapp.search.parameter import Context, Parameter
from fhirapp.search.tokenizer import normalised, readable, words_sought
from fhirapp.search.values import AnyCondition, repr_value, unescape

# Words and characters of a search.
MAX_WORDS = 20
MAX_LENGTH = 500
# Operators of other servers.
_OPERATORS = frozenset({"AND", "OR", "NOT", "NEAR"})
_MINUS = "-!\u2013\u2212"
# Units, which stand together with the number before them without quotes too.
_UNITS = (
    r"[kmnp]?g|[mu\u00b5\u03bc]cg|[u\u00b5\u03bc][gl]|[mcd]?l|[kmc]?m|[mnpu\u00b5\u03bc]?mol|m?eq"
    r"|k?iu|m?iu|ui|ie|u|mmhg|kpa|bpm|k?cal|kj|hz|m?gy|h|hrs?|hours?|min|minutes?|s|sec|days?|weeks?"
    r"|months?|years?|yrs?|tabs?|tablets?|caps?|capsules?|puffs?|drops?"
)
_BETWEEN_TAGS = re.compile(r">([^<]+)")
_TERM = re.compile(
    r'"(?P<phrase>[^"]*)"(?P<end>\*?)'
    rf'|(?P<dose>(?<![^\s(])\.?\d[\d.,]*[ ]+(?:{_UNITS})(?=[\s"()]|\Z))'
    r'|(?P<word>[^\s"*()]+)(?P<star>\*?)|\s+',
    re.IGNORECASE,
)
_CHOICE = re.compile(r'\\.|"[^"]*"|.', re.DOTALL)
# Characters of a text whose words are cached.
_CACHED = 200
# Members of JSON whose text has no words of the content: addresses, bytes, and the narrative.
_NO_WORDS = frozenset(
    {"system", "url", "profile", "div", "data", "hash", "versionId", "lastUpdated", "resourceType"}
)


class Text(NamedTuple):
    """A resource's words, separated by spaces: those of narrative and notes, and all others."""

    narrative: str
    content: str


def words_of(resource: Mapping[str, Any], notes: Iterable[str]) -> Text:
    """Return the words of a resource and of notes, its attached documents as normalised()."""
    text = resource.get("text")
    shown = _BETWEEN_TAGS.findall(text["div"]) if text and "div" in text else ()
    shown_text = " ".join([normalised(html.unescape(" ".join(shown))), *notes])
    strings: dict[str, None] = {}
    _collect(resource, strings)
    # Texts that the narrative repeats are found there.
    padded = f" {shown_text} "
    words = [string[1:-1] for string in map(_padded, strings) if string not in padded]
    return Text(shown_text, " ".join(words))


def _collect(value: Mapping[str, Any], strings: dict[str, None]) -> None:
    """Add every text in a JSON object, each once."""
    for name, content in value.items():
        kind = type(content)
        if name in _NO_WORDS:
            continue
        if kind is str:
            strings[content] = None
        elif kind is dict:
            _collect(content, strings)
        elif kind is list:
            for item in content:
                _collect({name: item} if type(item) is not dict else item, strings)


def _padded(text: str) -> str:
    """Return the words of a text of the resource, a space before and after them.

    Those of short texts, such as displays and codes, are often repeated, and cached.
    """
    return _short(text) if len(text) <= _CACHED else _short.__wrapped__(text)


@lru_cache(maxsize=10_000)
def _short(text: str) -> str:
    return f" {normalised(text)} "


@dataclass(frozen=True)
class Words(Parameter):
    """A search for words; column is the one of `Text` that is searched, without it both."""

    column: str = ""

    kind = "string"
    sortable = False
    indexed = False
    row = TokenRow

    def conditions(
        self, modifier: str, values: Sequence[str], context: Context
    ) -> list[AnyCondition]:
        """Return a condition for each value, with all its choices: FTS5 takes no OR of matches."""
        self.check_modifier(modifier)
        table = words_table(context.tables)
        return [
            full_text().condition(table, self._choices(value), self.column)
            for value in dict.fromkeys(values)
        ]

    def check_modifier(self, modifier: str) -> None:
        if modifier:
            message = "the modifier is not supported on a search for words"
            raise UnsupportedParameter(f"{self.name}:{modifier}", message)

    def database_query(self, value: str) -> str:
        """Return the database's query for a value, commas not yet split."""
        return full_text().query(self._choices(value), self.column)

    def choices(self, value: str) -> list[str]:
        choices = [""]
        for piece in _CHOICE.findall(value):
            if piece == ",":
                choices.append("")
            else:
                choices[-1] += piece
        return self.distinct_values(choices)

    def _choices(self, value: str) -> list[list[Phrase]]:
        return [self.phrases(unescape(choice)) for choice in self.choices(value)]

    def describe(self, modifier: str, value: str, context: Context) -> str:  # noqa: ARG002
        sought = worded(" and ").join(map(_described, self.phrases(unescape(value))))
        return worded("has %(sought)s", sought=sought)

    def phrases(self, value: str) -> list[Phrase]:
        """Parse the words that are looked for. Raises InvalidParameter."""
        phrases: list[Phrase] = []
        place = 0
        while place < len(value) <= MAX_LENGTH:
            match = _TERM.match(value, place)
            if match is None:
                raise self.invalid(
                    'is not understood; use words, "words that stand together" and beginnings*'
                )
            place = match.end()
            text = match["phrase"] or match["dose"] or match["word"] or ""
            if match["word"]:
                self._refuse_operator(text, value[place : place + 1])
            words, is_beginning = words_sought(text)
            if words:
                prefix = is_beginning or bool(match["end"] or match["star"])
                phrases.append(Phrase(tuple(words), prefix))
            elif match["phrase"] is not None or match["word"] is not None:
                raise self.invalid("has no letter or digit to look for")
        if len(value) > MAX_LENGTH or sum(len(phrase.words) for phrase in phrases) > MAX_WORDS:
            raise self.invalid(f"takes at most {MAX_WORDS} words and {MAX_LENGTH} characters")
        return phrases

    def _refuse_operator(self, word: str, following: str) -> None:
        """Raises InvalidParameter for an operator of other servers."""
        if word in _OPERATORS:
            operator = word
        elif word[0] in _MINUS and (word.strip(_MINUS) or following == '"'):
            operator = f"{word[0]} before a word"
        else:
            return
        raise self.invalid(
            f"has no operator {operator}: all words given must be found, a comma means OR, and"
            " words cannot be excluded; put it in quotes to search for it as a word"
        )


def scores(
    run: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]],
    tables: IndexTables,
    queries: Sequence[tuple[Words, str]],
    pks: Sequence[int],
) -> dict[int, float]:
    """Return how well rows match the queries, by row number: from 0 up, always below 1."""
    engine, table = full_text(), words_table(tables)
    totals = dict.fromkeys(pks, 0.0)
    # BETWEEN, not IN: FTS5 would count the rows with the word for each row of a list.
    among = f"k.{engine.number} BETWEEN ? AND ?"
    for parameter, value in queries:
        sql = f"{engine.score(table, parameter.column)} AND {among}"
        for pk, score in run(sql, (parameter.database_query(value), min(pks), max(pks))):
            if pk in totals:
                totals[pk] += max(0.0, score)
    return {pk: score / (1 + score) for pk, score in totals.items()}


def _described(phrase: Phrase) -> str:
    text = repr_value(readable(phrase.words))
    if len(phrase.words) == 1 and phrase.prefix:
        return worded("a word that begins with %(text)s", text=text)
    if len(phrase.words) == 1:
        return worded("the word %(text)s", text=text)
    if phrase.prefix:
        return worded("the words %(text)s together, or longer at the end", text=text)
    return worded("the words %(text)s together", text=text)
