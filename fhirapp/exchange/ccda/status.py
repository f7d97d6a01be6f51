"""Whether an allergy still stands, and whether it was ever true.

Sources: C-CDA R2.1, Allergy Status Observation and Allergy Concern Act; HL7 C-CDA on FHIR 2.0.0,
CF-AllergyStatus; FHIR R4 allergyintolerance, ait-1 and ait-2; service.md 2.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fhirapp.exchange.ccda.narrative import Texts, unique
from fhirapp.exchange.ccda.reactions import severities_words_of as words_of
from fhirapp.exchange.ccda.substances import is_none_known, is_refuted, observed, says_something
from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import code_in, date_time, has_code
from fhirapp.fhir.terminology import ALLERGY_CLINICAL, ALLERGY_VERIFICATION
from fhirapp.search.string import fold

_STATUSES = {"55561003": "active", "73425007": "inactive", "413322009": "resolved"}
# The gravest first: it counts where several are recorded.
_GRAVEST = ("active", "inactive", "resolved")


def put_status(
    allergy: dict[str, Any],
    observation: Element,
    concern: Element | None,
    texts: Texts,
    *,
    cell: str,
    is_linked: bool,
    by_laymen: bool,
) -> Iterator[str]:
    """Set clinicalStatus and verificationStatus; yield the words of what differs from that.

    service.md 2.3: what is on the patient's chart is confirmed; not so what the patient says, or
    what nobody says. What is refuted is no risk: a search for active allergies does not find it.
    cell is the status that the narrative has; is_linked: whether the allergy points there. Where
    it does not, that can only make it graver.
    """
    if "nullified" in (_code(observation), _code(concern)):
        allergy["verificationStatus"] = _coded(ALLERGY_VERIFICATION, "entered-in-error")
        return
    refuted = is_refuted(observation, concern, allergy)
    coded, unclear = _observed(observation, concern, texts)
    narrative = fold(cell).removeprefix("status: ")
    order = _GRAVEST
    if is_none_known(allergy["code"]):
        # That none is known holds least where any place says that it no longer does.
        order = _GRAVEST[::-1]
    elif not coded and _code(concern) in ("active", "suspended"):
        coded = ["active"]
    statuses = coded or _by_end(observation)
    if is_linked or statuses or narrative == order[0]:
        statuses = [*statuses, narrative]
    # Without any an allergy is active, whatever the statusCode of its concern says.
    status = next((one for one in order if one in statuses), "active")
    allergy["clinicalStatus"] = _coded(ALLERGY_CLINICAL, "inactive" if refuted else status)
    certainty = "unconfirmed" if by_laymen or not says_something(allergy["code"]) else "confirmed"
    allergy["verificationStatus"] = _coded(
        ALLERGY_VERIFICATION, "refuted" if refuted else certainty
    )
    differing = [one for one in _GRAVEST if one in coded and one != status]
    differing += [cell] if narrative in _GRAVEST and narrative != status else []
    if status == "active" and (end := _end(observation)):
        differing.append(end)
    if differing or unclear:
        yield "; ".join(unique([*differing, *unclear]))


def _by_end(observation: Element) -> list[str]:
    """Return that an allergy is resolved where its effectiveTime has an end.

    The statusCode of a completed concern does not say that: the concern is no longer tracked, the
    allergy has not ended.
    """
    return ["resolved"] if _end(observation) else []


def _end(observation: Element) -> str:
    """Return the end of an allergy in words; "" where it has none."""
    end = observation.first("effectiveTime/high")
    if end is None:
        return ""
    day = date_time(end.get("value"))
    return (
        f"ended {day}" if day else "ended" if end.get("value") or end.null_flavor == "UNK" else ""
    )


def _observed(
    observation: Element, concern: Element | None, texts: Texts
) -> tuple[list[str], list[str]]:
    """Return the statuses that are observed, and the words of those that are none of FHIR's.

    Those of the allergy come before those of its concern, which count where it has none.
    """
    for statement in filter(None, (observation, concern)):
        found, unclear = [], []
        for one in observed([statement], "2.16.840.1.113883.10.20.22.4.28", "33999-4"):
            value = one.first("value")
            codes = [status for code, status in _STATUSES.items() if has_code(value, code)]
            words = words_of(value, texts) or [texts.of(one.first("text"))]
            named = [status for word in words if (status := fold(word)) in _GRAVEST]
            found += codes or named
            unclear += [] if codes or named else [word for word in words if word]
        if found or unclear:
            return found, unclear
    return [], []


def _code(statement: Element | None) -> str:
    return code_in(statement.first("statusCode")) if statement is not None else ""


def _coded(system: str, code: str) -> dict[str, Any]:
    return {"coding": [{"system": system, "code": code}]}
