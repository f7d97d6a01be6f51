"""The coded entries of an Allergies section, and the part of its narrative that belongs to each.

An entry is linked to a row, an item or a paragraph by the references in it, else by the substance's
name.
Sources: C-CDA R2.1, Allergy Concern Act and Allergy - Intolerance Observation; CDA R2 §4.3.5.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fhirapp.clinical.assertion import about_none_known, denies_allergies, is_placeholder
from fhirapp.clinical.identity import is_kind
from fhirapp.features.imports.ccda.narrative import (
    Block,
    Column,
    Narrative,
    Texts,
    covers,
    plain,
)
from fhirapp.features.imports.ccda.reactions import (
    DETAIL_CODES,
    ObservedReactions,
    reaction_observations,
    read_reactions,
)
from fhirapp.features.imports.ccda.substances import (
    code_of,
    is_name,
    is_none_known,
    names_in,
    names_substance,
    substance_of,
)
from fhirapp.features.imports.ccda.tree import CcdaElement
from fhirapp.features.imports.ccda.values import has_code, is_negated, present
from fhirapp.features.imports.ccda.words import is_heading
from fhirapp.search.string import fold

# Of C-CDA, and of what came before it: CCD 1.0, HITSP C83, IHE PCC.
_OBSERVATIONS = frozenset(
    {
        "2.16.840.1.113883.10.20.22.4.7",
        "2.16.840.1.113883.10.20.24.3.90",
        "2.16.840.1.113883.10.20.1.18",
        "1.3.6.1.4.1.19376.1.5.3.1.4.6",
    }
)
# What is planned has not happened.
_MOODS = ("", "EVN")
# Elements of an entry that may hold an observation.
_NESTING = frozenset({"act", "organizer", "component", "entryRelationship", "observation"})
_POINTING = frozenset({"text", "originalText", "name"})


@dataclass(eq=False)
class CcdaEntry:
    """An observation, the act of concern that it is in, and the participant that is the substance.

    block is the part of the narrative that belongs to it. is_linked: the entry points there; else
    its name was found there. is_only: the block belongs to no other entry.
    """

    observation: CcdaElement
    concern: CcdaElement | None
    participant: CcdaElement | None
    texts: Texts = field(repr=False)
    block: Block | None = None
    is_linked: bool = False
    is_only: bool = True

    @cached_property
    def statements(self) -> list[CcdaElement]:
        """The observation and its concern: what is in either belongs to the allergy."""
        return [element for element in (self.observation, self.concern) if element is not None]

    @cached_property
    def reactions(self) -> ObservedReactions:
        """The reactions in its statements."""
        return read_reactions(self.statements, self.texts)

    @property
    def null_flavor(self) -> str:
        return next(filter(None, (element.null_flavor for element in self.statements)), "")

    def cell(self, column: Column) -> str:
        """Return what the narrative holds in a column; "" where it has none."""
        return self.block.cells.get(column, "") if self.block else ""

    @property
    def reaction_lines(self) -> list[str]:
        """The reactions in the narrative, line by line, without what only says there is none."""
        lines = self.block.reaction_lines if self.block else []
        return [line for line in lines if not is_placeholder(line)]

    def code(self, narrative: Narrative) -> dict[str, Any]:
        """Return the code of the allergy, as CodeableConcept.

        A denial that names nothing, beside words of the narrative that do, has these as its text,
        and what it says without its code: who only reads codes must not take it for "none known".
        """
        if words := self.contradiction(narrative):
            code = code_of(
                self._substance(narrative, ""), self.observation, self.concern, self.texts
            )
            coding = [{"display": code["text"]}] if is_none_known(code) else []
            return present({"coding": coding, "text": words})
        substance = self._substance(narrative, self.cell(Column.SUBSTANCE))
        return code_of(substance, self.observation, self.concern, self.texts)

    def contradiction(self, narrative: Narrative) -> str:
        """Return the words of its narrative that contradict a denial; "" where none do.

        An observation that is negated and names no substance says that none is known. Its row may
        name one.
        """
        if self.block is None or not any(map(is_negated, self.statements)):
            return ""
        if names_substance(self._substance(narrative, "")):
            return ""
        cell = self.cell(Column.SUBSTANCE)
        if cell and not is_placeholder(cell):
            return "" if _denies(cell) else cell
        if not self.block.cells:
            return "" if _denies(self.block.text) else self.block.text
        words = (
            self.cell(Column.NOTE),
            *self.reaction_lines,
            *(words for _, words in self.block.clinical),
        )
        return next((text for text in words if text and not _denies(text)), "")

    def _substance(self, narrative: Narrative, cell: str) -> dict[str, Any]:
        return substance_of(
            self.participant,
            self.observation.all("value"),
            self.texts,
            narrative,
            cell=cell,
            is_only=self.is_only,
            reactions=self.reactions.words(self.reaction_lines),
        )


_PARTS = re.compile(r"[,;:.]")


def _denies(text: str) -> bool:
    """Say whether a text says that there is none, or only names a kind of allergy or a status."""
    head, colon, rest = text.partition(":")
    if colon and is_heading(head):
        text = rest
    return denies_allergies(text) or all(
        is_heading(part)
        or is_kind(part)
        or not is_name(part)
        or denies_allergies(part)
        or about_none_known(part) is not None
        for part in _PARTS.split(text)
    )


def entries_in(
    holder: CcdaElement, texts: Texts, concern: CcdaElement | None = None
) -> Iterator[CcdaEntry]:
    """Yield the allergies in an element, however deep; concern is the act around them.

    An observation about several substances is several allergies.
    """
    for element in holder.elements:
        if element.name not in _NESTING:
            continue
        participants = [part for part in element.all("participant") if _is_substance(part)]
        if element.name == "observation" and (
            element.templates() & _OBSERVATIONS or participants or _is_bare_allergy(element)
        ):
            substances: list[CcdaElement | None] = [*participants]
            for participant in substances or [None]:
                yield CcdaEntry(element, concern, participant, texts)
        else:
            yield from entries_in(element, texts, element if element.name == "act" else concern)


def is_actual(entry: CcdaEntry) -> bool:
    """Say whether an entry is about what is, not about what is planned."""
    return entry.observation.get("moodCode") in _MOODS


def _is_bare_allergy(observation: CcdaElement) -> bool:
    """Say whether an observation without template and participant names a substance by its value.

    Not if it belongs to an allergy beside it: a reaction, a severity, a status, a criticality.
    """
    found, parent = observation.all("value"), observation.parent
    if has_code(observation.first("code"), *DETAIL_CODES):
        return False
    if observation.templates() or (parent is not None and parent.get("typeCode") == "MFST"):
        return False
    if not found:
        return bool(observation.null_flavor) or is_negated(observation)
    return any(value.get("code") or value.get("displayName") or plain(value) for value in found)


def _is_substance(participant: CcdaElement) -> bool:
    """Say whether a participant is the substance; some documents leave out its typeCode."""
    type_code = participant.get("typeCode")
    if type_code:
        return type_code == "CSM"
    return participant.first("participantRole/playingEntity") is not None


def link(entries: list[CcdaEntry], narrative: Narrative) -> None:
    """Find the part of the narrative that belongs to each entry: by links, else by name."""
    observations = {(entry.concern, entry.observation) for entry in entries}
    in_concern = Counter(concern for concern, _ in observations)
    for entry in entries:
        entry.block = _block(_references(entry), entry.texts, narrative)
        entry.is_linked = entry.block is not None
        if entry.block is None:
            beside = _references_beside(entry, with_concern=in_concern[entry.concern] == 1)
            entry.block = _block(beside, entry.texts, narrative)
    _link_by_name(entries, narrative)
    uses = Counter(entry.block for entry in entries)
    for entry in entries:
        entry.is_only = uses[entry.block] == 1


def _link_by_name(entries: list[CcdaEntry], narrative: Narrative) -> None:
    """Tie the entries without links to the free blocks that name their substance.

    Where the number of entries is not that of the blocks, nothing tells which is whose.
    """
    taken = {entry.block for entry in entries}
    free = [block for block in narrative.blocks if block not in taken and not block.is_aside]
    matches: dict[tuple[Block, ...], list[CcdaEntry]] = {}
    for entry in entries:
        if entry.block is None:
            names = names_in(entry.code(narrative))
            named = [
                block for block in free if _is_named(block, names) and not may_name_several(block)
            ]
            lines = [block for block in named if block.is_line]
            matches.setdefault(tuple(lines or named), []).append(entry)
    for blocks, alike in matches.items():
        if len(blocks) == len(alike) or len(blocks) == 1:
            for position, entry in enumerate(alike):
                entry.block = blocks[position % len(blocks)]


def _block(references: Iterable[CcdaElement], texts: Texts, narrative: Narrative) -> Block | None:
    """Return the first part of the narrative that these point to."""
    targets = (target for element in references for target in texts.targets(element))
    return next(filter(None, map(narrative.block_of, targets)), None)


def _references(entry: CcdaEntry) -> Iterator[CcdaElement]:
    """Yield what may point to the narrative of an observation: its text, then its names."""
    yield from entry.observation.all("text")
    yield from _pointing(entry.observation.all("participant"))
    yield from _pointing(entry.observation.all("value"))


def _references_beside(entry: CcdaEntry, *, with_concern: bool) -> Iterator[CcdaElement]:
    """Yield what else may point there: reactions, and the concern where it has no other allergy.

    Remarks point elsewhere.
    """
    yield from _pointing(reaction_observations([entry.observation], entry.texts))
    if entry.concern is not None and with_concern:
        yield from entry.concern.all("text")
        yield from _pointing(reaction_observations([entry.concern], entry.texts))


def _pointing(holders: list[CcdaElement]) -> Iterator[CcdaElement]:
    for holder in holders:
        yield from (element for element in holder.descendants() if element.name in _POINTING)


def _is_named(block: Block, names: list[str]) -> bool:
    """Say whether a row, an item or a paragraph is about a substance of one of these names."""
    cell = block.cells.get(Column.SUBSTANCE, "")
    if about_none_known(cell or block.text):
        return any(map(about_none_known, names))
    if cell:
        return any(covers([cell], name) or covers([name], cell) for name in names)
    return not block.cells and any(covers([block.text], name) for name in names)


# With these a text that names an allergy may name another one.
_FURTHER = re.compile(
    r"[;,]|[.!?]\s+\w|\b(?:and|also|but|or|too|plus|other|und|auch|sowie|aber|oder|et|aussi|mais|ou"
    r"|y|e|tambien|pero|anche|ma|tambem|mas|en|ook|maar|of)\b"
)


def may_name_several(block: Block) -> bool:
    """Whether a text may be about several allergies; a row or an item is about one."""
    return not block.is_line and _FURTHER.search(fold(block.text)) is not None
