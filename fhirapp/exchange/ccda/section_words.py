"""What only the words of an Allergies section say: kept as said, for a person to read.

A section with a narrative and no entry, an entry that cannot be read, a row that no entry stands
for: their words become an AllergyIntolerance whose code is that of the section. It is no statement
about a substance, and nobody has confirmed it; charts and $summary quote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Any

from fhirapp.allergies.assertion import SECTION, is_placeholder
from fhirapp.allergies.severity import described_severely
from fhirapp.exchange.ccda.narrative import LONGEST, Block, Column, Texts, plain, stands_in, unique
from fhirapp.exchange.ccda.reactions import severities_words_of as words_of
from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import null_coding
from fhirapp.fhir.terminology import ALLERGY_CLINICAL, ALLERGY_VERIFICATION, strings
from fhirapp.search.string import fold

REMARK = "its Allergies section has words that no entry holds; they are kept as they stand"
_NOTE = "Words of the document's Allergies section that no coded entry of it holds."
# What says that there is none, and that nothing is known; "except" takes it back.
_NONE = re.compile(r"\b(?:no known|nk[dfm]?a|no \w* ?allerg\w+|denie[sd]|none)\b")
_NOTHING = re.compile(
    r"\b(?:not on file|no information|no data|not asked|unknown|nothing recorded)\b"
)
# What is about the record, not about allergies.
_OF_THE_RECORD = re.compile(
    r"\b(?:documented|reviewed|reconciled|verified|last (?:updated|modified)|as of|encounter)\b"
)
_ALLERGIES = re.compile(r"\b(?:not|allerg\w*|intoleran\w*)\b")
_EXCEPT = re.compile(r"\b(?:except|but|besides|apart from|other than|however|only)\b")
_LONG = 120
_CLAUSE = re.compile(r"[;:.!?()]")
_COMPARED = (Column.SUBSTANCE, Column.REACTION, Column.SEVERITY, Column.CRITICALITY, Column.NOTE)

Resource = dict[str, Any]


def left_over(
    blocks: Iterable[Block],
    linked: Iterable[Block],
    allergies: list[Resource],
    *,
    is_told: bool,
    is_denied: bool,
) -> Iterator[Block]:
    """Yield the blocks of a section whose words stand in none of its allergies.

    linked are the blocks that entries stand for; is_told: whether one of these names an allergy;
    is_denied: whether one says that none is known.
    Where entries name allergies, text that is no row and no item is taken for a remark on them.
    """
    held = [text for one in allergies for text in strings(one)]
    taken = set(linked)
    groups = {one.group for one in taken if one.group is not None}
    for block in blocks:
        if block in taken:
            continue
        is_line = block.group in groups or block.may_be_allergy
        if allergies and is_told and not is_line:
            continue
        if not allergies or not _is_held(block, held, is_denied=is_denied):
            yield block


def unread_words(entry: Element, texts: Texts) -> str:
    """Return the words of an entry that no allergy could be made of."""
    found: list[str] = []
    for one in (entry, *entry.descendants()):
        if one.name == "text":
            found.append(texts.of(one))
        elif one.name == "value":
            found += words_of(one, texts)
        elif one.name == "playingEntity":
            found += [*map(plain, one.all("name")), *words_of(one.first("code"), texts)]
    return "; ".join(unique(found))


def section_entry(text: str, patient: str) -> Resource:
    """Return the AllergyIntolerance that keeps words of a section."""
    return {
        "resourceType": "AllergyIntolerance",
        "id": "",
        "clinicalStatus": {"coding": [{"system": ALLERGY_CLINICAL, "code": "active"}]},
        "verificationStatus": {"coding": [{"system": ALLERGY_VERIFICATION, "code": "unconfirmed"}]},
        "code": {"coding": [SECTION], "text": text},
        "patient": {"reference": patient},
        "note": [{"text": _NOTE}],
    }


def absent_entry(null_flavor: str, patient: str) -> Resource:
    """Return the AllergyIntolerance of a section that says why it is empty, such as NASK."""
    made = section_entry("", patient)
    del made["note"]
    return {**made, "code": {"coding": [null_coding(null_flavor)]}}


def in_pieces(blocks: Iterable[str]) -> Iterator[str]:
    """Yield the words of blocks as one text; of very much, as several that end with a block.

    A block that is longer itself is parted between two words: none is lost.
    """
    text = ""
    for words in (piece for block in blocks for piece in wrap(block, LONGEST)):
        if text and len(text) + len(words) + 2 > LONGEST:
            yield text
            text = ""
        text = f"{text}; {words}" if text else words
    if text:
        yield text


def _is_held(block: Block, held: list[str], *, is_denied: bool) -> bool:
    """Say whether the words of a block stand elsewhere, or only say that there is nothing."""
    words = fold(block.text)
    if len(words) <= _LONG and not _EXCEPT.search(words) and not described_severely(block.text):
        clauses = filter(None, map(str.strip, _CLAUSE.split(words)))
        if all(
            _NOTHING.search(one)
            or (is_denied and _NONE.search(one))
            or (not block.is_line and _OF_THE_RECORD.search(one) and not _ALLERGIES.search(one))
            for one in clauses
        ):
            return True
    cells = [block.cells[column] for column in _COMPARED if column in block.cells]
    return all(is_placeholder(one) or stands_in(held, one) for one in cells or [block.text])
