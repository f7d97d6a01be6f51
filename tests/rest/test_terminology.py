"""`:in`, `:not-in`, `:above`, `:below`: what value sets and code systems here say, or a refusal.

Source: FHIR R4 search §3.1.1.4.10; valueset §4.9.5 to §4.9.7; codesystem §4.8.12.
"""

from __future__ import annotations

from typing import Any

import pytest
from fhir.resources.R4B.valueset import ValueSet

from fhirapp.auth.scopes import enforceable, parse_scope
from fhirapp.features.imports.tables.vocabulary import SUBSTANCES
from fhirapp.fhir.substance_classes import CLASSES
from fhirapp.rest import terminology
from tests.support.contract import allergy, delete, publish
from tests.support.helpers import Fhir, token_for

ALLERGY = "AllergyIntolerance"
NOW = "2026-01-01T00:00:00.000+00:00"
SYSTEM, OTHER, SNOMED = "urn:s", "urn:t", "http://snomed.info/sct"
RXNORM = "http://www.nlm.nih.gov/research/umls/rxnorm"


def coding(code: str, system: str | None = SYSTEM) -> dict[str, Any]:
    """Return a CodeableConcept."""
    return {"coding": [{"code": code} | ({"system": system} if system else {})]}


def of(code: str, *concepts: dict[str, Any], **properties: Any) -> dict[str, Any]:
    """Return a concept of a code system, with others below it and properties."""
    found: dict[str, Any] = {"code": code, "display": code.title()}
    if properties:
        found["property"] = [
            {
                "code": name,
                {bool: "valueBoolean", str: "valueCode", int: "valueInteger"}[type(value)]: value,
            }
            for name, value in properties.items()
        ]
    return found | ({"concept": [*concepts]} if concepts else {})


def code_system(row_id: str, url: str, *concepts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "resourceType": "CodeSystem",
        "id": row_id,
        "url": url,
        "status": "active",
        "content": "complete",
        "concept": [*concepts],
    } | more


def value_set(row_id: str, *include: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a value set whose address is urn:v: and its id."""
    compose = {"include": [*include]} | more.pop("compose", {})
    found = {"resourceType": "ValueSet", "id": row_id, "url": f"urn:v:{row_id}", "status": "active"}
    return found | ({"compose": compose} if include else {}) | more


def codes(*listed: str, system: str = SYSTEM) -> dict[str, Any]:
    return {"system": system, "concept": [{"code": code} for code in listed]}


def by(name: str, op: str, value: str, system: str = SYSTEM) -> dict[str, Any]:
    return {"system": system, "filter": [{"property": name, "op": op, "value": value}]}


FURRED = {"code": "furred", "type": "boolean"}
ANIMALS = code_system(
    "animals",
    SYSTEM,
    of("animal", of("cat", of("tiger", furred=True, size="big"), furred=True), furred=False),
    of("kitten", parent="cat", furred=True, size="small"),
    of("dodo", parent="animal", furred=False, inactive=True),
    hierarchyMeaning="is-a",
    property=[FURRED, {"code": "size", "type": "code"}],
)
TERMS = (
    ANIMALS,
    code_system("part", "urn:part", of("hand", of("thumb")), hierarchyMeaning="part-of"),
    code_system("some", "urn:some", of("a"), content="fragment"),
    code_system("dangling", "urn:dangling", of("a", parent="nowhere")),
    code_system("circle", "urn:circle", of("a", parent="b"), of("b", parent="a")),
    code_system("old", "urn:twice", of("a"), version="1"),
    code_system("new", "urn:twice", of("b"), version="2"),
    value_set("few", codes("cat", "dodo"), version="7"),
    value_set("mixed", codes("cat"), codes("y", system=OTHER)),
    value_set("whole", {"system": SYSTEM}),
    value_set("cats", by("concept", "is-a", "cat")),
    value_set("under", by("concept", "descendent-of", "cat")),
    value_set("no-cats", by("concept", "is-not-a", "cat")),
    value_set("big", by("size", "=", "big")),
    value_set("sized", by("size", "in", "big,small")),
    value_set("bare", by("furred", "=", "false")),
    value_set("children", by("parent", "=", "animal")),
    value_set("both", {"system": SYSTEM, "filter": [
        {"property": "concept", "op": "is-a", "value": "cat"},
        {"property": "size", "op": "=", "value": "big"}]}),
    value_set("without", {"system": SYSTEM}, compose={"exclude": [by("concept", "is-a", "cat")]}),
    value_set("living", {"system": SYSTEM}, compose={"inactive": False}),
    value_set("made", {"valueSet": ["urn:v:few|7"]}, {"valueSet": ["urn:v:mixed"]}),
    value_set("common", {"system": SYSTEM, "valueSet": ["urn:v:mixed"]}),
    value_set("nothing", codes("cat"), compose={"exclude": [codes("cat")]}),
    value_set("expanded", expansion={"timestamp": NOW, "total": 2, "contains": [
        {"system": SYSTEM, "code": "cat", "contains": [{"system": OTHER, "code": "y"}]}]}),
    value_set("fallback", by("x", "=", "y", "urn:elsewhere"), expansion={
        "timestamp": NOW, "contains": [{"system": SYSTEM, "code": "dodo"}]}),
    value_set("of-two", {"system": "urn:twice", "version": "2"}),
    # What cannot be worked out whole.
    value_set("regex", by("concept", "regex", "c.*")),
    value_set("unknown-code", by("concept", "is-a", "unicorn")),
    value_set("silent", by("size", "=", "true")),
    value_set("elsewhere", codes("cat"), {"system": "urn:elsewhere"}),
    value_set("parts", by("concept", "is-a", "hand", "urn:part")),
    value_set("torn", by("concept", "is-a", "a", "urn:dangling")),
    value_set("itself", {"valueSet": ["urn:v:loop"]}),
    value_set("loop", {"valueSet": ["urn:v:itself"]}),
    value_set("lost", {"valueSet": ["urn:v:nowhere"]}),
    value_set("twice", {"system": "urn:twice"}),
    value_set("empty"),
    value_set("locked", {"system": SYSTEM}, compose={"lockedDate": "2020-01-01"}),
    value_set("changed", codes("cat"), modifierExtension=[{"url": "urn:x", "valueBoolean": True}]),
    value_set("page", expansion={"timestamp": NOW, "total": 9, "contains": [
        {"system": SYSTEM, "code": "cat"}]}),
    value_set("chosen", expansion={
        "timestamp": NOW, "contains": [{"system": SYSTEM, "code": "cat"}],
        "parameter": [{"name": "filter", "valueString": "c"}]}),
)  # fmt: skip


@pytest.fixture(scope="module")
def app(make_app):
    """An app with entries of several codes, and terminology."""
    app = make_app(seed=False)
    for name in ("CodeSystem", "ValueSet"):
        publish(app, *(resource for resource in TERMS if resource["resourceType"] == name), now=NOW)
    publish(
        app,
        *(allergy(f"{code[0]}-{code}", code=coding(code))
          for code in ("animal", "cat", "tiger", "kitten", "dodo")),
        allergy("n-none"),
        allergy("b-bare", code=coding("cat", None)),
        allergy("o-other", code=coding("y", OTHER)),
        allergy("u-upper", code=coding("CAT")),
        allergy("p-penicillin", code=coding("764146007", SNOMED)),
        allergy("m-amoxicillin", code=coding("723", RXNORM)),
        allergy("w-words", code={"text": "cat"}),
        allergy("s-sub", reaction=[{"substance": coding("tiger"),
                                    "manifestation": [coding("cat")]}]),
        now=NOW,
    )  # fmt: skip
    return app


@pytest.fixture(scope="module")
def client(app):
    return Fhir(app, token_for(app, "system/*.rs"))


@pytest.fixture(scope="module")
def found(client):
    """Return the first letters of what a query finds."""
    return lambda query: "".join(
        sorted(row_id[0] for row_id in client.ids(f"{ALLERGY}?{query}&_count=1000"))
    )


ALL = "abcdkmnopstuw"
CATS = "ckstu"


def without(letters: str) -> str:
    return "".join(letter for letter in ALL if letter not in letters)


MEMBERS = [
    ("urn:v:few", "cdu"), ("urn:v:few|7", "cdu"), ("ValueSet/few", "cdu"), ("urn:v:mixed", "cou"),
    ("urn:v:whole", "acdkstu"), ("urn:v:cats", CATS), ("urn:v:under", "kst"),
    ("urn:v:no-cats", "ad"), ("urn:v:big", "st"), ("urn:v:sized", "kst"), ("urn:v:bare", "ad"),
    ("urn:v:children", "cdu"), ("urn:v:both", "st"), ("urn:v:without", "ad"),
    ("urn:v:living", "ackstu"), ("urn:v:made", "cdou"), ("urn:v:common", "cu"),
    ("urn:v:nothing", ""), ("urn:v:expanded", "cou"), ("urn:v:fallback", "d"),
    ("urn:v:of-two", ""), ("penicillins", "mp"), ("Penicillins", "mp"),
    ("urn:fhirapp:substance-class:penicillins", "mp"), ("tree nuts", ""),
]  # fmt: skip


def test_value_set_membership_splits_resources_by_in_and_not_in(found):
    """`:not-in` also finds what has no code: it is the opposite of `:in` (decisions §3)."""
    for name, letters in MEMBERS:
        escaped = name.replace("|", "\\|")
        assert found(f"code:in={escaped}") == letters
        assert found(f"code:in={name}") == letters
        assert found(f"code:not-in={escaped}") == without(letters)


def test_several_value_sets_are_any_of_them(found):
    assert found("code:in=urn:v:big,urn:v:few") == "cdstu"
    assert found("code:not-in=urn:v:big,urn:v:few") == without("cdstu")
    assert found("code:in=urn:v:whole&code:not-in=urn:v:cats") == "ad"


def test_another_parameter_is_asked_of_its_own_codes(found):
    assert found("manifestation:in=urn:v:cats") == "s"
    assert found("manifestation:not-in=urn:v:cats") == without("s")
    assert found("manifestation:below=urn:s|animal") == "s"


RELATED = [
    ("code:below=urn:s|cat", CATS), ("code:below=urn:s|animal", "acdkstu"),
    ("code:below=urn:s|kitten", "k"), ("code:above=urn:s|kitten", "acku"),
    ("code:above=urn:s|animal", "a"), ("code:below=urn:s|kitten,urn:s|dodo", "dk"),
    ("code:below=penicillins", "mp"), ("code:below=latex", ""),
    ("code:below=penicillins,urn:s|kitten", "kmp"), ("code:below=urn:circle|a", ""),
]  # fmt: skip


def test_below_and_above_go_by_the_hierarchy(found):
    for query, letters in RELATED:
        assert found(query) == letters


REFUSED = [
    ("code:in=urn:nobody", "not-found", "'urn:nobody' is no value set here; here are urn:fhir"),
    ("code:not-in=urn:v:regex", "not-supported", "the filter concept regex on urn:s"),
    ("code:in=urn:v:unknown-code", "not-supported", "urn:s has no code unicorn"),
    ("code:in=urn:v:silent", "not-supported", "animal of urn:s does not tell its size"),
    ("code:not-in=urn:v:elsewhere", "not-found", "'urn:elsewhere' is no code system here; "),
    ("code:in=urn:v:parts", "not-supported", "the hierarchy of urn:part is part-of"),
    ("code:in=urn:v:torn", "not-supported", "names nowhere in its hierarchy and lacks that"),
    ("code:in=urn:v:itself", "not-supported", "the value set urn:v:itself includes itself"),
    ("code:in=urn:v:twice", "not-found", "urn:twice is the address of several here: "),
    ("code:in=urn:v:empty", "not-supported", "tells neither compose nor expansion"),
    ("code:in=urn:v:locked", "not-supported", "the lockedDate of urn:v:locked"),
    ("code:in=urn:v:changed", "not-supported", "an extension that changes its meaning"),
    ("code:in=urn:v:chosen", "not-supported", "the compose of urn:v:chosen cannot be read"),
    ("code:below=urn:nobody|a", "not-found", "'urn:nobody' is no code system here"),
    ("code:below=urn:s|unicorn", "not-found", "urn:s has no code 'unicorn'"),
    ("code:below=cat", "not-found", "'cat' is no class of substances here; here are penicill"),
    ("code:above=penicillins", "not-found", "'penicillins' is no code with its system here"),
    ("identifier:in=urn:v:few", "not-supported", "is not supported on a token parameter here"),
]  # fmt: skip


def test_value_set_that_cannot_be_expanded_completely_is_refused(client):
    """`:in` of what is not here as an empty set would find nothing, `:not-in` all there is."""
    for query, code, told in REFUSED:
        response = client.get(f"{ALLERGY}?{query}")
        assert response.status_code == 400
        (issue,) = response.get_json(force=True)["issue"]
        assert (issue["code"], issue["expression"]) == (code, [f"http.{query.partition('=')[0]}"])
        assert told in issue["diagnostics"]
        strict = client.get(f"{ALLERGY}?{query}", headers={"Prefer": "handling=lenient"})
        assert strict.status_code == 400


def test_more_codes_than_are_looked_for_are_refused(app, client, monkeypatch):
    monkeypatch.setattr(terminology, "MAX_CODES", 2)
    for value in ("urn:v:cats", "urn:v:made"):
        response = client.get(f"{ALLERGY}?code:in={value}")
        assert response.get_json(force=True)["issue"][0]["code"] == "too-costly"
    assert client.get(f"{ALLERGY}?code:below=urn:s|cat").status_code == 400
    assert client.get(f"{ALLERGY}?code:in=urn:v:few").status_code == 200


def test_a_value_set_that_changes_is_asked_as_it_is_now(own_app):
    client = Fhir(own_app, token_for(own_app, "system/*.rs"))
    publish(own_app, allergy("y", code=coding("cat")), allergy("z", code=coding("dodo")), now=NOW)
    system = code_system("s", SYSTEM, of("cat"), of("dodo", parent="cat"))
    publish(own_app, system, now=NOW)
    publish(own_app, value_set("one", by("concept", "is-a", "cat")), now=NOW)
    assert client.ids(f"{ALLERGY}?code:in=urn:v:one") == ["z", "y"]
    publish(own_app, code_system("s", SYSTEM, of("cat"), of("dodo")), now=NOW)
    assert client.ids(f"{ALLERGY}?code:in=urn:v:one") == ["y"]
    publish(own_app, value_set("one", codes("dodo")), now=NOW)
    assert client.ids(f"{ALLERGY}?code:in=urn:v:one") == ["z"]
    delete(own_app, "ValueSet", "one", now=NOW)
    assert client.get(f"{ALLERGY}?code:in=urn:v:one").status_code == 400


def test_a_scope_cannot_be_filtered_by_them(app):
    """What a token sees would change with a value set: such a filter cannot be enforced."""
    for modifier in ["in", "not-in", "below", "above"]:
        with app.test_request_context():
            assert enforceable(parse_scope(f"system/{ALLERGY}.rs?code:not=x"))
            assert not enforceable(parse_scope(f"system/{ALLERGY}.rs?code:{modifier}=penicillins"))


def test_a_patients_token_sees_value_sets_and_by_them_its_own_alone(app, as_patient):
    own = Fhir(app, token_for(app, "patient/*.rs", patient="p-nobody"))
    assert own.ids(f"{ALLERGY}?code:in=penicillins") == []
    assert own.ids(f"{ALLERGY}?code:not-in=penicillins") == []
    assert own.get("ValueSet/few").status_code == 200
    none = Fhir(app, token_for(app, "system/Binary.rs"))
    assert none.get("ValueSet").status_code in (200, 403)


def parts(response: Any) -> dict[str, Any]:
    """Return the parameters of an answer, by name."""
    content = response.get_json(force=True)
    assert (response.status_code, content["resourceType"]) == (200, "Parameters"), content
    return {
        parameter["name"]: next(
            value for name, value in parameter.items() if name.startswith("value")
        )
        for parameter in content["parameter"]
    }


def expanded(client: Fhir, query: str) -> tuple[int, list[str]]:
    """Return the total, and the codes in the answer."""
    content = client.read(query)
    ValueSet.model_validate(content)
    listed = content["expansion"].get("contains", [])
    return content["expansion"]["total"], [code["code"] for code in listed]


EXPANSIONS = [
    ("?url=urn:v:few&valueSetVersion=7", 2, ["cat", "dodo"]),
    ("?url=urn:v:whole&activeOnly=true", 4, ["animal", "cat", "tiger", "kitten"]),
    ("?url=urn:v:whole&filter=TIGE", 1, ["tiger"]),
    ("?url=urn:v:whole&offset=1&count=2", 5, ["cat", "tiger"]),
    ("?url=latex", 1, ["111088007"]),
]


def test_expand_lists_the_codes(client):
    for query, total, listed in EXPANSIONS:
        assert expanded(client, f"ValueSet/$expand{query}") == (total, listed)


IN_VALUE_SET = [
    ("url=urn:v:few&coding=urn:s|cat", True, {"display": "Cat"}),
    ("url=urn:v:few&coding=urn:s|tiger", False, {"message": "The code is not in urn:v:few|7."}),
]


def test_a_code_is_in_a_value_set_or_not(client):
    for query, result, others in IN_VALUE_SET:
        assert parts(client.get(f"ValueSet/$validate-code?{query}")) == {"result": result, **others}


def test_built_in_classes_have_only_codes_that_tables_know(app):
    """Beside two that HL7's own examples have: penicillin G and amoxicillin."""
    known = {
        (substance.system, substance.code): substance.display for substance in SUBSTANCES.values()
    }
    further = {
        key
        for value in CLASSES.values()
        for key, display in value.codes.items()
        if known.get(key) != display
    }
    assert further == {(RXNORM, "7980"), (SNOMED, "372687004")}
    for name, one in CLASSES.items():
        ValueSet.model_validate(one.value_set(name))


BY_CLASS = ["code:below=penicillins", "code:in=penicillins", "code:not-in=latex,penicillins",
     "code:in=urn:fhirapp:substance-class:penicillins",
     "code:below=penicillins&_summary=count"]  # fmt: skip


def test_a_search_by_a_built_in_class_says_that_it_is_not_all_there_is(client):
    for query in BY_CLASS:
        name = query.partition("=")[0]
        for path in (f"{ALLERGY}?{query}", f"?_type={ALLERGY}&{query}"):
            issues = client.read(path)["entry"][-1]["resource"]["issue"]
            told = [
                issue
                for issue in issues
                if "the class penicillins has 6 codes" in issue["diagnostics"]
            ]
            assert [(issue["severity"], issue["expression"]) for issue in told] == [
                ("warning", [f"http.{name}"])
            ]
        assert "outcome" not in client.get(f"{ALLERGY}?code:below=urn:s|kitten").text
