"""One entry of the Allergies section as AllergyIntolerance.

Never milder than the document: where two places of it differ in severity or status, the graver one
counts and a note quotes the other. Names, reactions and severities that no code knows are kept in
words.

Sources: C-CDA R2.1, Allergy Concern Act and Allergy - Intolerance Observation; HL7 C-CDA on FHIR
2.0.0, allergies, and its concept maps; FHIR R4 allergyintolerance, ait-1 and ait-2; service.md 2.3;
decisions 2.19.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from fhirapp.clinical.assertion import is_placeholder
from fhirapp.clinical.identity import is_kind
from fhirapp.clinical.severity import described_severely
from fhirapp.features.imports.ccda import reactions, values
from fhirapp.features.imports.ccda.entries import CcdaEntry
from fhirapp.features.imports.ccda.narrative import (
    Column,
    Narrative,
    Texts,
    plain,
    shortened,
    unique,
    words_in,
)
from fhirapp.features.imports.ccda.people import Actor, CcdaRecord, author
from fhirapp.features.imports.ccda.substances import (
    is_none_known,
    is_refuted,
    observations_of,
    says_something,
)
from fhirapp.features.imports.ccda.tree import NOTHING, CcdaElement
from fhirapp.features.imports.ccda.values import (
    MAPS,
    calendar_time,
    code_in,
    date_time,
    has_code,
    identifiers,
    is_ahead,
    is_no_date,
    mapped,
)
from fhirapp.features.imports.ccda.words import is_heading, is_silent, status_named, statuses_in
from fhirapp.fhir.terminology import (
    ALLERGY_CLINICAL,
    ALLERGY_VERIFICATION,
    NO_KNOWN_DRUG_ALLERGY,
    strings,
)

_ABATEMENT = "http://hl7.org/fhir/StructureDefinition/allergyintolerance-abatement"
# Type and category, by the value of the observation.
_TYPES: Mapping[str, tuple[str, str]] = MAPS["allergy_types"]
# The gravest first: it counts where several are recorded.
_GRAVEST = ("active", "inactive", "resolved")
_LAYMEN = ("Patient", "RelatedPerson")
_COMMENT_CODE = "48767-8"
NOTED = "text in its Allergies section beside the coded entries was added to them as notes"
_CONTRADICTION = (
    "The document contradicts itself: an entry states no known allergy, but its narrative names "
    "one."
)

Resource = dict[str, Any]
Note = dict[str, Any]


class CcdaAllergy(NamedTuple):
    """An allergy, who recorded it, and when it was last recorded.

    is_denial: it only says that none is known.
    """

    allergy: Resource
    authors: list[Actor]
    recorded: CcdaElement | None
    is_denial: bool = False


def statement_of(
    entry: CcdaEntry,
    narrative: Narrative,
    record: CcdaRecord,
    section_authors: list[CcdaElement],
) -> CcdaAllergy:
    """Return the allergy of an entry; its id is empty.

    CDA R2 §4.4: the innermost author counts; the authors of the document, if there is none.
    """
    allergy: Resource = {
        "resourceType": "AllergyIntolerance",
        "id": "",
        "identifier": identifiers(entry.observation.all("id")),
        "patient": {"reference": record.patient},
        "code": entry.code(narrative),
    }
    is_denial = is_none_known(allergy["code"])
    contradiction = entry.contradiction(narrative)
    comments = list(_comments(entry, record))
    notes = [*comments, *_put_details(allergy, entry, is_denial=is_denial)]
    if contradiction:
        notes.append({"text": _CONTRADICTION})
    written = next(
        filter(None, (holder.all("author") for holder in entry.statements)), section_authors
    )
    actors = [actor for element in written if (actor := author(element, record))]
    recorded = _put_recorded(allergy, written, actors, entry.concern)
    actors = actors or record.writers
    differing = _put_status(
        allergy,
        entry,
        made=record.made,
        is_denial=is_denial,
        comments=[comment["text"] for comment in comments],
        is_sure=not contradiction
        and not (actors and all(actor.type_name in _LAYMEN for actor in actors)),
        may_be_refuted=not contradiction,
    )
    if differing:
        notes.append({"text": f"Status also recorded in the document: {differing}"})
    allergy["note"] = notes
    known = words_in(strings(allergy))
    in_narrative = list(_narrative_notes(entry, allergy, known))
    known |= words_in(strings(in_narrative))
    in_other_columns = list(_notes_of_other_columns(entry, allergy, known))
    if in_other_columns:
        record.remark(NOTED)
    notes += [*in_narrative, *in_other_columns]
    kept = {name: value for name, value in allergy.items() if value or name == "id"}
    return CcdaAllergy(kept, actors, recorded, is_denial)


def is_named(allergy: Resource) -> bool:
    """Say whether an allergy names a substance or a reaction."""
    return says_something(allergy["code"]) or bool(allergy.get("reaction"))


def _comments(entry: CcdaEntry, record: CcdaRecord) -> Iterator[Note]:
    """Yield the remarks on an observation or its concern: Comment Activity as Annotation."""
    for holder in entry.statements:
        for act in holder.all("entryRelationship/act"):
            text = record.texts.of(act.first("text"))
            if not (has_code(act.first("code"), _COMMENT_CODE) and text):
                continue
            note: Note = {"text": text}
            if (written := act.first("author")) is not None:
                actor = author(written, record)
                if actor and actor.type_name in ("Practitioner", "Patient", "Organization"):
                    note["authorReference"] = actor.reference
                values.put(note, "time", written.first("time"))
            yield note


def _put_details(allergy: Resource, entry: CcdaEntry, *, is_denial: bool) -> list[Note]:
    """Set type, criticality, onset and reactions; return notes on what has no place in these.

    An entry that names neither a substance nor a reaction gets none of them: its kind and its onset
    make no allergy of it (decisions 2.19); nor does a severity where the whole observation
    has a nullFlavor. What is recorded beside that nullFlavor becomes a note.
    """
    coded = reactions.severity_in(entry.statements, entry.texts)
    named = reactions.severity_named(entry.cell(Column.SEVERITY))
    severity = reactions.gravest((coded, named))
    criticality = reactions.criticality_in(
        entry.statements, entry.texts, entry.cell(Column.CRITICALITY)
    )
    is_named = entry.reactions.is_any_named(entry.reaction_lines) or (
        # Beside a nullFlavor of the whole, a reaction that has one too is none.
        not entry.null_flavor and bool(entry.reactions.unknown)
    )
    if not says_something(allergy["code"]) and not is_named:
        is_graded = severity != reactions.NOT_GRADED or criticality in ("low", "high")
        if entry.null_flavor or not is_graded:
            return list(_beside_nothing(entry, allergy, severity, criticality))
    _put_type(allergy, entry.observation.all("value"))
    if is_denial and NO_KNOWN_DRUG_ALLERGY in {
        coding.get("code") for coding in allergy["code"].get("coding", ())
    }:
        # service.md 2.3
        criticality = "unable-to-assess"
    if criticality:
        allergy["criticality"] = criticality
    onset = _put_onset(allergy, entry.observation.first("effectiveTime"))
    allergy["reaction"] = reactions.reactions(
        entry.reactions, severity=severity, lines=entry.reaction_lines
    )
    notes = [{"text": f"The onset is not known: {onset} is a placeholder."}] if onset else []
    severities = [
        words for words in (coded.words or coded.code, named.words or named.code) if words
    ]
    known = words_in(strings(allergy["reaction"])) if severities else set()
    for words in severities:
        if not words_in([words]) <= known:
            notes.append({"text": f"Severity also recorded in the document: {words}"})
            known |= words_in([words])
    return [
        *notes,
        *({"text": f"Recorded as absent: no {words}"} for words in entry.reactions.absent),
    ]


def _beside_nothing(
    entry: CcdaEntry, allergy: Resource, severity: reactions.ReactionSeverity, criticality: str
) -> Iterator[Note]:
    """Yield what is recorded beside a nullFlavor: it makes no allergy of it, and is kept.

    The name that says nothing, such as "N/A", is taken from the code.
    """
    if name := allergy["code"].pop("text", ""):
        yield {"text": f"Substance recorded in the document: {name}"}
    for words in entry.reactions.words([]):
        yield {"text": f"Reaction recorded in the document: {words}"}
    if severity.code or severity.words:
        yield {"text": f"Severity recorded in the document: {severity.words or severity.code}"}
    if criticality:
        yield {"text": f"Criticality recorded in the document: {criticality}"}


def _put_type(allergy: Resource, found: list[CcdaElement]) -> None:
    """Set type and category by the first code of each value that has them.

    An intolerance and an allergy are both an allergy, the graver.
    """
    kinds = [kind for value in found for kind in mapped(value, _TYPES)[:1]]
    if types := sorted({type_ for type_, _ in kinds if type_}):
        allergy["type"] = types[0]
    if categories := list(dict.fromkeys(category for _, category in kinds if category)):
        allergy["category"] = categories


def _put_onset(allergy: Resource, interval: CcdaElement | None) -> str:
    """Set the onset and, as an extension, the end; return an onset that is a placeholder."""
    interval = interval or NOTHING
    start = values.start_of(interval)
    written = (start or NOTHING).get("value")
    is_none = is_no_date(written)
    if written and not (is_none or date_time(written)):
        allergy["onsetString"] = written
    else:
        values.put(allergy, "onsetDateTime", start)
    end = interval.first("high") or NOTHING
    if ended := date_time(end.get("value")):
        allergy["extension"] = [{"url": _ABATEMENT, "valueDateTime": ended}]
    return written if is_none else ""


def _put_recorded(
    allergy: Resource, written: list[CcdaElement], actors: list[Actor], concern: CcdaElement | None
) -> CcdaElement | None:
    """Set recorder (the last) and recordedDate (the first); return the last time of recording.

    A concern begins when it is first recorded.
    """
    recorders = [actor for actor in actors if actor.type_name in ("Practitioner", "Patient")]
    if recorders:
        allergy["recorder"] = recorders[-1].reference
    moments = values.in_order(element.first("time") for element in written)
    began = values.start_of((concern or NOTHING).first("effectiveTime"))
    values.put(allergy, "recordedDate", moments[0] if moments else began)
    return moments[-1] if moments else None


def _put_status(
    allergy: dict[str, Any],
    entry: CcdaEntry,
    *,
    made: str,
    is_denial: bool,
    comments: list[str],
    is_sure: bool,
    may_be_refuted: bool,
) -> str:
    """Set clinicalStatus and verificationStatus; return the words of what differs from that.

    service.md 2.3: what is on the patient's chart is confirmed, but not what the patient says, what
    the document contradicts, or what names nothing. What is refuted is no risk: a search for active
    allergies does not find it.
    A status in the narrative where the entry does not point there can only make it graver, and so
    can words beside those of a status. made is when the document was.
    """
    observation, concern = entry.observation, entry.concern
    codes = {_status_code(observation), _status_code(concern)}
    refuted = may_be_refuted and is_refuted(observation, concern, allergy)
    # That none is known holds least where any place says that it no longer does.
    order = _GRAVEST[::-1] if is_denial else _GRAVEST
    coded, unclear = observed_statuses(entry)
    if not is_denial and not coded and codes & {"active", "suspended"}:
        coded = ["active"]
    cell = entry.cell(Column.STATUS)
    narrative = [] if is_placeholder(cell) else list(statuses_in(cell))
    is_unclear = bool(unclear) or not (narrative or is_placeholder(cell) or is_silent(cell))
    end = end_of(observation, made)
    # The statusCode of a completed concern does not say that the allergy is resolved: the concern
    # is no longer tracked, the allergy has not ended.
    statuses = list(coded)
    if not coded and _has_ended(end, is_denial=is_denial, is_unclear=is_unclear):
        statuses = ["resolved"]

    def is_graver(status: str) -> bool:
        return (status == "active") != is_denial

    if (entry.is_linked and entry.is_only) or statuses or any(map(is_graver, narrative)):
        statuses += narrative
    statuses += filter(is_graver, filter(None, statuses_beside(entry, comments)))
    # Without any an allergy is active, whatever the statusCode of its concern says.
    status = next((known for known in order if known in statuses), "active")
    verification = "confirmed" if is_sure and says_something(allergy["code"]) else "unconfirmed"
    if refuted:
        status, verification = "inactive", "refuted"
    if "nullified" in codes:
        status, verification = "", "entered-in-error"
    if status:
        allergy["clinicalStatus"] = values.coded_concept(ALLERGY_CLINICAL, status)
    allergy["verificationStatus"] = values.coded_concept(ALLERGY_VERIFICATION, verification)
    differing = [known for known in _GRAVEST if known in coded and known != status]
    if not (is_placeholder(cell) or (status and status_named(cell) == status)):
        differing.append(cell)
    if end.words and not (end.is_over and status in ("inactive", "resolved")):
        differing.append(end.words)
    return "; ".join(unique([*differing, *unclear]))


def _has_ended(end: End, *, is_denial: bool, is_unclear: bool) -> bool:
    """Say whether an allergy without a coded status has ended, or may have that none is known."""
    if is_denial:
        return end.is_over or end.is_doubtful
    return end.is_over and not (end.is_doubtful and is_unclear)


def _status_code(statement: CcdaElement | None) -> str:
    return code_in((statement or NOTHING).first("statusCode"))


def _narrative_notes(entry: CcdaEntry, allergy: Resource, known: set[str]) -> Iterator[Note]:
    """Yield what texts and narrative hold beside the known words of the allergy."""
    texts = [shortened(plain(text)) for holder in entry.statements for text in holder.all("text")]
    if entry.block is not None and is_named(allergy):
        cells = entry.block.cells
        texts.append(entry.cell(Column.NOTE) if cells else shortened(entry.block.text))
    for text in texts:
        words = words_in([text])
        if not words <= known and not is_placeholder(text):
            yield {"text": f"The document says in words: {text}"}
            known |= words


def _notes_of_other_columns(entry: CcdaEntry, allergy: Resource, known: set[str]) -> Iterator[Note]:
    """Yield what the row of an allergy has in columns that are none of an allergy's.

    The kind of allergy is a code, and who recorded it when is said elsewhere.
    """
    if entry.block is None or not is_named(allergy):
        return
    kept = entry.block.clinical
    kept += [
        cell for cell in entry.block.others if cell not in kept and described_severely(cell[1])
    ]
    for head, text in kept:
        is_label = is_heading(text) and not status_named(text)
        words = words_in([text])
        if not (is_label or is_kind(text) or is_placeholder(text) or words <= known):
            yield {"text": f"The document says in words: {f'{head}: ' if head else ''}{text}"}
            known |= words


# Status.

# C-CDA's Allergy Status Observation.
_STATUS_TEMPLATE = "2.16.840.1.113883.10.20.22.4.28"
_STATUSES = MAPS["statuses"]


class End(NamedTuple):
    """The end of an allergy in words, "" if it has none; is_over and is_doubtful classify it."""

    words: str = ""
    is_over: bool = False
    is_doubtful: bool = False


def end_of(observation: CcdaElement, made: str) -> End:
    """Return the end of an allergy; made is when its document was."""
    low, high = (observation.first(f"effectiveTime/{end}") or NOTHING for end in ("low", "high"))
    written = high.get("value")
    if not written:
        if high.null_flavor != "UNK":
            return End()
        if not date_time(low.get("value")):
            return End("end not known", is_doubtful=True)
        return End("ended on a date that is not known", is_over=True, is_doubtful=True)
    # A date that the calendar does not have still has a year.
    day, year = calendar_time(written), calendar_time(written[:4])
    words = f"end given as {day or written}"
    if (day or year) and is_ahead(day or year, made):
        return End(f"{words}, after the date of the document")
    if not year or is_no_date(written):
        return End(words, is_doubtful=True)
    return End(f"ended {day}" if day else words, is_over=True)


def observed_statuses(entry: CcdaEntry) -> tuple[list[str], list[str]]:
    """Return the statuses that are observed, and the words of those that are none of FHIR's.

    Those of the allergy come before those of its concern, which count where it has none.
    """
    for statement in entry.statements:
        statuses: list[str] = []
        unclear: list[str] = []
        for observation in observations_of([statement], _STATUS_TEMPLATE, "33999-4"):
            found = [_read_value(value, entry.texts) for value in observation.all("value")]
            text = entry.texts.of(observation.first("text"))
            known = [status for codes, words in found for status in (*codes, *_statuses_in(words))]
            known += _statuses_in([text])
            statuses += known
            unclear += [
                word
                for codes, words in (*found, ([], [] if known else [text]))
                if not (codes or _statuses_in(words))
                for word in words
            ]
        if statuses or any(unclear):
            return statuses, unique(unclear)
    return [], []


def _read_value(value: CcdaElement, texts: Texts) -> tuple[list[str], list[str]]:
    """Return the statuses that the codes of a value mean, and its words."""
    return mapped(value, _STATUSES), reactions.words_of_value(value, texts)


def _statuses_in(words: Iterable[str]) -> list[str]:
    return [status for text in words for status in statuses_in(text)]


def statuses_beside(entry: CcdaEntry, comments: Iterable[str]) -> Iterator[str]:
    """Yield the statuses that other words of an entry and its part of the narrative name.

    A cell or a comment counts as a whole: a part of it may be about something else.
    """
    for statement in entry.statements:
        for text in statement.all("text"):
            yield from statuses_in(plain(text))
    yield from map(status_named, comments)
    block = entry.block
    if block is not None and block.element.name == "tr":
        columns = (Column.NOTE,) if Column.STATUS in block.columns.values() else (Column.NOTE, None)
        for cell in block.element.elements:
            if block.columns.get(cell) in columns:
                yield status_named(plain(cell))
    elif block is not None and entry.is_only:
        yield from statuses_in(block.text)
