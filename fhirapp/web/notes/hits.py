"""Where the words of a search stand in a text, and the words around them.

Words are compared as the search compares them: without case and accents.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fhirapp.fhir.outcome import InvalidParameter
from fhirapp.search.common import WORDS
from fhirapp.search.fulltext import Phrase
from fhirapp.search.tokenizer import located
from fhirapp.search.values import unescape

_CONTENT = next(one for one in WORDS if one.name == "_content")
# Characters before and after a hit, and how many pieces of a note.
_AROUND, _PIECES = 90, 3
_MOST_HITS = 1_000


class Piece(NamedTuple):
    """A stretch of text, and whether it is what was looked for."""

    text: str
    is_hit: bool


# As the search has it, and from where to where it stands. A tuple: a named one takes three times as
# long to make.
_Word = tuple[str, int, int]


def phrases_of(asked: str) -> list[Phrase]:
    """Return what a search looks for; nothing where it is not understood."""
    if not asked.strip():
        return []
    try:
        choices = _CONTENT.choices(asked)
        return [phrase for one in choices for phrase in _CONTENT.phrases(unescape(one))]
    except InvalidParameter:
        return []


def marked(text: str, wanted: Sequence[Phrase]) -> list[Piece]:
    """Return the whole of a text, cut where hits begin and end."""
    return list(_cut(text, _merged(_spans(text, wanted)), 0, len(text)))


def count(text: str, wanted: Sequence[Phrase]) -> int:
    return len(_merged(_spans(text, wanted)))


def snippets(text: str, wanted: Sequence[Phrase]) -> list[list[Piece]]:
    """Return the words around some hits, those of different phrases first."""
    by_phrase = [_spans(text, [one]) for one in wanted]
    order = [spans[place] for place in range(_PIECES) for spans in by_phrase if place < len(spans)]
    taken: list[tuple[int, int]] = []
    for start, end in order:
        low, high = _stretch(text, start, end)
        if len(taken) < _PIECES and all(high <= one or low >= other for one, other in taken):
            taken.append((low, high))
    every = _merged(span for spans in by_phrase for span in spans)
    found = []
    for low, high in sorted(taken):
        inside = [span for span in every if span[0] >= low and span[1] <= high]
        pieces = list(_cut(text, inside, low, high))
        before = [Piece("… ", is_hit=False)] if low else []
        after = [Piece(" …", is_hit=False)] if high < len(text) else []
        found.append([*before, *pieces, *after])
    return found


def _stretch(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the text around a hit, from the beginning of a word to the end of one."""
    low, high = max(0, start - _AROUND), min(len(text), end + _AROUND)
    if low and (space := re.search(r"\s", text[low:start])):
        low += space.end()
    if high < len(text) and (at := max(text.rfind(one, end, high) for one in " \n")) > 0:
        high = at
    return low, high


def _spans(text: str, wanted: Sequence[Phrase]) -> list[tuple[int, int]]:
    """Return where phrases stand, in the text's order."""
    if not wanted:
        return []
    longest = max(len(phrase.words) for phrase in wanted)
    found: list[tuple[int, int]] = []
    # The words up to here, as many as a phrase has: a text may have hundreds of thousands.
    latest: deque[_Word] = deque(maxlen=longest)
    for word in located(text):
        latest.append(word)
        for phrase, last in ((phrase, phrase.words[-1]) for phrase in wanted):
            # Most words are no end of a hit: ask of one word before of all.
            if not (word[0] == last or (phrase.prefix and word[0].startswith(last))):
                continue
            length = len(phrase.words)
            said = [*latest][-length:]
            if len(said) == length and all(
                one[0] == expected for one, expected in zip(said[:-1], phrase.words, strict=False)
            ):
                found.append((said[0][1], word[2]))
        if len(found) >= _MOST_HITS:
            break
    return found


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans in order, those that overlap as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _cut(text: str, spans: Iterable[tuple[int, int]], low: int, high: int) -> Iterator[Piece]:
    place = low
    for start, end in spans:
        if start > place:
            yield Piece(text[place:start], is_hit=False)
        yield Piece(text[start:end], is_hit=True)
        place = end
    if place < high:
        yield Piece(text[place:high], is_hit=False)
