"""What only the words of an Allergies section say, kept for a person to read.

A section with a narrative and no entry, an entry that cannot be read, a row that no entry stands
for: their words become an AllergyIntolerance whose code is that of the section. It is no statement
about a substance, and unconfirmed; charts and $summary quote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from textwrap import wrap

from fhirapp.allergies.assertion import SECTION, is_placeholder
from fhirapp.allergies.severity import described_severely
from fhirapp.exchange.ccda.allergies import Resource, Statement, is_named
from fhirapp.exchange.ccda.entries import Entry
from fhirapp.exchange.ccda.narrative import (
    LONGEST,
    Block,
    Column,
    Narrative,
    Texts,
    covers,
    plain,
    stands_in,
    unique,
)
from fhirapp.exchange.ccda.reactions import words_of_value
from fhirapp.exchange.ccda.record import Record
from fhirapp.exchange.ccda.substances import is_none_known
from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import null_coding
from fhirapp.fhir.terminology import ALLERGY_CLINICAL, ALLERGY_VERIFICATION, strings
from fhirapp.search.string import fold

REMARK = "its Allergies section has words that no entry holds; they are kept as they stand"
_NOTE = "Words of the document's Allergies section that no coded entry of it holds."
# Words that there is none, and that nothing is known; "except" takes them back.
_NONE = re.compile(r"\b(?:no known|nk[dfm]?a|no \w* ?allerg\w+|denie[sd]|none)\b")
_NOTHING = re.compile(
    r"\b(?:not on file|no information|no data|not asked|unknown|nothing recorded)\b"
)
# Words about the record, not about allergies.
_OF_THE_RECORD = re.compile(
    r"\b(?:documented|reviewed|reconciled|verified|last (?:updated|modified)|as of|encounter)\b"
)
_ALLERGIES = re.compile(r"\b(?:not|allerg\w*|intoleran\w*)\b")
_EXCEPT = re.compile(r"\b(?:except|but|besides|apart from|other than|however|only)\b")
_LONG = 120
_CLAUSE = re.compile(r"[;:.!?()]")
_COMPARED = (Column.SUBSTANCE, Column.REACTION, Column.SEVERITY, Column.CRITICALITY, Column.NOTE)
# Why a section may be empty; NI alone says nothing.
_WHY_EMPTY = frozenset({"NASK", "ASKU", "UNK", "NAV"})


def words_only(
    section: Element,
    narrative: Narrative,
    coded: list[tuple[Entry, Statement]],
    unread: list[Element],
    record: Record,
) -> list[Resource]:
    """Return what only the words of a section say; the ids are empty.

    coded are its entries with the allergies they became, unread those that none could be made of.
    """
    allergies = [statement.allergy for _, statement in coded]
    left = _left_over(narrative, coded)
    # Beside entries each line is a statement of its own.
    parts = [[block.text] for block in left] if coded else [[block.text for block in left]]
    pieces = [piece for part in parts for piece in _pieces(part)]
    held = [*(text for allergy in allergies for text in strings(allergy)), *pieces]
    for element in unread:
        words = _unread_words(element, record.texts)
        if words and not covers(held, words):
            pieces += _pieces([words])
    if not coded and not pieces and section.null_flavor in _WHY_EMPTY:
        return [_absent_entry(section.null_flavor, record.patient)]
    return [_section_entry(text, record.patient) for text in pieces]


def _left_over(narrative: Narrative, coded: list[tuple[Entry, Statement]]) -> list[Block]:
    """Return the blocks of a section whose words are in none of its allergies.

    Where entries name allergies, text that is no row and no item is taken for a remark on them.
    """
    allergies = [statement.allergy for _, statement in coded]
    denials = [is_none_known(allergy["code"]) for allergy in allergies]
    has_allergy = any(map(is_named, allergies)) and not all(denials)
    held = [text for allergy in allergies for text in strings(allergy)]
    linked = {
        entry.block
        for entry, statement in coded
        if entry.block is not None and is_named(statement.allergy)
    }
    groups = {block.group for block in linked if block.group is not None}
    return [
        block
        for block in narrative.blocks
        if block not in linked
        and (not has_allergy or block.group in groups or block.may_be_allergy)
        and not (allergies and _is_held(block, held, is_denied=any(denials)))
    ]


def _unread_words(entry: Element, texts: Texts) -> str:
    """Return the words of an entry that no allergy could be made of."""
    words: list[str] = []
    for element in (entry, *entry.descendants()):
        if element.name == "text":
            words.append(texts.of(element))
        elif element.name == "value":
            words += words_of_value(element, texts)
        elif element.name == "playingEntity":
            words += map(plain, element.all("name"))
            words += words_of_value(element.first("code"), texts)
    return "; ".join(unique(words))


def _section_entry(text: str, patient: str) -> Resource:
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


def _absent_entry(null_flavor: str, patient: str) -> Resource:
    """Return the AllergyIntolerance of a section that says why it is empty, such as NASK."""
    made = _section_entry("", patient)
    del made["note"]
    return {**made, "code": {"coding": [null_coding(null_flavor)]}}


def _pieces(blocks: Iterable[str]) -> Iterator[str]:
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
    """Say whether allergies hold the words of a block, or it only says that there is nothing."""
    words = fold(block.text)
    if len(words) <= _LONG and not _EXCEPT.search(words) and not described_severely(block.text):
        clauses = filter(None, map(str.strip, _CLAUSE.split(words)))
        if all(
            _NOTHING.search(clause)
            or (is_denied and _NONE.search(clause))
            or (
                not block.is_line
                and _OF_THE_RECORD.search(clause)
                and not _ALLERGIES.search(clause)
            )
            for clause in clauses
        ):
            return True
    cells = [block.cells[column] for column in _COMPARED if column in block.cells]
    return all(is_placeholder(text) or stands_in(held, text) for text in cells or [block.text])
