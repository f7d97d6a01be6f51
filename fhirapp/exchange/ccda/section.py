"""The Allergies sections of a document as AllergyIntolerance.

Each substance of each observation becomes an allergy. What only the narrative says is kept in words
(section_words).

Sources: C-CDA R2.1, Allergies and Intolerances Section; service.md 2.3; decisions 2.19.
"""

from __future__ import annotations

from collections import Counter

from fhirapp.exchange.ccda.allergies import Resource, Statement, statement_of
from fhirapp.exchange.ccda.entries import Entry, entries_in, entry_elements, happened, link
from fhirapp.exchange.ccda.narrative import Narrative, section_texts
from fhirapp.exchange.ccda.people import Actor, author
from fhirapp.exchange.ccda.record import Record
from fhirapp.exchange.ccda.section_words import words_only
from fhirapp.exchange.ccda.substances import named_by
from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import has_code, identifiers, key

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
_SECTION_CODE = "48765-2"


def is_allergies(section: Element) -> bool:
    """Say whether a section is that of allergies."""
    return bool(section.templates() & _SECTIONS) or has_code(section.first("code"), _SECTION_CODE)


def allergies_in(sections: list[Element], record: Record, writers: list[Actor]) -> list[Statement]:
    """Return the allergies of sections. A section that only says NI says nothing.

    CDA R2 §4.4: the writers of the document wrote what names no other author.
    """
    entries: list[Entry] = []
    coded: list[Statement] = []
    in_words: list[Statement] = []
    for section in sections:
        of_section, statements, words = _read(section, record, writers)
        entries += of_section
        coded += statements
        in_words += words
    _identify(entries, coded, record)
    for number, statement in enumerate(in_words):
        statement.allergy["id"] = record.own_identity(
            "AllergyIntolerance", record.key, "words", str(number)
        )
    return [*coded, *in_words]


def _read(
    section: Element, record: Record, writers: list[Actor]
) -> tuple[list[Entry], list[Statement], list[Statement]]:
    """Return a section's entries, the allergies they become, and those of its words alone."""
    narrative = Narrative(section_texts(section))
    authors = section.all("author")
    entries: list[Entry] = []
    unread = []
    for element in entry_elements(section):
        found = list(entries_in(element, record.texts))
        entries += filter(happened, found)
        if not found:
            unread.append(element)
    link(entries, narrative)
    statements = [
        statement_of(entry, narrative, record, section_authors=authors, writers=writers)
        for entry in entries
    ]
    words = words_only(
        section, narrative, list(zip(entries, statements, strict=True)), unread, record
    )
    actors = [actor for element in authors if (actor := author(element, record))]
    in_words = [Statement(allergy, actors or writers, None) for allergy in words]
    return entries, statements, in_words


def _identify(entries: list[Entry], statements: list[Statement], record: Record) -> None:
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


def _key(entry: Entry) -> tuple[str, str] | None:
    keys = map(key, identifiers(entry.observation.all("id")))
    return next(filter(None, keys), None)


def _distinction(entry: Entry, allergy: Resource) -> str:
    """Return what distinguishes an allergy from others of the same id: its participant's code.

    An id stays the same however a name is read, so that a document that is imported again makes a
    new version of the same allergy.
    """
    code = named_by(entry.participant, entry.texts) or allergy["code"]
    coding: dict[str, str] = next(iter(code.get("coding", ())), {})
    return f"{coding.get('system', '')}|{coding.get('code', '')}|{code.get('text', '')}"
