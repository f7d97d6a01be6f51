"""Updates a stored record with the values of a table row.

An empty cell, and a column that a table does not have, say nothing, so they change nothing.
Reactions, notes, codes and names of an allergy stay beside those that the row adds.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from fhirapp.clinical.assertion import AssertionKind, assertion_of, substance
from fhirapp.clinical.identity import keys, other_names
from fhirapp.features.imports.tables.cells import NO_INFORMATION, UNKNOWN_REACTION
from fhirapp.fhir.identity import adds_nothing, may_be_called
from fhirapp.fhir.terminology import DATA_ABSENT_REASON
from fhirapp.fhir.words import names_in_order
from fhirapp.search.string import fold
from fhirapp.store.prepare import sha1

_OF_THE_NAME = ("family", "given", "text")
# The uses of a name that people are called by; None is a name without use.
_CURRENT_USES = ("official", "usual", None)
# Narratives that hold no more than the elements, and would contradict them after a change.
_NARRATIVES = ("generated", "extensions")
_NOT_VALID = ("refuted", "entered-in-error")
_NOTHING_KNOWN = (AssertionKind.NO_INFORMATION, AssertionKind.NOT_ASKED)


def merge_row(
    current: Mapping[str, Any], stated: Mapping[str, Any], defaults: Collection[str]
) -> dict[str, Any]:
    """Return the record that is here with what a row states of it.

    defaults names the elements of stated that no cell states. A row about another substance
    replaces a record that is no valid allergy; others are checked by is_other_allergy before.
    """
    if stated["resourceType"] == "AllergyIntolerance" and not _is_same_substance(current, stated):
        return {**stated}
    result = {**current}
    for name, value in stated.items():
        if name in defaults and name in current:
            continue
        merge = _MERGES.get(name)
        result[name] = merge(current[name], value) if merge and name in current else value
        if result[name] != current.get(name):
            _drop_absence(result, name)
    if stated["resourceType"] == "AllergyIntolerance":
        _complete_statuses(result, current, stated, defaults)
        _drop_other_onsets(result, stated)
    is_generated = current.get("text", {}).get("status") in _NARRATIVES
    if is_generated and result != current:
        del result["text"]
    return result


def _drop_absence(result: dict[str, Any], name: str) -> None:
    """Remove the data-absent-reason of an element that now has a value."""
    beside = result.get(f"_{name}")
    if isinstance(beside, dict):
        extensions = beside.get("extension", ())
        kept = [known for known in extensions if known.get("url") != DATA_ABSENT_REASON]
        del result[f"_{name}"]
        rest = {part: value for part, value in beside.items() if part != "extension"}
        rest |= {"extension": kept} if kept else {}
        if rest:
            result[f"_{name}"] = rest


def _identifiers(
    current: Sequence[Mapping[str, Any]], stated: Sequence[Mapping[str, Any]]
) -> list[Any]:
    known = {(identifier.get("system"), identifier.get("value")) for identifier in current}
    added = [item for item in stated if (item.get("system"), item.get("value")) not in known]
    return [*current, *added]


def _moment(current: str, stated: str) -> str:
    """Return a date or time; one that only says less than the one here changes nothing."""
    return current if current.startswith(stated) else stated


def _gender(current: str, stated: str) -> str:
    return current if stated == "unknown" else stated


# Names of patients.


def _names(current: Sequence[dict[str, Any]], stated: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the names of a patient; the one that is in use changes, the others stay."""
    (stated_name,) = stated
    known = [name for name in current if any(part in name for part in _OF_THE_NAME)]
    if any(adds_nothing(stated_name, name) for name in known):
        return [*current]
    in_use = names_in_order(name for name in known if _is_in_use(name) and _has_parts(name))
    changed = next(
        (name for name in in_use if may_be_called({"name": [name]}, {"name": [stated_name]})), None
    )
    # Names in two scripts are two names.
    if changed is None or _is_latin(changed) != _is_latin(stated_name):
        return [*known, stated_name]
    return [_renamed(name, stated_name) if name is changed else name for name in known]


def _is_in_use(name: Mapping[str, Any]) -> bool:
    return name.get("use") in _CURRENT_USES and "end" not in name.get("period", {})


def _has_parts(name: Mapping[str, Any]) -> bool:
    return "family" in name or "given" in name


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


def is_other_allergy(current: Mapping[str, Any], stated: Mapping[str, Any]) -> bool:
    """Say whether a row would replace a valid allergy by one to another substance, or by none."""
    return (
        stated["resourceType"] == "AllergyIntolerance"
        and _status(current, "verificationStatus") != "entered-in-error"
        and assertion_of(current).kind in (AssertionKind.ALLERGY, AssertionKind.WORDS_ONLY)
        and not _is_same_substance(current, stated)
    )


def _is_same_substance(current: Mapping[str, Any], stated: Mapping[str, Any]) -> bool:
    known, code = substance(current), stated["code"]
    if _says_nothing(code):
        return True
    kinds = [assertion_of(entry).kind is AssertionKind.NONE_KNOWN for entry in (current, stated)]
    if kinds[0] != kinds[1]:
        return False
    return not _is_named(known) or bool((keys(known) | other_names(known)) & keys(code))


def _is_named(code: Mapping[str, Any]) -> bool:
    """Say whether a code names a substance, not only that it is unknown, or a drug or food."""
    return bool(keys(code)) and assertion_of({"code": code}).kind not in _NOTHING_KNOWN


def _says_nothing(concept: Mapping[str, Any]) -> bool:
    return concept.get("coding") == [NO_INFORMATION]


def _substance(current: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the code of an allergy: all codes and names of the one substance."""
    if _says_nothing(stated):
        return {**current}
    if not _is_named(current):
        return {**stated}
    merged, name = _with_codes(current, stated), stated["text"]
    if fold(name) not in _words(merged):
        merged["coding"] = [*merged.get("coding", ()), {"display": name}]
    return merged


def _concept(current: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return a concept; one that is the same keeps what is known of it."""
    return _with_codes(current, stated) if _is_same_concept(current, stated) else {**stated}


def _with_codes(current: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return a concept with the codes that are stated added to it."""
    codes = {_code(coding) for coding in current.get("coding", ())}
    added = [coding for coding in stated.get("coding", ()) if _code(coding) not in codes]
    coding = [*current.get("coding", ()), *added]
    return {**stated, **current, **({"coding": coding} if coding else {})}


def _is_same_concept(concept: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(_words(concept) & _words(other)) or bool(
        {_code(coding) for coding in concept.get("coding", ())}
        & {_code(coding) for coding in other.get("coding", ())}
    )


def _code(coding: Mapping[str, Any]) -> tuple[Any, Any]:
    return coding.get("system"), coding.get("code")


def _words(concept: Mapping[str, Any]) -> set[str]:
    """Return what a concept is called, without case and accents."""
    displays = (coding.get("display") for coding in concept.get("coding", ()))
    return {fold(name) for name in (concept.get("text"), *displays) if name}


def _reactions(current: Sequence[dict[str, Any]], stated: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the reactions of an allergy: those of the row are added.

    A severity that is stated replaces that of the one reaction it is about: the one with the same
    manifestation, or the only one where the row does not name the manifestation.
    """
    (stated_reaction,) = stated
    severity = stated_reaction.get("severity")
    result, added = [*current], []
    for concept in stated_reaction["manifestation"]:
        is_unknown = _is_same_concept(concept, {"coding": [UNKNOWN_REACTION.coding()]})
        about = [
            place
            for place, reaction in enumerate(current)
            if is_unknown or _is_one_of(concept, reaction["manifestation"])
        ]
        if about and severity in (None, *(current[place].get("severity") for place in about)):
            continue
        if len(about) == 1 and (
            is_unknown
            or all(
                _is_one_of(other, stated_reaction["manifestation"])
                for other in current[about[0]]["manifestation"]
            )
        ):
            result[about[0]] = {**current[about[0]], "severity": severity}
        else:
            added.append(concept)
    return [*result, {**stated_reaction, "manifestation": added}] if added else result


def _is_one_of(concept: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> bool:
    return any(_is_same_concept(concept, other) for other in others)


def _notes(current: Sequence[dict[str, Any]], stated: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the notes, with those of the row that are not there yet."""
    known = {note.get("text") for note in current}
    return [*current, *(note for note in stated if note["text"] not in known)]


def _complete_statuses(
    result: dict[str, Any],
    current: Mapping[str, Any],
    stated: Mapping[str, Any],
    defaults: Collection[str],
) -> None:
    """Let the statuses fit together: FHIR R4 ait-1, ait-2."""
    is_stated = "clinicalStatus" in stated and "clinicalStatus" not in defaults
    was = _status(current, "verificationStatus")
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
        for name in [*result]:
            if name.lstrip("_").startswith("onset") and name.lstrip("_") != "onsetDateTime":
                del result[name]


# Documents.


def _references(current: Sequence[Any], stated: Sequence[Any]) -> list[Any]:
    """Return references to people; one with the same name or id keeps what is known of it."""
    return [
        next((known for known in current if _is_same_reference(known, new)), new) for new in stated
    ]


def _reference(current: dict[str, Any], stated: dict[str, Any]) -> dict[str, Any]:
    return current if _is_same_reference(current, stated) else stated


def _is_same_reference(current: Mapping[str, Any], stated: Mapping[str, Any]) -> bool:
    return all(current.get(name) == value for name, value in stated.items())


def _contents(current: Sequence[dict[str, Any]], stated: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the contents of a document; several of another source stay beside the row's."""
    (stated_content,) = stated
    attachment = stated_content["attachment"]
    digest = sha1(base64.b64decode(attachment["data"]))
    for place, content in enumerate(current):
        known = content.get("attachment", {})
        if known.get("hash") == digest:
            title = {name: attachment[name] for name in ("title",) if name in attachment}
            merged = {**content, "attachment": {**known, **title}}
            return [*current[:place], merged, *current[place + 1 :]]
    if len(current) != 1:
        return [*current, stated_content]
    title = current[0].get("attachment", {}).get("title")
    kept = {"title": title} if title else {}
    return [{"attachment": {**kept, **attachment}}]


def _context(current: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**current, **stated}
    if "period" in stated:
        merged["period"] = {**current.get("period", {}), **stated["period"]}
    if "encounter" in stated:
        merged["encounter"] = _references(current.get("encounter", ()), stated["encounter"])
    return merged


_MERGES: Mapping[str, Callable[[Any, Any], Any]] = {
    "identifier": _identifiers,
    "name": _names,
    "birthDate": _moment,
    "gender": _gender,
    "code": _substance,
    "type": lambda current, new: new if isinstance(new, str) else _concept(current, new),
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
