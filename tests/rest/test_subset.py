"""Parts of resources: `_summary` and `_elements`."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.elements import Check, Complex, Repeating
from fhirapp.rest.subset import subset
from tests.support.contract import SERVED, allergy
from tests.support.helpers import BASE_URL, Fhir, assert_outcome

ALLERGY = "AllergyIntolerance"
DOCUMENT = "DocumentReference"
SUBSETTED = {
    "system": "http://terminology.hl7.org/CodeSystem/v3-ObservationValue",
    "code": "SUBSETTED",
}
STRICT = {"Prefer": "handling=strict"}
PENICILLIN = f"{ALLERGY}?_id=al-p1-penicillin"
DISCHARGE = f"{DOCUMENT}?_id=doc-p1-discharge-2024"


class Marks(NamedTuple):
    """What R4 says of an element: Σ, ?!, and whether its cardinality begins at 1."""

    summary: bool
    modifier: bool
    mandatory: bool


@pytest.fixture(scope="module")
def snapshots(shared) -> dict[str, dict[str, Marks]]:
    """What the base definitions of R4's types say, by type and path, from US Core's profiles.

    A profile cannot change Σ and ?!, and its snapshot keeps the base's cardinality beside its own.
    """
    marks: dict[str, dict[str, Marks]] = {}
    with tarfile.open(shared / "data" / "us-core" / "us_core_610.tgz") as archive:
        for member in archive:
            if not re.fullmatch(r"package/StructureDefinition-.*\.json", member.name):
                continue
            profile = json.loads(archive.extractfile(member).read())
            for element in profile["snapshot"]["element"]:
                path = element["path"].removesuffix("[x]")
                if profile["kind"] == "resource" and "." in path and ":" not in element["id"]:
                    marks.setdefault(profile["type"], {})[path.partition(".")[2]] = Marks(
                        element.get("isSummary", False),
                        element.get("isModifier", False),
                        element["base"]["min"] > 0,
                    )
    return marks


def declared(name: str) -> dict[str, Marks]:
    """Return what a type's schema declares of each element, of a choice once."""
    return {
        element.choice or path: Marks(element.summary, element.modifier, element.expected)
        for path, element in SERVED[name].schema.elements.items()
    }


def inside(path: str, check: Check) -> Iterator[tuple[str, bool]]:
    """Yield whether each element below one that can be in a summary is in it, by path."""
    while isinstance(check, Repeating):
        check = check.item
    if isinstance(check, Complex):
        for name, below in check.elements.items():
            in_it = check.summary is None or name in check.summary
            yield f"{path}.{name}", in_it
            if in_it:
                yield from inside(f"{path}.{name}", below)


# US Core has no profile of the others.
PROFILED = sorted(SERVED.keys() - {"Binary", "Group", "ValueSet"})


def test_each_element_is_marked_as_r4_marks_it(snapshots):
    for name in PROFILED:
        top = {path: marks for path, marks in snapshots[name].items() if "." not in path}
        assert declared(name) == top


def test_nested_elements_are_marked_as_in_r4(snapshots):
    compared = {
        f"{name}.{path}": (in_it, snapshots[name][path].summary)
        for name in PROFILED
        for top, element in SERVED[name].schema.elements.items()
        if element.summary or element.expected
        for path, in_it in inside(top, element.check)
        # Profiles show only some datatypes from inside. What stays keeps what is said beside it.
        if path in snapshots[name]
        and path.rpartition(".")[2] not in ("id", "extension", "modifierExtension")
    }
    assert {path for path, (ours, r4) in compared.items() if ours != r4} == set()
    marked = {path for path, (ours, _) in compared.items() if ours}
    assert {"DocumentReference.context.period", "Provenance.agent.who"} <= marked
    assert {"DocumentReference.content.attachment.data"} <= compared.keys() - marked


def test_the_elements_of_binary_are_marked():
    assert {path for path, marks in declared("Binary").items() if marks.summary} == {
        *("id", "meta", "implicitRules", "contentType", "securityContext")
    }
    assert declared("Binary")["contentType"].mandatory


def test_the_elements_of_group_are_marked():
    assert {path for path, marks in declared("Group").items() if marks.summary} == {
        *("id", "meta", "implicitRules", "identifier", "active", "type", "actual", "code", "name"),
        *("quantity", "managingEntity"),
    }
    mandatory = {path for path, marks in declared("Group").items() if marks.mandatory}
    assert mandatory == {"type", "actual"}
    modifiers = {path for path, marks in declared("Group").items() if marks.modifier}
    assert modifiers == {"implicitRules", "modifierExtension"}


def test_the_elements_of_value_set_are_marked():
    """https://hl7.org/fhir/R4/valueset.html."""
    marks = declared("ValueSet")
    assert {path for path, mark in marks.items() if mark.summary} == {
        *("id", "meta", "implicitRules", "url", "identifier", "version", "name", "title", "status"),
        *("experimental", "date", "publisher", "contact", "useContext", "jurisdiction"),
        "immutable",
    }
    assert {path for path, mark in marks.items() if mark.mandatory} == {"status"}
    assert {path for path, mark in marks.items() if mark.modifier} == {
        *("implicitRules", "modifierExtension", "status")
    }


def one(fhir: Fhir, path: str) -> dict[str, Any]:
    """Return the only match."""
    (entry,) = fhir.read(path)["entry"]
    resource: dict[str, Any] = entry["resource"]
    return resource


PARTS = [
    (f"{PENICILLIN}&_summary=true",
     ("resourceType id meta identifier clinicalStatus verificationStatus type category"
      " criticality code patient asserter")),
    (f"{PENICILLIN}&_summary=text", "resourceType id meta text patient"),
    (f"{PENICILLIN}&_elements=code",
     "resourceType id meta clinicalStatus verificationStatus code patient"),
    (f"{PENICILLIN}&_elements=id,onset",
     "resourceType id meta clinicalStatus verificationStatus patient onsetDateTime"),
    (f"{PENICILLIN}&_elements=onset[x]",
     "resourceType id meta clinicalStatus verificationStatus patient onsetDateTime"),
    (f"{PENICILLIN}&_elements=onsetPeriod",
     "resourceType id meta clinicalStatus verificationStatus patient"),
    (f"{DISCHARGE}&_summary=true",
     ("resourceType id meta status docStatus type category subject date author description"
      " content context")),
    (f"{DISCHARGE}&_summary=text", "resourceType id meta text status content"),
    (f"{DISCHARGE}&_elements=author,type", "resourceType id meta status type author content"),
    # What R4 requires and this one has not cannot stay.
    (f"{DOCUMENT}?_id=doc-p9-lab-2024&_summary=text", "resourceType id meta text status"),
    (f"{DOCUMENT}?_id=doc-p9-lab-2024&_elements=date", "resourceType id meta status date"),
]  # fmt: skip


def test_a_part_has_what_was_asked_for_and_what_it_must_not_be_without(fhir):
    for query, members in PARTS:
        resource = one(fhir, query)
        assert " ".join(resource) == members
        assert resource["meta"]["tag"] == [SUBSETTED]


def test_data_is_everything_but_the_narrative(fhir):
    whole, data = one(fhir, DISCHARGE), one(fhir, f"{DISCHARGE}&_summary=data")
    assert data["meta"].pop("tag") == [SUBSETTED]
    del whole["text"]
    assert data == whole


def test_nothing_is_cut_where_nothing_was_asked(fhir):
    whole = fhir.read(PENICILLIN)["entry"]
    assert fhir.read(f"{PENICILLIN}&_summary=false")["entry"] == whole
    assert fhir.read(f"{PENICILLIN}&_elements=")["entry"] == whole
    assert "tag" not in whole[0]["resource"]["meta"]


def test_a_summary_has_the_address_of_an_attachment_and_not_its_bytes(fhir):
    (content,) = one(fhir, f"{DISCHARGE}&_summary=true")["content"]
    assert content["attachment"].keys() == {
        *("contentType", "url", "size", "hash", "title", "creation")
    }
    assert content["attachment"]["url"].startswith(f"{BASE_URL}/fhir/Binary/")
    assert content["format"]["code"] == "urn:ihe:pcc:xds-ms:2007"
    (content,) = one(fhir, f"{DISCHARGE}&_elements=content")["content"]
    assert content["attachment"]["url"].startswith(f"{BASE_URL}/fhir/Binary/")
    assert content["attachment"]["data"]


def cut(resource: dict[str, Any], summary: str, *elements: str) -> dict[str, Any]:
    """Return the part of a resource, as it comes from the bytes that are stored."""
    definition = SERVED[resource["resourceType"]]
    body = subset(definition, fhir_json.dumps_indented(resource), summary, elements)
    part: dict[str, Any] = fhir_json.loads(body)
    # The part is indented as the whole was.
    assert body == fhir_json.dumps_indented(part)
    return part


META = {"versionId": "1", "lastUpdated": "2026-01-01T00:00:00.000+00:00"}
PART = {**META, "tag": [SUBSETTED]}


def test_element_that_a_summary_empties_is_removed():
    document = {
        "resourceType": DOCUMENT,
        "id": "d",
        "meta": META,
        "status": "current",
        "context": {"encounter": [{"reference": "Encounter/e"}]},
    }
    assert "context" not in cut(document, "true")


def test_extensions_stay_with_the_element_that_they_are_of():
    absent = {"extension": [{"url": "http://x.example/absent", "valueCode": "unknown"}]}
    document = {
        "resourceType": DOCUMENT,
        "id": "d",
        "meta": META,
        "extension": [{"url": "http://x.example/of-the-whole", "valueBoolean": True}],
        "modifierExtension": [{"url": "http://x.example/not", "valueAttachment": {"data": "QQ=="}}],
        "_status": absent,
        "_date": absent,
        "content": [{"attachment": {"_url": absent}}],
    }
    summary = cut(document, "true")
    assert summary == {
        name: PART if name == "meta" else value
        for name, value in document.items()
        if name != "extension"
    }
    del summary["_date"]
    assert cut(document, "false", "type") == summary


def test_decimals_keep_their_digits():
    age = {"value": fhir_json.loads("1.50"), "unit": "a"}
    part = cut({**allergy("a"), "meta": META, "onsetAge": age}, "", "onset")
    assert str(part["onsetAge"]["value"]) == "1.50"


def test_contained_resources_stay_with_what_refers_to_them():
    entry = {
        "resourceType": ALLERGY,
        "id": "a",
        "meta": META,
        "contained": [
            {"resourceType": "PractitionerRole", "id": "role",
             "practitioner": {"reference": "#her"}},
            {"resourceType": "Practitioner", "id": "her"},
            {"resourceType": "Practitioner", "id": "him"},
        ],
        "patient": {"reference": "Patient/p1"},
        "recorder": {"reference": "#role"},
        "asserter": {"reference": "#him"},
    }  # fmt: skip

    def contained(*asked: str) -> list[str]:
        return [resource["id"] for resource in cut(entry, *asked).get("contained", ())]

    assert contained("false", "recorder") == ["role", "her"]
    assert contained("true") == ["him"]
    assert contained("false", "code") == []
    assert contained("text") == []
    assert contained("data") == contained("false", "contained") == ["role", "her", "him"]


def test_the_tag_stands_once_beside_others():
    other = {"system": "http://x.example", "code": "mine"}
    entry = {**allergy("a"), "meta": {**META, "tag": [other]}}
    assert cut(entry, "data")["meta"]["tag"] == [other, SUBSETTED]
    entry["meta"]["tag"] = [SUBSETTED, other]
    assert cut(entry, "data")["meta"]["tag"] == [SUBSETTED, other]


def test_a_summary_is_of_all_resources_and_elements_are_of_the_matches(fhir):
    both = "_include=AllergyIntolerance:patient&_revinclude=Provenance:target"
    bundle = fhir.read(f"{PENICILLIN}&{both}&_summary=true")
    assert len(bundle["entry"]) > 2
    for entry in bundle["entry"]:
        assert entry["resource"]["meta"]["tag"] == [SUBSETTED]
        assert "text" not in entry["resource"]
    bundle = fhir.read(f"{PENICILLIN}&{both}&_elements=code")
    for entry in bundle["entry"]:
        is_match = entry["search"]["mode"] == "match"
        assert ("tag" in entry["resource"]["meta"]) == is_match
        assert ("text" in entry["resource"]) != is_match


def test_an_element_that_is_none_is_told(fhir):
    bundle = fhir.read(f"{PENICILLIN}&_elements=code,reactions,AllergyIntolerance.note,xyz")
    assert bundle["entry"][-1]["resource"]["issue"] == [
        {
            "severity": "warning",
            "code": "not-supported",
            "diagnostics": f"_elements: '{name}' is not an element of AllergyIntolerance"
            f"{hint}; it was ignored",
            "expression": ["http._elements"],
        }
        for name, hint in (
            ("reactions", "; did you mean reaction?"),
            ("AllergyIntolerance.note", "; did you mean note?"),
            ("xyz", ""),
        )
    ]
    assert "code" in bundle["entry"][0]["resource"]


REFUSED = [
    ("_elements=reactions", STRICT, "value",
     "_elements: 'reactions' is not an element of AllergyIntolerance; did you mean reaction?",
     "_elements"),
    *((f"_elements=code&_summary={summary}", {}, "value",
       f"_elements: cannot be combined with _summary={summary}; use one of the two",
       "_elements") for summary in ("true", "text", "data")),
    *((f"_summary=text&{include}", {}, "value",
       "_summary: text cannot be combined with _include or _revinclude", "_summary")
      for include in ("_include=AllergyIntolerance:patient", "_revinclude=Provenance:target")),
    ("_summary=all", {}, "value",
     "_summary: 'all' is not supported; use true, text, data, count, false", "_summary"),
    (f"_elements={'code,' * 51}", {}, "value",
     "_elements: lists more than 50; that is the most", "_elements"),
]  # fmt: skip


def test_unsupported_combination_of_summary_and_elements_is_refused(fhir):
    for query, headers, code, diagnostics, parameter in REFUSED:
        response = fhir.get(f"{ALLERGY}?{query}", headers=headers)
        assert_outcome(response, 400, code, diagnostics, parameter)
