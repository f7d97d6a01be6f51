"""`:in`, `:not-in`, `:below`: the codes of value sets and substance classes, or a refusal.

Source: FHIR R4 search §3.1.1.4.10; valueset §4.9.5 to §4.9.7.
"""

from __future__ import annotations

from typing import Any

import pytest

from fhirapp.auth.scopes import enforceable, parse_scope
from fhirapp.fhir.concepts import CONCEPTS
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


def value_set(row_id: str, *include: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a value set whose address is urn:v: and its id."""
    compose = {"include": [*include]} | more.pop("compose", {})
    found = {"resourceType": "ValueSet", "id": row_id, "url": f"urn:v:{row_id}", "status": "active"}
    return found | ({"compose": compose} if include else {}) | more


def codes(*listed: str, system: str = SYSTEM) -> dict[str, Any]:
    return {"system": system, "concept": [{"code": code} for code in listed]}


def by(name: str, op: str, value: str, system: str = SYSTEM) -> dict[str, Any]:
    return {"system": system, "filter": [{"property": name, "op": op, "value": value}]}


def contains(*listed: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return an expansion."""
    return {"timestamp": NOW, "contains": [*listed]} | more


CAT = {"system": SYSTEM, "code": "cat"}
CHANGED = [{"url": "urn:x", "valueBoolean": True}]
VALUE_SETS = (
    value_set("few", codes("cat", "dodo"), version="7"),
    value_set("mixed", codes("cat"), codes("y", system=OTHER)),
    value_set("furred", codes("cat", "tiger", "kitten")),
    value_set("made", {"valueSet": ["urn:v:few|7"]}, {"valueSet": ["urn:v:mixed"]}),
    value_set("common", codes("cat", "tiger") | {"valueSet": ["urn:v:mixed"]}),
    value_set("without", {"valueSet": ["urn:v:furred"]}, compose={"exclude": [codes("cat")]}),
    value_set("apart", codes("cat", "dodo"),
              compose={"exclude": [{"valueSet": ["urn:v:furred"]}]}),
    value_set("with-class", codes("cat"),
              {"valueSet": ["urn:fhirapp:substance-class:penicillins"]}),
    value_set("nothing", codes("cat", "dodo"), compose={"exclude": [codes("cat", "dodo")]}),
    value_set("locked", codes("cat"), {"valueSet": ["urn:v:few|7"]},
              compose={"lockedDate": "2020-01-01"}),
    value_set("inactive", codes("cat"), compose={"inactive": True}),
    value_set("expanded", expansion=contains(
        CAT | {"contains": [{"system": OTHER, "code": "y"}]}, total=2)),
    value_set("filtered", by("x", "=", "y", "urn:elsewhere"), expansion=contains(
        {"system": SYSTEM, "code": "dodo"},
        parameter=[{"name": "activeOnly", "valueBoolean": False}])),
    value_set("old", codes("cat"), url="urn:v:twice", version="1"),
    value_set("new", codes("dodo"), url="urn:v:twice", version="2"),
    # Without a list of their codes, or not with all of them.
    value_set("filter", codes("dodo"), by("concept", "is-a", "cat")),
    value_set("whole", codes("cat"), {"system": OTHER}),
    value_set("less-whole", codes("cat"), compose={"exclude": [{"system": SYSTEM}]}),
    value_set("whole-of", {"system": SYSTEM, "valueSet": ["urn:v:mixed"]}),
    value_set("of-whole", {"valueSet": ["urn:v:whole"]}),
    value_set("active", codes("cat", "dodo"), compose={"inactive": False}),
    value_set("nameless", {"concept": [{"code": "cat"}]}),
    value_set("hollow", codes("cat"), {"version": "1"}),
    value_set("several", {"valueSet": ["urn:v:few", "urn:v:mixed"]}),
    value_set("itself", {"valueSet": ["urn:v:loop"]}),
    value_set("loop", {"valueSet": ["urn:v:itself"]}),
    value_set("lost", {"valueSet": ["urn:v:nowhere"]}),
    value_set("empty"),
    value_set("late", {"valueSet": ["urn:v:few"]}, compose={"lockedDate": "2020-01-01"}),
    value_set("changed", codes("cat"), modifierExtension=CHANGED),
    value_set("changed-part", codes("cat") | {"modifierExtension": CHANGED}),
    value_set("page", expansion=contains(CAT, total=9)),
    value_set("later-page", expansion=contains(CAT, offset=1)),
    value_set("chosen", expansion=contains(
        CAT, parameter=[{"name": "filter", "valueString": "c"}])),
    value_set("unclosed", expansion=contains(CAT, extension=CHANGED)),
    value_set("of-any-system", expansion=contains({"code": "cat"})),
)  # fmt: skip


@pytest.fixture(scope="module")
def app(make_app):
    """An app with entries of several codes, and value sets."""
    app = make_app(seed=False)
    publish(app, *VALUE_SETS, now=NOW)
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


def without(letters: str) -> str:
    return "".join(letter for letter in ALL if letter not in letters)


MEMBERS = [
    ("urn:v:few", "cdu"), ("urn:v:few|7", "cdu"), ("ValueSet/few", "cdu"), ("urn:v:mixed", "cou"),
    ("urn:v:furred", "ckstu"), ("urn:v:made", "cdou"), ("urn:v:common", "cu"),
    ("urn:v:without", "kst"), ("urn:v:apart", "d"), ("urn:v:with-class", "cmpu"),
    ("urn:v:nothing", ""), ("urn:v:locked", "cdu"), ("urn:v:inactive", "cu"),
    ("urn:v:expanded", "cou"), ("urn:v:filtered", "d"), ("urn:v:twice|2", "d"),
    ("penicillins", "mp"), ("Penicillins", "mp"),
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
    assert found("code:in=urn:v:apart,urn:v:mixed") == "cdou"
    assert found("code:not-in=urn:v:apart,urn:v:mixed") == without("cdou")
    assert found("code:in=urn:v:furred&code:not-in=urn:v:few") == "kst"


def test_another_parameter_is_asked_of_its_own_codes(found):
    assert found("manifestation:in=urn:v:furred") == "s"
    assert found("manifestation:not-in=urn:v:furred") == without("s")
    assert found("manifestation:below=penicillins") == ""


def test_below_takes_a_substance_class(found):
    assert found("code:below=penicillins") == "mp"
    assert found("code:below=urn:fhirapp:substance-class:penicillins") == "mp"
    assert found("code:below=latex,Penicillins") == "mp"
    assert found("code:below=latex") == ""


WITH_A_LIST = "import it with a list of its codes, or with a complete expansion"
NO_HIERARCHY = "is no substance class, and this server has no other hierarchy of codes; use one of"
REFUSED = [
    ("code:in=urn:nobody", "not-found", "no value set 'urn:nobody' is stored here; import it, or"),
    ("code:not-in=urn:v:filter", "not-supported",
     f"code:not-in: the value set urn:v:filter takes codes by a filter; {WITH_A_LIST}"),
    ("code:in=urn:v:whole", "not-supported", f"takes every code of urn:t; {WITH_A_LIST}"),
    ("code:not-in=urn:v:whole", "not-supported", f"takes every code of urn:t; {WITH_A_LIST}"),
    ("code:in=urn:v:less-whole", "not-supported", f"takes every code of urn:s; {WITH_A_LIST}"),
    ("code:in=urn:v:whole-of", "not-supported", f"takes every code of urn:s; {WITH_A_LIST}"),
    ("code:in=urn:v:of-whole", "not-supported", "the value set urn:v:whole takes every code of"),
    ("code:in=urn:v:few,urn:v:whole", "not-supported", "takes every code of urn:t"),
    ("code:not-in=urn:v:active", "not-supported",
     "leaves out inactive codes without saying which these are"),
    ("code:in=urn:v:nameless", "not-supported", "has codes without a system"),
    ("code:in=urn:v:hollow", "not-supported", "has a part without codes"),
    ("code:in=urn:v:several", "not-supported", "takes several value sets in one part"),
    ("code:in=urn:v:itself", "not-supported", "the value set urn:v:itself includes itself"),
    ("code:in=urn:v:lost", "not-found", "no value set 'urn:v:nowhere' is stored here; import it"),
    ("code:in=urn:v:twice", "not-found",
     "'urn:v:twice' names several value sets: ValueSet/new (urn:v:twice|2), ValueSet/old"),
    ("code:in=urn:v:empty", "not-supported", "urn:v:empty lists no codes, or not all of them"),
    ("code:in=urn:v:late", "not-supported", "takes a value set as it was on its lockedDate"),
    ("code:in=urn:v:changed", "not-supported", "has an extension that changes its meaning"),
    ("code:in=urn:v:changed-part", "not-supported", "has an extension that changes its meaning"),
    *((f"code:in=urn:v:{name}", "not-supported",
       f"lists no codes, or not all of them; {WITH_A_LIST}")
      for name in ("page", "later-page", "chosen", "unclosed", "of-any-system")),
    ("code:below=urn:s|cat", "not-found", f"'urn:s|cat' {NO_HIERARCHY} penicillins, "),
    ("code:below=urn:v:few", "not-found", f"'urn:v:few' {NO_HIERARCHY} penicillins, "),
    ("code:below=penicillins,cat", "not-found", f"'cat' {NO_HIERARCHY} penicillins, "),
    ("code:above=urn:s|cat", "not-supported", "is not supported on a token parameter here"),
    ("code:above=penicillins", "not-supported", "is not supported on a token parameter here"),
    ("identifier:in=urn:v:few", "not-supported", "is not supported on a token parameter here"),
]  # fmt: skip


def test_value_set_that_cannot_be_evaluated_completely_is_refused(client):
    """As an empty set, `:in` would find nothing and `:not-in` everything."""
    for query, code, told in REFUSED:
        response = client.get(f"{ALLERGY}?{query}")
        assert response.status_code == 400, query
        (issue,) = response.get_json(force=True)["issue"]
        assert (issue["code"], issue["expression"]) == (code, [f"http.{query.partition('=')[0]}"])
        assert told in issue["diagnostics"]
        lenient = client.get(f"{ALLERGY}?{query}", headers={"Prefer": "handling=lenient"})
        assert lenient.status_code == 400


def test_value_set_with_too_many_codes_or_parts_is_refused(client, monkeypatch):
    limits = (
        ("MAX_CODES", 2, "made"), ("MAX_CODES", 1, "expanded"), ("MAX_CODES", 1, "nothing"),
        ("MAX_VALUE_SETS", 1, "made"), ("_MAX_INCLUDES", 2, "made"),
    )  # fmt: skip
    for limit, value, name in limits:
        with monkeypatch.context() as patch:
            patch.setattr(terminology, limit, value)
            response = client.get(f"{ALLERGY}?code:in=urn:v:{name}")
            assert response.status_code == 400
            assert response.get_json(force=True)["issue"][0]["code"] == "too-costly"
            assert client.get(f"{ALLERGY}?code:in=urn:v:twice|2").status_code == 200


def test_chain_of_too_many_value_sets_is_refused(own_app):
    sets = [value_set(f"v{n}", {"valueSet": [f"urn:v:v{n + 1}"]}) for n in range(20)]
    publish(own_app, *sets, value_set("v20", codes("cat")), now=NOW)
    client = Fhir(own_app, token_for(own_app, "system/*.rs"))
    response = client.get(f"{ALLERGY}?code:in=urn:v:v0")
    assert response.get_json(force=True)["issue"][0]["code"] == "too-costly"
    assert client.get(f"{ALLERGY}?code:in=urn:v:v1").status_code == 200


def test_a_value_set_that_changes_is_asked_as_it_is_now(own_app):
    client = Fhir(own_app, token_for(own_app, "system/*.rs"))
    publish(own_app, allergy("y", code=coding("cat")), allergy("z", code=coding("dodo")), now=NOW)
    publish(own_app, value_set("one", codes("cat")), now=NOW)
    assert client.ids(f"{ALLERGY}?code:in=urn:v:one") == ["y"]
    publish(own_app, value_set("one", codes("dodo")), now=NOW)
    assert client.ids(f"{ALLERGY}?code:in=urn:v:one") == ["z"]
    delete(own_app, "ValueSet", "one", now=NOW)
    assert client.get(f"{ALLERGY}?code:in=urn:v:one").status_code == 400


def test_a_scope_cannot_be_filtered_by_them(app):
    """What a token sees would change with a value set: such a filter cannot be enforced."""
    for modifier in ["in", "not-in", "below"]:
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


def test_built_in_classes_have_only_codes_that_tables_know():
    """Beside two that HL7's own examples have: penicillin G and amoxicillin."""
    known = {
        (substance.system, substance.code): substance.display
        for substance in CONCEPTS["substance"].values()
    }
    further = {
        key
        for value in CLASSES.values()
        for key, display in value.codes.items()
        if known.get(key) != display
    }
    assert further == {(RXNORM, "7980"), (SNOMED, "372687004")}


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
        assert "outcome" not in client.get(f"{ALLERGY}?code:in=urn:v:furred").text
