"""What every search parameter shares: how values are split, and where they stand in a resource."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.search.string import soundex
from fhirapp.search.values import split, unescape, values_at
from tests.support.helpers import assert_outcome

REPEATABLE = settings(deadline=None, derandomize=True, max_examples=200)


@pytest.mark.parametrize(
    ("value", "pieces"),
    [
        ("", [""]),
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        (",a,,b,", ["", "a", "", "b", ""]),
        (r"a\,b,c", [r"a\,b", "c"]),
        # the backslash is escaped, the comma is not
        (r"a\\,b", [r"a\\", "b"]),
        (r"a\\\,b", [r"a\\\,b"]),
        (r"a\|b\$c", [r"a\|b\$c"]),
        ("a\\", ["a\\"]),
        ("a,b\\", ["a", "b\\"]),
        ("a\n,\\\n,b", ["a\n", "\\\n", "b"]),
    ],
)
def test_a_value_is_split_at_commas_that_are_not_escaped(value, pieces):
    """FHIR R4 search §3.1.1.4.0."""
    assert split(value, ",") == pieces


@pytest.mark.parametrize(
    ("escaped", "plain"),
    [
        (r"a\,b\|c\$d\\e", r"a,b|c$d\e"),
        (r"\\,", r"\,"),
        (r"\\\,", r"\,"),
        # what needs no escape keeps its backslash
        (r"a\bc", r"a\bc"),
        ("a\\", "a\\"),
        ("a", "a"),
    ],
)
def test_escapes_are_taken_off(escaped, plain):
    assert unescape(escaped) == plain


TEXT = st.text("ab\\,|$\n é", max_size=8)


@REPEATABLE
@given(st.lists(TEXT, min_size=1, max_size=4), st.sampled_from(",|$"))
def test_what_was_escaped_and_joined_is_split_and_unescaped_again(values, separator):
    escaped = [re.sub(r"[\\,|$]", r"\\\g<0>", value) for value in values]
    assert [unescape(one) for one in split(separator.join(escaped), separator)] == values


@REPEATABLE
@given(TEXT, st.sampled_from(",|$"))
def test_splitting_loses_nothing(value, separator):
    assert separator.join(split(value, separator)) == value


RESOURCE = {
    "a": {"b": [{"c": 1}, {"d": 2}, {"c": [3, None, 4]}, None]},
    "e": False,
    "f": 0,
    "g": [None],
    "h": "text",
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.b.c", [1, 3, 4]),
        ("a.b.d", [2]),
        ("a.b.x", []),
        ("a.x.c", []),
        ("x", []),
        # false and nought are values
        ("e", [False]),
        ("f", [0]),
        ("g", []),
        ("h.i", []),
    ],
)
def test_the_values_at_a_path_are_found_through_every_list(path, found):
    assert values_at(RESOURCE, path) == found


ALLERGY = "AllergyIntolerance"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *[(f"code:{modifier}", "token") for modifier in ("exact", "contains", "Not", "x", "not:x")],
        ("date:not", "date"),
        ("_lastUpdated:not", "date"),
        ("patient:not", "reference"),
        ("patient:Practitioner", "reference"),
        ("_id:text", "token"),
    ],
)
def test_a_modifier_that_is_not_here_is_refused(fhir, name, kind):
    """FHIR R4 search §3.1.1.4.4: a server SHALL reject a modifier that it does not support."""
    assert_outcome(
        fhir.get(f"{ALLERGY}?{name}=x"),
        400,
        "not-supported",
        f"{name}: the modifier is not supported on a {kind} parameter here",
        name,
    )


def test_a_colon_without_a_modifier_is_refused(fhir):
    assert_outcome(
        fhir.get(f"{ALLERGY}?code:=x"),
        400,
        "not-supported",
        "code:: the modifier after the colon is missing",
        "code:",
    )


def test_a_value_with_a_nul_is_refused(fhir):
    """No database has one in its text."""
    response = fhir.get(f"{ALLERGY}?code=a%00b")
    assert_outcome(response, 400, "value", "code: has a NUL character", "code")


@pytest.mark.parametrize("query", ["_id=%F0%9F%98%80", "code=%7F"])
def test_characters_that_are_in_no_code_find_nothing(fhir, query):
    assert fhir.read(f"{ALLERGY}?{query}")["total"] == 0


@pytest.mark.parametrize("query", ["code=%FF", "code=%ED%A0%80"])
def test_what_is_no_utf_8_is_refused(fhir, query):
    """To drop it would widen the answer."""
    response = fhir.get(f"{ALLERGY}?{query}")
    message = "request: the parameters are not UTF-8"
    assert_outcome(response, 400, "value", message, "request")


@pytest.mark.parametrize(
    ("word", "code"),
    [
        # The examples of the National Archives.
        ("washington", "W252"), ("lee", "L000"), ("gutierrez", "G362"), ("pfister", "P236"),
        ("jackson", "J250"), ("tymczak", "T522"), ("ashcraft", "A261"), ("robert", "R163"),
        ("rupert", "R163"), ("honeyman", "H555"), ("nguyen", "N250"), ("müller", "müller"),
        ("иванов", "иванов"),
    ],
)  # fmt: skip
def test_the_soundex_code_of_a_word(word, code):
    assert soundex(word) == code
