"""The pieces that datatypes are declared from: null and empty, siblings, choices, paths."""

from __future__ import annotations

from typing import Any

import pytest

from fhirapp.definition import types
from fhirapp.fhir.datatypes import Extension, HumanName, Reference, backbone, string
from fhirapp.fhir.elements import InvalidElement, choice, many
from fhirapp.fhir.resource import InvalidResource
from fhirapp.store.prepare import prepare
from tests.support.contract import allergy, publish
from tests.support.helpers import Fhir, token_for
from tests.support.resource_faults import faults

MASKED = {"extension": [{"url": "urn:masked", "valueCode": "masked"}]}


def fault(check: Any, value: Any) -> str:
    """Return where a value is faulty."""
    with pytest.raises(InvalidElement) as raised:
        check(value)
    assert raised.value.message
    return raised.value.path


EXTENDED = [
    {"given": ["Ana", None], "_given": [None, MASKED]},
    {"given": [None, "Ana"], "_given": [{"id": "g"}, None]},
    {"given": [None], "_given": [MASKED]},
    {"given": ["Ana"], "_given": [{"id": "g"}]},
    {"_family": MASKED},
    {"family": "Ruiz", "_family": {"id": "f", **MASKED}},
    {"extension": MASKED["extension"]},
]


def test_a_primitive_has_its_extension_beside_it():
    """FHIR R4 json §2.6.2.3."""
    for name in EXTENDED:
        assert HumanName(name) == name


NULL_OR_EMPTY = [
    ({}, ""), (None, ""), ([], ""), ("Ana", ""), ({"family": None}, "family"),
    ({"family": ""}, "family"), ({"family": ["Ruiz"]}, "family"), ({"given": "Ana"}, "given"),
    ({"given": []}, "given"), ({"given": [""]}, "given[0]"), ({"given": [None]}, "given[0]"),
    ({"given": ["Ana", None]}, "given[1]"),
    ({"given": ["Ana", None], "_given": [MASKED]}, "given[1]"),
    ({"given": ["Ana", None], "_given": [MASKED, None]}, "given[1]"),
    ({"given": [None], "_given": [{}]}, "given[0]"), ({"given": [["Ana"]]}, "given[0]"),
    ({"_given": []}, "_given"), ({"_given": MASKED}, "_given"),
    ({"given": ["Ana"], "_given": [{}]}, "_given[0]"),
    ({"given": ["Ana"], "_given": ["x"]}, "_given[0]"), ({"_family": [MASKED]}, "_family"),
    ({"_family": {"value": "x"}}, "_family.value"),
    ({"_family": {"extension": []}}, "_family.extension"),
    ({"_family": {"extension": [{"valueCode": "x"}]}}, "_family.extension[0].url"),
    ({"_period": {"id": "x"}}, "_period"), ({"__family": {"id": "x"}}, "__family"),
    ({"_extension": [{"id": "x"}]}, "_extension"),
    ({"period": {"start": "2024-13"}}, "period.start"),
    ({"resourceType": "HumanName"}, "resourceType"),
]  # fmt: skip


def test_null_and_empty_are_refused_where_they_mean_nothing():
    """FHIR R4 json §2.6.2: properties are never null nor empty, save to align extensions."""
    for name, path in NULL_OR_EMPTY:
        assert fault(HumanName, name) == path


NULLS = [{"given": ["Ana"], "_given": [None]}, {"_given": [None]}, {"_given": [None, None]}]


def test_a_list_of_nulls_says_nothing_and_is_refused():
    """FHIR R4 json §2.6.2.3: null keeps a place beside an extension, and here is none."""
    for name in NULLS:
        assert fault(HumanName, name) == "_given"


def test_extensions_beyond_the_values_they_belong_to_are_refused():
    """FHIR R4 json §2.6.2.3: both arrays are filled out, so that they align."""
    assert fault(HumanName, {"given": ["Ana"], "_given": [None, MASKED]}) == "_given"


THING = backbone(
    required=("kind", "who"),
    choices=("when", "whenever"),
    kind=string,
    who=Reference,
    part=many(Extension),
    **choice("when", String=string, Reference=Reference),
    wheneverString=string,
)


CHOICES = [
    ({"kind": None}, "kind"),
    ({"whenString": "a", "whenReference": {"display": "b"}}, "whenReference"),
    ({"whenString": "a", "_whenString": {"id": "x"}}, None),
    ({"whenReference": {"display": "a"}, "_whenString": {"id": "x"}}, "whenReference"),
    ({"whenString": "a", "wheneverString": "b"}, None),
    ({"when": "a"}, "when"),
    ({"whenReference": "a"}, "whenReference"),
    ({"_whenReference": {"id": "x"}}, "_whenReference"),
    ({"part": [{"url": "u"}, {"url": "u", "extension": [{"url": ""}]}]},
     "part[1].extension[0].url"),
    ({"modifierExtension": [{}]}, "modifierExtension[0]"),
]  # fmt: skip


def test_choice_takes_one_value():
    for change, path in CHOICES:
        thing = {"kind": "k", "who": {"display": "w"}, **change}
        if path is None:
            assert THING(thing) == thing
        else:
            assert fault(THING, thing) == path


REQUIRED = [
    ({"who": {"display": "w"}}, "kind"),
    ({"kind": "k"}, "who"),
    # Only a primitive's place can be taken by an extension.
    ({"kind": "k", "_who": MASKED}, "_who"),
]


def test_missing_required_element_is_refused():
    for thing, path in REQUIRED:
        assert fault(THING, thing) == path


def deep(levels: int) -> dict[str, Any]:
    """Return an object with so many levels of objects in it."""
    inner: dict[str, Any] = {"a": 1}
    for _ in range(levels):
        inner = {"a": inner}
    return inner


def extensions(levels: int) -> dict[str, Any]:
    """Return an extension with so many levels in it, each of them an object and a list."""
    innermost: dict[str, Any] = {"url": "urn:x", "valueString": "x"}
    for _ in range(levels // 2):
        innermost = {"url": "urn:x", "extension": [innermost]}
    return innermost


@pytest.fixture(scope="module")
def fhir_of_our_own(make_app):
    app = make_app(seed=False)
    return app, Fhir(app, token_for(app, "system/*.rs"))


@pytest.mark.parametrize(
    "element",
    [
        lambda levels: {"contained": [{"resourceType": "Basic", "id": "b", "x": deep(levels)}]},
        lambda levels: {"extension": [{"url": "urn:x", "valueTiming": deep(levels)}]},
        lambda levels: {"code": {"extension": [{"url": "urn:x", "valueTiming": deep(levels)}]}},
        lambda levels: {"extension": [extensions(levels)]},
    ],
    ids=["contained", "extension", "datatype", "extensions"],
)  # fmt: skip
def test_too_deep_nesting_is_refused_and_the_rest_served(fhir_of_our_own, element):
    """Of a resource that was taken, nothing later on the way may break."""
    app, fhir = fhir_of_our_own
    taken = []
    for levels in (*range(236, 260, 2), *range(237, 260, 2), 600, 3_000):
        entry = allergy(f"deep{levels}", **element(levels))
        try:
            prepare(types(app)["AllergyIntolerance"], entry)
        except InvalidResource:
            continue
        publish(app, entry, now="2026-02-01T00:00:00.000+00:00")
        taken.append(f"deep{levels}")
        assert fhir.read(f"AllergyIntolerance/{taken[-1]}")["id"] == taken[-1]
    assert taken
    assert set(fhir.ids("AllergyIntolerance")).issuperset(taken)


WRONG = {
    "Patient": {"active": "yes", "name": {}, "gender": "x", "birthDate": "x", "telecom": [{}]},
    "Encounter": {"status": "x", "class": [], "period": {}, "length": 5, "nonsense": None},
    "Provenance": {"target": {}, "recorded": "2024", "agent": [], "policy": [""]},
    "Practitioner": {"active": None, "qualification": [{}], "birthDate": "2024-02-30"},
    "Organization": {"alias": "x", "partOf": "x", "contact": [7], "_name": []},
    "DocumentReference": {"status": "final", "date": "x", "content": [{}], "context": {}},
}


@pytest.mark.parametrize("name", WRONG)
def test_every_fault_of_a_top_level_element_is_reported(app, name):
    resource = {"resourceType": name, "id": "a_b", "meta": {}, "language": "", **WRONG[name]}
    found = {path.partition(".")[0].partition("[")[0] for path in faults(app, resource)}
    assert found == {"id", "meta", "language", *WRONG[name]}
