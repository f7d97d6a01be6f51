"""What every search parameter shares: how values are split, and where they stand in a resource."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.search.string import soundex
from fhirapp.search.values import split, unescape, values_at
from tests.support.effort import sample

REPEATABLE = settings(max_examples=sample(20, 300))


SPLIT = [
    ("", [""]), ("a", ["a"]), ("a,b", ["a", "b"]), (",a,,b,", ["", "a", "", "b", ""]),
    (r"a\,b,c", [r"a\,b", "c"]),
    # the backslash is escaped, the comma is not
    (r"a\\,b", [r"a\\", "b"]), (r"a\\\,b", [r"a\\\,b"]), (r"a\|b\$c", [r"a\|b\$c"]),
    ("a\\", ["a\\"]), ("a,b\\", ["a", "b\\"]), ("a\n,\\\n,b", ["a\n", "\\\n", "b"]),
]  # fmt: skip


def test_a_value_is_split_at_commas_that_are_not_escaped():
    """FHIR R4 search §3.1.1.4.0."""
    assert {case: split(case, ",") for case, _ in SPLIT} == dict(SPLIT)


ESCAPED = [
    (r"a\,b\|c\$d\\e", r"a,b|c$d\e"), (r"\\,", r"\,"), (r"\\\,", r"\,"),
    # what needs no escape keeps its backslash
    (r"a\bc", r"a\bc"), ("a\\", "a\\"), ("a", "a"),
]  # fmt: skip


def test_escapes_are_removed():
    assert {case: unescape(case) for case, _ in ESCAPED} == dict(ESCAPED)


TEXT = st.text("ab\\,|$\n é", max_size=8)


@REPEATABLE
@given(st.lists(TEXT, min_size=1, max_size=4), st.sampled_from(",|$"))
def test_escaped_and_joined_values_are_split_and_unescaped(values, separator):
    escaped = [re.sub(r"[\\,|$]", r"\\\g<0>", value) for value in values]
    assert [unescape(one) for one in split(separator.join(escaped), separator)] == values


RESOURCE = {
    "a": {"b": [{"c": 1}, {"d": 2}, {"c": [3, None, 4]}, None]},
    "e": False,
    "f": 0,
    "g": [None],
    "h": "text",
}


VALUES_AT = [
    ("a.b.c", [1, 3, 4]), ("a.b.d", [2]), ("a.b.x", []), ("a.x.c", []), ("x", []),
    # false and nought are values
    ("e", [False]), ("f", [0]), ("g", []), ("h.i", []),
]  # fmt: skip


def test_the_values_at_a_path_are_found_through_every_list():
    assert {case: values_at(RESOURCE, case) for case, _ in VALUES_AT} == dict(VALUES_AT)


def test_characters_that_are_in_no_code_find_nothing(fhir):
    for query in ("_id=%F0%9F%98%80", "code=%7F"):
        assert fhir.read(f"AllergyIntolerance?{query}")["total"] == 0


SOUNDEX = [
    # The examples of the National Archives.
    ("washington", "W252"), ("lee", "L000"), ("gutierrez", "G362"), ("pfister", "P236"),
    ("jackson", "J250"), ("tymczak", "T522"), ("ashcraft", "A261"), ("robert", "R163"),
    ("rupert", "R163"), ("honeyman", "H555"), ("nguyen", "N250"), ("müller", "müller"),
    ("иванов", "иванов"),
]  # fmt: skip


def test_the_soundex_code_of_a_word():
    assert {case: soundex(case) for case, _ in SOUNDEX} == dict(SOUNDEX)
