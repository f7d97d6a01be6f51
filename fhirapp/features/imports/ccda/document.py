"""The header of a document as DocumentReference, and its encompassing encounter as Encounter.

The document is the attachment, byte for byte. Sources: CDA R2 §4.2; HL7 C-CDA on FHIR 2.0.0,
header; FHIR R4 documentreference; service.md 2.2.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from fhirapp.features.imports.ccda import people, values
from fhirapp.features.imports.ccda.narrative import plain, shortened
from fhirapp.features.imports.ccda.record import CcdaRecord
from fhirapp.features.imports.ccda.tree import NOTHING, CcdaElement
from fhirapp.fhir.identity import key
from fhirapp.fhir.terminology import CT, DOCUMENT_CATEGORY, LOINC

# What HL7's C-CDA on FHIR calls CDA that is sent as it is.
CONTENT_TYPE = "application/cda+xml"
# HL7 Terminology defines the codes; US Core 8.0.0 binds format to a value set of them.
_FORMATS = f"{CT}v3-HL7DocumentFormatCodes"
_US_REALM_HEADER = "2.16.840.1.113883.10.20.22.1.1"
# The version of C-CDA, by that of the header's template; 1.1 has none.
_VERSIONS = {"": "1.1", "2015-08-01": "2.1", "2023-05-01": "2.1"}
_RELATIONS: Mapping[str, str] = values.MAPS["relations"]
_VERSION_NUMBER = "http://hl7.org/fhir/5.0/StructureDefinition/extension-DocumentReference.version"
_CLINICAL_NOTE = {
    "coding": [{"system": DOCUMENT_CATEGORY, "code": "clinical-note", "display": "Clinical Note"}]
}
_CLASSES: Mapping[str, str] = values.MAPS["document_classes"]


def document_reference(
    root: CcdaElement,
    document: bytes,
    document_id: str,
    record: CcdaRecord,
    writers: list[people.Actor],
) -> dict[str, Any]:
    """Return the DocumentReference of a document; encounter and period are put in later."""
    made = root.first("effectiveTime")
    signer = _signer(root, record)
    resource: dict[str, Any] = {
        "resourceType": "DocumentReference",
        "id": document_id,
        "meta": _meta(made),
        "language": values.code_in(root.first("languageCode")),
        "contained": _contained(*writers, *([signer] if signer else [])),
        "extension": _version(root),
        "masterIdentifier": values.identifier(root.first("id") or NOTHING),
        "identifier": values.identifiers(root.all("setId")[:1]),
        "status": "current",
        "docStatus": _doc_status(root),
        # US Core has UNK among the types, for a document that has none.
        "type": values.concept(root.first("code"), record.texts)
        or {"coding": [values.null_coding("UNK")]},
        "category": _categories(root),
        "subject": {"reference": record.patient},
        "author": [writer.reference for writer in writers],
        "authenticator": signer.reference if signer else None,
        "custodian": custodian(root, record),
        "relatesTo": _relations(root, record),
        "securityLabel": _confidentiality(root),
        "content": [_content(root, document)],
        "context": _context(root, record),
    }
    values.put(resource, "date", _date(root))
    return values.present(resource)


def authors(root: CcdaElement, record: CcdaRecord) -> list[people.Actor]:
    """Return who wrote the document, each once."""
    unique: list[people.Actor] = []
    for element in root.all("author"):
        writer = people.author(element, record)
        if writer and all(writer.reference != known.reference for known in unique):
            unique.append(writer)
    return unique


def custodian(root: CcdaElement, record: CcdaRecord) -> dict[str, Any] | None:
    """Return the Reference to the organization that keeps the document."""
    path = "custodian/assignedCustodian/representedCustodianOrganization"
    return people.organization(root.first(path), record)


def _signer(root: CcdaElement, record: CcdaRecord) -> people.Actor | None:
    for path in ("legalAuthenticator", "authenticator"):
        signer = people.actor(root.first(f"{path}/assignedEntity") or NOTHING, record)
        # R4: no other may authenticate.
        if signer and signer.type_name in ("Practitioner", "Organization"):
            return signer
    return None


def _contained(*actors: people.Actor) -> list[dict[str, Any]]:
    by_id = {
        resource["id"]: resource for participant in actors for resource in participant.contained
    }
    return list(by_id.values())


def _meta(made: CcdaElement | None) -> dict[str, Any] | None:
    """Return when this content was made."""
    instant = values.instant(made)
    return {"lastUpdated": instant} if instant else None


def _date(root: CcdaElement) -> CcdaElement | None:
    """Return when the document was made: its own time, else when its last author wrote.

    A day without an hour, which is no instant, is completed by an author who wrote on that day.
    """
    made = root.first("effectiveTime")
    written = values.in_order(participation.first("time") for participation in root.all("author"))
    day = values.date_time((made or NOTHING).get("value"))
    if not day:
        return written[-1] if written else made
    if len(day) != 10:
        return made
    exact = [time for time in written if values.instant(time).startswith(day)]
    return exact[-1] if exact else made


def _version(root: CcdaElement) -> list[dict[str, Any]]:
    written = (root.first("versionNumber") or NOTHING).get("value")
    return [{"url": _VERSION_NUMBER, "valueString": written}] if written else []


def _doc_status(root: CcdaElement) -> str:
    """Say whether the document is final: by its status, or by a signature."""
    written = values.code_in(root.first("sdtc:statusCode"))
    if written == "active":
        return "preliminary"
    if written == "nullified":
        return "entered-in-error"
    is_signed = any(
        signature.get("code") == "S"
        for path in ("legalAuthenticator", "authenticator")
        for signature in root.all(f"{path}/signatureCode")
    )
    return "final" if written == "completed" or is_signed else ""


def _categories(root: CcdaElement) -> list[dict[str, Any]]:
    classes = [
        {"coding": [{"system": LOINC, "code": coding["code"], "display": _CLASSES[coding["code"]]}]}
        for coding in values.codings(root.first("code") or NOTHING)
        if coding.get("system") == LOINC and coding["code"] in _CLASSES
    ]
    return [_CLINICAL_NOTE, *classes]


def _relations(root: CcdaElement, record: CcdaRecord) -> list[dict[str, Any]]:
    related = []
    for related_document in root.all("relatedDocument"):
        code = _RELATIONS.get(related_document.get("typeCode"))
        for element in related_document.all("parentDocument/id") if code else ():
            identified = values.identifier(element) or {}
            if known := key(identified):
                reference = f"DocumentReference/{record.own_identity('DocumentReference', *known)}"
                target = {"reference": reference, "identifier": identified}
                related.append({"code": code, "target": target})
    return related


def _confidentiality(root: CcdaElement) -> list[dict[str, Any]]:
    labels = values.codings(root.first("confidentialityCode") or NOTHING)
    for label in labels:
        # CDA R2 §4.2.1.7: the code is one of these where no other system is named.
        label.setdefault("system", values.CONFIDENTIALITY)
    return [{"coding": labels}] if labels else []


def _content(root: CcdaElement, document: bytes) -> dict[str, Any]:
    attachment: dict[str, Any] = {
        "contentType": CONTENT_TYPE,
        "language": values.code_in(root.first("languageCode")),
        "data": base64.b64encode(document).decode(),
        "title": shortened(plain(root.first("title") or NOTHING)),
    }
    values.put(attachment, "creation", root.first("effectiveTime"))
    content: dict[str, Any] = {"attachment": values.present(attachment)}
    if coded := _format(root):
        content["format"] = coded
    return content


def _format(root: CcdaElement) -> dict[str, Any] | None:
    versions = {
        _VERSIONS.get(template.get("extension"), "")
        for template in root.all("templateId")
        if template.get("root") == _US_REALM_HEADER
    }
    body = root.first("component")
    if not any(versions) or body is None:
        return None
    kind = "nonXMLBody" if body.first("nonXMLBody") is not None else "structuredBody"
    code = f"ccda-{kind}:{max(versions)}"
    return {"system": _FORMATS, "code": f"urn:hl7-org:sdwg:{code}", "display": code}


def _context(root: CcdaElement, record: CcdaRecord) -> dict[str, Any]:
    events = root.all("documentationOf/serviceEvent")
    context: dict[str, Any] = {
        "event": [
            kind for event in events if (kind := values.concept(event.first("code"), record.texts))
        ],
        "period": next(
            filter(None, (values.period(event.first("effectiveTime")) for event in events)), None
        ),
    }
    return values.present(context)


_PARTICIPATION = f"{CT}v3-ParticipationType"
_RESPONSIBLE = {
    "coding": [{"system": _PARTICIPATION, "code": "PPRF", "display": "primary performer"}]
}
_PARTICIPANT_TYPES: Mapping[str, str] = values.MAPS["participations"]


def add_encounter(root: CcdaElement, document: dict[str, Any], record: CcdaRecord) -> None:
    """Add the Encounter, and to the DocumentReference which it is, when and where."""
    encompassing = root.first("componentOf/encompassingEncounter")
    if encompassing is None or encompassing.null_flavor:
        return
    facility = encompassing.first("location/healthCareFacility") or NOTHING
    period = values.period(encompassing.first("effectiveTime"))
    identified = values.identifiers(encompassing.all("id"))
    keys = list(filter(None, map(key, identified)))
    encounter: dict[str, Any] = {
        "resourceType": "Encounter",
        "id": record.own_identity("Encounter", *(keys[0] if keys else (record.key,))),
        "identifier": identified,
        "status": _status(period, record.made),
        "class": _class(encompassing),
        "type": _types(encompassing, record),
        "subject": {"reference": record.patient},
        "participant": _participants(encompassing, record),
        "period": period,
        "hospitalization": _hospitalization(encompassing, record),
        "location": _location(facility),
        "serviceProvider": people.organization(
            facility.first("serviceProviderOrganization"), record
        ),
    }
    name = record.add(values.present(encounter))
    context = document.setdefault("context", {})
    context["encounter"] = [{"reference": name}]
    if period:
        # service.md 2.2: context.period is the encounter's.
        context["period"] = period
    if kind := values.concept(facility.first("code"), record.texts):
        context["facilityType"] = kind


def _status(period: dict[str, Any] | None, made: str) -> str:
    """Say whether the encounter is over; without an end, or before it, that is unknown."""
    end = (period or {}).get("end")
    return "finished" if end and not values.is_ahead(end, made) else "unknown"


def _class(encompassing: CcdaElement) -> dict[str, Any]:
    code = encompassing.first("code") or NOTHING
    classes = (coding for coding in values.codings(code) if coding.get("system") == values.ACT_CODE)
    return next(classes, None) or values.extension_only(values.absent(code.null_flavor))


def _types(encompassing: CcdaElement, record: CcdaRecord) -> list[dict[str, Any]]:
    """Return the kinds of an encounter beside its class."""
    kind = values.concept(encompassing.first("code"), record.texts) or {}
    others = [
        coding for coding in kind.get("coding", ()) if coding.get("system") != values.ACT_CODE
    ]
    if others:
        return [{**kind, "coding": others}]
    # US Core requires a type.
    return [{"text": kind["text"]} if "text" in kind else values.extension_only(values.absent())]


def _participants(encompassing: CcdaElement, record: CcdaRecord) -> list[dict[str, Any]]:
    participants = []
    for path in ("responsibleParty", "encounterParticipant"):
        for participation in encompassing.all(path):
            assigned = participation.first("assignedEntity") or NOTHING
            if individual := people.practitioner(assigned, record):
                participants.append(
                    {"type": [_participation(participation)], "individual": individual}
                )
    return participants


def _participation(participation: CcdaElement) -> dict[str, Any]:
    code = participation.get("typeCode")
    if code not in _PARTICIPANT_TYPES:
        return _RESPONSIBLE
    return {
        "coding": [{"system": _PARTICIPATION, "code": code, "display": _PARTICIPANT_TYPES[code]}]
    }


def _hospitalization(encompassing: CcdaElement, record: CcdaRecord) -> dict[str, Any] | None:
    for name in ("dischargeDispositionCode", "sdtc:dischargeDispositionCode"):
        if disposition := values.concept(encompassing.first(name), record.texts):
            return {"dischargeDisposition": disposition}
    return None


def _location(facility: CcdaElement) -> list[dict[str, Any]]:
    """Return the place by its name and number: no Location is served."""
    place = facility.first("location") or NOTHING
    named = plain(place.first("name") or NOTHING)
    if not named:
        located = people.addresses(place.all("addr"))
        named = (
            ", ".join([*located[0].get("line", ()), located[0].get("city", "")]) if located else ""
        )
    reference: dict[str, Any] = {"display": named.strip(", ")} if named else {}
    if identified := values.identifiers(facility.all("id")):
        reference["identifier"] = identified[0]
    return [{"location": reference}] if reference else []
