"""The Allergies section as AllergyIntolerance: one for each substance of each observation.

Never milder than the document: where two places of it differ in severity or status, the graver one
counts and a note tells the other. Words count: names, reactions and severities that no code knows
are kept as they stand. What only the narrative says is kept too (section_words).

Sources: C-CDA R2.1, Allergy Concern Act and Allergy - Intolerance Observation; HL7 C-CDA on FHIR
2.0.0, allergies, and its concept maps; service.md 2.3; decisions 2.19.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from fhirapp.allergies.assertion import about_none_known, is_placeholder
from fhirapp.exchange.ccda import values
from fhirapp.exchange.ccda.narrative import (
    Block,
    Column,
    Narrative,
    Texts,
    covers,
    has_words,
    plain,
    section_texts,
    shortened,
)
from fhirapp.exchange.ccda.people import Actor, author
from fhirapp.exchange.ccda.reactions import (
    NOT_GRADED,
    criticality_in,
    denied_reactions,
    gravest,
    has_reactions,
    reaction_observations,
    reaction_words,
    reactions,
    severity_in,
    severity_named,
)
from fhirapp.exchange.ccda.record import Record
from fhirapp.exchange.ccda.section_words import (
    absent_entry,
    in_pieces,
    left_over,
    section_entry,
    unread_words,
)
from fhirapp.exchange.ccda.status import put_status
from fhirapp.exchange.ccda.substances import (
    code_of,
    is_none_known,
    named_by,
    names_in,
    says_something,
    substance_of,
)
from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import absent, extended, has_code, identifiers, is_negated, key
from fhirapp.fhir.terminology import NO_KNOWN_DRUG_ALLERGY, strings

_ABATEMENT = "http://hl7.org/fhir/StructureDefinition/allergyintolerance-abatement"
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
_OBSERVATIONS = frozenset(
    {
        "2.16.840.1.113883.10.20.22.4.7",
        "2.16.840.1.113883.10.20.24.3.90",
        "2.16.840.1.113883.10.20.1.18",
        "1.3.6.1.4.1.19376.1.5.3.1.4.6",
    }
)
_SECTION_CODE = "48765-2"
# The value decides whether it is an allergy, and to what: CF-AllergyIntoleranceType, …Category.
_TYPES = {
    "235719002": ("intolerance", "food"),
    "414285001": ("allergy", "food"),
    "418471000": ("", "food"),
    "416098002": ("allergy", "medication"),
    "419511003": ("", "medication"),
    "59037007": ("intolerance", "medication"),
    "419199007": ("allergy", ""),
    "426232007": ("allergy", "environment"),
}
_LAYMEN = ("Patient", "RelatedPerson")
_COMMENT_CODE = "48767-8"
# Elements of an entry in which an observation may stand.
# What an observation is of that says more of an allergy: severity, status, criticality.
_OF_ALLERGIES = ("SEV", "33999-4", "82606-5")
_MOODS = ("", "EVN")
_NESTING = frozenset({"act", "organizer", "component", "entryRelationship", "observation"})


# Why a section may be empty; NI alone says nothing.
_WHY_EMPTY = frozenset({"NASK", "ASKU", "UNK", "NAV"})
_POINTING = frozenset({"text", "originalText", "name"})


class Statement(NamedTuple):
    """An allergy, who recorded it, and when: the earliest and the latest time that is told."""

    allergy: dict[str, Any]
    authors: list[Actor]
    recorded: Element | None


@dataclass(eq=False)
class _Found:
    """An observation, the act of concern that it is in, and the participant that is the substance.

    block is the part of the narrative that it stands for; is_only: whether no other does.
    """

    observation: Element
    concern: Element | None
    substance: Element | None
    block: Block | None = None
    is_only: bool = True
    # Whether it points there; else its name was found there.
    is_linked: bool = False

    @property
    def statements(self) -> list[Element]:
        """The observation and its concern: what is in either belongs to the allergy."""
        return [one for one in (self.observation, self.concern) if one is not None]

    @property
    def null_flavor(self) -> str:
        return next(filter(None, (one.null_flavor for one in self.statements)), "")

    def cell(self, column: Column) -> str:
        """Return what the narrative holds in a column; "" where it has none."""
        return self.block.cells.get(column, "") if self.block else ""


def is_allergies(section: Element) -> bool:
    """Say whether a section is that of allergies."""
    return bool(section.templates() & _SECTIONS) or has_code(section.first("code"), _SECTION_CODE)


def allergies_in(sections: list[Element], record: Record, writers: list[Actor]) -> list[Statement]:
    """Return what sections say of allergies. A section that only says NI says nothing.

    CDA R2 §4.4: the writers of the document wrote what names nobody else.
    """
    found: list[_Found] = []
    statements: list[Statement] = []
    in_words: list[Statement] = []
    for section in sections:
        reading = _Section(section, record, writers)
        found += reading.found
        statements += reading.statements
        in_words += reading.in_words()
    _identify(found, statements, record)
    for number, statement in enumerate(in_words):
        statement.allergy["id"] = record.own_identity(
            "AllergyIntolerance", record.key, "words", str(number)
        )
    return [*statements, *in_words]


def _identify(found: list[_Found], statements: list[Statement], record: Record) -> None:
    """Set the ids: by the identifiers of the observation, else by the substance."""
    shared = Counter(map(_key, found))
    used: Counter[str] = Counter()
    for one, statement in zip(found, statements, strict=True):
        own_key = _key(one)
        parts = list(own_key or (record.key,))
        if not own_key or shared[own_key] > 1:
            # Several have the same id, or none has one: the substance tells them apart.
            parts.append(_distinction(one, statement.allergy, record.texts))
        allergy_id = record.own_identity("AllergyIntolerance", *parts)
        used[allergy_id] += 1
        if used[allergy_id] > 1:
            parts.append(str(used[allergy_id]))
            allergy_id = record.own_identity("AllergyIntolerance", *parts)
        statement.allergy["id"] = allergy_id


def _key(found: _Found) -> tuple[str, str] | None:
    keys = map(key, identifiers(found.observation.all("id")))
    return next(filter(None, keys), None)


def _distinction(found: _Found, allergy: dict[str, Any], texts: Texts) -> str:
    """Return what tells an allergy from others of the same id: how its participant is coded.

    An id stays the same however a name is read, so that a document that is imported again makes a
    new version of the same allergy.
    """
    code = named_by(found.substance, texts) or allergy["code"]
    first: dict[str, str] = next(iter(code.get("coding", ())), {})
    return f"{first.get('system', '')}|{first.get('code', '')}|{code.get('text', '')}"


class _Section:
    """A section while it is read: its observations, its narrative, and what both come to."""

    def __init__(self, section: Element, record: Record, writers: list[Actor]) -> None:
        self._section = section
        self._record = record
        self._writers = writers
        self._narrative = Narrative(section_texts(section))
        self._authors = section.all("author")
        self._entries = _entries(section)
        by_entry = [list(_found_in(entry, None)) for entry in self._entries]
        self._unread = [
            one for one, found in zip(self._entries, by_entry, strict=True) if not found
        ]
        # What is planned has not happened.
        self.found = [
            one for found in by_entry for one in found if one.observation.get("moodCode") in _MOODS
        ]
        self._link()
        self.statements = [self._statement(one) for one in self.found]

    def _link(self) -> None:
        """Find the part of the narrative that each observation stands for: by link, or by name."""
        concerns = Counter(
            concern for concern, _ in {(one.concern, one.observation) for one in self.found}
        )
        for one in self.found:
            one.block = self._block(_references(one))
            one.is_linked = one.block is not None
            if one.block is None:
                is_alone = concerns[one.concern] == 1
                one.block = self._block(_references_beside(one, with_concern=is_alone))
        taken = {one.block for one in self.found}
        free = [block for block in self._narrative.blocks if block not in taken]
        matches: dict[tuple[Block, ...], list[_Found]] = {}
        for one in self.found:
            if one.block is None:
                names = names_in(self._code(one))
                rows = tuple(block for block in free if _is_named(block, names))
                matches.setdefault(rows, []).append(one)
        for rows, alike in matches.items():
            if len(rows) == len(alike) or len(rows) == 1:
                for position, one in enumerate(alike):
                    one.block = rows[position % len(rows)]
        uses = Counter(one.block for one in self.found)
        for one in self.found:
            one.is_only = uses[one.block] == 1

    def _block(self, references: list[Element]) -> Block | None:
        """Return the first part of the narrative that these point to."""
        targets = (target for one in references for target in self._record.texts.targets(one))
        blocks = map(self._narrative.block_of, targets)
        return next((block for block in blocks if block is not None), None)

    def _substance(self, found: _Found) -> dict[str, Any]:
        texts = self._record.texts
        return substance_of(
            found.substance,
            found.observation.first("value"),
            texts,
            self._narrative,
            cell=found.cell(Column.SUBSTANCE),
            is_only=found.is_only,
            reactions=reaction_words(found.statements, texts, found.cell(Column.REACTION)),
        )

    def _code(self, found: _Found) -> dict[str, Any]:
        texts = self._record.texts
        return code_of(self._substance(found), found.observation, found.concern, texts)

    def _statement(self, found: _Found) -> Statement:
        observation, concern, texts = found.observation, found.concern, self._record.texts
        allergy: dict[str, Any] = {
            "resourceType": "AllergyIntolerance",
            "id": "",
            "identifier": identifiers(observation.all("id")),
            "patient": {"reference": self._record.patient},
        }
        allergy["code"] = self._code(found)
        notes = list(self._comments(found))
        if _is_nothing(found, allergy["code"], texts):
            notes += _beside_nothing(found, texts)
        else:
            notes += _put_details(allergy, found, texts)
        written = self._authors_of(found)
        actors = [actor for element in written if (actor := author(element, self._record))]
        recorded = _put_recorded(allergy, written, actors, concern)
        actors = actors or self._writers
        by_laymen = bool(actors) and all(one.type_name in _LAYMEN for one in actors)
        status = found.cell(Column.STATUS)
        differing = put_status(
            allergy,
            observation,
            concern,
            texts,
            cell=status,
            is_linked=found.is_linked and found.is_only,
            by_laymen=by_laymen,
        )
        notes += [{"text": f"Status also recorded in the document: {one}"} for one in differing]
        allergy["note"] = [*notes, *_narrative_notes(found, {**allergy, "note": notes})]
        kept = {name: value for name, value in allergy.items() if value or name == "id"}
        return Statement(kept, actors, recorded)

    def in_words(self) -> list[Statement]:
        """Return what only the words of the section say."""
        texts, patient = self._record.texts, self._record.patient
        allergies = [one.allergy for one in self.statements]
        linked = [
            found.block
            for found, allergy in zip(self.found, allergies, strict=True)
            if found.block is not None and _says_more(allergy)
        ]
        denied = [is_none_known(one["code"]) for one in allergies]
        left = list(
            left_over(
                self._narrative.blocks,
                linked,
                allergies,
                is_told=any(map(_says_more, allergies)) and not all(denied),
                is_denied=any(denied),
            )
        )
        # Beside entries each line is one of its own.
        parts = [[block.text] for block in left] if allergies else [[one.text for one in left]]
        pieces = [piece for part in parts for piece in in_pieces(part)]
        held = [*(text for one in allergies for text in strings(one)), *pieces]
        for entry in self._unread:
            words = unread_words(entry, texts)
            if words and not covers(held, words):
                pieces += in_pieces([words])
        entries = [section_entry(text, patient) for text in pieces]
        null_flavor = self._section.null_flavor
        if not allergies and not entries and null_flavor in _WHY_EMPTY:
            entries = [absent_entry(null_flavor, patient)]
        actors = [actor for one in self._authors if (actor := author(one, self._record))]
        return [Statement(one, actors or self._writers, None) for one in entries]

    def _authors_of(self, found: _Found) -> list[Element]:
        """Return who is said to have written this: of the innermost that says it. CDA R2 §4.4."""
        for holder in found.statements:
            if written := holder.all("author"):
                return written
        return self._authors

    def _comments(self, found: _Found) -> Iterator[dict[str, Any]]:
        """Yield the remarks on an observation or its concern: Comment Activity as Annotation."""
        for holder in found.statements:
            for act in holder.all("entryRelationship/act"):
                text = self._record.texts.of(act.first("text"))
                if not (has_code(act.first("code"), _COMMENT_CODE) and text):
                    continue
                note: dict[str, Any] = {"text": text}
                for element in act.all("author")[:1]:
                    by = author(element, self._record)
                    if by and by.type_name in ("Practitioner", "Patient", "Organization"):
                        note["authorReference"] = by.reference
                    values.put(note, "time", element.first("time"))
                yield note


def _entries(section: Element) -> list[Element]:
    inner = section.all("component/section")
    return [*section.all("entry"), *(entry for one in inner for entry in _entries(one))]


def _found_in(holder: Element, concern: Element | None) -> Iterator[_Found]:
    """Yield the allergies in an entry, however deep; concern is the act around them."""
    for one in holder.elements:
        if one.name not in _NESTING:
            continue
        participants = [part for part in one.all("participant") if _is_substance(part)]
        is_allergy = one.templates() & _OBSERVATIONS or participants or _is_bare_allergy(one)
        if one.name == "observation" and is_allergy:
            substances: list[Element | None] = [*participants]
            for substance in substances or [None]:
                yield _Found(one, concern, substance)
        else:
            yield from _found_in(one, one if one.name == "act" else concern)


def _is_bare_allergy(observation: Element) -> bool:
    """Say whether an observation without template and participant names a substance by its value.

    Not one that belongs to an allergy beside it: a reaction, a severity, a status, a criticality.
    """
    value, parent = observation.first("value"), observation.parent
    if has_code(observation.first("code"), *_OF_ALLERGIES):
        return False
    if observation.templates() or (parent is not None and parent.get("typeCode") == "MFST"):
        return False
    if value is None:
        return bool(observation.null_flavor) or is_negated(observation)
    return bool(value.get("code") or value.get("displayName") or plain(value))


def _is_substance(participant: Element) -> bool:
    """Say whether a participant is what somebody is allergic to; some leave out its typeCode."""
    type_code = participant.get("typeCode")
    if type_code:
        return type_code == "CSM"
    return participant.first("participantRole/playingEntity") is not None


def _references(found: _Found) -> list[Element]:
    """Return what may point to the narrative of an observation: its text, then its names."""
    observation = found.observation
    holders = [*observation.all("participant"), *observation.all("value")]
    return [*observation.all("text"), *_pointing(holders)]


def _references_beside(found: _Found, *, with_concern: bool) -> list[Element]:
    """Return what else may point to it: reactions, and the concern where it has no other allergy.

    Remarks point elsewhere.
    """
    reactions_ = _pointing(reaction_observations([found.observation]))
    if found.concern is None or not with_concern:
        return list(reactions_)
    of_concern = _pointing(reaction_observations([found.concern]))
    return [*reactions_, *found.concern.all("text"), *of_concern]


def _pointing(holders: Iterable[Element]) -> Iterator[Element]:
    for holder in holders:
        yield from (one for one in holder.descendants() if one.name in _POINTING)


def _is_named(block: Block, names: list[str]) -> bool:
    """Say whether a row, an item or a paragraph is about a substance of one of these names."""
    cell = block.cells.get(Column.SUBSTANCE, "")
    if about_none_known(cell or block.text):
        return any(map(about_none_known, names))
    if cell:
        return any(covers([cell], name) or covers([name], cell) for name in names)
    return not block.cells and any(covers([block.text], name) for name in names)


def _is_nothing(found: _Found, code: dict[str, Any], texts: Texts) -> bool:
    """Say whether an observation names neither a substance nor a reaction.

    Its kind and its onset make no allergy of it (decisions 2.19); nor does a severity where a
    nullFlavor stands for the whole observation.
    """
    statements = found.statements
    if says_something(code) or has_reactions(statements, texts, found.cell(Column.REACTION)):
        return False
    if found.null_flavor:
        return True
    severities = (severity_in(statements, texts), severity_named(found.cell(Column.SEVERITY)))
    criticality, _ = criticality_in(statements, texts, found.cell(Column.CRITICALITY))
    return gravest(severities) == NOT_GRADED and criticality not in ("low", "high")


def _put_details(allergy: dict[str, Any], found: _Found, texts: Texts) -> Iterator[dict[str, Any]]:
    """Set type, criticality, onset and reactions; yield notes on what has no place in these."""
    observation, statements = found.observation, found.statements
    _put_type(allergy, observation.first("value"))
    criticality, null_flavor = criticality_in(statements, texts, found.cell(Column.CRITICALITY))
    if NO_KNOWN_DRUG_ALLERGY in {one.get("code") for one in allergy["code"].get("coding", ())}:
        # service.md 2.3
        criticality = "unable-to-assess"
    if criticality:
        allergy["criticality"] = criticality
    elif null_flavor:
        allergy["_criticality"] = extended(absent(null_flavor))
    _put_onset(allergy, observation.first("effectiveTime"))
    own, named = severity_in(statements, texts), severity_named(found.cell(Column.SEVERITY))
    severity = gravest((own, named))
    made = reactions(statements, texts, severity=severity, cell=found.cell(Column.REACTION))
    allergy["reaction"] = made
    held = [*strings(made)]
    for one in (own, named):
        words = one.words or one.code
        if not has_words(held, words):
            yield {"text": f"Severity also recorded in the document: {words}"}
            held.append(words)
    for words in denied_reactions(statements, texts):
        yield {"text": f"Recorded as absent: no {words}"}


def _beside_nothing(found: _Found, texts: Texts) -> Iterator[dict[str, Any]]:
    """Yield what stands beside a nullFlavor: it makes no allergy of it, and is kept."""
    severity = gravest(
        (severity_in(found.statements, texts), severity_named(found.cell(Column.SEVERITY)))
    )
    criticality, _ = criticality_in(found.statements, texts, found.cell(Column.CRITICALITY))
    if severity.code or severity.words:
        yield {"text": f"Severity recorded in the document: {severity.words or severity.code}"}
    if criticality:
        yield {"text": f"Criticality recorded in the document: {criticality}"}


def _narrative_notes(found: _Found, allergy: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what texts and narrative say beside what the entry does."""
    words = [shortened(plain(text)) for one in found.statements for text in one.all("text")]
    if found.block is not None and _says_more(allergy):
        block = found.block
        words.append(found.cell(Column.NOTE) if block.cells else shortened(block.text))
    held = list(strings(allergy))
    for text in words:
        if not has_words(held, text) and not is_placeholder(text):
            yield {"text": f"The document says in words: {text}"}
            held.append(text)


def _says_more(allergy: dict[str, Any]) -> bool:
    """Say whether an allergy names something, or what happened."""
    return says_something(allergy["code"]) or bool(allergy.get("reaction"))


def _put_type(allergy: dict[str, Any], value: Element | None) -> None:
    for code, (type_, category) in _TYPES.items():
        if has_code(value, code):
            if type_:
                allergy["type"] = type_
            if category:
                allergy["category"] = [category]
            return


def _put_onset(allergy: dict[str, Any], interval: Element | None) -> None:
    """Set the onset: when it began. When it ended has an extension of its own."""
    start = values.start_of(interval)
    written = start.get("value") if start is not None else ""
    if written and not values.date_time(written):
        allergy["onsetString"] = written
    else:
        values.put(allergy, "onsetDateTime", start)
    end = interval.first("high") if interval is not None else None
    if end is not None and (ended := values.date_time(end.get("value"))):
        allergy["extension"] = [{"url": _ABATEMENT, "valueDateTime": ended}]


def _put_recorded(
    allergy: dict[str, Any], written: list[Element], actors: list[Actor], concern: Element | None
) -> Element | None:
    """Set who recorded it last and when it was first recorded; return when it was last.

    A concern begins when somebody first wrote it down.
    """
    recorders = [one for one in actors if one.type_name in ("Practitioner", "Patient")]
    if recorders:
        allergy["recorder"] = recorders[-1].reference
    moments = values.in_order(one.first("time") for one in written)
    began = values.start_of(concern.first("effectiveTime")) if concern is not None else None
    values.put(allergy, "recordedDate", moments[0] if moments else began)
    return moments[-1] if moments else None
