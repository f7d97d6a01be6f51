"""The words of a document: what stands in an element, and what of the narrative it points to.

Source: CDA R2 §4.3.5 (narrative block), §4.3.5.1 (originalText that points into it).
"""

from __future__ import annotations

from fhirapp.exchange.ccda.tree import Element

# A name, or a remark: what is longer points to a whole section, which stays in the document.
_LONGEST = 4_000
# Of the narrative's elements these do not end a word.
_WITHIN_A_WORD = frozenset({"content", "footnoteRef", "linkHtml", "sub", "sup"})


class Texts:
    """Finds the text that elements have or point to."""

    def __init__(self, sections: list[Element]) -> None:
        self._by_id: dict[str, Element] = {}
        for section in sections:
            for text in section.all("text"):
                for one in (text, *text.descendants()):
                    if name := one.get("ID"):
                        # The first counts: an id stands once in a document.
                        self._by_id.setdefault(name, one)

    def of(self, element: Element | None) -> str:
        """Return the text in an element and that to which it points; "" where there is neither."""
        if element is None:
            return ""
        parts = [plain(element)]
        for reference in element.all("reference"):
            target = self._by_id.get(reference.get("value").removeprefix("#"))
            if target is not None:
                parts.append(plain(target))
        return shortened(" ".join(filter(None, parts)))


def plain(element: Element) -> str:
    """Return all text in an element, on one line."""
    parts: list[str] = []
    _collect(element, parts)
    return tidy("".join(parts))


def tidy(text: str) -> str:
    """Return a text with a single space between its words."""
    return " ".join(text.split())


def shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _collect(element: Element, parts: list[str]) -> None:
    for one in element.content:
        if isinstance(one, str):
            parts.append(one)
        else:
            ends = "" if one.name in _WITHIN_A_WORD else " "
            parts.append(ends)
            _collect(one, parts)
            parts.append(ends)
