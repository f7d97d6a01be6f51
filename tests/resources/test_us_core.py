"""The checks of tests/us_core.py find every fault that is planted, and invent none."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fhirapp.fhir import terminology
from tests.support import r4
from tests.support.helpers import FHIR_JSON
from tests.support.importing import asking
from tests.support.us_core import PROFILE, PROFILES, UsCore, all_faults, packages_in

# Seeded; each is valid as it is served.
ALLERGY = "AllergyIntolerance/al-p1-penicillin"
STUNG = "AllergyIntolerance/al-p7-bee"  # its recorder is contained
NOTE = "DocumentReference/doc-p1-consult-2025"
VISIT = "Encounter/enc-p1-2024-pneumonia"
CLINIC = "Organization/org-lakeside"
PERSON = "Patient/p1"
DOCTOR = "Practitioner/dr-sato"
SOURCE = "Provenance/prov-p1-list"
BYTES = "Binary/bin-p1-consult-2025"

R4 = ("R4",)
OLD = ("US Core 6.1.0",)
BOTH = ("US Core 6.1.0", "US Core 8.0.0")
NONE = object()
NO_FIT = "does not fit "
STATUS = "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification"
XHTML = '<div xmlns="http://www.w3.org/1999/xhtml">'
SEX = {"url": PROFILE + "us-core-birthsex", "valueCode": "F"}


class Same(NamedTuple):
    """The value at another path of the resource."""

    path: str


def verified(code: str) -> dict[str, Any]:
    """Return a verificationStatus."""
    return {"coding": [{"system": STATUS, "code": code}]}


# What is planted: in which resource, at which path (past the end of a list: added), which value.
# What must be said: by whom, of which path, and in which words.
PLANTED = [
    # R4: elements, how often, and of which type
    (PERSON, "nickname", "Amy", R4, "nickname", "Extra inputs"),
    (ALLERGY, "patient", NONE, R4, "patient", "Field required"),
    (PERSON, "name", {"family": "Hartwell"}, R4, "name", "valid list"),
    (ALLERGY, "patient", "Patient/p1", R4, "patient", "valid"),
    (ALLERGY, "onsetString", "as a child", R4, "", "got multiple"),
    # R4: primitives
    (PERSON, "active", "true", R4, "active", "'true' is no boolean"),
    (NOTE, "content.0.attachment.size", "9", R4, "content[0].attachment.size", "'9' is no unsig"),
    (PERSON, "birthDate", "1958-02-30", R4, "birthDate", "outside expected range"),
    (ALLERGY, "recordedDate", "2023-02-14T09:41+00:00", R4, "recordedDate", "spec regex"),
    (ALLERGY, "meta.lastUpdated", "2023-02-14", R4, "meta.lastUpdated", "spec regex"),
    (PERSON, "id", "p_1", R4, "id", "pattern"),
    (PERSON, "identifier.0.system", "a b", R4, "identifier[0].system", "'a b' is no uri"),
    (PERSON, "gender", " female", R4, "gender", "' female' is no code"),
    (PERSON, "name.0.family", "", R4, "name[0].family", "is empty"),
    (PERSON, "name.1", {}, R4, "name[1]", "is empty"),
    (BYTES, "data", "%%%", R4, "data", "'%%%' is no base64Binary"),
    (PERSON, "text.div", f"{XHTML}<p>x</div>", R4, "text.div", "is no xhtml"),
    (PERSON, "text.div", f"{XHTML}<script>x</script></div>", R4, "text.div", "is no xhtml"),
    # R4: what its datatypes bind and demand
    (PERSON, "name.0.use", "offical", R4, "name[0].use", "'offical' is not in name-use"),
    (NOTE, "content.0.attachment.contentType", NONE, R4, "content[0].attachment", "att-1"),
    (VISIT, "period.end", "2023-12-31", R4, "period", "per-1"),
    (PERSON, "extension.2.valueCode", NONE, R4, "extension[2]", "ext-1"),
    (STUNG, "recorder.reference", "#nobody", R4, "contained", "#nobody is not contained"),
    # US Core: how often
    (NOTE, "category", NONE, BOTH, "category", "0 of 1..*"),
    (NOTE, "context.encounter.1", Same("context.encounter.0"), BOTH, "context.encounter", "2 of 0"),
    (PERSON, "identifier.0.system", NONE, BOTH, "identifier[0].system", "0 of 1..1"),
    (PERSON, "gender", NONE, OLD, "gender", "0 of 1..1"),
    (CLINIC, "address.0.line", list("abcde"), BOTH, "address[0].line", "5 of 0..4"),
    # US Core: slices, and extensions, which are slices too
    (SOURCE, "agent.1.who", NONE, BOTH, "agent[1].who", "0 of 1..1"),
    (PERSON, "extension.3", Same("extension.0"), BOTH, "extension:race", "2 of 0..1"),
    (PERSON, "extension.0.extension.1", NONE, BOTH, "extension[0].extension:text", "0 of 1..1"),
    (PERSON, "extension.0.valueString", "White", BOTH, "extension[0].value[x]", "1 of 0..0"),
    (CLINIC, "extension", [SEX], BOTH, "extension[0]", "us-core-birthsex may not stand here"),
    # US Core: the type of a choice
    (PERSON, "extension.0.extension.1", {"url": "text", "valueCode": "White"}, BOTH,
     "extension[0].extension[1].valueCode", "no choice of"),
    # US Core: required bindings, by system and code
    (PERSON, "extension.0.extension.0.valueCoding.system", "urn:x", BOTH,
     "extension[0].extension[0].valueCoding", NO_FIT),
    (PERSON, "extension.1.extension.0.valueCoding.code", "2106-3", BOTH,
     "extension[1].extension[0].valueCoding", NO_FIT),
    (ALLERGY, "criticality", "severe", BOTH, "criticality", NO_FIT),
    (ALLERGY, "clinicalStatus.coding.0.system", STATUS, BOTH, "clinicalStatus", NO_FIT),
    (ALLERGY, "clinicalStatus", {"text": "active"}, BOTH, "clinicalStatus", NO_FIT),
    (NOTE, "type.coding.0.system", "http://snomed.info/sct", BOTH, "type", NO_FIT),
    # US Core: what references point to
    (ALLERGY, "patient.reference", DOCTOR, BOTH, "patient", "of no type that this points to"),
    (STUNG, "patient.reference", "#camp-doctor", BOTH, "patient", "#camp-doctor is of no type"),
    (NOTE, "custodian.reference", f"https://a.example/{PERSON}", BOTH, "custodian", "of no type"),
    # US Core: invariants
    (ALLERGY, "clinicalStatus", NONE, BOTH, "", "ait-1"),
    (ALLERGY, "verificationStatus", verified("entered-in-error"), BOTH, "", "ait-2"),
    (PERSON, "name.0", {"text": "Amelia Hartwell"}, BOTH, "name[0]", "us-core-6"),
    (NOTE, "content.0.attachment", {"contentType": "a/b"}, BOTH, "content[0].attachment", "us-c"),
    (DOCTOR, "identifier.0.value", "1234567890", BOTH, "identifier[0]", "us-core-17"),
    (CLINIC, "address.0.use", "home", BOTH, "address[0]", "org-2"),
    (SOURCE, "agent.0", {"who": {"reference": DOCTOR}}, BOTH, "agent[0]", "provenance-1"),
    # US Core: what is claimed
    (PERSON, "meta.profile.0", PROFILES["Encounter"], BOTH, "meta.profile", "no profile of"),
]  # fmt: skip


@pytest.fixture(scope="module")
def packages(shared: Path) -> tuple[UsCore, ...]:
    """US Core 6.1.0 and 8.0.0."""
    return packages_in(shared)


def at(content: Any, path: str) -> Any:
    """Return the value at a path."""
    for step in filter(None, path.split(".")):
        content = content[int(step) if isinstance(content, list) else step]
    return content


def plant(resource: dict[str, Any], path: str, value: Any) -> None:
    """Put a value at a path, or take away what is there."""
    above, _, last = path.rpartition(".")
    holder = at(resource, above)
    if isinstance(holder, list):
        holder[int(last) : int(last) + 1] = [] if value is NONE else [value]
    elif value is NONE:
        del holder[last]
    else:
        holder[last] = value


@pytest.mark.parametrize(("planted_in", "by"), dict.fromkeys((row[0], row[3]) for row in PLANTED))
def test_each_planted_fault_is_found(app, packages, planted_in, by):
    answer = asking(app).get(planted_in, headers={"Accept": FHIR_JSON})
    served = answer.get_json(force=True)
    assert all_faults(served, packages) == []
    missed = []
    asked = packages if by != R4 else ()
    rows = [row for row in PLANTED if (row[0], row[3]) == (planted_in, by)]
    for _, path, value, _, where, says in rows:
        resource = deepcopy(served)
        planted = at(resource, value.path) if isinstance(value, Same) else value
        plant(resource, path, deepcopy(planted) if planted is not NONE else NONE)
        of = f"{resource['resourceType']}.{where}".rstrip(".")
        faults = all_faults(resource, asked)
        for who in by:
            said = [fault for fault in faults if fault.startswith(f"{of}: {who}: ")]
            if not any(says in fault for fault in said):
                missed.append((path, who, faults))
    assert missed == []


def test_valid_resource_has_no_faults(packages):
    """A reason why a value is absent stands for it, and a choice of any type is one."""
    absent = {"url": "http://hl7.org/fhir/StructureDefinition/data-absent-reason"}
    unknown = {"extension": [{**absent, "valueCode": "unknown"}]}
    patient = {
        "resourceType": "Patient",
        "meta": {"profile": [f"{PROFILES['Patient']}|7.0.0"]},
        "identifier": [{"system": "urn:x", "_value": unknown}],
        "name": [unknown, {"given": [None, "Ada"], "_given": [unknown, None]}],
        "_gender": unknown,
        "deceasedDateTime": "2020",
        "multipleBirthInteger": 2,
    }
    assert all_faults(patient, packages) == []


def test_the_examples_of_us_core_have_no_faults(packages):
    asked = 0
    for package in packages:
        for example in package.examples:
            claimed = example.get("meta", {}).get("profile", ())
            own = PROFILES.get(example["resourceType"])
            if own in [canonical.partition("|")[0] for canonical in claimed]:
                asked += 1
                found = [*r4.faults(example), *package.faults(example, claimed)]
                assert found == [], example["id"]
    assert asked > 30


def test_the_parameters_that_us_core_searches_together_are_named_together(app, packages):
    listed = app.test_client().get("/fhir/metadata").get_json(force=True)["rest"][0]["resource"]
    own = {resource["type"]: combinations(resource) for resource in listed}
    wanted: dict[str, set[frozenset[str]]] = {name: set() for name in own}
    for package in packages:
        server = package._by_url[terminology.US_CORE_SERVER]
        for definition in server["rest"][0]["resource"]:
            if definition["type"] in wanted:
                wanted[definition["type"]] |= combinations(definition)
    assert own == wanted
    assert sum(map(len, own.values())) > 20


def combinations(resource: dict) -> set[frozenset[str]]:
    """Return the names of parameters that a CapabilityStatement names together."""
    return {
        frozenset(one["valueString"] for one in extension["extension"] if one["url"] == "required")
        for extension in resource.get("extension", ())
        if extension["url"].endswith("search-parameter-combination")
    }
