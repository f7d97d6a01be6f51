"""The Allergies section as AllergyIntolerance: one for each substance of each observation.

Sources: C-CDA R2.1, Allergy Concern Act and Allergy - Intolerance Observation; HL7 C-CDA on FHIR
2.0.0, allergies, and its concept maps; service.md 2.3; decisions 2.19.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from fhirapp.exchange.ccda import times
from fhirapp.exchange.ccda.people import Actor, author
from fhirapp.exchange.ccda.reactions import reactions
from fhirapp.exchange.ccda.record import Record
from fhirapp.exchange.ccda.statements import observed
from fhirapp.exchange.ccda.status import put_status
from fhirapp.exchange.ccda.substances import put_substance
from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import absent, extended, has_code, identifiers, key

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
_CRITICALITIES = {"CRITH": "high", "CRITL": "low", "CRITU": "unable-to-assess"}
_LAYMEN = ("Patient", "RelatedPerson")
_CRITICALITY_CODE, _COMMENT_CODE = "82606-5", "48767-8"


class Statement(NamedTuple):
    """An allergy, who recorded it, and when: the earliest and the latest time that is told."""

    allergy: dict[str, Any]
    authors: list[Actor]
    recorded: Element | None


class _Found(NamedTuple):
    """An observation, the act of concern that it is in, and who wrote the section."""

    observation: Element
    concern: Element | None
    section_authors: list[Element]
    # The participant that is the substance, where there is one.
    substance: Element | None


def is_allergies(section: Element) -> bool:
    """Say whether a section is that of allergies."""
    return bool(section.templates() & _SECTIONS) or has_code(section.first("code"), _SECTION_CODE)


def allergies_in(sections: list[Element], record: Record, writers: list[Actor]) -> list[Statement]:
    """Return what sections say of allergies. A section that only says NI says nothing.

    CDA R2 §4.4: the writers of the document wrote what names nobody else.
    """
    found = [one for section in sections for one in _observations(section)]
    shared = Counter(_key(one) for one in found)
    used: Counter[str] = Counter()
    statements = []
    for one in found:
        statement = _statement(one, record, writers)
        own_key = _key(one)
        parts = list(own_key or (record.key,))
        if not own_key or shared[own_key] > 1:
            # Several have the same id, or none has one: the substance tells them apart.
            parts.append(_told_by(statement.allergy))
        allergy_id = record.own_identity("AllergyIntolerance", *parts)
        used[allergy_id] += 1
        if used[allergy_id] > 1:
            parts.append(str(used[allergy_id]))
            allergy_id = record.own_identity("AllergyIntolerance", *parts)
        statement.allergy["id"] = allergy_id
        statements.append(statement)
    return statements


def _observations(section: Element) -> Iterator[_Found]:
    authors = section.all("author")
    for entry in section.all("entry"):
        for act in entry.all("act"):
            for observation in act.all("entryRelationship/observation"):
                yield from _substances(observation, act, authors)
        for observation in entry.all("observation"):
            yield from _substances(observation, None, authors)


def _substances(
    observation: Element, concern: Element | None, authors: list[Element]
) -> Iterator[_Found]:
    participants = [one for one in observation.all("participant") if one.get("typeCode") == "CSM"]
    if not (participants or observation.templates() & _OBSERVATIONS):
        return
    if observation.get("moodCode") not in ("", "EVN"):
        return
    if not participants:
        yield _Found(observation, concern, authors, None)
    for substance in participants:
        yield _Found(observation, concern, authors, substance)


def _key(found: _Found) -> tuple[str, str] | None:
    keys = map(key, identifiers(found.observation.all("id")))
    return next(filter(None, keys), None)


def _told_by(allergy: dict[str, Any]) -> str:
    code = allergy["code"]
    first: dict[str, str] = next(iter(code.get("coding", ())), {})
    return f"{first.get('system', '')}|{first.get('code', '')}|{code.get('text', '')}"


def _statement(found: _Found, record: Record, writers: list[Actor]) -> Statement:
    observation, concern = found.observation, found.concern
    allergy: dict[str, Any] = {
        "resourceType": "AllergyIntolerance",
        "id": "",
        "identifier": identifiers(observation.all("id")),
        "patient": {"reference": record.patient},
    }
    _put_type(allergy, observation.first("value"))
    put_substance(allergy, observation, found.substance, record.texts)
    _put_criticality(allergy, observation)
    _put_onset(allergy, observation.first("effectiveTime"))
    written = _authors(found)
    actors = [one for element in written if (one := author(element, record))]
    recorded = _put_recorded(allergy, written, actors, concern)
    actors = actors or writers
    by_laymen = bool(actors) and all(one.type_name in _LAYMEN for one in actors)
    put_status(allergy, observation, concern, by_laymen=by_laymen)
    allergy["note"] = _notes(observation, record)
    allergy["reaction"] = reactions(observation, record.texts)
    kept = {name: value for name, value in allergy.items() if value or name == "id"}
    return Statement(kept, actors, recorded)


def _put_type(allergy: dict[str, Any], value: Element | None) -> None:
    for code, (type_, category) in _TYPES.items():
        if has_code(value, code):
            if type_:
                allergy["type"] = type_
            if category:
                allergy["category"] = [category]
            return


def _put_criticality(allergy: dict[str, Any], observation: Element) -> None:
    if "criticality" in allergy:
        return
    told = observed(observation, "2.16.840.1.113883.10.20.22.4.145", _CRITICALITY_CODE)
    value = told.first("value") if told is not None else None
    if value is None:
        return
    known = [found for code, found in _CRITICALITIES.items() if has_code(value, code)]
    if known:
        allergy["criticality"] = known[0]
    elif value.null_flavor:
        allergy["_criticality"] = extended(absent(value.null_flavor))


def _put_onset(allergy: dict[str, Any], interval: Element | None) -> None:
    """Set the onset: when it began. When it ended has an extension of its own."""
    start = times.start_of(interval)
    written = start.get("value") if start is not None else ""
    if written and not times.date_time(written):
        allergy["onsetString"] = written
    else:
        times.put(allergy, "onsetDateTime", start)
    end = interval.first("high") if interval is not None else None
    if end is not None and (ended := times.date_time(end.get("value"))):
        allergy["extension"] = [{"url": _ABATEMENT, "valueDateTime": ended}]


def _authors(found: _Found) -> list[Element]:
    """Return who is said to have written this: of the innermost that says it. CDA R2 §4.4."""
    for holder in (found.observation, found.concern):
        if holder is not None and (written := holder.all("author")):
            return written
    return found.section_authors


def _put_recorded(
    allergy: dict[str, Any], written: list[Element], actors: list[Actor], concern: Element | None
) -> Element | None:
    """Set who recorded it last and when it was first recorded; return when it was last.

    A concern begins when somebody first wrote it down.
    """
    recorders = [one for one in actors if one.type_name in ("Practitioner", "Patient")]
    if recorders:
        allergy["recorder"] = recorders[-1].reference
    moments = times.in_order(one.first("time") for one in written)
    began = times.start_of(concern.first("effectiveTime")) if concern is not None else None
    times.put(allergy, "recordedDate", moments[0] if moments else began)
    return moments[-1] if moments else None


def _notes(observation: Element, record: Record) -> list[dict[str, Any]]:
    """Return the remarks: Comment Activity as Annotation."""
    found = []
    for act in observation.all("entryRelationship/act"):
        text = record.texts.of(act.first("text"))
        if not (has_code(act.first("code"), _COMMENT_CODE) and text):
            continue
        note: dict[str, Any] = {"text": text}
        for element in act.all("author")[:1]:
            by = author(element, record)
            if by and by.type_name in ("Practitioner", "Patient", "Organization"):
                note["authorReference"] = by.reference
            times.put(note, "time", element.first("time"))
        found.append(note)
    return found
