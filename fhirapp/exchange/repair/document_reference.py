"""DocumentReference of DSTU2 and STU3, brought to R4.

Source: HL7's maps, DocumentReference2to3 and DocumentReference3to4.
"""

from __future__ import annotations

from typing import Any

from fhirapp.exchange.repair.log import Log
from fhirapp.exchange.repair.values import first_moment

_DSTU2 = "http://hl7.org/fhir/1.0/StructureDefinition/extension-DocumentReference."
_STU3 = "http://hl7.org/fhir/3.0/StructureDefinition/extension-DocumentReference."
_COMPOSITION_STATUS = "http://hl7.org/fhir/composition-status"
_DAY = len("2024-03-01")


def bring_to_r4(log: Log, resource: dict[str, Any]) -> None:
    """Give the fields of the older versions R4's names, codes and types."""
    log.rename(resource, "indexed", "date")
    _class(log, resource)
    _created(log, resource)
    _doc_status(log, resource)
    contents = resource.get("content")
    for place, content in enumerate(contents if type(contents) is list else [contents]):
        if type(content) is dict:
            _format(log, content, f"content[{place}].")
    context = resource.get("context")
    if type(context) is dict:
        _related(log, context)
    day = resource.get("date")
    # R4 has an instant here. A month or a year stays as it is, which this server can keep: the
    # first moment of a year would be a date that nobody meant.
    if type(day) is str and len(day.strip()) == _DAY:
        resource["date"] = first_moment(log, day.strip(), "date")


def _class(log: Log, resource: dict[str, Any]) -> None:
    if "class" not in resource:
        return
    said = resource.pop("class")
    given = resource.get("category")
    categories = given if type(given) is list else [] if given is None else [given]
    resource["category"] = categories if said in categories else [*categories, said]
    log.did("class", "renamed", "class", "category")


def _created(log: Log, resource: dict[str, Any]) -> None:
    if "_created" in resource:
        log.cannot("_created", "has extensions, for which R4 has no place")
    elif "created" in resource:
        said = resource.pop("created")
        log.extend(resource, "created", f"{_STU3}created", "valueDateTime", said, said)


def _doc_status(log: Log, resource: dict[str, Any]) -> None:
    """Make a code of DSTU2's CodeableConcept; what a code cannot say is kept beside it."""
    said = resource.get("docStatus")
    if type(said) is not dict:
        return
    codings = said.get("coding")
    codes = [
        coding["code"]
        for coding in (codings if type(codings) is list else [codings])
        if type(coding) is dict and coding.get("system") == _COMPOSITION_STATUS and "code" in coding
    ]
    del resource["docStatus"]
    if codes:
        resource["docStatus"] = codes[0]
        log.did("docStatus", "code", said, codes[0])
    if said != {"coding": [{"system": _COMPOSITION_STATUS, "code": codes[0] if codes else ""}]}:
        url = f"{_DSTU2}docStatus"
        log.extend(resource, "docStatus", url, "valueCodeableConcept", said, said)


def _format(log: Log, content: dict[str, Any], path: str) -> None:
    """Take the first of DSTU2's formats; the others are kept beside it."""
    formats = content.get("format")
    if type(formats) is not list or not formats:
        return
    content["format"] = formats[0]
    log.did(f"{path}format", "code", formats, formats[0])
    for one in formats[1:]:
        url = f"{_DSTU2}content.format"
        log.extend(content, f"{path}format", url, "valueCoding", one, one)


def _related(log: Log, context: dict[str, Any]) -> None:
    """Make References of identifier and ref, which the older versions have apart."""
    related = context.get("related")
    listed = related if type(related) is list else [related]
    for place, item in enumerate(listed):
        if type(item) is not dict or "ref" not in item:
            continue
        path = f"context.related[{place}]."
        reference = item["ref"]
        if type(reference) is not dict:
            log.cannot(f"{path}ref", "is not a Reference")
            continue
        twice = [name for name in reference if name in item and item[name] != reference[name]]
        if twice:
            log.cannot(f"{path}{twice[0]}", f"contradicts ref.{twice[0]}")
            continue
        del item["ref"]
        item.update(reference)
        log.did(f"{path}ref", "renamed", "ref", "reference")
