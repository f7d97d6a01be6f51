"""Resources of DSTU2 and STU3, converted to R4: a table of rows (type, path, operation).

Source: HL7's maps between the versions, such as AllergyIntolerance2to3 and AllergyIntolerance3to4,
and their concept maps. Practitioner2to3 makes a PractitionerRole of each role, a type that is not
served here: the roles are kept in an extension.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

from fhirapp.features.imports.repair.log import RepairLog, listed
from fhirapp.fhir import datatypes
from fhirapp.fhir.elements import Check
from fhirapp.fhir.terminology import (
    ALLERGY_CLINICAL,
    ALLERGY_VERIFICATION,
    CT,
    DATA_ABSENT_REASON,
)

_DSTU2 = "http://hl7.org/fhir/1.0/StructureDefinition/extension-"
_STU3 = "http://hl7.org/fhir/3.0/StructureDefinition/extension-"
_COMPOSITION_STATUS = "http://hl7.org/fhir/composition-status"
_CONCEPT, _REFERENCE = "valueCodeableConcept", "valueReference"
_CREATED = f"{_STU3}DocumentReference.created"
_NO_PLACE = "has extensions, for which R4 has no place"
_ANIMAL = {"species": _CONCEPT, "breed": _CONCEPT, "genderStatus": _CONCEPT}
_ANIMAL_URL = "http://hl7.org/fhir/StructureDefinition/patient-animal"
_RELATED = {"type": _CONCEPT, "target": "valueUri"}
_ROLE = {
    "managingOrganization": _REFERENCE,
    "role": _CONCEPT,
    "specialty": _CONCEPT,
    "period": "valuePeriod",
    "location": _REFERENCE,
    "healthcareService": _REFERENCE,
}
# DSTU2 has one status where R4 has two, of which an empty one is left out.
_STATUSES: Mapping[str, tuple[str, str]] = {
    "active": ("active", ""),
    "unconfirmed": ("active", "unconfirmed"),
    "confirmed": ("active", "confirmed"),
    "inactive": ("inactive", "unconfirmed"),
    "resolved": ("resolved", ""),
    "refuted": ("", "refuted"),
    "entered-in-error": ("", "entered-in-error"),
}
_CODED = (("clinicalStatus", ALLERGY_CLINICAL), ("verificationStatus", ALLERGY_VERIFICATION))
_CRITICALITIES = {"CRITL": "low", "CRITH": "high", "CRITU": "unable-to-assess"}
# DSTU2's classes of an encounter: code and display in v3-ActCode.
_CLASSES: Mapping[str, tuple[str, str]] = {
    "inpatient": ("IMP", "inpatient encounter"),
    "outpatient": ("AMB", "ambulatory"),
    "ambulatory": ("AMB", "ambulatory"),
    "emergency": ("EMER", "emergency"),
    "home": ("HH", "home health"),
    "field": ("FLD", "field"),
    "daytime": ("SS", "short stay"),
    "virtual": ("VR", "virtual"),
}
_UNKNOWN = {"extension": [{"url": DATA_ABSENT_REASON, "valueCode": "unknown"}]}
_PARTIAL = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?", re.ASCII)
_DAY = len("2024-03-01")


class _Element(NamedTuple):
    """The element of an object that a row names; path is that of the object, with its dot."""

    log: RepairLog
    type_: str | Check
    holder: dict[str, Any]
    path: str
    name: str

    @property
    def value(self) -> Any:
        return self.holder.get(self.name)

    @property
    def code(self) -> str:
        """The value without white space around it; "" for what is no string."""
        return self.value.strip() if type(self.value) is str else ""

    @property
    def whole_name(self) -> str:
        """What rows are about the members of the element: Patient.link."""
        return f"{self.type_}.{self.name}"

    def did(self, rule: str, before: Any, after: Any) -> None:
        self.log.did(self.path + self.name, rule, before, after)

    def cannot(self, message: str) -> None:
        self.log.cannot(self.path + self.name, message)

    def convert(self, rule: str, value: Any) -> None:
        """Replace the value, which is there."""
        before, self.holder[self.name] = self.value, value
        self.did(rule, before, value)

    def extend(self, name: str, before: Any, value: Any, url: str = "") -> None:
        """Add an extension to the object, HL7's for the element; name is that of value[x]."""
        extension = {"url": url or _DSTU2 + self.whole_name, name: value}
        extensions = self.holder.setdefault("extension", [])
        if type(extensions) is not list:
            self.cannot("cannot become an extension: there is one that is no list")
            return
        extensions.append(extension)
        self.did("extension", before, extension)


def older_to_r4(log: RepairLog, holder: dict[str, Any], type_: str | Check, path: str = "") -> None:
    """Give the elements of the older versions R4's names, codes and types."""
    for name, operation, arguments in _BY_TYPE.get(type_, ()):
        operation(_Element(log, type_, holder, path, name), *arguments)


def first_moment(log: RepairLog, value: str, path: str) -> str:
    """Return the first moment of a date, in UTC; an instant is returned as it is."""
    parts = _PARTIAL.fullmatch(value)
    if parts is None:
        return value
    moment = f"{parts[1]}-{parts[2] or '01'}-{parts[3] or '01'}T00:00:00+00:00"
    log.did(path, "instant", value, moment)
    return moment


# Operations on any element.


def _each(at: _Element, type_: str = "") -> None:
    """Convert the members of an element by the rows of their type."""
    for place, member in enumerate(listed(at.value)):
        if type(member) is dict:
            older_to_r4(at.log, member, type_ or at.whole_name, f"{at.path}{at.name}[{place}].")


def _inside(at: _Element) -> None:
    """Convert an element that is not repeated by the rows of its type."""
    if type(at.value) is dict:
        older_to_r4(at.log, at.value, at.whole_name, f"{at.path}{at.name}.")


def _rename(at: _Element, name: str) -> None:
    """Rename an element, and its extensions too."""
    for old, new in ((at.name, name), (f"_{at.name}", f"_{name}")):
        if old not in at.holder:
            continue
        if at.holder.get(new, at.holder[old]) != at.holder[old]:
            at._replace(name=old).cannot(f"contradicts {new}, its name in FHIR R4")
            continue
        value = at.holder.pop(old)
        at.holder[new] = value
        at._replace(name=old).did("renamed", old, new)


def _move_into(at: _Element, element: str, name: str) -> None:
    """Make an element a part of another one: userId becomes who.identifier."""
    if at.name not in at.holder:
        return
    target = at.holder.setdefault(element, {})
    if type(target) is not dict or target.get(name, at.value) != at.value:
        at.cannot(f"contradicts {element}.{name}, its name in FHIR R4")
        return
    target[name] = at.holder.pop(at.name)
    if at.name == name and f"_{name}" in at.holder:
        target[f"_{name}"] = at.holder.pop(f"_{name}")
    at.did("renamed", at.name, f"{element}.{name}")


def _recode(at: _Element, codes: Mapping[str, str]) -> None:
    if code := codes.get(at.code):
        at.convert("code", code)


def _to_concept(at: _Element, system: str) -> None:
    """Make a CodeableConcept of a code, whose extensions stay the code's."""
    if type(at.value) is str:
        coding: dict[str, Any] = {"system": system, "code": at.code}
        if f"_{at.name}" in at.holder:
            coding["_code"] = at.holder.pop(f"_{at.name}")
        at.convert("code", {"coding": [coding]})


def _wrap_codings(at: _Element, *, repeats: bool = True) -> None:
    """Make CodeableConcepts of Codings, in a list or alone."""
    where = at.path + at.name
    if repeats and type(at.value) is list:
        at.holder[at.name] = [
            _concept(at.log, item, f"{where}[{place}]") for place, item in enumerate(at.value)
        ]
    elif at.name in at.holder:
        at.holder[at.name] = _concept(at.log, at.value, where)


def _concept(log: RepairLog, value: Any, path: str) -> Any:
    """Return a Coding as a CodeableConcept; any other value as it is."""
    names = {name.removeprefix("_") for name in value} if type(value) is dict else set()
    is_concept = names <= datatypes.CodeableConcept.elements.keys()
    if is_concept or names - datatypes.Coding.elements.keys():
        return value
    log.did(path, "code", value, {"coding": [value]})
    return {"coding": [value]}


def _to_extension(at: _Element, name: str, url: str = "", fault: str = "") -> None:
    """Keep in an extension an element that R4 has not; fault is that of its own extensions."""
    if fault and f"_{at.name}" in at.holder:
        at.log.cannot(f"{at.path}_{at.name}", fault)
    elif at.name in at.holder:
        before = at.holder.pop(at.name)
        at.extend(name, before, before, url)


def _code_to_extension(at: _Element, only: str = "") -> None:
    """Keep in an extension a code that R4 has not."""
    if type(at.value) is str and f"_{at.name}" not in at.holder and only in ("", at.code):
        code, before = at.code, at.holder.pop(at.name)
        at.extend("valueCode", before, code)


def _nest(at: _Element, values: Mapping[str, str], url: str = "") -> None:
    """Keep an element with members, which R4 has not, in extensions of extensions.

    values has the name of value[x] for each member.
    """
    if at.name not in at.holder:
        return
    items, extensions = listed(at.value), at.holder.get("extension", [])
    made = [_nested(item, url or _DSTU2 + at.whole_name, values) for item in items]
    if type(extensions) is not list or None in made:
        at.cannot("cannot become an extension")
        return
    del at.holder[at.name]
    at.holder["extension"] = [*extensions, *made]
    for before, after in zip(items, made, strict=True):
        at.did("extension", before, after)


def _nested(item: Any, url: str, values: Mapping[str, str]) -> dict[str, Any] | None:
    if type(item) is not dict or item.keys() - values.keys() - {"id", "extension"}:
        return None
    parts = [
        {"url": member, values[member]: value}
        for member, content in item.items()
        if member in values
        for value in listed(content)
    ]
    own = {"id": item["id"]} if "id" in item else {}
    return {**own, "url": url, "extension": [*parts, *listed(item.get("extension"))]}


def _require(at: _Element, value: Any) -> None:
    """Add what the older versions do not require, as unknown."""
    if at.name not in at.holder:
        at.holder[at.name] = deepcopy(value)
        at.did("absent", None, at.value)


def _refer(at: _Element) -> None:
    """Make a Reference of who[x], onBehalfOf[x] or what[x], which STU3 has in several types."""
    _rename(at._replace(name=f"{at.name}Reference"), at.name)
    for kind, element in (("Uri", "reference"), ("Identifier", "identifier")):
        old = at._replace(name=f"{at.name}{kind}")
        if old.name not in at.holder:
            continue
        if at.name in at.holder:
            old.cannot(f"contradicts {at.name}, its name in FHIR R4")
            continue
        reference = {element: at.holder.pop(old.name)}
        if kind == "Uri":
            reference["extension"] = [{"url": f"{_STU3}BaseType", "valueString": "uri"}]
            if f"_{old.name}" in at.holder:
                reference["_reference"] = at.holder.pop(f"_{old.name}")
        at.holder[at.name] = reference
        old.did("renamed", old.name, f"{at.name}.{element}")


# Operations on one element.


def _split_status(at: _Element) -> None:
    """Make clinicalStatus and verificationStatus of DSTU2's status of an allergy."""
    if at.name not in at.holder and "_status" not in at.holder:
        return
    if at.code not in _STATUSES:
        at.cannot(f"is not a status of DSTU2: {', '.join(_STATUSES)}")
    elif any(name in at.holder for name, _ in _CODED):
        at.cannot("is DSTU2's, and clinicalStatus or verificationStatus is there too")
    elif "_status" in at.holder:
        at.log.cannot("_status", "has extensions, and R4 has two elements for the one")
    else:
        codes = _STATUSES[at.code]
        before = at.holder.pop(at.name)
        for (name, system), code in zip(_CODED, codes, strict=True):
            if code:
                at.holder[name] = {"coding": [{"system": system, "code": code}]}
                at.did("code", before, at.holder[name])


def _add_category(at: _Element) -> None:
    if at.name in at.holder:
        class_, categories = at.holder.pop(at.name), listed(at.holder.get("category"))
        at.holder["category"] = categories if class_ in categories else [*categories, class_]
        at.did("renamed", at.name, "category")


def _document_status(at: _Element) -> None:
    """Make a code of DSTU2's CodeableConcept; what a code cannot express is kept beside it."""
    if type(at.value) is not dict:
        return
    before = at.holder.pop(at.name)
    codes = [
        coding["code"]
        for coding in listed(before.get("coding"))
        if type(coding) is dict and coding.get("system") == _COMPOSITION_STATUS and "code" in coding
    ]
    if codes:
        at.holder[at.name] = codes[0]
        at.did("code", before, codes[0])
    if before != {"coding": [{"system": _COMPOSITION_STATUS, "code": codes[0] if codes else ""}]}:
        at.extend(_CONCEPT, before, before)


def _first_format(at: _Element) -> None:
    """Keep the first of DSTU2's formats, and the others beside it."""
    if type(formats := at.value) is list and formats:
        at.holder[at.name] = formats[0]
        at.did("code", formats, formats[0])
        for other in formats[1:]:
            at.extend("valueCoding", other, other)


def _merge_reference(at: _Element) -> None:
    """Put the elements of ref beside identifier, as one Reference."""
    if at.name not in at.holder:
        return
    if type(reference := at.value) is not dict:
        at.cannot("is not a Reference")
        return
    twice = [name for name in reference if at.holder.get(name, reference[name]) != reference[name]]
    if twice:
        at._replace(name=twice[0]).cannot(f"contradicts ref.{twice[0]}")
        return
    del at.holder[at.name]
    at.holder.update(reference)
    at.did("renamed", at.name, "reference")


def _to_instant(at: _Element) -> None:
    """Make an instant of a day.

    A month or a year stays as it is, which this server can keep: the first moment of a year is not
    what was meant.
    """
    if len(at.code) == _DAY:
        at.holder[at.name] = first_moment(at.log, at.code, at.name)


def _encounter_class(at: _Element) -> None:
    """Make a Coding of DSTU2's code. R4 requires a class, the older versions do not."""
    code, display = _CLASSES.get(at.code, (at.code, ""))
    if display or code == "other":
        coding: dict[str, Any] = {"system": "http://hl7.org/fhir/encounter-class", "code": code}
        if display:
            coding = {"system": f"{CT}v3-ActCode", "code": code, "display": display}
        if "_class" in at.holder:
            coding["_code"] = at.holder.pop("_class")
        at.convert("code", coding)
    elif "_class" not in at.holder:
        _require(at, _UNKNOWN)


def _to_diagnoses(at: _Element, code: str = "", display: str = "") -> None:
    """Make entries of Encounter.diagnosis of DSTU2's references to conditions.

    code and display are the use of a diagnosis, of those at the hospitalization.
    """
    way, _, name = at.name.rpartition(".")
    holder = at.holder.get(way) if way else at.holder
    if type(holder) is not dict:
        return
    use = {"coding": [{"system": f"{CT}diagnosis-role", "code": code, "display": display}]}
    references = listed(holder.pop(name, None))
    for _ in references:
        at.did("renamed", name, "diagnosis.condition")
    made = [{"condition": item, **({"use": use} if code else {})} for item in references]
    if made:
        at.holder["diagnosis"] = [*listed(at.holder.get("diagnosis")), *made]
    if not holder:
        del at.holder[way]


def _join_family(at: _Element) -> None:
    """Make one family name of DSTU2's list."""
    family, beside = at.value, at.holder.get("_family")
    if type(family) is not list and type(beside) is not list:
        return
    parts, extensions = listed(family), [item for item in listed(beside) if item]
    words = [part for part in parts if part is not None]
    is_ambiguous = len(extensions) > 1 or (extensions and len(parts) > 1)
    if is_ambiguous or any(type(word) is not str for word in words):
        at.cannot("has several parts with extensions of their own; R4 has one")
        return
    at.holder.pop("family", None)
    at.holder.pop("_family", None)
    if words:
        at.holder["family"] = " ".join(words)
    if extensions:
        at.holder["_family"] = extensions[0]
    at.did("joined", family, at.value)


# The type, or the element whose members the row is about; the path; the operation, its arguments.
_ROWS: tuple[tuple[Any, ...], ...] = (
    ("AllergyIntolerance", "substance", _rename, "code"),
    ("AllergyIntolerance", "reporter", _rename, "asserter"),
    ("AllergyIntolerance", "lastOccurence", _rename, "lastOccurrence"),
    ("AllergyIntolerance", "onset", _rename, "onsetDateTime"),
    ("AllergyIntolerance", "assertedDate", _rename, "recordedDate"),
    ("AllergyIntolerance", "status", _split_status),
    ("AllergyIntolerance", "clinicalStatus", _to_concept, ALLERGY_CLINICAL),
    ("AllergyIntolerance", "verificationStatus", _to_concept, ALLERGY_VERIFICATION),
    ("AllergyIntolerance", "criticality", _recode, _CRITICALITIES),
    # R4 has no category "other".
    ("AllergyIntolerance", "category", _code_to_extension, "other"),
    ("AllergyIntolerance", "reaction", _each),
    ("AllergyIntolerance.reaction", "certainty", _code_to_extension),
    ("Binary", "content", _rename, "data"),
    ("DocumentReference", "indexed", _rename, "date"),
    ("DocumentReference", "class", _add_category),
    ("DocumentReference", "created", _to_extension, "valueDateTime", _CREATED, _NO_PLACE),
    ("DocumentReference", "docStatus", _document_status),
    ("DocumentReference", "content", _each),
    ("DocumentReference", "context", _inside),
    ("DocumentReference", "date", _to_instant),
    ("DocumentReference.content", "format", _first_format),
    ("DocumentReference.context", "related", _each),
    ("DocumentReference.context.related", "ref", _merge_reference),
    ("Encounter", "patient", _rename, "subject"),
    ("Encounter", "reason", _rename, "reasonCode"),
    ("Encounter", "incomingReferral", _rename, "basedOn"),
    ("Encounter", "class", _encounter_class),
    ("Encounter", "diagnosis", _each),
    ("Encounter", "indication", _to_diagnoses),
    ("Encounter", "hospitalization.admittingDiagnosis", _to_diagnoses, "AD", "Admission diagnosis"),
    ("Encounter", "hospitalization.dischargeDiagnosis", _to_diagnoses, "DD", "Discharge diagnosis"),
    ("Encounter.diagnosis", "role", _rename, "use"),
    ("Patient", "careProvider", _rename, "generalPractitioner"),
    ("Patient", "animal", _nest, _ANIMAL, _ANIMAL_URL),
    ("Patient", "link", _each),
    # DSTU2's "replace" means that the other record is to be used instead.
    ("Patient.link", "type", _recode, {"replace": "replaced-by"}),
    ("Practitioner", "practitionerRole", _nest, _ROLE),
    ("Provenance", "period", _rename, "occurredPeriod"),
    ("Provenance", "activity", partial(_wrap_codings, repeats=False)),
    ("Provenance", "reason", _wrap_codings),
    ("Provenance", "agent", _require, [{"who": _UNKNOWN}]),
    ("Provenance", "agent", _each),
    ("Provenance", "entity", _each),
    ("Provenance.agent", "role", _wrap_codings),
    ("Provenance.agent", "actor", _rename, "who"),
    ("Provenance.agent", "relatedAgentType", _rename, "type"),
    ("Provenance.agent", "who", _refer),
    ("Provenance.agent", "onBehalfOf", _refer),
    ("Provenance.agent", "relatedAgent", _nest, _RELATED),
    ("Provenance.agent", "userId", _move_into, "who", "identifier"),
    ("Provenance.agent", "who", _require, _UNKNOWN),
    ("Provenance.entity", "what", _refer),
    ("Provenance.entity", "reference", _move_into, "what", "reference"),
    ("Provenance.entity", "display", _move_into, "what", "display"),
    ("Provenance.entity", "type", _to_extension, "valueCoding"),
    ("Provenance.entity", "agent", _each, "Provenance.agent"),
    (datatypes.HumanName, "family", _join_family),
    (datatypes.Signature, "contentType", _rename, "sigFormat"),
    (datatypes.Signature, "blob", _rename, "data"),
    (datatypes.Signature, "who", _refer),
    (datatypes.Signature, "onBehalfOf", _refer),
)
_BY_TYPE: dict[Any, list[tuple[str, Callable[..., None], tuple[Any, ...]]]] = defaultdict(list)
for _type, _path, _operation, *_arguments in _ROWS:
    _BY_TYPE[_type].append((_path, _operation, tuple(_arguments)))
