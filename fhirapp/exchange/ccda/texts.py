"""The words of a document: what stands in an element, and what of the narrative it points to.

Source: CDA R2 §4.3.5 (narrative block), §4.3.5.1 (originalText that points into it).
"""

from __future__ import annotations

import re
from functools import lru_cache

from fhirapp.exchange.ccda.tree import Element
from fhirapp.search.string import fold

# A name, or a remark: what is longer points to a whole section, which stays in the document.
LONGEST = 4_000
_NO_WORD = re.compile(r"[\W_]+")
_APART = re.compile(r"[;,/]|\band\b")
# Of the narrative's elements these do not end a word.
_WITHIN_A_WORD = frozenset({"content", "footnoteRef", "linkHtml", "sub", "sup"})


class Texts:
    """Finds the text that elements have or point to."""

    def __init__(self, sections: list[Element]) -> None:
        self._by_id: dict[str, Element] = {}
        for section in sections:
            for text in section_texts(section):
                for one in (text, *text.descendants()):
                    if name := one.get("ID"):
                        # The first counts: an id stands once in a document.
                        self._by_id.setdefault(name, one)

    def of(self, element: Element | None) -> str:
        """Return the text in an element and that to which it points; "" where there is neither.

        What stands in both is returned once.
        """
        if element is None:
            return ""
        parts = [plain(element), *map(plain, self.targets(element))]
        return shortened(" ".join(unique(parts)))

    def targets(self, element: Element | None) -> list[Element]:
        """Return the elements of the narrative to which an element, such as a text, points."""
        if element is None:
            return []
        names = [one.get("value").removeprefix("#") for one in element.all("reference")]
        return [self._by_id[name] for name in names if name in self._by_id]


def section_texts(section: Element) -> list[Element]:
    """Return the narrative of a section and of the sections within it."""
    inner = section.all("component/section")
    return [*section.all("text"), *(text for one in inner for text in section_texts(one))]


def plain(element: Element) -> str:
    """Return all text in an element, on one line."""
    parts: list[str] = []
    _collect(element, parts)
    return tidy("".join(parts))


def tidy(text: str) -> str:
    """Return a text with a single space between its words."""
    return " ".join(text.split())


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def unique(texts: list[str]) -> list[str]:
    """Return the texts without those whose words stand in another one, in their order."""
    kept: list[str] = []
    for text in filter(None, texts):
        if covers(kept, text):
            continue
        kept = [one for one in kept if not covers([text], one)]
        kept.append(text)
    return kept


def covers(texts: list[str], words: str) -> bool:
    """Say whether one of the texts holds these words, in their order, but for case and accents."""
    wanted = f" {_bare(words)} "
    return any(wanted in f" {_bare(text)} " for text in texts)


def stands_in(texts: list[str], words: str) -> bool:
    """Say whether the texts hold these words, or each part of them: "hives; rash and wheezing"."""
    parts = [one for one in map(str.strip, _APART.split(words)) if one]
    return covers(texts, words) or all(covers(texts, one) for one in parts)


def has_words(texts: list[str], words: str) -> bool:
    """Say whether each of these words stands somewhere in the texts, in any order."""
    known = {word for text in texts for word in _bare(text).split()}
    return known.issuperset(_bare(words).split())


@lru_cache(maxsize=1_000)
def _bare(text: str) -> str:
    return _NO_WORD.sub(" ", fold(text)).strip()


def _collect(element: Element, parts: list[str]) -> None:
    for one in element.content:
        if isinstance(one, str):
            parts.append(one)
        else:
            ends = "" if one.name in _WITHIN_A_WORD else " "
            parts.append(ends)
            _collect(one, parts)
            parts.append(ends)
