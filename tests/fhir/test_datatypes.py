"""FHIR R4's datatypes: what each takes and what it refuses. FHIR R4 datatypes §2.24."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from fhirapp.fhir import datatypes
from fhirapp.fhir.elements import Check, InvalidElement

# By primitive: values that are kept as they are, and values that are refused.
PRIMITIVES: dict[str, tuple[list[Any], list[Any]]] = {
    "boolean": ([True, False], ["true", 0, 1, "", []]),
    "integer": ([0, -1, 2**31 - 1, -(2**31)], [2**31, -(2**31) - 1, Decimal("1.0"), "1", True]),
    "unsigned": ([0, 2**31 - 1], [-1, 2**31, "0", False]),
    "positive": ([1, 2**31 - 1], [0, -1, 2**31, Decimal("1.5")]),
    "decimal": ([0, -1, Decimal("0.010"), Decimal("-1.50"), Decimal("1E+3")], ["1.0", True, "",
                [1]]),
    "string": (["a", " a ", "á\n\tb\r", "\U0001f600", "a" * 1_048_576], ["", " ", "\n\t", 1, True,
               ["a"], "a\x00", "a\x1f", "\ud83d", "a" * 1_048_577]),
    "markdown": (["# a\n\n* b"], ["", "\n", 1, "a\x0b"]),
    "code": (["a", "text/html; charset=utf-8", "a b c", "8302-2"], ["", " a", "a ", "a  b",
             "a\tb", "a\n", 1, "\ud800"]),
    "uri": (["http://a.example/b?c#d", "urn:oid:1.2.3", "Binary/1", "a"], ["", "a b", " a", "a\n",
            1, "\udc00"]),
    "identity": (["a", "A-1.z", "0" * 64], ["", "a_b", "a b", "a\n", "é", "0" * 65, 7]),
    "date": (["2024", "2024-02", "2024-02-29"], ["24", "2023-02-29", "2024-02-01T10:00:00Z", 2024]),
    "date_time": (["2024", "2024-02", "2024-02-29", "2024-02-29T10:00:00+00:00"], ["",
                  "2024-02-30", "2024-02-29T10:00:00", "2024-02-29T10:00Z", 2024]),
    "instant": (["2024-02-29T10:00:00+00:00", "2024-02-29T10:00:00.123+00:00"], ["2024",
                "2024-02-29", "2024-02-29T10:00:00", "2024-02-30T10:00:00Z", 0]),
    "time": (["00:00:00", "23:59:59", "23:59:60", "10:00:00.123456"], ["24:00:00", "10:00",
             "10:60:00", "10:00:00Z", "1:00:00", "10:00:00.", 10]),
    "base64_binary": (["QUI=", "QUJD", "QU\nJD", " QUI= ", "QQ=="], ["QUI", "Q", "====",
                      "QUI=QUI=", "QU-_", "é", "QUJD!", 1]),
}  # fmt: skip


def check_of(name: str) -> Check:
    found: Check = getattr(datatypes, name)
    return found


def is_refused(check: Check, value: Any) -> bool:
    """Return whether a value is refused, by a fault of its own and not of an element in it."""
    try:
        check(value)
    except InvalidElement as error:
        return error.path == ""
    return False


def test_every_primitive_is_tested():
    checks = [check_of(name) for name in PRIMITIVES]
    assert {name for name in vars(datatypes) if vars(datatypes)[name] in checks} == {*PRIMITIVES}


def test_valid_primitive_is_unchanged():
    for name, (valid, _) in PRIMITIVES.items():
        checked = [check_of(name)(value) for value in valid]
        assert checked == valid, name
        assert [*map(type, checked)] == [*map(type, valid)], name


def test_invalid_primitive_is_refused():
    never_valid: list[Any] = [None, {}, [], {"value": 1}]
    for name, (_, invalid) in PRIMITIVES.items():
        check = check_of(name)
        assert [value for value in (*invalid, *never_valid) if not is_refused(check, value)] == []
    # FHIR R4 json §2.6.2: no empty strings; datatypes §2.24.0.1: groups of four, one or more.
    assert all(is_refused(datatypes.base64_binary, text) for text in ("", " ", "\n"))


OBJECT = {"a": 1}
CODED = {"coding": [{"system": "urn:s", "version": "1", "code": "c", "display": "d"}]}
AMOUNT = {"value": Decimal("1.50"), "unit": "mg", "system": "urn:s", "code": "mg"}
COMPARED = {**AMOUNT, "comparator": "<="}
# A value of each type that Extension.value[x] may have: FHIR R4 datatypes §2.24, extensibility.
VALUES: dict[str, Any] = {
    "Base64Binary": "QUI=",
    "Boolean": False,
    "Canonical": "http://a.example|1",
    "Code": "c",
    "Date": "2024-02",
    "DateTime": "2024",
    "Decimal": Decimal("0.10"),
    "Id": "i-1",
    "Instant": "2024-02-29T10:00:00+00:00",
    "Integer": 0,
    "Markdown": "*a*",
    "Oid": "urn:oid:1.2.3",
    "PositiveInt": 1,
    "String": "a",
    "Time": "10:00:00",
    "UnsignedInt": 0,
    "Uri": "urn:x",
    "Url": "https://a.example",
    "Uuid": "urn:uuid:c757873d-ec9a-4326-a141-556f43239520",
    "Address": {"use": "home", "type": "both", "line": ["a", "b"], "period": {"start": "2024"}},
    "Age": COMPARED,
    "Count": COMPARED,
    "Distance": COMPARED,
    "Duration": COMPARED,
    "Annotation": {"authorString": "a", "time": "2024", "text": "b"},
    "Attachment": {"contentType": "text/plain", "url": "urn:x", "size": 0, "title": "t"},
    "CodeableConcept": CODED,
    "Coding": {"code": "c", "userSelected": False},
    "ContactPoint": {"system": "phone", "value": "1", "use": "old", "rank": 1},
    "HumanName": {"use": "official", "family": "f", "given": ["g"], "prefix": ["p"]},
    "Identifier": {"use": "usual", "type": CODED, "value": "v", "assigner": {"display": "a"}},
    "Money": {"value": Decimal("9.90"), "currency": "EUR"},
    "Period": {"start": "2024-01", "end": "2024-02"},
    "Quantity": COMPARED,
    "Range": {"low": AMOUNT, "high": AMOUNT},
    "Ratio": {"numerator": COMPARED, "denominator": AMOUNT},
    "Reference": {"reference": "Patient/p", "type": "Patient", "identifier": {"value": "v"}},
    "Signature": {"type": [{"code": "c"}], "when": "2024-02-29T10:00:00+00:00", "who": {"display":
                  "w"}, "data": "QUI="},
    "Meta": {"profile": ["http://a.example"], "tag": [{"code": "c"}]},
    "SampledData": OBJECT,
    "Timing": OBJECT,
    "ContactDetail": {"name": "n"},
    "Contributor": OBJECT,
    "DataRequirement": OBJECT,
    "Expression": OBJECT,
    "ParameterDefinition": OBJECT,
    "RelatedArtifact": OBJECT,
    "TriggerDefinition": OBJECT,
    "UsageContext": {"code": {"system": "urn:s", "code": "c"}, "valueCodeableConcept": {"text":
                     "t"}},
    "Dosage": OBJECT,
}  # fmt: skip


def fault_of(element: str, value: Any) -> str | None:
    """Return the path that an extension with an element is refused for, or None."""
    try:
        datatypes.Extension({"url": "urn:x", element: value})
    except InvalidElement as error:
        return error.path
    return None


def test_extension_has_a_value_of_every_type_and_no_other():
    declared = {name for name in datatypes.Extension.elements if name.startswith("value")}
    assert declared == {f"value{name}" for name in VALUES}
    assert len(declared) == 50


def test_extension_keeps_its_value():
    for name, value in VALUES.items():
        extension = {"id": "e", "url": "urn:x", f"value{name}": value}
        assert datatypes.Extension(extension) == extension


def test_only_a_primitive_value_has_an_extension_beside_it():
    """FHIR R4 json §2.6.2.3."""
    for name, value in VALUES.items():
        extension = {"url": "urn:x", f"_value{name}": {"id": "v"}}
        if isinstance(value, dict):
            assert fault_of(f"_value{name}", {"id": "v"}) is not None, name
        else:
            assert datatypes.Extension(extension) == extension


def test_empty_value_of_an_extension_is_refused():
    for empty in (None, {}, [], "", [{"a": 1}]):
        found = {f"value{name}": fault_of(f"value{name}", empty) for name in VALUES}
        assert {name: path for name, path in found.items() if path != name} == {}


def test_oid_and_uuid_are_urns():
    """FHIR R4 datatypes §2.24.0.1: urn:oid:[0-2](\\.(0|[1-9][0-9]*))+ and urn:uuid:…."""
    for oid in ("http://a.example", "urn:oid:3.1", "urn:oid:1.02"):
        assert fault_of("valueOid", oid) == "valueOid", oid
    for uuid in ("c757873d-ec9a-4326-a141-556f43239520", "urn:uuid:nonsense"):
        assert fault_of("valueUuid", uuid) == "valueUuid", uuid


BINDINGS = [
    (datatypes.Identifier, {"use": "old"}, "use", "used"),
    (datatypes.HumanName, {"use": "maiden"}, "use", "home"),
    (datatypes.Address, {"use": "billing"}, "use", "mobile"),
    (datatypes.Address, {"type": "postal"}, "type", "Postal"),
    (datatypes.ContactPoint, {"system": "sms"}, "system", "telex"),
    (datatypes.ContactPoint, {"use": "mobile"}, "use", "billing"),
    (datatypes.Quantity, {"comparator": ">="}, "comparator", "="),
    (datatypes.Narrative, {"status": "additional", "div": "<div>a</div>"}, "status", "full"),
]


def test_required_binding_is_kept(subtests):
    for check, fine, name, wrong in BINDINGS:
        with subtests.test(check=check):
            assert check(fine)[name] == fine[name]
            for value in (wrong, "", None, 1, [fine[name]]):
                with pytest.raises(InvalidElement) as raised:
                    check({**fine, name: value})
                assert raised.value.path == name
            # An extension may stand in its place.
            sibling = {"extension": [{"url": "urn:x", "valueCode": "c"}]}
            without = {key: value for key, value in fine.items() if key != name}
            assert check({**without, f"_{name}": sibling})[f"_{name}"] == sibling


def test_simple_quantity_has_no_comparator():
    """FHIR R4 datatypes §2.24.0.6, sqty-1."""
    with pytest.raises(InvalidElement) as raised:
        datatypes.Range({"low": COMPARED})
    assert raised.value.path == "low.comparator"


def test_bound_concept_has_a_coding_of_the_system():
    check = datatypes.bound_to("urn:s", "a", "b")
    other = {"system": "urn:t", "code": "a"}
    fine = {"coding": [other, {"system": "urn:s", "code": "b"}], "text": "x"}
    assert check(fine) == fine
    for coding in ([other], [{"code": "a"}], [{"system": "urn:s", "code": "c"}]):
        with pytest.raises(InvalidElement, match="must have a coding of urn:s: a, b") as raised:
            check({"coding": coding})
        assert raised.value.path == "coding"


def test_contained_resource_has_type_and_id_and_contains_none(subtests):
    for resource, path in [
        ("x", ""),
        ({}, ""),
        ({"id": "x"}, ""),
        ({"resourceType": 1, "id": "x"}, ""),
        ({"resourceType": "Basic"}, "id"),
        ({"resourceType": "Basic", "id": "a_b"}, "id"),
        ({"resourceType": "Basic", "id": "x", "contained": []}, "contained"),
        ({"resourceType": "Basic", "id": "x", "text": "\ud800"}, ""),
    ]:
        with subtests.test(resource=resource):
            with pytest.raises(InvalidElement) as raised:
                datatypes.contained_resource(resource)
            assert raised.value.path == path
