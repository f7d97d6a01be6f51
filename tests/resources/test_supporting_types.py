"""Patient, Encounter, Practitioner and Organization are searched as US Core requires."""

from __future__ import annotations

import tarfile
from functools import cache
from json import loads
from pathlib import Path
from typing import Any

import pytest

from tests.support.contract import SERVED
from tests.support.helpers import ids

MRN = "http://lakeside.example/fhir/mrn"
NPI = "http://hl7.org/fhir/sid/us-npi"
TYPES = ("Patient", "Encounter", "Practitioner", "Organization")


FOUND = [
    ("Patient?_id=p1,p4", ["p4", "p1"]),
    (f"Patient?identifier={MRN}|LGH-100385", ["p5"]),
    ("Patient?identifier=LGH-100385", ["p5"]),
    ("Patient?identifier:of-type=http://terminology.hl7.org/CodeSystem/v2-0203|MR|LGH-100385",
     ["p5"]),
    ("Patient?name=okafor", ["p13", "p4"]),
    ("Patient?name=OKAFOR&birthdate=1994-07-30", ["p4"]),
    ("Patient?name=okafor&gender=female", ["p4"]),
    ("Patient?name=grace adaeze okafor", ["p4"]),
    ("Patient?name=ekstrom", ["p9"]),
    ("Patient?name=kafor", []),
    ("Patient?name:contains=kafor", ["p13", "p4"]),
    ("Patient?family=okafor&birthdate=1994-07-30", ["p4"]),
    ("Patient?family=okafor&gender=male", ["p13"]),
    ("Patient?family=brandt&death-date=2025-03-02", ["p5"]),
    ("Patient?given:exact=Theo", ["p13"]),
    ("Patient?given=okafor", []),
    ("Patient?birthdate=ge2017&birthdate=lt2026", ["p13", "p3"]),
    ("Patient?gender=http://hl7.org/fhir/administrative-gender|other", ["p10"]),
    ("Patient?gender=unknown", []),
    ("Patient?active=false", ["p14"]),
    ("Patient?language=sv,es", ["p9", "p2"]),
    ("Patient?telecom=555-0145", ["p5"]),
    ("Patient?phone=555-0145", ["p5"]),
    ("Patient?phone=phone|555-0145", ["p5"]),
    ("Patient?email=555-0145", []),
    ("Patient?phone=555-0145&phone:missing=false", ["p5"]),
    ("Patient?_id=p5&phone:missing=true", []),
    ("Patient?_id=p5&email:missing=true", ["p5"]),
    ("Patient?deceased=true", ["p5"]),
    ("Patient?deceased=http://terminology.hl7.org/CodeSystem/special-values|true", ["p5"]),
    ("Patient?_id=p5,p4&deceased=false", ["p4"]),
    ("Patient?_id=p5,p4&deceased:not=true", ["p4"]),
    ("Patient?_id=p5,p4&deceased:missing=true", []),
    ("Patient?phonetic=Ocafore", ["p13", "p4"]),
    ("Patient?phonetic=Ocafore&phonetic=Greece", ["p4"]),
    ("Practitioner?phonetic=lyndholm", ["dr-lindholm"]),
    ("Organization?phonetic=harber", ["org-harbor"]),
    ("Patient?address-city=millbrook", ["p7"]),
    ("Patient?general-practitioner=dr-lindholm", ["p13", "p3"]),
    ("Patient?link=Patient/p12", ["p14"]),
    ("Encounter?_id=enc-p2-2023-ed", ["enc-p2-2023-ed"]),
    ("Encounter?identifier=http://lakeside.example/fhir/visit|V-P2-2023-ED",
     ["enc-p2-2023-ed"]),
    ("Encounter?patient=p2",
     ["enc-p2-2025-visit", "enc-p2-2023-appendix", "enc-p2-2023-ed"]),
    # The admission ends on another day.
    ("Encounter?patient=p2&date=2023-06-11", ["enc-p2-2023-ed"]),
    ("Encounter?patient=p2&date=ge2023-06-11T07:30:00Z",
     ["enc-p2-2025-visit", "enc-p2-2023-appendix"]),
    ("Encounter?patient=p2&date=gt2023-06-11T07:30:00Z&date=lt2024",
     ["enc-p2-2023-appendix"]),
    ("Encounter?patient=Patient/p2&class=EMER", ["enc-p2-2023-ed"]),
    ("Encounter?patient=p2&type=http://snomed.info/sct|305408004", ["enc-p2-2023-appendix"]),
    ("Encounter?patient=p2&status=in-progress", []),
    ("Encounter?patient=p12&discharge-disposition:missing=false", ["enc-p12-2023-knee"]),
    ("Encounter?patient=p1&location:missing=false",
     ["enc-p1-2024-pneumonia", "enc-p1-2024-ed"]),
    ("Encounter?practitioner=dr-novak", ["enc-p6-2024-colonoscopy", "enc-p2-2023-appendix"]),
    ("Encounter?service-provider=org-northgate&date=2023",
     ["enc-p3-2023-wellchild", "enc-p1-2023-checkup"]),
    ("Practitioner?_id=dr-novak", ["dr-novak"]),
    ("Practitioner?name=kar", ["dr-lindholm"]),
    ("Practitioner?family=lindholm&given=karin", ["dr-lindholm"]),
    (f"Practitioner?identifier={NPI}|9999901082", ["dr-novak"]),
    ("Practitioner?communication=sv,es", ["dr-lindholm", "dr-castellanos"]),
    ("Organization?name=harbor", ["org-harbor"]),
    # the alias
    ("Organization?name=lgh", ["org-lakeside"]),
    ("Organization?address=millbrook", ["org-meridian"]),
    ("Organization?address:contains=foundry", ["org-meridian"]),
    (f"Organization?identifier={NPI}|9999901009", ["org-lakeside"]),
    ("Organization?partof=org-lakeside", ["org-northgate"]),
]  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_a_search_finds(fhir, name):
    rows = [row for row in FOUND if row[0].startswith(name)]
    assert {path: fhir.ids(path) for path, _ in rows} == dict(rows)


@cache
def us_core_server(shared: Path, version: str) -> dict[str, Any]:
    """Return what US Core's server does with each type, by its name."""
    with tarfile.open(shared / f"data/us-core/us_core_{version}.tgz") as archive:
        member = archive.extractfile("package/CapabilityStatement-us-core-server.json")
        assert member
        statement = loads(member.read())
    return {definition["type"]: definition for definition in statement["rest"][0]["resource"]}


@pytest.mark.parametrize("version", ["610", "800"])
@pytest.mark.parametrize("name", TYPES)
def test_each_parameter_and_combination_of_us_core_is_there(fhir, shared, name, version):
    asked = us_core_server(shared, version)[name]
    single = {parameter["name"] for parameter in asked.get("searchParam", ())}
    together = [
        {one["valueString"] for one in extension["extension"] if one["url"] == "required"}
        for extension in asked.get("extension", ())
        if extension["url"].endswith("search-parameter-combination")
    ]
    known = SERVED[name].params.by_name
    assert single <= known.keys()
    values = {"date": "2023", "token": "x", "string": "x", "reference": "x"}
    for names in [{parameter} for parameter in single] + together:
        query = {one: values[known[one].kind] for one in names}
        response = fhir.get(name, query_string=query)
        assert response.status_code == 200


STRICT = [
    ("Practitioner?name=karin", ["dr-lindholm"]),
    ("Organization?name=lgh", ["org-lakeside"]),
    ("Patient?name=okafor&gender=female", ["p4"]),
    ("Encounter?identifier=V-P2-2023-ED", ["enc-p2-2023-ed"]),
    ("Provenance?target=AllergyIntolerance/al-p4-nkda", ["prov-p4-nkda"]),
    ("DiagnosticReport?category=LP29708-2", ["doc-p5-imaging-2023"]),
]


def test_strict_handling_asks_for_no_patient_here(fhir):
    """decisions 2.4: of the two types of service.md alone."""
    for path, found in STRICT:
        response = fhir.get(path, headers={"Prefer": "handling=strict"})
        assert response.status_code == 200
        assert ids(response.get_json(force=True)) == found


def test_a_patient_finds_the_own_patient_and_encounters_alone(as_patient):
    fhir = as_patient("p2")
    assert fhir.ids("Patient") == ["p2"]
    assert fhir.ids("Patient?_id=p2,p4") == ["p2"]
    assert fhir.ids("Patient?_id=p4") == []
    assert fhir.ids("Patient?name=okafor") == []
    assert fhir.read("Patient?_summary=count")["total"] == 1
    assert fhir.ids("Encounter") == fhir.ids("Encounter?patient=p2") != []
    assert fhir.ids("Encounter?_id=enc-p4-2025-birth") == []
