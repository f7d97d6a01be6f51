"""JSON in and out: nothing of a number is lost, and what is not JSON is refused."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.fhir import json as fhir_json

REPEATABLE = settings(max_examples=30)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
# Greater ones are read as decimals.
INTEGERS = st.integers(-(10**17), 10**17)
SCALARS = st.none() | st.booleans() | INTEGERS | TEXT
CONTENT = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4)
)


def test_number_keeps_every_digit(subtests):
    """FHIR R4 json §2.6.2.2: the precision of a decimal is part of its value."""
    for number in [
        *("0", "-1", "0.0", "1.0", "1.50", "-0.10", "100.000", "0.000000", "-0.0"),
        *("3.14159265358979323846264338327950288", "123456789012345678901234567890.10"),
        # more than a double, more than 64 bits
        *("9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775809"),
        *("9" * 40, f"0.{'0' * 5}1"),
    ]:
        with subtests.test(number=number):
            text = f'{{"value":{number}}}'
            assert fhir_json.dumps(fhir_json.loads(text)) == text.encode()


def test_exponent_keeps_value_and_precision(subtests):
    for number in ["1e3", "1.50E3", "1e-7", "0.0000001", "-2.0E+10", "1E400"]:
        with subtests.test(number=number):
            written = fhir_json.dumps(fhir_json.loads(number)).decode()
            assert json.loads(written, parse_float=str, parse_int=str)
            assert Decimal(written).as_tuple() == Decimal(number).as_tuple()


def test_whole_numbers_are_int_and_those_with_a_fraction_are_not():
    assert [type(fhir_json.loads(number)) for number in ("7", "7.0", "7e0")] == [
        int,
        Decimal,
        Decimal,
    ]


def test_invalid_json_is_refused(subtests):
    for text, reason in [
        ("NaN", "NaN is not JSON"),
        ('{"value": Infinity}', "Infinity is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ('{"a": 1, "b": 2, "a": 1}', "the member 'a' stands twice in one object"),
        ('[{"x": {"b": 1, "b": 2}}]', "the member 'b' stands twice in one object"),
        # the same name, written in two ways
        ('{"a": 1, "\\u0061": 2}', "the member 'a' stands twice in one object"),
        ("[" * 100_000, "it is nested too deeply"),
        ('{"a":' * 100_000, "it is nested too deeply"),
        ("", "Expecting value"),
        ("[1,]", "Expecting value"),
        ("[1] 2", "Extra data"),
        ("01", "Extra data"),
        ("'a'", "Expecting value"),
        ('"a\tb"', "Invalid control character"),
        ('"a', "Unterminated string"),
        (b"\xff", "invalid start byte"),
        (b'"\xed\xa0\x80"', "invalid continuation byte"),
    ]:
        with subtests.test(text), pytest.raises(ValueError, match=reason.replace("[", r"\[")):
            fhir_json.loads(text)


def test_exponent_beyond_all_numbers_is_refused(subtests):
    for number in ["1e9999999999999999999", "-1e-9999999999999999999"]:
        with subtests.test(number=number), pytest.raises(ValueError, match=r"."):
            fhir_json.loads(number)


def test_lone_surrogate_is_read_and_never_written():
    """It is JSON, but no text: no place in UTF-8. What checks elements refuses it."""
    assert fhir_json.loads(r'"\ud83d\ude00"') == "\U0001f600"
    lone = fhir_json.loads(r'"\ud83d"')
    with pytest.raises(TypeError):
        fhir_json.dumps(lone)


def test_bytes_are_written_in_base64():
    assert fhir_json.dumps({"data": b"\x00\xff"}) == b'{"data":"AP8="}'


def test_value_without_json_form_is_refused():
    with pytest.raises(TypeError):
        fhir_json.dumps({"value": {1}})


@REPEATABLE
@given(CONTENT)
def test_every_form_is_read_back(content):
    written = (fhir_json.dumps(content), fhir_json.dumps_indented(content))
    assert [fhir_json.loads(text) for text in written] == [content, content]
    assert fhir_json.loads(fhir_json.text(content)) == content


@REPEATABLE
@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_decimal_is_read_back_with_its_precision(number):
    read = fhir_json.loads(fhir_json.dumps([number, "."]))[0]
    assert Decimal(read).as_tuple() == number.as_tuple()


@REPEATABLE
@given(st.dictionaries(TEXT, CONTENT, max_size=5), st.randoms(use_true_random=False))
def test_canonical_form_does_not_depend_on_the_order_of_members(content, random):
    members = list(content.items())
    random.shuffle(members)
    assert fhir_json.canonical(dict(members)) == fhir_json.canonical(content)
    assert list(fhir_json.loads(fhir_json.dumps(dict(members)))) == [name for name, _ in members]
