"""What a document is as a DiagnosticReport, where it is a report.

US Core, Clinical Notes: a server shows scanned and narrative-only reports both as DocumentReference
and as DiagnosticReport, with the same attachment address. Notes that are broader than one report,
such as a progress note or a discharge summary, are DocumentReferences alone; so is a report that
has been superseded, for which a DiagnosticReport has no status.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fhirapp.fhir import terminology
from fhirapp.fhir.document_date import date_of, is_partial
from fhirapp.fhir.terminology import LOINC

Content = Mapping[str, Any]

# HL7 v2 table 0074, diagnostic service sections: what R4 names as the categories of reports.
SECTIONS = terminology.CT + "v2-0074"
# The categories that US Core asks for: radiology, cardiology and pathology.
CATEGORIES = frozenset({"LP29684-5", "LP29708-2", "LP7839-6"})

LABORATORY = {"system": SECTIONS, "code": "LAB", "display": "Laboratory"}
# The types of documents that US Core wants to be seen as reports too, and the category of one that
# names none itself. For procedure notes there is no section.
REPORTS: Mapping[str, Mapping[str, str]] = {
    "11502-2": LABORATORY,
    "11526-1": {"system": LOINC, "code": "LP7839-6", "display": "Pathology"},
    "18748-4": {"system": LOINC, "code": "LP29684-5", "display": "Radiology"},
    "28570-0": {"system": LOINC, "code": "28570-0", "display": "Procedure note"},
}

# What stays as it is in the document: two of these may change what everything else means.
_KEPT = ("implicitRules", "language", "modifierExtension")
PERFORMERS = ("Practitioner", "PractitionerRole", "Organization", "CareTeam")
# What a report may be based on: context.related holds the order, as IHE MHD has it.
REQUESTS = (
    *("CarePlan", "ImmunizationRecommendation", "MedicationRequest", "NutritionOrder"),
    "ServiceRequest",
)
# The type that a reference names: Patient/p1, its address, or Patient?identifier=…
_TYPE = re.compile(r"(?:^|/)([A-Z][A-Za-z]+)(?:/[^/?]+(?:/_history/[^/]+)?$|\?)")


def report_of(document: Content) -> dict[str, Any] | None:
    """Return the DiagnosticReport that a DocumentReference is too, None where it is none."""
    categories = list(_categories(document))
    subject = document.get("subject", {})
    if (
        not categories
        or "type" not in document
        or document.get("status") == "superseded"
        or _is_modified(document)
        or _type(subject, document) not in (None, "Patient")
    ):
        return None
    related = document.get("context", {}).get("related", ())
    elements = {
        **{name: document[name] for name in _KEPT if name in document},
        "identifier": [
            *([document["masterIdentifier"]] if "masterIdentifier" in document else ()),
            *document.get("identifier", ()),
        ],
        "status": _status(document),
        "category": categories,
        "code": document["type"],
        "subject": subject,
        "encounter": _encounter(document),
        **_times(document),
        "performer": [
            ref for ref in document.get("author", ()) if _type(ref, document) in (None, *PERFORMERS)
        ],
        # Who attests a report is responsible for its conclusions.
        "resultsInterpreter": [
            ref for ref in [document.get("authenticator", {})] if _type(ref, document) in PERFORMERS
        ],
        "basedOn": [ref for ref in related if _type(ref, document) in REQUESTS],
        "result": [ref for ref in related if _type(ref, document) == "Observation"],
        "media": [{"link": ref} for ref in related if _type(ref, document) == "Media"],
        "presentedForm": list(_attachments(document)),
    }
    report = {name: value for name, value in elements.items() if value}
    report["contained"] = _contained(document, report)
    report["meta"] = _meta(document, report)
    value = {name: value for name, value in report.items() if value}
    return {"resourceType": "DiagnosticReport", "id": document["id"], **value}


def _is_modified(document: Content) -> bool:
    """Say whether something changes the meaning of a part that the report has no place for."""
    parts = (document.get("context", {}), *document.get("content", ()))
    return any("modifierExtension" in part for part in parts)


def _categories(document: Content) -> Iterator[Content]:
    """Yield the categories of the report: the document's, else that of its type."""
    categories = [
        category
        for category in document.get("category", ())
        if any(map(_is_section, category.get("coding", ())))
    ]
    if categories:
        yield from categories
        return
    for coding in document.get("type", {}).get("coding", ()):
        if coding.get("system") == LOINC and coding.get("code") in REPORTS:
            yield {"coding": [dict(REPORTS[coding["code"]])]}
            return


def _is_section(coding: Content) -> bool:
    system, code = coding.get("system"), coding.get("code")
    return system == SECTIONS or (system == LOINC and code in CATEGORIES)


def _status(document: Content) -> str:
    """Return the report's status: docStatus has the same codes.

    service.md 2.2: a document's status tells whether it is final, and `current` is one that is.
    """
    status = document.get("status")
    if status == "current":
        return str(document.get("docStatus", "final"))
    return status or "unknown"


def _encounter(document: Content) -> Content | None:
    """Return the encounter, where there is one: a report has no place for more."""
    encounters = document.get("context", {}).get("encounter", ())
    found = [ref for ref in encounters if _type(ref, document) in (None, "Encounter")]
    return found[0] if len(found) == 1 else None


def _times(document: Content) -> dict[str, Any]:
    """Return when the care was, else when the document was made available; and that as issued."""
    times: dict[str, Any] = {}
    date = date_of(document)
    period = document.get("context", {}).get("period", {})
    if "start" in period or "end" in period:
        times["effectivePeriod"] = period
    elif date:
        times["effectiveDateTime"] = date
    # An instant, which a partial date is not.
    if not is_partial(date):
        times["issued"] = date
    return times


def _attachments(document: Content) -> Iterator[Content]:
    """Yield the attachments that have an address; bytes that are inline stay with the document."""
    for content in document.get("content", ()):
        attachment = content.get("attachment", {})
        if "url" in attachment:
            yield {name: value for name, value in attachment.items() if "data" not in name}


def _type(reference: Content, document: Content) -> str | None:
    """Return the type that a reference is to, None where it does not tell, empty for nothing."""
    literal = reference.get("reference", "")
    if literal.startswith("#"):
        types = {
            f"#{resource.get('id')}": resource["resourceType"]
            for resource in document.get("contained", ())
        }
        return str(types.get(literal, ""))
    if literal:
        found = _TYPE.search(literal)
        return found[1] if found else ""
    return reference.get("type") if reference else ""


def _contained(document: Content, report: Content) -> list[Content]:
    """Return the contained resources that the report refers to, or that these do."""
    left = {f"#{resource.get('id')}": resource for resource in document.get("contained", ())}
    kept: list[Content] = []
    reached = list(_local(report))
    while reached:
        found = left.pop(reached.pop(), None)
        if found is not None:
            kept.append(found)
            reached += _local(found)
    return kept


def _local(value: Any) -> Iterator[str]:
    """Yield the references to contained resources in a value."""
    if isinstance(value, list):
        for item in value:
            yield from _local(item)
    elif isinstance(value, dict):
        reference = value.get("reference")
        if isinstance(reference, str) and reference.startswith("#"):
            yield reference
        for content in value.values():
            yield from _local(content)


def _meta(document: Content, report: Content) -> dict[str, Any]:
    """Return the document's labels, its security labels among them, and the profile that fits."""
    document_meta = document.get("meta", {})
    meta = {name: document_meta[name] for name in ("source", "tag") if name in document_meta}
    labels = [
        coding for label in document.get("securityLabel", ()) for coding in label.get("coding", ())
    ]
    if security := [*document_meta.get("security", ()), *labels]:
        meta["security"] = security
    if profile := _profile(report):
        meta["profile"] = [profile]
    return meta


def _profile(report: Content) -> str | None:
    """Return the profile of US Core that a report meets: us-core-8, us-core-9, us-core-10."""
    is_void = report["status"] == "entered-in-error"
    has_time = "effectivePeriod" in report or "effectiveDateTime" in report
    laboratory = [kind for kind in report["category"] if any(map(_is_laboratory, kind["coding"]))]
    if len(laboratory) == 1 and (is_void or (has_time and "issued" in report)):
        return terminology.US_CORE_REPORT_LAB
    return terminology.US_CORE_REPORT_NOTE if is_void or has_time else None


def _is_laboratory(coding: Content) -> bool:
    return (coding.get("system"), coding.get("code")) == (SECTIONS, "LAB")
