"""Whether an allergy still stands, and whether it was ever true.

Sources: C-CDA R2.1, Allergy Status Observation and Allergy Concern Act; HL7 C-CDA on FHIR 2.0.0,
CF-AllergyStatus; FHIR R4 allergyintolerance, ait-1 and ait-2; service.md 2.3.
"""

from __future__ import annotations

from typing import Any

from fhirapp.exchange.ccda.statements import observed
from fhirapp.exchange.ccda.substances import is_refuted, says_something
from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import code_in, has_code
from fhirapp.fhir.systems import ALLERGY_CLINICAL, ALLERGY_VERIFICATION

_STATUSES = {"55561003": "active", "73425007": "inactive", "413322009": "resolved"}


def put_status(
    allergy: dict[str, Any], observation: Element, concern: Element | None, *, by_laymen: bool
) -> None:
    """Set clinicalStatus and verificationStatus.

    service.md 2.3: what is on the patient's chart is confirmed; not so what the patient says, or
    what nobody says. What is refuted is no risk: a search for active allergies does not find it.
    """
    if "nullified" in (_code(observation), _code(concern)):
        allergy["verificationStatus"] = _coded(ALLERGY_VERIFICATION, "entered-in-error")
        return
    refuted = is_refuted(observation, allergy)
    allergy["clinicalStatus"] = _coded(
        ALLERGY_CLINICAL, "inactive" if refuted else _clinical(observation, concern)
    )
    certainty = "unconfirmed" if by_laymen or not says_something(allergy["code"]) else "confirmed"
    allergy["verificationStatus"] = _coded(
        ALLERGY_VERIFICATION, "refuted" if refuted else certainty
    )


def _clinical(observation: Element, concern: Element | None) -> str:
    """Return the status that is told; without one an allergy stands, which does no harm."""
    told = observed(observation, "2.16.840.1.113883.10.20.22.4.28", "33999-4")
    value = told.first("value") if told is not None else None
    for code, status in _STATUSES.items():
        if has_code(value, code):
            return status
    if _code(concern) not in ("completed", "aborted"):
        return "active"
    # A concern that is over; with its end known the allergy is gone.
    ended = observation.first("effectiveTime/high")
    is_over = ended is not None and (ended.get("value") or ended.null_flavor == "UNK")
    return "resolved" if is_over else "inactive"


def _code(statement: Element | None) -> str:
    return code_in(statement.first("statusCode")) if statement is not None else ""


def _coded(system: str, code: str) -> dict[str, Any]:
    return {"coding": [{"system": system, "code": code}]}
