"""The header of a document as tables of fields: its Patient, its DocumentReference, its Encounter.

The document is the attachment, byte for byte. Sources: CDA R2 §4.2; HL7 C-CDA on FHIR 2.0.0,
header and patient; FHIR R4 documentreference; US Core Patient; service.md 2.2.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from fhirapp.features.imports.ccda import people, values
from fhirapp.features.imports.ccda.narrative import plain, shortened
from fhirapp.features.imports.ccda.people import (
    Actor,
    CcdaRecord,
    Field,
    Found,
    Resource,
    each,
    fields_of,
    first,
    organization,
)
from fhirapp.features.imports.ccda.tree import NOTHING, CcdaElement
from fhirapp.fhir.identity import key
from fhirapp.fhir.terminology import CT, DOCUMENT_CATEGORY, LOINC, US_CORE
from fhirapp.fhir.words import current_name

# The patient.

_GENDERS: Mapping[str, str] = values.MAPS["genders"]
_BIRTH_TIME = "http://hl7.org/fhir/StructureDefinition/patient-birthTime"
_EXTENSION = f"{US_CORE}StructureDefinition/us-core-"
# The element of each, and the categories of OMB: US Core omb-race-category, omb-ethnicity-category.
_GROUPS = {
    "race": ("raceCode", ("1002-5", "2028-9", "2054-5", "2076-8", "2106-3")),
    "ethnicity": ("ethnicGroupCode", ("2135-2", "2186-5")),
}
_GUARDIAN = values.coded_concept(f"{CT}v3-RoleCode", "GUARD", "guardian")


def role_of(root: CcdaElement) -> CcdaElement:
    """Return the one patientRole of a document. Raises UnreadableDocument."""
    targets = root.all("recordTarget")
    if not targets:
        raise root.refused("must have a recordTarget: it says whose document it is")
    if len(targets) > 1:
        raise targets[1].refused("must not be repeated: a document is one patient's")
    role = targets[0].first("patientRole")
    if role is None:
        raise targets[0].refused("must have a patientRole")
    if not any(map(key, values.identifiers(role.all("id")))):
        raise role.refused(
            "must have an id with a root: without one the patient cannot be identified"
        )
    return role


def add_patient(role: CcdaElement, record: CcdaRecord) -> None:
    """Add the Patient, and to the record who it is."""
    identified = values.identifiers(role.all("id"))
    patient: Resource = {
        "resourceType": "Patient",
        "id": record.identity("Patient", identified),
        **fields_of(role, _ROLE, record),
    }
    if (person := role.first("patient")) is not None:
        patient.update(fields_of(person, _PERSON, record))
    if "name" not in patient:
        patient["name"] = [values.extension_only(values.absent())]
    # US Core requires a gender; of what none is known, its code for that.
    patient.setdefault("gender", "unknown")
    record.patient = record.add(patient)
    record.patient_keys = set(filter(None, map(key, identified)))


def _mark_unknown(name: Resource) -> Resource:
    """Mark a name without parts as unknown: US Core us-core-6."""
    if "family" in name or "given" in name:
        return name
    return {**name, **values.extension_only(values.absent())}


def _gender(found: Found, _record: CcdaRecord) -> Resource:
    code = found[0].get("code") if found else ""
    if gender := _GENDERS.get(code):
        return {"gender": gender}
    return {"_gender": values.extension_only(values.original(code))} if code else {}


def _birth(found: Found, _record: CcdaRecord) -> Resource:
    born: Resource = {}
    values.put(born, "birthDate", next(iter(found), None), values.date_of_birth)
    moment = born.get("birthDate", "")
    if len(moment) > 10:
        born["birthDate"] = moment[:10]
        born["_birthDate"] = values.extension_only({"url": _BIRTH_TIME, "valueDateTime": moment})
    return born


def _death(found: Found, _record: CcdaRecord) -> Resource:
    died, is_dead = (
        found[0].first(f"sdtc:{name}") or NOTHING for name in ("deceasedTime", "deceasedInd")
    )
    death: Resource = {}
    if died.get("value") and not values.is_no_date(died.get("value")):
        values.put(death, "deceasedDateTime", died)
    elif is_dead.get("value") in ("true", "false"):
        death["deceasedBoolean"] = is_dead.get("value") == "true"
    return death


def _groups(found: Found, _record: CcdaRecord) -> list[Resource]:
    """Return US Core's extensions for race and ethnicity."""
    return [group for name in _GROUPS if (group := _group(name, found[0]))]


def _group(name: str, person: CcdaElement) -> Resource | None:
    """Return the extension for race or ethnicity: categories, details, and their words."""
    of_name, in_categories = _GROUPS[name]
    categories: list[Resource] = []
    details: list[Resource] = []
    coded = [part for part in person.elements if part.name in (of_name, f"sdtc:{of_name}")]
    for element in coded:
        for coding in values.codings(element):
            is_race = coding.get("system") == values.RACE
            is_unknown = coding in (values.null_coding("UNK"), values.null_coding("ASKU"))
            if is_unknown or (is_race and coding["code"] in in_categories):
                categories.append({"url": "ombCategory", "valueCoding": coding})
            elif is_race:
                details.append({"url": "detailed", "valueCoding": coding})
    known = [part for part in categories if part["valueCoding"].get("system") == values.RACE]
    # US Core: one ethnicity; and us-core-23: unknown stands alone.
    kept = known[:1] if name == "ethnicity" else known
    parts: list[Resource] = [*values.distinct(kept or categories[:1]), *details]
    if not parts:
        return None
    words = dict.fromkeys(
        part["valueCoding"].get("display", part["valueCoding"]["code"]) for part in parts
    )
    parts.append({"url": "text", "valueString": ", ".join(words)})
    return {"url": f"{_EXTENSION}{name}", "extension": parts}


def _guardian(guardian: CcdaElement, record: CcdaRecord) -> Resource | None:
    """Return a guardian as Patient.contact; None for one of whom nothing is known: R4 pat-1."""
    relationship = values.concept(guardian.first("code"), record.texts)
    known = fields_of(guardian, _GUARDIAN_FIELDS, record)
    if relationship and not known:
        known = {"name": values.extension_only(values.absent())}
    if not known:
        return None
    return {"relationship": [_GUARDIAN, *([relationship] if relationship else [])], **known}


def _guardian_name(person: CcdaElement, _record: CcdaRecord) -> Resource | None:
    return current_name(people.names(person.all("name")))


def _language(communication: CcdaElement, _record: CcdaRecord) -> Resource | None:
    code = values.code_in(communication.first("languageCode"))
    if not code:
        return None
    language: Resource = {"language": values.coded_concept("urn:ietf:bcp:47", code)}
    preferred = (communication.first("preferenceInd") or NOTHING).get("value")
    if preferred in ("true", "false"):
        language["preferred"] = preferred == "true"
    return language


_GUARDIAN_FIELDS = (
    Field("name", "guardianPerson", first(_guardian_name)),
    Field("telecom", "telecom", people.telecoms),
    Field("address", "addr", lambda found, _: next(iter(people.addresses(found)), None)),
    Field("organization", "guardianOrganization", organization),
)
_ROLE = (
    Field("identifier", "id", people.identifiers_of),
    Field("telecom", "telecom", people.telecoms),
    Field("address", "addr", people.addresses),
    Field("managingOrganization", "providerOrganization", organization),
)
_PERSON = (
    Field("extension", "", _groups),
    Field("name", "name", lambda found, _: [_mark_unknown(name) for name in people.names(found)]),
    Field("maritalStatus", "maritalStatusCode", first(people.concept_of)),
    Field("contact", "guardian", each(_guardian)),
    Field("communication", "languageCommunication", each(_language)),
    Field("", "administrativeGenderCode", _gender),
    Field("", "birthTime", _birth),
    Field("", "", _death),
)

# The document.

# HL7's C-CDA on FHIR has this media type for CDA that is sent as it is.
CONTENT_TYPE = "application/cda+xml"
# HL7 Terminology defines the codes; US Core 8.0.0 binds format to a value set of them.
_FORMATS = f"{CT}v3-HL7DocumentFormatCodes"
_US_REALM_HEADER = "2.16.840.1.113883.10.20.22.1.1"
# The version of C-CDA, by that of the header's template; 1.1 has none.
_VERSIONS = {"": "1.1", "2015-08-01": "2.1", "2023-05-01": "2.1"}
_RELATIONS: Mapping[str, str] = values.MAPS["relations"]
_VERSION_NUMBER = "http://hl7.org/fhir/5.0/StructureDefinition/extension-DocumentReference.version"
_CLINICAL_NOTE = values.coded_concept(DOCUMENT_CATEGORY, "clinical-note", "Clinical Note")
_CLASSES: Mapping[str, str] = values.MAPS["document_classes"]


def document_reference(root: CcdaElement, document_id: str, record: CcdaRecord) -> Resource:
    """Return the DocumentReference of a document; encounter and period are put in later."""
    record.signer = _signer(root, record)
    resource = {
        "resourceType": "DocumentReference",
        "id": document_id,
        **fields_of(root, _DOCUMENT, record),
    }
    values.put(resource, "date", _date(root))
    return resource


def authors(root: CcdaElement, record: CcdaRecord) -> list[Actor]:
    """Return who wrote the document, each once."""
    unique: list[Actor] = []
    for element in root.all("author"):
        writer = people.author(element, record)
        if writer and all(writer.reference != known.reference for known in unique):
            unique.append(writer)
    return unique


def _signer(root: CcdaElement, record: CcdaRecord) -> Actor | None:
    for path in ("legalAuthenticator", "authenticator"):
        signer = people.actor(root.first(f"{path}/assignedEntity") or NOTHING, record)
        # R4: no other may authenticate.
        if signer and signer.type_name in ("Practitioner", "Organization"):
            return signer
    return None


def _contained(_found: Found, record: CcdaRecord) -> list[Resource]:
    actors = [*record.writers, *filter(None, [record.signer])]
    by_id = {resource["id"]: resource for actor in actors for resource in actor.contained}
    return list(by_id.values())


def _meta(made: CcdaElement, _record: CcdaRecord) -> Resource | None:
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


def _version(number: CcdaElement, _record: CcdaRecord) -> list[Resource]:
    written = number.get("value")
    return [{"url": _VERSION_NUMBER, "valueString": written}] if written else []


def _doc_status(found: Found, _record: CcdaRecord) -> str:
    """Say whether the document is final: by its status, or by a signature."""
    (root,) = found
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


def _document_type(found: Found, record: CcdaRecord) -> Resource:
    """Return the type; US Core has UNK among the types, for a document that has none."""
    coded = values.concept(found[0], record.texts) if found else None
    return coded or {"coding": [values.null_coding("UNK")]}


def _categories(found: Found, _record: CcdaRecord) -> list[Resource]:
    classes = [
        values.coded_concept(LOINC, coding["code"], _CLASSES[coding["code"]])
        for coding in values.codings(found[0] if found else NOTHING)
        if coding.get("system") == LOINC and coding["code"] in _CLASSES
    ]
    return [_CLINICAL_NOTE, *classes]


def _relations(found: Found, record: CcdaRecord) -> list[Resource]:
    related = []
    for related_document in found:
        code = _RELATIONS.get(related_document.get("typeCode"))
        for element in related_document.all("parentDocument/id") if code else ():
            identified = values.identifier(element) or {}
            if known := key(identified):
                reference = f"DocumentReference/{record.own_identity('DocumentReference', *known)}"
                target = {"reference": reference, "identifier": identified}
                related.append({"code": code, "target": target})
    return related


def _confidentiality(code: CcdaElement, _record: CcdaRecord) -> list[Resource]:
    labels = values.codings(code)
    for label in labels:
        # CDA R2 §4.2.1.7: the code is one of these where no other system is named.
        label.setdefault("system", values.CONFIDENTIALITY)
    return [{"coding": labels}] if labels else []


def _content(found: Found, record: CcdaRecord) -> list[Resource]:
    (root,) = found
    attachment: Resource = {
        "contentType": CONTENT_TYPE,
        "language": values.code_in(root.first("languageCode")),
        "data": base64.b64encode(record.document).decode(),
        "title": shortened(plain(root.first("title") or NOTHING)),
    }
    values.put(attachment, "creation", root.first("effectiveTime"))
    return [values.present({"attachment": values.present(attachment), "format": _format(root)})]


def _format(root: CcdaElement) -> Resource | None:
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


def _context(events: Found, record: CcdaRecord) -> Resource:
    kinds = [values.concept(event.first("code"), record.texts) for event in events]
    periods = (values.period(event.first("effectiveTime")) for event in events)
    return values.present(
        {"event": list(filter(None, kinds)), "period": next(filter(None, periods), None)}
    )


_CUSTODIAN = "custodian/assignedCustodian/representedCustodianOrganization"
_DOCUMENT = (
    Field("meta", "effectiveTime", first(_meta)),
    Field("language", "languageCode", first(lambda code, _: values.code_in(code))),
    Field("contained", "", _contained),
    Field("extension", "versionNumber", first(_version)),
    Field("masterIdentifier", "id", first(lambda id_, _: values.identifier(id_))),
    Field("identifier", "setId", lambda found, _: values.identifiers(found[:1])),
    Field("status", "", lambda *_: "current"),
    Field("docStatus", "", _doc_status),
    Field("type", "code", _document_type),
    Field("category", "code", _categories),
    Field("subject", "", people.subject_of),
    Field("author", "", lambda _, record: [writer.reference for writer in record.writers]),
    Field("authenticator", "", lambda _, record: record.signer and record.signer.reference),
    Field("custodian", _CUSTODIAN, organization),
    Field("relatesTo", "relatedDocument", _relations),
    Field("securityLabel", "confidentialityCode", first(_confidentiality)),
    Field("content", "", _content),
    Field("context", "documentationOf/serviceEvent", _context),
)

# The encounter.

_PARTICIPATION = f"{CT}v3-ParticipationType"
_RESPONSIBLE = ("PPRF", "primary performer")
_PARTICIPANT_TYPES: Mapping[str, str] = values.MAPS["participations"]


def add_encounter(root: CcdaElement, document: Resource, record: CcdaRecord) -> None:
    """Add the Encounter, and to the DocumentReference which it is, when and where."""
    encompassing = root.first("componentOf/encompassingEncounter")
    if encompassing is None or encompassing.null_flavor:
        return
    keys = list(filter(None, map(key, values.identifiers(encompassing.all("id")))))
    encounter = {
        "resourceType": "Encounter",
        "id": record.own_identity("Encounter", *(keys[0] if keys else (record.key,))),
        **fields_of(encompassing, _ENCOUNTER, record),
    }
    context = document.setdefault("context", {})
    context["encounter"] = [{"reference": record.add(encounter)}]
    if "period" in encounter:
        # service.md 2.2: context.period is the encounter's.
        context["period"] = encounter["period"]
    facility = encompassing.first("location/healthCareFacility") or NOTHING
    if kind := values.concept(facility.first("code"), record.texts):
        context["facilityType"] = kind


def _status(found: Found, record: CcdaRecord) -> str:
    """Say whether the encounter is over; without an end, or before it, that is unknown."""
    end = ((values.period(found[0]) if found else None) or {}).get("end")
    return "finished" if end and not values.is_ahead(end, record.made) else "unknown"


def _class(found: Found, _record: CcdaRecord) -> Resource:
    code = found[0] if found else NOTHING
    classes = (coding for coding in values.codings(code) if coding.get("system") == values.ACT_CODE)
    return next(classes, None) or values.extension_only(values.absent(code.null_flavor))


def _types(found: Found, record: CcdaRecord) -> list[Resource]:
    """Return the kinds of an encounter beside its class."""
    kind = (values.concept(found[0], record.texts) if found else None) or {}
    others = [
        coding for coding in kind.get("coding", ()) if coding.get("system") != values.ACT_CODE
    ]
    if others:
        return [{**kind, "coding": others}]
    # US Core requires a type.
    return [{"text": kind["text"]} if "text" in kind else values.extension_only(values.absent())]


def _participants(found: Found, record: CcdaRecord) -> list[Resource]:
    participants = []
    for path in ("responsibleParty", "encounterParticipant"):
        for participation in found[0].all(path):
            assigned = participation.first("assignedEntity") or NOTHING
            if individual := people.practitioner(assigned, record):
                code = participation.get("typeCode")
                known = (code, _PARTICIPANT_TYPES.get(code, ""))
                kind = values.coded_concept(_PARTICIPATION, *(known if known[1] else _RESPONSIBLE))
                participants.append({"type": [kind], "individual": individual})
    return participants


def _hospitalization(found: Found, record: CcdaRecord) -> Resource | None:
    for name in ("dischargeDispositionCode", "sdtc:dischargeDispositionCode"):
        if disposition := values.concept(found[0].first(name), record.texts):
            return {"dischargeDisposition": disposition}
    return None


def _location(facility: CcdaElement, _record: CcdaRecord) -> list[Resource]:
    """Return the place by its name and number: no Location is served."""
    place = facility.first("location") or NOTHING
    named = plain(place.first("name") or NOTHING)
    if not named:
        located = next(iter(people.addresses(place.all("addr"))), {})
        named = ", ".join([*located.get("line", ()), located.get("city", "")])
    reference: dict[str, Any] = {"display": named.strip(", ")} if named else {}
    if identified := values.identifiers(facility.all("id")):
        reference["identifier"] = identified[0]
    return [{"location": reference}] if reference else []


def _provider(facility: CcdaElement, record: CcdaRecord) -> Resource | None:
    return organization(facility.all("serviceProviderOrganization"), record)


_ENCOUNTER = (
    Field("identifier", "id", people.identifiers_of),
    Field("status", "effectiveTime", _status),
    Field("class", "code", _class),
    Field("type", "code", _types),
    Field("subject", "", people.subject_of),
    Field("participant", "", _participants),
    Field("period", "effectiveTime", first(lambda times, _: values.period(times))),
    Field("hospitalization", "", _hospitalization),
    Field("location", "location/healthCareFacility", first(_location)),
    Field("serviceProvider", "location/healthCareFacility", first(_provider)),
)
