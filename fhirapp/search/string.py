"""String parameters: text that begins with a value. Source: FHIR R4 search §3.1.1.4.8.

Uri parameters: an address, as a whole. Source: FHIR R4 search §3.1.1.4.13.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fhirapp.fhir.folding import fold as fold
from fhirapp.fhir.words import worded
from fhirapp.search.index import KEY_LENGTH, IndexRow, StringRow, TokenRow, key
from fhirapp.search.parameter import Context, Parameter
from fhirapp.search.values import SHOWN, AnyCondition, any_row, is_in, repr_value, unescape

# The parts of a HumanName or Address that are text; the others are codes and periods.
_PARTS = (
    *("text", "family", "given", "prefix", "suffix"),
    *("line", "city", "district", "state", "postalCode", "country"),
)
# A long text has a row for each stretch of KEY_LENGTH characters; one begins every STEP characters.
# So each value of up to STEP characters is whole in one of them.
STEP = KEY_LENGTH // 2
# Marks the rows of the second stretch and later, with which a text does not begin.
FURTHER = "+"
_MARK = re.compile(r"([\\%_])")


def string_rows(name: str, text: str) -> tuple[StringRow, ...]:
    """Return the index rows of a text; those of short texts, which often repeat, are cached."""
    return _rows(name, text) if len(text) <= KEY_LENGTH else _rows.__wrapped__(name, text)


@lru_cache(maxsize=10_000)
def _rows(name: str, text: str) -> tuple[StringRow, ...]:
    folded = fold(text)
    if not folded:
        return ()
    rows = [StringRow(name, folded[:KEY_LENGTH], key(text))]
    if len(folded) > KEY_LENGTH:
        rows += [
            StringRow(name + FURTHER, folded[start : start + KEY_LENGTH], "")
            for start in range(STEP, len(folded) - STEP, STEP)
        ]
    return tuple(rows)


def begins_with(text: str, column: str = "k.folded") -> tuple[str, str, str]:
    """Return the SQL that an indexed text begins with this one, and its values."""
    return f"{column} >= ? AND {column} < ?", text, text + "\U0010ffff"


def holds(folded: str) -> tuple[str, str]:
    """Return the SQL that an indexed stretch of a text contains this one, and its value."""
    return "k.folded LIKE ? ESCAPE '\\'", "%" + _MARK.sub(r"\\\1", folded) + "%"


@dataclass(frozen=True)
class String(Parameter):
    """A string parameter: of a text, a HumanName or an Address."""

    kind = "string"
    modifiers = frozenset({"exact", "contains"})
    row = StringRow

    def index(self, value: Any) -> list[IndexRow]:
        texts = dict.fromkeys(_texts(value))
        return [row for text in texts for row in string_rows(self.name, text)]

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:
        value = unescape(value)
        folded = fold(value)
        if modifier == "exact":
            # The index is in the order of the folded text.
            exact = "k.folded = ? AND k.exact = ?"
            return self.has_row(context, exact, folded[:KEY_LENGTH], key(value))
        longest = STEP if modifier == "contains" else KEY_LENGTH
        if not folded:
            raise self.invalid("has no letter or digit to look for")
        if len(folded) > longest:
            raise self.invalid(f"has {len(folded)} characters; {longest} are the most")
        if modifier == "contains":
            return self.has_row(context, *holds(folded), suffixes=("", FURTHER))
        return self.has_row(context, *begins_with(folded))

    def describe(self, modifier: str, value: str, context: Context) -> str:  # noqa: ARG002
        value = unescape(value)
        if modifier == "exact":
            return worded("is exactly %(text)s", text=repr_value(value))
        text = repr_value(fold(value))
        if modifier == "contains":
            return worded("holds %(text)s, whatever its case and accents", text=text)
        return worded("begins with %(text)s, whatever its case and accents", text=text)


@dataclass(frozen=True)
class Phonetic(String):
    """A string parameter that finds words by their Soundex codes.

    A word in another script than Latin is found as it is written.
    """

    modifiers = frozenset()
    sortable = False

    def index(self, value: Any) -> list[IndexRow]:
        codes = {soundex(word) for text in _texts(value) for word in _words(text)}
        return [StringRow(self.name, code, code) for code in sorted(codes)]

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:  # noqa: ARG002
        return self.has_row(context, "k.folded = ?", soundex(self._word(value)))

    def describe(self, modifier: str, value: str, context: Context) -> str:  # noqa: ARG002
        word = self._word(value)
        return worded(
            "has a word that sounds like %(word)s (Soundex %(code)s)",
            word=repr_value(word),
            code=soundex(word),
        )

    def _word(self, value: str) -> str:
        words = _words(unescape(value))
        if words and len(words[0]) > KEY_LENGTH:
            raise self.invalid(f"has {len(words[0])} characters; {KEY_LENGTH} are the most")
        if not words:
            raise self.invalid("has no letter or digit to look for")
        if len(words) != 1:
            raise self.invalid("takes one word; repeat the parameter for another")
        return words[0]


def _words(text: str) -> list[str]:
    return _WORD.findall(fold(text))


def soundex(word: str) -> str:
    """Return the American Soundex code of a folded word; of one not in Latin letters, itself.

    Source: National Archives, "Soundex System".
    """
    if not (word.isascii() and word.isalpha()):
        return key(word)
    digits, last = "", _SOUNDS.get(word[0], "")
    for letter in word[1:]:
        sound = _SOUNDS.get(letter, "")
        if sound and sound != last:
            digits += sound
        # Of letters between the same sounds, h and w do not separate them; vowels do.
        last = last if letter in "hw" else sound
    return f"{word[0].upper()}{digits[:3]:0<3}"


_WORD = re.compile(r"[^\W\d_]+")
_SOUNDS = {
    letter: digit
    for digit, letters in zip("123456", ("bfpv", "cgjkqsxz", "dt", "l", "mn", "r"), strict=True)
    for letter in letters
}


def _texts(value: Any) -> Iterator[str]:
    """Yield a text, or those of a HumanName or an Address; of a name its full form too."""
    if isinstance(value, str):
        yield value
        return
    for part in _PARTS:
        member = value.get(part, ())
        for text in (member,) if isinstance(member, str) else member:
            # A null has a primitive extension.
            if isinstance(text, str):
                yield text
    if "family" in value and "given" in value:
        yield " ".join([*filter(None, value["given"]), value["family"]])


@dataclass(frozen=True)
class Uri(Parameter):
    """A uri parameter.

    Values that begin with local, "Binary/", are stored relative to this server's own /fhir, and
    searched by the address that clients see.
    """

    local: str = ""

    kind = "uri"
    modifiers = frozenset({"above", "below"})
    row = TokenRow

    def index(self, value: Any) -> list[IndexRow]:
        # A canonical is found with and without its version.
        forms = dict.fromkeys((value, value.partition("|")[0]))
        return [TokenRow(self.name, key(form), "") for form in forms if form]

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:
        value, own = unescape(value), f"{context.base_url}/fhir/"
        # FHIR R4 §3.1.1.4.13: above and below hold of URLs only
        if modifier and "://" not in value:
            raise self.invalid(
                f"{value[:SHOWN]!r} has no path to compare: :{modifier} takes a URL with its"
                " scheme, such as https://clinic.example/fhir; search for others without it"
            )
        if modifier and len(value) > KEY_LENGTH // 2:
            raise self.invalid(f":{modifier} takes at most {KEY_LENGTH // 2} characters")
        if modifier == "below":
            folder = value.rstrip("/") + "/"
            ranges = [self._stored(folder, own)]
            if self.local and f"{own}{self.local}".startswith(folder):
                # All local values are below it, and perhaps others.
                ranges = [folder, self.local]
            # Each choice has the parameter, so that the index leads to its rows.
            return any_row(
                self.has_row(context, "k.code = ?", self._stored(value, own)),
                *(self.has_row(context, *begins_with(start, "k.code")) for start in ranges),
            )
        if modifier == "above":
            among = is_in("k.code", [self._stored(url, own) for url in _above(value)])
            return self.has_row(context, among.sql, *among.values)
        return self.has_row(context, "k.code = ?", key(self._stored(value, own)))

    def describe(self, modifier: str, value: str, context: Context) -> str:  # noqa: ARG002
        address = repr_value(unescape(value))
        if modifier == "above":
            return worded("is %(address)s or above it", address=address)
        if modifier == "below":
            return worded("is %(address)s or below it", address=address)
        return worded("is %(address)s", address=address)

    def _stored(self, url: str, own: str) -> str:
        """Return an address as it is indexed."""
        return url.removeprefix(own) if self.local else url


def _above(url: str) -> list[str]:
    """Return a URL and those above it, each with and without its last slash."""
    scheme, _, path = url.partition("://")
    segments = path.rstrip("/").split("/")
    above = [
        f"{scheme}://{'/'.join(segments[:count])}{end}"
        for count in range(1, len(segments) + 1)
        for end in ("", "/")
    ]
    return list(dict.fromkeys((url, *above)))
