"""Clinical documents as resources: valid, linked, and the same whenever they come.

tests/ccda has a sample document, NAME.xml, and what becomes of it, NAME.json: resources by
Type/number. What the rules for one element are is in tests/ccda/rules (test_ccda_rules.py).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from fhirapp.clinical.summary import entries_of
from fhirapp.definition import types
from fhirapp.features.imports.ccda import identities
from fhirapp.store.prepare import prepare
from tests.support.ccda_rules import cases, document, rules
from tests.support.ccda_samples import (
    NAMES,
    SAMPLES,
    SSN,
    Resource,
    labelled,
    of_type,
    only,
    read,
    sample,
    served,
)
from tests.support.us_core import UsCore, all_faults, packages_in

LAKESIDE = ("http://hl7.org/fhir/sid/us-npi", "1555001019")
MRN = ("urn:oid:2.16.840.1.113883.19.5.99999.2", "MRN-40081")


def bytes_of(name: str) -> bytes:
    return (SAMPLES / f"{name}.xml").read_bytes()


def references(value: Any) -> Iterator[str]:
    """Yield what a resource refers to."""
    if isinstance(value, dict):
        if isinstance(value.get("reference"), str):
            yield value["reference"]
        value = list(value.values())
    for content in value if isinstance(value, list) else ():
        yield from references(content)


def allergies(*entries: str, **others: Any) -> list[Resource]:
    """Return the allergies of a document in the notation of the rules."""
    return of_type(read(document(list(entries), **others)), "AllergyIntolerance")


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_becomes_the_resources_beside_it(name):
    found = labelled(read(bytes_of(name)))
    expected = json.loads((SAMPLES / f"{name}.json").read_text())
    different = {
        f"{label}.{element}": (resource.get(element), expected[label].get(element))
        for label, resource in found.items()
        if label in expected
        for element in {**resource, **expected[label]}
        if resource.get(element) != expected[label].get(element)
    }
    assert different == {}
    assert expected.keys() <= found.keys()


def test_every_resource_of_every_sample_is_stored(app):
    for name in NAMES:
        for resource in read(bytes_of(name)):
            assert prepare(types(app)[resource["resourceType"]], resource).id == resource["id"]


@pytest.mark.parametrize("name", NAMES)
def test_every_resource_of_a_sample_is_valid(packages, name):
    assert faults(read(bytes_of(name)), packages) == []


@pytest.fixture(scope="module")
def packages(shared: Path) -> Sequence[UsCore]:
    """FHIR's and US Core's definitions, which are read when they are first used: here."""
    found = packages_in(shared)
    faults(read(bytes_of("ccd")), found)
    return found


def faults(resources: list[Resource], packages: Sequence[UsCore]) -> list[str]:
    """Return what is wrong with resources, by FHIR and by US Core."""
    return [
        fault
        for resource in served(resources)
        for fault in all_faults({**resource, "meta": {"versionId": "1"}}, packages)
    ]


@pytest.mark.parametrize(
    "rule", [rule for rule, given in rules("header").items() if "is_valid" in given]
)
def test_the_header_is_valid_in_each_case_of_a_rule(packages, rule):
    found = {case.label: faults(read(case.document), packages) for case in cases("header", rule)}
    assert {label: wrong for label, wrong in found.items() if wrong} == {}


@pytest.mark.campaign
def test_allergies_of_rare_shapes_are_valid_as_they_are_served(app, packages):
    definition = types(app)["AllergyIntolerance"]
    for rule in rules("shapes"):
        for case in cases("shapes", rule):
            for found in of_type(read(case.document), "AllergyIntolerance"):
                source = {**prepare(definition, found).columns, "id": found["id"], "version_id": 1}
                dumped = definition.schema.dump({**source, "last_updated": "2024-01-01T00:00:00Z"})
                assert (rule, all_faults(dumped, packages)) == (rule, [])


def test_a_reference_is_to_a_resource_before_and_to_the_same_patient():
    for name in NAMES:
        resources, seen = read(bytes_of(name)), set()
        for resource in resources:
            contained = {f"#{inner['id']}" for inner in resource.get("contained", ())}
            pointed = set(references(resource)) - contained
            # A document that is replaced comes with another file.
            pointed -= {related["target"]["reference"] for related in resource.get("relatesTo", ())}
            seen.add(f"{resource['resourceType']}/{resource['id']}")
            assert pointed <= seen
            patient = f"Patient/{only(resources, 'Patient')['id']}"
            assert {target for target in pointed if target.startswith("Patient/")} <= {patient}


def test_a_document_that_comes_again_gives_the_same_and_is_attached_as_it_came():
    for name in NAMES:
        found = read(bytes_of(name))
        assert read(bytes_of(name)) == found
        attachment = only(found, "DocumentReference")["content"][0]["attachment"]
        assert base64.b64decode(attachment["data"]) == bytes_of(name)


def test_two_documents_of_a_patient_have_the_same_patient_and_people():
    first, other = (read(sample(name)) for name in ("ccd", "discharge-summary"))
    for name in ("Patient", "Organization", "Practitioner"):
        ids = [{resource["id"] for resource in of_type(found, name)} for found in (first, other)]
        assert ids[0] == ids[1]
    assert only(first, "DocumentReference")["id"] != only(other, "DocumentReference")["id"]


def test_a_patient_is_the_same_in_whatever_order_the_numbers_come():
    mrn = '<id extension="MRN-40081" root="2.16.840.1.113883.19.5.99999.2"/>'
    ssn = '<id extension="561-45-6780" root="2.16.840.1.113883.4.1"/>'
    plain = sample("unstructured").replace(' assigningAuthorityName="Lakeside Clinic"', "")
    assert mrn in plain
    turned = plain.replace(mrn, "").replace(ssn, ssn + mrn)
    without = plain.replace(ssn, "")
    assert len({only(read(text), "Patient")["id"] for text in (plain, turned, without)}) == 1


def test_people_are_identified_by_their_numbers_and_by_nothing_else():
    found = read(sample("ccd"))
    known_by = identities(found)
    ids = {resource["resourceType"]: resource["id"] for resource in reversed(found)}
    ssn = [(SSN, "561-45-6780"), (SSN, "561456780")]
    assert known_by[f"Patient/{ids['Patient']}"] == [MRN, *ssn]
    assert known_by[f"Organization/{ids['Organization']}"] == [LAKESIDE]
    types_of = {name.partition("/")[0] for name in known_by}
    assert types_of == {"Patient", "Organization", "Practitioner"}
    without_number = identities(read(sample("referral-note")))
    assert not any(name.startswith("Practitioner/") for name in without_number)


def test_a_next_version_points_to_the_one_it_replaces():
    document = only(read(sample("progress-note")), "DocumentReference")
    head, _, rest = (
        sample("progress-note")
        .replace("000000000402", "000000000401")
        .partition("<relatedDocument")
    )
    replaced = only(read(head + rest.partition("</relatedDocument>")[2]), "DocumentReference")
    assert document["relatesTo"][0]["target"] == {
        "reference": f"DocumentReference/{replaced['id']}",
        "identifier": replaced["masterIdentifier"],
    }
    assert document["id"] != replaced["id"]
    assert document["identifier"] == replaced["identifier"]


# The ids of allergies.


def test_statements_that_share_an_id_are_distinguished_by_substance_in_any_order():
    text = sample("ccd-1.1")
    first, second = of_type(read(text.encode("latin-1")), "AllergyIntolerance")
    assert first["identifier"] == second["identifier"]
    head, *entries = text.split('<entry typeCode="DRIV">')
    last, end = entries[1].split("</entry>")
    turned = f'{head}<entry typeCode="DRIV">{last}</entry><entry typeCode="DRIV">{entries[0]}{end}'
    again = of_type(read(turned.encode("latin-1")), "AllergyIntolerance")
    assert [allergy["id"] for allergy in again] == [second["id"], first["id"]]


def test_an_allergy_keeps_its_id_in_the_next_document_of_the_same_patient_alone():
    plain = document("{drug}{latex}")
    # Its next version: another id in the same set.
    version = plain.replace("11d1cf2a-44aa-4d00-8000-000000000402", "1.2.840.99")
    other = plain.replace("MRN-40081", "MRN-50000")
    ids = [only(read(text), "AllergyIntolerance")["id"] for text in (plain, version, other)]
    assert ids[0] == ids[1] != ids[2]
    numbered = document('<id root="1.2.3"/>{drug}{latex}')
    changed = numbered.replace("MRN-40081", "MRN-50000")
    ids = [only(read(text), "AllergyIntolerance")["id"] for text in (numbered, changed)]
    assert ids[0] != ids[1]


def test_an_allergy_without_an_identifier_is_distinguished_by_the_words_of_its_link():
    entry = '{drug}{substance <code nullFlavor="OTH"><originalText>{to rr}</originalText></code>'
    entry += "<name>BEE VENOM</name>}"
    plain, linked = allergies(entry), allergies(entry, text="{row Bee venom|Hives||}")
    assert plain[0]["code"]["text"] == linked[0]["code"]["text"] == "BEE VENOM"
    assert plain[0]["id"] != linked[0]["id"]


# Long texts and markup.


def test_script_in_a_narrative_is_served_as_text(app):
    text = '<content ID="s"><script>alert(2)</script>&lt;script&gt;</content>'
    (found,) = allergies("{drug}{original {to s}}", text=text)
    definition = types(app)["AllergyIntolerance"]
    source = {**prepare(definition, found).columns, "id": "a", "version_id": 1}
    dumped = definition.schema.dump({**source, "last_updated": "2024-01-01T00:00:00Z"})
    assert "<script" in found["code"]["text"]
    assert "<script" not in dumped["text"]["div"]


def test_a_longer_narrative_is_kept_whole():
    rows = " / ".join(f"Substance {number}|{'Hives ' * 20}" for number in range(100))
    found = allergies(text=f"{{table Allergen|Reaction / {rows}}}")
    words = " ".join(allergy["code"]["text"] for allergy in found)
    assert all(f"Substance {number}," in words for number in range(100))
    assert all(len(allergy["code"]["text"]) <= 4_000 for allergy in found)


@pytest.mark.parametrize("entries", [(), ('{substance <code nullFlavor="NI"/>}',)])
def test_the_end_of_a_long_paragraph_is_kept(entries):
    text = f"{{p {'Seen at the desk. ' * 400}Wasps closed her throat}}"
    found = allergies(*entries, text=text)
    words = [allergy["code"].get("text", "") for allergy in found]
    assert all(len(text) <= 4_000 for text in words)
    assert " ".join(words).count("Seen at the desk.") == 400
    assert any(entry.is_severe for entry in entries_of(found))
