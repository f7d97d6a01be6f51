"""To what somebody is allergic; or that no allergy is known.

Sources: C-CDA R2.1, Allergy - Intolerance Observation; HL7 C-CDA on FHIR 2.0.0,
CF-NoKnownAllergies; service.md 2.3; decisions 2.19: NI never means "no allergy".
"""

from __future__ import annotations

from typing import Any

from fhirapp.exchange.ccda.texts import Texts, plain
from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import concept, has_code, null_coding
from fhirapp.fhir.systems import NO_KNOWN_DRUG_ALLERGY, SNOMED_CT

_NONE_KNOWN = {
    NO_KNOWN_DRUG_ALLERGY: "No known drug allergy",
    "429625007": "No known food allergy",
    "716186003": "No known allergy",
}
# What is said when an observation without a substance is negated, by its value. That nobody has a
# propensity says no less than that nobody has an allergy; of an intolerance that is not so.
_NEGATED = {
    "416098002": NO_KNOWN_DRUG_ALLERGY,
    "419511003": NO_KNOWN_DRUG_ALLERGY,
    "414285001": "429625007",
    "418471000": "429625007",
    "419199007": "716186003",
    "418038007": "716186003",
    "420134006": "716186003",
}
# Codes that say it themselves, whatever stands beside them; some systems negate these too.
_SAY_NONE = frozenset({*_NONE_KNOWN, "160244002", "428607008"})
# A value that only says of what kind it is: the substance has to be told elsewhere.
_KINDS = frozenset({*_NEGATED, "235719002", "59037007", "426232007"})


def put_substance(
    allergy: dict[str, Any], observation: Element, substance: Element | None, texts: Texts
) -> None:
    """Set code: the substance, or that none is known; and the criticality of that."""
    code = _substance(substance, texts)
    value = observation.first("value")
    if code is None or not says_something(code):
        instead = _without(observation, value, texts)
        code = instead or _nothing_known(code, observation)
    allergy["code"] = code
    if NO_KNOWN_DRUG_ALLERGY in _snomed(code):
        # service.md 2.3
        allergy["criticality"] = "unable-to-assess"


def is_refuted(observation: Element, allergy: dict[str, Any]) -> bool:
    """Say whether the observation denies what the allergy's code says."""
    code = allergy["code"]
    return is_negated(observation) and says_something(code) and not _snomed(code) & _SAY_NONE


def is_negated(observation: Element) -> bool:
    return observation.get("negationInd") in ("true", "1")


def _substance(participant: Element | None, texts: Texts) -> dict[str, Any] | None:
    entity = participant.first("participantRole/playingEntity") if participant else None
    if entity is None:
        return None
    found = concept(entity.first("code"), texts) or {}
    if "text" not in found:
        displays = (one["display"] for one in found.get("coding", ()) if _is_coded(one))
        named = (plain(one) for one in entity.all("name"))
        # service.md 2.3: text holds a name.
        if text := next(filter(None, [*named, *displays]), ""):
            found["text"] = text
    return found or None


def _is_coded(coding: dict[str, Any]) -> bool:
    return "display" in coding and coding != null_coding(coding["code"])


def says_something(code: dict[str, Any]) -> bool:
    """Say whether a code names something, and not only why it does not."""
    listed = code.get("coding", ())
    return "text" in code or any(one != null_coding(one["code"]) for one in listed)


def _without(observation: Element, value: Element | None, texts: Texts) -> dict[str, Any] | None:
    """Return what an observation without a substance says by its value alone."""
    if value is None:
        return None
    if is_negated(observation):
        for kind, code in _NEGATED.items():
            if has_code(value, kind):
                none_known = {"system": SNOMED_CT, "code": code, "display": _NONE_KNOWN[code]}
                return {"coding": [none_known], "text": _NONE_KNOWN[code]}
        return concept(value, texts)
    # Some name the substance here: "allergy to penicillin".
    return None if has_code(value, *_KINDS) or not value.get("code") else concept(value, texts)


def _nothing_known(code: dict[str, Any] | None, observation: Element) -> dict[str, Any]:
    """Return why nothing is said of the substance. service.md 2.3: NI stands for no reason."""
    reason = code["coding"][0]["code"] if code else observation.null_flavor
    return {"coding": [null_coding(reason) or null_coding("NI")]}


def _snomed(code: dict[str, Any]) -> set[str]:
    return {one["code"] for one in code.get("coding", ()) if one.get("system") == SNOMED_CT}
