"""The words of a text, as the full text of both databases holds them: runs of letters and digits.

Case, accents and the dot of Turkish i do not count. Beyond that:

- A number is one word with its decimals, whichever mark is before them: 2,5 and 2.5 are 2·5, a bare
  .5 is 0·5. So "5 mg" is not in "2.5 mg". Letters that follow are the next word: 5mg is "5 mg".
- Text without spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese), and Korean,
  whose words carry particles, is indexed by pairs of characters: abc would be ab bc c. So words are
  found within such a text and, except in Korean, across the end of a line.
- A word that a hyphen splits at the end of a line is one word. Its parts are found too, since it
  may be "beta-/blocker" as well as "hyper-/tension".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from itertools import islice
from unicodedata import normalize

from fhirapp.search.string import fold

# A longer run of letters is cut: PostgreSQL takes words of 2,046 bytes.
_LONGEST = 255
# Between a number and its decimals. As a word of its own, which no search looks for, it separates
# the words before it from those after it.
MARK = "\N{MIDDLE DOT}"
# The same where a text is ASCII.
_ASCII_MARK = "\x1f"


def _lazy(pattern: str) -> Callable[[], re.Pattern[str]]:
    """Return a function that compiles the pattern once."""
    return cache(partial(re.compile, pattern))


# Letters and marks of scripts without spaces, and syllables of Korean.
_UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1050-\u108f\u1780-\u17d3"
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_PAIRED = f"{_UNSPACED}\uac00-\ud7a3"
_LETTER = rf"[^\W\d_{_PAIRED}]"
_WRAP = rf"\r?\n(?:(?<=[{_UNSPACED}]\n)|(?<=[{_UNSPACED}]\r\n))(?=[{_UNSPACED}])"
_HYPHEN = rf"[-\u2010](?<={_LETTER}.)[ \t]*\r?\n[ \t]*(?={_LETTER})"
_ASCII_HYPHENATED = re.compile(r"-(?<=[A-Za-z].)[ \t]*\r?\n[ \t]*(?=[A-Za-z])")
_CONJOINING = re.compile("[\u1100-\u11ff]")


# Compiled at the first use: together they take 24 ms of CPU.
_token = _lazy(rf"[{_PAIRED}]+|\d{{1,100}}+{MARK}\d{{1,100}}+|[^\W_{_PAIRED}]{{1,{_LONGEST}}}")
_paired = _lazy(f"[{_PAIRED}]")
_wrapped = _lazy(_WRAP)
_hyphenated = _lazy(_HYPHEN)
# As _token, in a text as it is: accents may follow their letter, and a line end may be within.
_unfolded_token = _lazy(
    rf"[{_PAIRED}](?:[{_PAIRED}\u0e48-\u0e4b\u3099\u309a]|{_WRAP})*"
    r"|(?<![^\s(])\.\d++(?![.,\u00b7\u066b]\d)|\d+(?:[.,\u00b7\u066b]\d+)*"
    rf"|[^\W_{_PAIRED}](?:[^\W_{_PAIRED}]|[\u0300-\u036f]|{_HYPHEN})*"
    r"(?:(?<=\d)(?:[.,\u00b7\u066b]\d+)+)?"
)


# Split words of a text whose parts are found too: to split more takes long.
_MOST_PARTED = 2_000
_LEFT, _RIGHT = re.compile(r"[^\W_]+\Z"), re.compile(r"[^\W_]+")

# Numbers with a mark within or before them, as decimals and thousands have, or a letter after them.
# The lookbehind follows the first digit, so that the search skips from digit to digit.
_NUMBER = re.compile(
    r"\d(?<!\d\d)(?:\d*+(?:(?:[.,\u00b7\u066b]\d++)++|(?=[^\W\d_]))|(?<=\.\d)\d*+)"
)
_MARKS = re.compile(r"[.,\u00b7\u066b]")
_THOUSANDS = re.compile(r"(\d{1,3})((?:([.,])\d{3})(?:\3\d{3})*)(?:(?!\3)[.,](\d+))?")

# Each byte of ASCII in a word: letters in lower case, digits as they are, all others a space.
_ASCII = bytes(
    code if chr(code).isascii() and (chr(code).isalnum() or chr(code) == _ASCII_MARK) else ord(" ")
    for code in range(256)
).lower()


def normalised(text: str) -> str:
    """Return the words of a text as they are indexed, separated by spaces."""
    return " ".join(words_in(text))


def words_in(text: str) -> list[str]:
    """Return the words of a text, in order; the parts of words that a line end splits come last."""
    parts: list[str] = []
    if "\n" in text:
        text, parts = _joined(text)
    return _words(text) + parts


def words_sought(text: str) -> tuple[list[str], bool]:
    """Return the words that a search looks for, and whether the last is only a beginning.

    The last character of a run of pairs is a word of its own only at the end of the run.
    """
    words = words_in(text)
    if not words or len(words[-1]) > 1 or not _is_paired(words[-1]):
        return words, False
    if len(words) > 1 and _is_pair(words[-2]):
        return words[:-1], False
    return words, True


def readable(words: tuple[str, ...]) -> str:
    """Return words as people write them: pairs joined, numbers with a dot."""
    text = ""
    for word in words:
        follows = text and _is_pair(word) and text[-1] == word[0]
        text += word[1:] if follows else f" {word}"
    return text.strip().replace(MARK, ".")


def _joined(text: str) -> tuple[str, list[str]]:
    """Return a text with the words joined that line ends split, and the parts of those words."""
    parts: list[str] = []
    hyphenated = _ASCII_HYPHENATED if text.isascii() else _hyphenated()
    for match in islice(hyphenated.finditer(text), _MOST_PARTED):
        left = _LEFT.search(text, max(0, match.start() - _LONGEST), match.start())
        right = _RIGHT.match(text, match.end(), match.end() + _LONGEST)
        both = f"{left[0] if left else ''} {right[0] if right else ''}"
        parts += [MARK, *_words(both)]
    if parts:
        text = hyphenated.sub("", text)
    return (text if text.isascii() else _wrapped().sub("", text)), parts


def _words(text: str) -> list[str]:
    if text.isascii():
        # The same as below in less than half of the time.
        text = _NUMBER.sub(_number, text.replace(_ASCII_MARK, " "))
        text = text.encode().translate(_ASCII).decode().replace(_ASCII_MARK, MARK)
        words = text.split()
        if len(text) > _LONGEST and max(map(len, words), default=0) > _LONGEST:
            return _token().findall(text)
        return words
    text = fold(text)
    if _CONJOINING.search(text):
        text = normalize("NFC", text)
    text = _NUMBER.sub(_number, text.replace(_ASCII_MARK, " ")).replace(_ASCII_MARK, MARK)
    words = _token().findall(text)
    if _paired().search(text):
        return [pair for word in words for pair in _pairs(word)]
    return words


def _number(match: re.Match[str]) -> str:
    """Return a number as it is indexed; digits after a letter belong to the word."""
    text, start, end = match.string, match.start(), match.end()
    number = match[0]
    before = text[start - 1 : start]
    parts = _MARKS.split(number)
    if before.isalnum() and not _is_paired(before):
        if len(parts) == 1:
            return number
        number = " ".join(parts)
    elif len(parts) == 2:
        number = _ASCII_MARK.join(parts)
    elif len(parts) > 2:
        grouped = _THOUSANDS.fullmatch(number)
        number = " ".join(parts)
        if grouped:
            number = grouped[1] + _MARKS.sub("", grouped[2])
            number += _ASCII_MARK + grouped[4] if grouped[4] else ""
    elif before == "." and (start == 1 or text[start - 2] == "(" or text[start - 2].isspace()):
        number = f"0{_ASCII_MARK}{number}"
    return f"{number} " if text[end : end + 1].isalnum() else number


def _pairs(word: str) -> Iterator[str]:
    if not _is_paired(word):
        yield word
        return
    for start in range(len(word)):
        yield word[start : start + 2]


def _is_pair(word: str) -> bool:
    return len(word) == 2 and _is_paired(word)


def _is_paired(text: str) -> bool:
    """Return whether a text begins with a character that is indexed in pairs."""
    return not text[:1].isascii() and _paired().match(text) is not None


def locate_words(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the words of a text, each with its start and end."""
    for match in _unfolded_token().finditer(text):
        if _is_paired(match[0]):
            yield from _located_pairs(match[0], match.start())
            continue
        for word in _indexed(match[0][: 2 * _LONGEST]):
            yield word, match.start(), match.end()


def _located_pairs(run: str, start: int) -> Iterator[tuple[str, int, int]]:
    places = [
        (folded, start + place)
        for place, character in enumerate(run)
        for folded in normalize("NFC", fold(character))
    ]
    for at, (character, place) in enumerate(places):
        beside, last = places[at + 1] if at + 1 < len(places) else ("", place)
        yield character + beside, place, last + 1


@lru_cache(maxsize=20_000)
def _indexed(word: str) -> tuple[str, ...]:
    words = words_in(word)
    return tuple(words[: words.index(MARK)] if MARK in words else words)
