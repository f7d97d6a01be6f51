"""The Allergies sections of a document as AllergyIntolerance.

Each substance of each observation becomes an allergy. What only the narrative says, in a
section without entries, in an entry that cannot be read, or in a row that no entry is linked to,
becomes an AllergyIntolerance whose code is that of the section: no statement about a substance, and
unconfirmed, for a person to read. Charts and $summary quote it.

Sources: C-CDA R2.1, Allergies and Intolerances Section; service.md 2.3; decisions 2.19.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import NamedTuple

from fhirapp.clinical.assertion import (
    SECTION,
    About,
    about_none_known,
    denies_allergies,
    is_placeholder,
)
from fhirapp.clinical.identity import is_kind
from fhirapp.clinical.severity import described_severely
from fhirapp.features.imports.ccda import substances
from fhirapp.features.imports.ccda.allergies import (
    NOTED,
    CcdaAllergy,
    Resource,
    is_named,
    statement_of,
)
from fhirapp.features.imports.ccda.entries import (
    CcdaEntry,
    entries_in,
    is_actual,
    link,
    may_name_several,
)
from fhirapp.features.imports.ccda.narrative import (
    LONGEST,
    Block,
    Column,
    Narrative,
    Texts,
    covers,
    in_section,
    plain,
    stands_in,
    unique,
    words_in,
)
from fhirapp.features.imports.ccda.people import Actor, CcdaRecord, author
from fhirapp.features.imports.ccda.reactions import words_of_value
from fhirapp.features.imports.ccda.tree import CcdaElement
from fhirapp.features.imports.ccda.values import coded_concept, has_code, identifiers, null_coding
from fhirapp.features.imports.ccda.words import (
    begins_as_title_of_allergies,
    is_heading,
    is_title_of_allergies,
    mentions_allergies,
    says_more,
    status_named,
)
from fhirapp.fhir.identity import key
from fhirapp.fhir.terminology import ALLERGY_CLINICAL, ALLERGY_VERIFICATION, strings
from fhirapp.search.string import fold

# Of C-CDA, and of what came before it: CCD 1.0, HITSP C83, IHE PCC.
_SECTIONS = frozenset(
    {
        "2.16.840.1.113883.10.20.22.2.6",
        "2.16.840.1.113883.10.20.22.2.6.1",
        "2.16.840.1.113883.10.20.1.2",
        "2.16.840.1.113883.3.88.11.83.102",
        "1.3.6.1.4.1.19376.1.5.3.1.3.13",
    }
)
# LOINC's codes of such a section: today's; History of allergies; Medication allergy; Allergy or
# cause of reaction.
_CODES = (SECTION["code"], "10155-0", "11382-9", "52473-6")
_FAMILY_HISTORY = "10157-6"

REMARK = (
    "its Allergies section contains text that no coded entry covers; it is kept as document text"
)
_NOTE = "Words of the document's Allergies section that no coded entry of it holds."
_NOTHING = re.compile(
    r"\b(?:not on file|no information|no data|not asked|unknown|nothing recorded)\b"
)
_EXCEPT = re.compile(r"\b(?:except|but|besides|apart from|other than|however|only)\b")
_LONG = 120
_CLAUSE = re.compile(r"[;:.!?()]")
_COMPARED = (Column.SUBSTANCE, Column.REACTION, Column.SEVERITY, Column.CRITICALITY, Column.NOTE)
# Why a section may be empty; NI alone says nothing.
_WHY_EMPTY = frozenset({"NASK", "ASKU", "UNK", "NAV"})


def is_allergies(section: CcdaElement) -> bool:
    """Whether a section is that of allergies: by a template, its code, or its title.

    A title behind the text comes too late: title_remark reports it. Raises UnreadableDocument where
    a template or a code does.
    """
    if _is_coded(section):
        if section.is_left_out:
            # CDA R2 §4.3 sets the order.
            message = "must have its templateId, code and title before its text and entries"
            raise section.refused(message)
        return True
    if section.is_left_out:
        return False
    return begins_as_title_of_allergies(_title(section)) and not _is_of_family(section)


def _is_coded(section: CcdaElement) -> bool:
    return bool(section.templates() & _SECTIONS) or has_code(section.first("code"), *_CODES)


def _is_of_family(section: CcdaElement) -> bool:
    """Say whether a section is part of one about relatives."""
    return any(has_code(around.first("code"), _FAMILY_HISTORY) for around in section.lineage())


def _title(section: CcdaElement) -> str:
    return " ".join(map(plain, section.all("title")))


def title_remark(section: CcdaElement) -> str:
    """Return what to report of how a section is read; "" where its code or template says it."""
    title = _title(section)
    if _is_coded(section):
        return ""
    if is_allergies(section):
        return (
            f"its section “{title}” is treated as an Allergies section because of its title; "
            "its code is not recognised"
        )
    if section.is_left_out and is_title_of_allergies(title):
        return f"its section “{title}” is not read: its title must be before its text and entries"
    if mentions_allergies(title):
        return f"its section “{title}” is not read: its code is not that of a section of allergies"
    return ""


def allergies_in(sections: list[CcdaElement], record: CcdaRecord) -> list[CcdaAllergy]:
    """Return the allergies of sections. A section that only says NI says nothing.

    CDA R2 §4.4: the writers of the document wrote what names no other author.
    """
    parts = [_read(section, record) for section in sections]
    entries = [entry for part in parts for entry, _ in part.coded]
    coded = [statement for part in parts for _, statement in part.coded]
    # "No known allergies" in one section says nothing beside an allergy in another one.
    has_allergy = any(
        is_named(statement.allergy) and not statement.is_denial for statement in coded
    )
    in_words = [
        CcdaAllergy(allergy, part.authors or record.writers, None)
        for part in parts
        for allergy in _words_only(part, record, has_allergy=has_allergy)
    ]
    _identify(entries, coded, record)
    for number, statement in enumerate(in_words):
        statement.allergy["id"] = record.own_identity(
            "AllergyIntolerance", record.key, "words", str(number)
        )
    return [*coded, *in_words]


class _Part(NamedTuple):
    """A section with its narrative, authors, and entries with their allergies.

    unread are the entries that cannot be made into an allergy.
    """

    section: CcdaElement
    narrative: Narrative
    authors: list[Actor]
    coded: list[tuple[CcdaEntry, CcdaAllergy]]
    unread: list[CcdaElement]


def _read(section: CcdaElement, record: CcdaRecord) -> _Part:
    narrative = Narrative(in_section(section, "title"), in_section(section, "text"))
    authors = section.all("author")
    entries: list[CcdaEntry] = []
    unread = []
    for element in in_section(section, "entry"):
        within = list(entries_in(element, record.texts))
        entries += filter(is_actual, within)
        if not within:
            unread.append(element)
    link(entries, narrative)
    coded = [(entry, statement_of(entry, narrative, record, authors)) for entry in entries]
    actors = [actor for element in authors if (actor := author(element, record))]
    return _Part(section, narrative, actors, coded, unread)


def _identify(entries: list[CcdaEntry], statements: list[CcdaAllergy], record: CcdaRecord) -> None:
    """Set the ids: by the identifiers of the observation, else by the substance."""
    shared = Counter(map(_key, entries))
    used: Counter[str] = Counter()
    for entry, statement in zip(entries, statements, strict=True):
        own_key = _key(entry)
        parts = list(own_key or (record.key,))
        if not own_key or shared[own_key] > 1:
            # Several have the same identifier, or none has one: the substance distinguishes them.
            parts.append(_distinction(entry, statement.allergy))
        allergy_id = record.own_identity("AllergyIntolerance", *parts)
        used[allergy_id] += 1
        if used[allergy_id] > 1:
            parts.append(str(used[allergy_id]))
            allergy_id = record.own_identity("AllergyIntolerance", *parts)
        statement.allergy["id"] = allergy_id


def _key(entry: CcdaEntry) -> tuple[str, str] | None:
    keys = map(key, identifiers(entry.observation.all("id")))
    return next(filter(None, keys), None)


def _distinction(entry: CcdaEntry, allergy: Resource) -> str:
    """Return what distinguishes an allergy from others of the same id: its participant's code.

    An id stays the same however a name is read, so that a document that is imported again makes a
    new version of the same allergy.
    """
    code = substances.named_by(entry.participant, entry.texts) or allergy["code"]
    coding: dict[str, str] = next(iter(code.get("coding", ())), {})
    return f"{coding.get('system', '')}|{coding.get('code', '')}|{code.get('text', '')}"


def _words_only(part: _Part, record: CcdaRecord, *, has_allergy: bool) -> list[Resource]:
    """Return what only the words of a section say; the ids are empty.

    Words about one of its allergies become a note on it. has_allergy: an entry of the document
    states an allergy.
    """
    section, narrative, _, coded, unread = part
    allergies = [statement.allergy for _, statement in coded]
    left = [
        block
        for block in _left_over(narrative, coded, has_allergy=has_allergy)
        if not _add_note(block, coded, record)
    ]
    none_known = _none_known(left)
    if none_known and not unread:
        return [
            _entry(substances.none_known_about(about, text), record, "confirmed")
            for about, text in none_known.items()
        ]
    # Beside entries each line is a statement of its own.
    texts = [[block.text] for block in left] if coded else [[block.text for block in left]]
    pieces = [piece for blocks in texts for piece in _pieces(blocks)]
    known_texts = [*strings(allergies), *pieces] if unread else []
    for element in unread:
        words = _unread_words(element, record.texts)
        if words and not covers(known_texts, words):
            pieces += _pieces([words])
    if not coded and not pieces and section.null_flavor in _WHY_EMPTY:
        return [_entry({"coding": [null_coding(section.null_flavor)]}, record)]
    if pieces:
        record.remark(REMARK)
    note = {"note": [{"text": _NOTE}]}
    return [_entry({"coding": [SECTION], "text": text}, record) | note for text in pieces]


def _left_over(
    narrative: Narrative, coded: list[tuple[CcdaEntry, CcdaAllergy]], *, has_allergy: bool
) -> list[Block]:
    """Return the blocks of a section whose words are in none of its allergies.

    A title says nothing by itself, nor do headings beside entries; and beside allergies not that
    there are none.
    """
    linked = {
        entry.block
        for entry, statement in coded
        if entry.block is not None and is_named(statement.allergy)
    }
    left = [
        block
        for block in narrative.blocks
        if block not in linked
        and not (block.is_aside and not _says_more(block))
        and not (has_allergy and about_none_known(block.text) is not None)
    ]
    if not (left and coded):
        return left
    is_denied = any(statement.is_denial for _, statement in coded)
    texts_of_each = [list(strings(statement.allergy)) for _, statement in coded]
    texts = [text for texts in texts_of_each for text in texts]
    known = list(map(words_in, texts_of_each))
    return [
        block
        for block in left
        if not _is_covered(block, texts, is_denied=is_denied)
        and not any(map(words_in([block.text]).issubset, known))
    ]


def _says_more(block: Block) -> bool:
    """Say whether a title or a caption is more than one."""
    if block.element.name == "title":
        return says_more(block.text)
    return not is_heading(block.text)


def _add_note(block: Block, coded: list[tuple[CcdaEntry, CcdaAllergy]], record: CcdaRecord) -> bool:
    """Make a text that is about one of the allergies a note on that; say whether it is.

    An allergy that is over or refuted is no place for it: its notes are read last.
    """
    if block.is_line or may_name_several(block):
        return False
    about = [
        statement.allergy
        for entry, statement in coded
        if any(
            covers([block.text], name)
            for name in (
                *substances.names_in(statement.allergy["code"]),
                entry.cell(Column.SUBSTANCE),
            )
            if name
        )
    ]
    if len(about) != 1 or not _is_active(about[0]):
        return False
    note = {"text": f"The document says in words: {block.text}"}
    about[0]["note"] = [*about[0].get("note", ()), note]
    record.remark(NOTED)
    return True


def _is_active(allergy: Resource) -> bool:
    codings = allergy.get("clinicalStatus", {}).get("coding", ())
    return any(coding["code"] == "active" for coding in codings)


def _none_known(blocks: list[Block]) -> dict[About, str]:
    """Return of what blocks say that none is known, with the words; empty if any says more."""
    found: dict[About, str] = {}
    for block in blocks:
        if is_heading(block.text):
            continue
        head, colon, rest = block.text.partition(":")
        text = rest.strip() if colon and is_heading(head) else block.text
        about = about_none_known(text)
        if about is None:
            return {}
        found.setdefault(about, text)
    return found


def _unread_words(entry: CcdaElement, texts: Texts) -> str:
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


def _entry(code: Resource, record: CcdaRecord, verification: str = "unconfirmed") -> Resource:
    """Return the AllergyIntolerance of what a section says without a coded entry."""
    return {
        "resourceType": "AllergyIntolerance",
        "id": "",
        "clinicalStatus": coded_concept(ALLERGY_CLINICAL, "active"),
        "verificationStatus": coded_concept(ALLERGY_VERIFICATION, verification),
        "code": code,
        "patient": {"reference": record.patient},
    }


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


def _is_covered(block: Block, texts: list[str], *, is_denied: bool) -> bool:
    """Say whether allergies hold the words of a block, or it only says that there is nothing."""
    if not block.is_line and (is_heading(block.text) or status_named(block.text)):
        return True
    words = fold(block.text)
    if len(words) <= _LONG and not _EXCEPT.search(words) and not described_severely(block.text):
        clauses = filter(None, map(str.strip, _CLAUSE.split(words)))
        if all(
            _says_nothing(clause, is_line=block.is_line)
            or (is_denied and (denies_allergies(clause) or about_none_known(clause) is not None))
            or (not block.is_line and is_heading(clause))
            for clause in clauses
        ):
            return True
    cells = [block.cells[column] for column in _COMPARED if column in block.cells]
    cells += [words for _, words in block.clinical if not is_kind(words)]
    return all(is_placeholder(text) or stands_in(texts, text) for text in cells or [block.text])


def _says_nothing(clause: str, *, is_line: bool) -> bool:
    """Whether a clause says only that nothing is recorded; beside a kind a line states an allergy.

    "Foods, unknown" may be an allergy to a food that is not known.
    """
    rest, count = _NOTHING.subn(" ", clause)
    return count > 0 and (not any(map(str.isalpha, rest)) if is_line else is_heading(rest))
