"""The visit that a document is about: encompassingEncounter as Encounter.

Sources: CDA R2 §4.2.3.2; HL7 C-CDA on FHIR 2.0.0, encounters; US Core Encounter.
"""

from __future__ import annotations

from typing import Any

from fhirapp.exchange.ccda import times
from fhirapp.exchange.ccda.contact import addresses
from fhirapp.exchange.ccda.oids import ACT_CODE
from fhirapp.exchange.ccda.people import organization, practitioner
from fhirapp.exchange.ccda.record import Record
from fhirapp.exchange.ccda.texts import plain
from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import absent, codings, concept, extended, identifiers, key
from fhirapp.fhir.systems import CT

_PARTICIPATION = f"{CT}v3-ParticipationType"
_RESPONSIBLE = {
    "coding": [{"system": _PARTICIPATION, "code": "PPRF", "display": "primary performer"}]
}
_TYPES = {
    "ADM": "admitter",
    "ATND": "attender",
    "CON": "consultant",
    "DIS": "discharger",
    "REF": "referrer",
}


def add_encounter(root: Element, document: dict[str, Any], record: Record) -> None:
    """Add the Encounter, and to the DocumentReference which it is, when and where."""
    visit = root.first("componentOf/encompassingEncounter")
    if visit is None or visit.null_flavor:
        return
    facility = visit.first("location/healthCareFacility")
    period = times.period(visit.first("effectiveTime"))
    identified = identifiers(visit.all("id"))
    keys = [known for one in identified if (known := key(one))]
    found: dict[str, Any] = {
        "resourceType": "Encounter",
        "id": record.own_identity("Encounter", *(keys[0] if keys else (record.key,))),
        "identifier": identified,
        "status": _status(period),
        "class": _class(visit),
        "type": _types(visit, record),
        "subject": {"reference": record.patient},
        "participant": _participants(visit, record),
        "period": period,
        "hospitalization": _hospitalization(visit, record),
        "location": _location(facility),
        "serviceProvider": _provider(facility, record),
    }
    name = record.add({what: value for what, value in found.items() if value})
    context = document.setdefault("context", {})
    context["encounter"] = [{"reference": name}]
    if period:
        # service.md 2.2: context.period is the encounter's.
        context["period"] = period
    kind = concept(facility.first("code"), record.texts) if facility is not None else None
    if kind:
        context["facilityType"] = kind


def _status(period: dict[str, Any] | None) -> str:
    """Return whether the visit is over; of one that only began, nobody said."""
    return "finished" if period and "end" in period else "unknown"


def _class(visit: Element) -> dict[str, Any]:
    code = visit.first("code")
    listed = codings(code) if code is not None else []
    known = [one for one in listed if one.get("system") == ACT_CODE]
    return known[0] if known else extended(absent(code.null_flavor if code is not None else ""))


def _types(visit: Element, record: Record) -> list[dict[str, Any]]:
    """Return what else than its class is said of the kind of visit."""
    found = concept(visit.first("code"), record.texts) or {}
    others = [one for one in found.get("coding", ()) if one.get("system") != ACT_CODE]
    if others:
        return [{**found, "coding": others}]
    # US Core requires a type.
    return [{"text": found["text"]} if "text" in found else extended(absent())]


def _participants(visit: Element, record: Record) -> list[dict[str, Any]]:
    found = []
    for path in ("responsibleParty", "encounterParticipant"):
        for one in visit.all(path):
            assigned = one.first("assignedEntity")
            individual = practitioner(assigned, record) if assigned is not None else None
            if individual:
                found.append({"type": [_participation(one)], "individual": individual})
    return found


def _participation(one: Element) -> dict[str, Any]:
    code = one.get("typeCode")
    if code not in _TYPES:
        return _RESPONSIBLE
    return {"coding": [{"system": _PARTICIPATION, "code": code, "display": _TYPES[code]}]}


def _hospitalization(visit: Element, record: Record) -> dict[str, Any] | None:
    for name in ("dischargeDispositionCode", "sdtc:dischargeDispositionCode"):
        if disposition := concept(visit.first(name), record.texts):
            return {"dischargeDisposition": disposition}
    return None


def _location(facility: Element | None) -> list[dict[str, Any]]:
    """Return the place by its name and number: no Location is served."""
    if facility is None:
        return []
    place = facility.first("location")
    named = plain(name) if place is not None and (name := place.first("name")) else ""
    if not named and place is not None:
        found = addresses(place.all("addr"))
        named = ", ".join([*found[0].get("line", ()), found[0].get("city", "")]) if found else ""
    reference: dict[str, Any] = {"display": named.strip(", ")} if named else {}
    if identified := identifiers(facility.all("id")):
        reference["identifier"] = identified[0]
    return [{"location": reference}] if reference else []


def _provider(facility: Element | None, record: Record) -> dict[str, Any] | None:
    if facility is None:
        return None
    return organization(facility.first("serviceProviderOrganization"), record)
