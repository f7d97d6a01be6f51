"""The record that is here with what a row says: a row adds and changes what it states.

An empty cell, and a column that a table does not have, say nothing, so they change nothing. Where
the record has more than a table can say (from FHIR or C-CDA), that stays beside what the row adds.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from fhirapp.exchange.tables.allergies import NO_INFORMATION
from fhirapp.exchange.tables.vocabulary import UNKNOWN_REACTION
from fhirapp.fhir.identity import adds_nothing, may_be_called
from fhirapp.store.prepare import sha1

_ABSENT = "http://hl7.org/fhir/StructureDefinition/data-absent-reason"
_OF_THE_NAME = ("family", "given", "text")
# The uses of a name that people are called by, the first one first; None is a name without use.
_CURRENT_USES = ("official", "usual", None)
# What a table says of a reaction, and of a note.
_OF_A_REACTION, _OF_A_NOTE = {"manifestation", "severity"}, {"text"}
# Narratives that hold no more than the elements, and would contradict them after a change.
_NARRATIVES = ("generated", "extensions")
_NOT_VALID = ("refuted", "entered-in-error")


def updated(
    here: Mapping[str, Any], stated: Mapping[str, Any], defaults: Collection[str]
) -> dict[str, Any]:
    """Return the record that is here with what a row states of it.

    defaults names the elements of stated that no cell states. A row about another substance is
    another allergy: it replaces the record.
    """
    if stated["resourceType"] == "AllergyIntolerance" and not _is_same_substance(here, stated):
        return {**stated}
    result = {**here}
    for name, value in stated.items():
        if name in defaults and name in here:
            continue
        merge = _MERGES.get(name)
        result[name] = merge(here[name], value) if merge and name in here else value
        if result[name] != here.get(name):
            _drop_absence(result, name)
    if stated["resourceType"] == "AllergyIntolerance":
        _complete_statuses(result, here, stated, defaults)
        _drop_other_onsets(result, stated)
    is_generated = here.get("text", {}).get("status") in _NARRATIVES
    if is_generated and result != here:
        del result["text"]
    return result


def _drop_absence(result: dict[str, Any], name: str) -> None:
    """Take away that an element is absent, now that it is there."""
    beside = result.get(f"_{name}")
    if isinstance(beside, dict):
        kept = [
            extension
            for extension in beside.get("extension", ())
            if extension.get("url") != _ABSENT
        ]
        del result[f"_{name}"]
        rest = {part: value for part, value in beside.items() if part != "extension"}
        rest |= {"extension": kept} if kept else {}
        if rest:
            result[f"_{name}"] = rest


def _all_of(here: Sequence[Any], stated: Sequence[Any]) -> list[Any]:
    """Return a list with what is stated added to it."""
    return [*here, *(value for value in stated if value not in here)]


def _identifiers(
    here: Sequence[Mapping[str, Any]], stated: Sequence[Mapping[str, Any]]
) -> list[Any]:
    known = {(identifier.get("system"), identifier.get("value")) for identifier in here}
    return [
        *here,
        *(
            identifier
            for identifier in stated
            if (identifier.get("system"), identifier.get("value")) not in known
        ),
    ]


def _moment(here: str, stated: str) -> str:
    """Return a date or time; one that only says less than the one here changes nothing."""
    return here if here.startswith(stated) else stated


def _gender(here: str, stated: str) -> str:
    return here if stated == "unknown" else stated


# Names of patients.


def _names(here: Sequence[dict[str, Any]], stated: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the names of a patient; the one that is in use changes, the others stay."""
    (said,) = stated
    known = [name for name in here if any(part in name for part in _OF_THE_NAME)]
    if any(adds_nothing(said, name) for name in known):
        return [*here]
    in_use = sorted(
        (name for name in known if _is_in_use(name) and _has_parts(name)),
        key=lambda name: _CURRENT_USES.index(name.get("use")),
    )
    changed = next(
        (name for name in in_use if may_be_called({"name": [name]}, {"name": [said]})), None
    )
    if changed is None or not _is_comparable(changed, said):
        return [*known, said]
    return [_renamed(name, said) if name is changed else name for name in known]


def _is_in_use(name: Mapping[str, Any]) -> bool:
    return name.get("use") in _CURRENT_USES and "end" not in name.get("period", {})


def _has_parts(name: Mapping[str, Any]) -> bool:
    return "family" in name or "given" in name


def _is_comparable(name: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Say whether two names are in one script."""
    return _is_latin(name) == _is_latin(other)


def _is_latin(name: Mapping[str, Any]) -> bool:
    words = "".join([name.get("family") or "", *filter(None, name.get("given", ()))])
    return all(ord(letter) < 0x0250 or not letter.isalpha() for letter in words)


def _renamed(name: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return a name with the parts that are stated; the others stay."""
    parts = {**stated}
    if "given" in parts and adds_nothing({"given": parts["given"]}, name):
        # Fewer given names, or initials.
        del parts["given"]
    beside = {f"_{part}" for part in parts}
    kept = {part: value for part, value in name.items() if part not in {"text", *beside}}
    return {**kept, **parts}


# Allergies.


def _is_same_substance(here: Mapping[str, Any], stated: Mapping[str, Any]) -> bool:
    known, said = here.get("code"), stated.get("code", {})
    return not known or _says_nothing(said) or _is_same_concept(known, said)


def _says_nothing(concept: Mapping[str, Any]) -> bool:
    return concept.get("coding") == [NO_INFORMATION]


def _concept(here: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return a concept; one that is the same keeps what is known of it."""
    if _says_nothing(stated):
        return {**here}
    if not _is_same_concept(here, stated):
        return {**stated}
    codes = {_code(coding) for coding in here.get("coding", ())}
    added = [coding for coding in stated.get("coding", ()) if _code(coding) not in codes]
    coding = [*here.get("coding", ()), *added]
    return {**stated, **here, **({"coding": coding} if coding else {})}


def _is_same_concept(concept: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(_words(concept) & _words(other)) or bool(
        {_code(coding) for coding in concept.get("coding", ())}
        & {_code(coding) for coding in other.get("coding", ())}
    )


def _code(coding: Mapping[str, Any]) -> tuple[Any, Any]:
    return coding.get("system"), coding.get("code")


def _words(concept: Mapping[str, Any]) -> set[str]:
    """Return what a concept is called."""
    displays = (coding.get("display") for coding in concept.get("coding", ()))
    return {name.casefold() for name in (concept.get("text"), *displays) if name}


def _reactions(here: Sequence[dict[str, Any]], stated: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the reactions of an allergy.

    A row without a severity does not take it away. A reaction with more than a table can say
    stays, and what the row says that is not known yet is added.
    """
    (said,) = stated
    is_severity_alone = said["manifestation"] == [{"coding": [UNKNOWN_REACTION.coding()]}]
    if len(here) == 1 and set(here[0]) <= _OF_A_REACTION:
        result = {**here[0], **said}
        if is_severity_alone and "severity" in said:
            result["manifestation"] = here[0]["manifestation"]
        return [result]
    severities = {reaction.get("severity") for reaction in here}
    known = [concept for reaction in here for concept in reaction.get("manifestation", ())]
    is_known = is_severity_alone or all(
        any(_is_same_concept(concept, other) for other in known)
        for concept in said["manifestation"]
    )
    if is_known and said.get("severity") in {None, *severities}:
        return [*here]
    return _all_of(here, [said])


def _notes(here: Sequence[dict[str, Any]], stated: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the notes; a note of a table replaces one of a table."""
    known = {note.get("text") for note in here}
    if all(note["text"] in known for note in stated):
        return [*here]
    if len(here) == 1 and set(here[0]) <= _OF_A_NOTE:
        return [*stated]
    return _all_of(here, stated)


def _complete_statuses(
    result: dict[str, Any],
    here: Mapping[str, Any],
    stated: Mapping[str, Any],
    defaults: Collection[str],
) -> None:
    """Let the statuses fit together: FHIR R4 ait-1, ait-2."""
    is_stated = "clinicalStatus" in stated and "clinicalStatus" not in defaults
    was = _status(here, "verificationStatus")
    now = _status(stated, "verificationStatus")
    if now == "entered-in-error":
        result.pop("clinicalStatus", None)
    elif was == "entered-in-error" and not now:
        if is_stated:
            # What has a clinical status was no error.
            del result["verificationStatus"]
        else:
            result.pop("clinicalStatus", None)
    elif was in _NOT_VALID and now not in (None, *_NOT_VALID):
        # It was inactive, or had no status, because it was not valid.
        result["clinicalStatus"] = stated["clinicalStatus"]


def _status(resource: Mapping[str, Any], name: str) -> str | None:
    codings = resource.get(name, {}).get("coding", ())
    return next((coding.get("code") for coding in codings), None)


def _drop_other_onsets(result: dict[str, Any], stated: Mapping[str, Any]) -> None:
    """Leave one onset: FHIR has a date, an age, a period, a range or words."""
    if "onsetDateTime" in stated:
        for name in [name for name in result if name.lstrip("_").startswith("onset")]:
            if name.lstrip("_") != "onsetDateTime":
                del result[name]


# Documents.


def _references(here: Sequence[Any], stated: Sequence[Any]) -> list[Any]:
    """Return references to people; one with the same name or id keeps what is known of it."""
    return [
        next((known for known in here if _is_same_reference(known, said)), said) for said in stated
    ]


def _reference(here: dict[str, Any], stated: dict[str, Any]) -> dict[str, Any]:
    return here if _is_same_reference(here, stated) else stated


def _is_same_reference(here: Mapping[str, Any], stated: Mapping[str, Any]) -> bool:
    return all(here.get(name) == value for name, value in stated.items())


def _contents(here: Sequence[dict[str, Any]], stated: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the contents of a document; several of another source stay beside the row's."""
    (said,) = stated
    attachment = said["attachment"]
    digest = sha1(base64.b64decode(attachment["data"]))
    for place, content in enumerate(here):
        known = content.get("attachment", {})
        if known.get("hash") == digest:
            title = {name: attachment[name] for name in ("title",) if name in attachment}
            merged = {**content, "attachment": {**known, **title}}
            return [*here[:place], merged, *here[place + 1 :]]
    if len(here) != 1:
        return [*here, said]
    title = here[0].get("attachment", {}).get("title")
    kept = {"title": title} if title else {}
    return [{"attachment": {**kept, **attachment}}]


def _context(here: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**here, **stated}
    if "period" in stated:
        merged["period"] = {**here.get("period", {}), **stated["period"]}
    if "encounter" in stated:
        merged["encounter"] = _references(here.get("encounter", ()), stated["encounter"])
    return merged


_MERGES: Mapping[str, Callable[[Any, Any], Any]] = {
    "identifier": _identifiers,
    "name": _names,
    "birthDate": _moment,
    "gender": _gender,
    "code": _concept,
    "type": lambda here, stated: stated if isinstance(stated, str) else _concept(here, stated),
    "reaction": _reactions,
    "note": _notes,
    "onsetDateTime": _moment,
    "recordedDate": _moment,
    "date": _moment,
    "patient": _reference,
    "subject": _reference,
    "encounter": _reference,
    "recorder": _reference,
    "custodian": _reference,
    "author": _references,
    "content": _contents,
    "context": _context,
}
