"""Clinical documents of C-CDA and CDA R2, converted to FHIR for an import.

tree.py reads the XML; header.py and people.py convert the header, section.py the Allergies
section. concept_maps.toml has the codes.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from fhirapp.features.imports.ccda.header import (
    add_encounter,
    add_patient,
    authors,
    document_reference,
    role_of,
)
from fhirapp.features.imports.ccda.narrative import Texts
from fhirapp.features.imports.ccda.people import CcdaRecord, complete, provenance
from fhirapp.features.imports.ccda.section import allergies_in, is_allergies, title_remark
from fhirapp.features.imports.ccda.tree import NOTHING, CcdaElement, UnreadableDocument, read
from fhirapp.features.imports.ccda.values import date_time, identifier, time_remarks
from fhirapp.fhir.identity import key, known_by

__all__ = ["UnreadableDocument", "identities", "resources_of"]

# A resource comes after those that it refers to.
_ORDER = (
    "Organization",
    "Practitioner",
    "Patient",
    "Encounter",
    "DocumentReference",
    "AllergyIntolerance",
    "Provenance",
)
# No Encounter: the same number may be another patient's encounter. The id of one follows from its
# patient and number (CcdaRecord.own_identity), so that an encounter is the same within its patient
# alone.
_MAY_BE_KNOWN = frozenset({"Organization", "Practitioner", "Patient"})


def resources_of(
    document: bytes, remark: Callable[[str], None] = lambda _text: None
) -> list[dict[str, Any]]:
    """Return the resources of a document as FHIR JSON, each after those that it refers to.

    remark receives what an import should report of the document. Raises UnreadableDocument.
    """
    root = read(document, is_allergies)
    elements = root.descendants()
    try:
        return _resources(root, elements, document, remark)
    finally:
        # Without the circles the elements are freed at once, and not by a later collection.
        for element in elements:
            element.parent = None


def identities(resources: list[dict[str, Any]]) -> dict[str, list[tuple[str, str]]]:
    """Return the (system, value) identifiers that may match a known person or organization."""
    identities_ = {}
    for resource in resources:
        keys = known_by(resource.get("identifier", ()))
        if keys and resource["resourceType"] in _MAY_BE_KNOWN:
            identities_[f"{resource['resourceType']}/{resource['id']}"] = keys
    return identities_


def _resources(
    root: CcdaElement,
    elements: list[CcdaElement],
    document: bytes,
    remark: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Return the resources; elements are all those below the root."""
    # In their order, as a dict has them.
    sections: dict[CcdaElement, None] = {}
    titles: list[str] = []
    for element in elements:
        # What is within a section of allergies is part of it.
        if element.name == "section" and sections.keys().isdisjoint(element.lineage()):
            titles.append(title_remark(element))
            if is_allergies(element):
                sections[element] = None
    own_key, set_key = (
        key(identifier(root.first(name) or NOTHING) or {}) for name in ("id", "setId")
    )
    parts = own_key or (sha256(document).hexdigest(),)
    made = root.first("effectiveTime")
    record = CcdaRecord(
        document,
        "|".join(set_key or parts),
        Texts([*sections]),
        date_time((made or NOTHING).get("value")),
    )
    add_patient(role_of(root), record)
    record.writers = authors(root, record)
    reference = document_reference(root, record.own_identity("DocumentReference", *parts), record)
    add_encounter(root, reference, record)
    name = record.add(reference)
    record.add(provenance(name, name, record.writers, made, made, reference.get("custodian")))
    for stated in allergies_in([*sections], record):
        target = record.add(stated.allergy)
        record.add(provenance(target, name, stated.authors, made, stated.recorded))
    for text in (*filter(None, titles), *record.remarks, *time_remarks(elements)):
        remark(text)
    for resource in record.resources.values():
        complete(resource)
    # A copy: a change of one resource must not change another.
    resources = map(_copy, record.resources.values())
    return sorted(resources, key=lambda resource: _ORDER.index(resource["resourceType"]))


def _copy(value: Any) -> Any:
    """Return a copy of JSON; faster than deepcopy, which keeps a memo of what it copied."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {name: _copy(inner) for name, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value
