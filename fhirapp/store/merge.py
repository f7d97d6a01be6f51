"""A merge of two patients, as it stands in the resources: one mark for each change, to undo it by.

A reference that is moved has the patient whom it named in an extension, and the links between the
two patients what the record's `active` was. A resource that an import brings is changed the same
way, so that its content is the same again. All functions change the elements that they are given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fhirapp.db import Reader
from fhirapp.definition import Definition
from fhirapp.fhir import json as fhir_json
from fhirapp.store.prepare import digest_of, elements_of

# Of a reference: whom it named before. Of a link: what `active` was, "none" where it was not there.
MERGED_FROM = "urn:fhirapp:merged-from"
_MERGED = "urn:fhirapp:merged"
_ACTIVE = {"true": True, "false": False}


def move(value: Any, merged: Mapping[str, str]) -> bool:
    """Let every reference to a patient who was merged name the other; False where there is none.

    merged has whom each was merged into, by id.
    """
    moved = False
    if isinstance(value, dict):
        type_name, _, target = str(value.get("reference")).partition("/")
        source = target.partition("/_history/")[0]
        if type_name == "Patient" and source in merged:
            # With the version that it names, which the other patient has not.
            mark = {"url": MERGED_FROM, "valueString": target}
            value["reference"] = f"Patient/{merged[source]}"
            value["extension"] = [*value.get("extension", ()), mark]
            moved = True
        value = [*value.values()]
    if isinstance(value, list):
        # Each of them, not only up to the first.
        moved = sum(move(part, merged) for part in value) > 0 or moved
    return moved


def move_back(value: Any, source: str, target: str) -> bool:
    """Let every reference that was moved name the patient of before; False where there is none."""
    moved = False
    if isinstance(value, dict):
        marks = value.get("extension", ()) if value.get("reference") == f"Patient/{target}" else ()
        for mark in marks:
            original = str(mark.get("valueString")) if mark.get("url") == MERGED_FROM else ""
            if original.partition("/_history/")[0] == source:
                value["reference"] = f"Patient/{original}"
                _without(value, "extension", mark)
                moved = True
                break
        value = [*value.values()]
    if isinstance(value, list):
        moved = sum(move_back(part, source, target) for part in value) > 0 or moved
    return moved


def link(patient: dict[str, Any], other: str, *, is_replaced: bool) -> None:
    """Link a Patient to the one it was merged with; is_replaced for the one who is not used now."""
    if _link_to(patient, other) is not None:
        return
    before = str(patient["active"]).lower() if is_replaced and "active" in patient else "none"
    added = {
        "extension": [{"url": _MERGED, "valueString": before}],
        "other": {"reference": f"Patient/{other}"},
        "type": "replaced-by" if is_replaced else "replaces",
    }
    patient["link"] = [*patient.get("link", ()), added]
    if is_replaced:
        patient["active"] = False


def unlink(patient: dict[str, Any], other: str | None = None) -> None:
    """Take the link to another Patient away, without other each; `active` is as it was before."""
    while (link := _link_to(patient, other)) is not None:
        _without(patient, "link", link)
        if link["type"] == "replaced-by":
            patient.pop("active", None)
            before = link["extension"][0]["valueString"]
            patient.update({"active": _ACTIVE[before]} if before in _ACTIVE else {})


def unlinked_digest(definition: Definition, row: Mapping[Any, Any]) -> bytes:
    """Return the digest of a Patient as its source says it, without the links of merges."""
    elements = elements_of(definition, row)
    unlink(elements)
    return digest_of(definition, elements)


def merged_into(patient: Mapping[str, Any]) -> str:
    """Return the id of whom a Patient was merged into, empty where it was not."""
    return next(iter(_linked(patient, "replaced-by")), "")


def merged_here(patient: Mapping[str, Any]) -> list[str]:
    """Return the ids of those who were merged into a Patient."""
    return _linked(patient, "replaces")


def merged_target(reader: Reader, patient_id: str) -> str:
    """Return the id of whom a patient was merged into, here or where the record comes from."""
    return merged_among(reader, [patient_id]).get(patient_id, "")


def merged_among(reader: Reader, ids: Sequence[str]) -> dict[str, str]:
    """Return whom each of these patients who was merged was merged into, by id."""
    if not ids:
        return {}
    marks = ", ".join("?" * len(ids))
    sql = f"SELECT id, body FROM patient WHERE is_current AND link IS NOT NULL AND id IN ({marks})"
    linked = ((id_, merged_into(fhir_json.loads(body))) for id_, body in reader.all(sql, ids))
    return {id_: into for id_, into in linked if into}


def _linked(patient: Mapping[str, Any], kind: str) -> list[str]:
    return [
        str(link["other"]["reference"]).removeprefix("Patient/")
        for link in patient.get("link", ())
        if link["type"] == kind and _is_marked(link)
    ]


def _link_to(patient: Mapping[str, Any], other: str | None) -> dict[str, Any] | None:
    """Return the first link that a merge made, where other is given the one to that patient."""
    for link in patient.get("link", ()):
        names = link["other"].get("reference")
        if _is_marked(link) and other in (None, str(names).removeprefix("Patient/")):
            match: dict[str, Any] = link
            return match
    return None


def _is_marked(link: Mapping[str, Any]) -> bool:
    return any(extension.get("url") == _MERGED for extension in link.get("extension", ()))


def _without(holder: dict[str, Any], member: str, value: Any) -> None:
    """Take a value out of a list, and the list where it is empty then."""
    holder[member] = [item for item in holder[member] if item != value]
    if not holder[member]:
        del holder[member]
