"""The clinical status and the verification status of an allergy.

Sources: C-CDA R2.1, Allergy Status Observation and Allergy Concern Act; HL7 C-CDA on FHIR 2.0.0,
CF-AllergyStatus; FHIR R4 allergyintolerance, ait-1 and ait-2; service.md 2.3.
"""

from __future__ import annotations

from typing import Any

from fhirapp.exchange.ccda.entries import Entry
from fhirapp.exchange.ccda.narrative import Column, unique
from fhirapp.exchange.ccda.reactions import words_of_value
from fhirapp.exchange.ccda.substances import is_none_known, is_refuted, observed, says_something
from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import code_in, date_time, has_code
from fhirapp.fhir.terminology import ALLERGY_CLINICAL, ALLERGY_VERIFICATION
from fhirapp.search.string import fold

# Template of C-CDA: Allergy Status Observation.
_STATUS = "2.16.840.1.113883.10.20.22.4.28"
_STATUSES = {"55561003": "active", "73425007": "inactive", "413322009": "resolved"}
# The gravest first: it counts where several are recorded.
_GRAVEST = ("active", "inactive", "resolved")


def put_status(allergy: dict[str, Any], entry: Entry, *, by_laymen: bool) -> str:
    """Set clinicalStatus and verificationStatus; return the words of what differs from that.

    service.md 2.3: what is on the patient's chart is confirmed, but not what the patient says, or
    what names nothing. What is refuted is no risk: a search for active allergies does not find it.
    A status in the narrative where the entry does not point there can only make it graver.
    """
    observation, concern = entry.observation, entry.concern
    if "nullified" in (_code(observation), _code(concern)):
        allergy["verificationStatus"] = _coded(ALLERGY_VERIFICATION, "entered-in-error")
        return ""
    refuted = is_refuted(observation, concern, allergy)
    coded, unclear = _observed(entry)
    cell = entry.cell(Column.STATUS)
    narrative = fold(cell).removeprefix("status: ")
    order = _GRAVEST
    if is_none_known(allergy["code"]):
        # That none is known holds least where any place says that it no longer does.
        order = _GRAVEST[::-1]
    elif not coded and _code(concern) in ("active", "suspended"):
        coded = ["active"]
    end = _end(observation)
    # The statusCode of a completed concern does not say that the allergy is resolved: the concern
    # is no longer tracked, the allergy has not ended.
    statuses = coded or (["resolved"] if end else [])
    if (entry.is_linked and entry.is_only) or statuses or narrative == order[0]:
        statuses = [*statuses, narrative]
    # Without any an allergy is active, whatever the statusCode of its concern says.
    status = next((known for known in order if known in statuses), "active")
    allergy["clinicalStatus"] = _coded(ALLERGY_CLINICAL, "inactive" if refuted else status)
    certainty = "unconfirmed" if by_laymen or not says_something(allergy["code"]) else "confirmed"
    allergy["verificationStatus"] = _coded(
        ALLERGY_VERIFICATION, "refuted" if refuted else certainty
    )
    differing = [known for known in _GRAVEST if known in coded and known != status]
    if narrative in _GRAVEST and narrative != status:
        differing.append(cell)
    if status == "active" and end:
        differing.append(end)
    return "; ".join(unique([*differing, *unclear]))


def _end(observation: Element) -> str:
    """Return the end of an allergy in words; "" where it has none."""
    end = observation.first("effectiveTime/high")
    if end is None:
        return ""
    if day := date_time(end.get("value")):
        return f"ended {day}"
    return "ended" if end.get("value") or end.null_flavor == "UNK" else ""


def _observed(entry: Entry) -> tuple[list[str], list[str]]:
    """Return the statuses that are observed, and the words of those that are none of FHIR's.

    Those of the allergy come before those of its concern, which count where it has none.
    """
    for statement in entry.statements:
        statuses: list[str] = []
        unclear: list[str] = []
        for observation in observed([statement], _STATUS, "33999-4"):
            value = observation.first("value")
            codes = [status for code, status in _STATUSES.items() if has_code(value, code)]
            words = words_of_value(value, entry.texts)
            words = words or [entry.texts.of(observation.first("text"))]
            named = [status for text in words if (status := fold(text)) in _GRAVEST]
            statuses += codes or named
            unclear += [] if codes or named else filter(None, words)
        if statuses or unclear:
            return statuses, unclear
    return [], []


def _code(statement: Element | None) -> str:
    return code_in(statement.first("statusCode")) if statement is not None else ""


def _coded(system: str, code: str) -> dict[str, Any]:
    return {"coding": [{"system": system, "code": code}]}
