"""The grammar of scopes, what they allow, and how what is granted is written."""

from __future__ import annotations

import pytest

from fhirapp.auth.scopes import Scope, clinical_scopes, grantable, parse_scope

CONTEXTS = ("patient", "user", "system")


@pytest.mark.parametrize(
    ("suffix", "permissions"),
    [
        ("", "rs"),
        (".read", "rs"),
        (".*", "rs"),
        (".rs", "rs"),
        (".r", "r"),
        (".s", "s"),
        (".cruds", "rs"),
        (".cr", "r"),
        (".ds", "s"),
        (".cruds?category=food", "rs"),
    ],
)
@pytest.mark.parametrize("resource_type", ["*", "DocumentReference", "AllergyIntolerance"])
@pytest.mark.parametrize("context", CONTEXTS)
def test_a_suffix_says_what_may_be_done(context, resource_type, suffix, permissions):
    scope = parse_scope(f"{context}/{resource_type}{suffix}")
    assert scope is not None
    assert scope[:3] == (context, resource_type, permissions)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "openid",
        "launch/patient",
        "system",
        "system/",
        "system/.rs",
        "/DocumentReference.rs",
        "xsystem/DocumentReference.rs",
        "SYSTEM/DocumentReference.rs",
        "system/documentReference.rs",
        "system/DocumentReference.",
        "system/DocumentReference.x",
        "system/DocumentReference.sr",
        "system/DocumentReference.rr",
        "system/DocumentReference.RS",
        "system/DocumentReference.reads",
        "system/DocumentReference.rs.rs",
        "system/DocumentReference.rs/x",
        "system/DocumentReference.rs\n",
        "system/DocumentReference.rs ",
        " system/DocumentReference.rs",
        "system/Document Reference.rs",
        "system/*DocumentReference.rs",
        "system/**.rs",
        # Only writing: nothing is left of it here.
        "system/DocumentReference.write",
        "system/DocumentReference.cud",
        "system/DocumentReference.c",
        # A filter that says nothing.
        "system/DocumentReference.rs?",
        "system/DocumentReference.rs?category",
        "system/DocumentReference.rs?category=",
        "system/DocumentReference.rs?=x",
        "system/DocumentReference.rs?&",
        "system/DocumentReference.rs?category=a&b",
    ],
)
def test_what_is_no_scope_or_allows_nothing_here_is_nothing(text):
    assert parse_scope(text) is None


@pytest.mark.parametrize(
    ("query", "filters"),
    [
        ("category=food", (("category", "food"),)),
        ("b=2&a=1", (("a", "1"), ("b", "2"))),
        ("a=2&a=1", (("a", "1"), ("a", "2"))),
        ("category=http://loinc.org|LP29684-5", (("category", "http://loinc.org|LP29684-5"),)),
        ("category=http%3A%2F%2Floinc.org%7CX", (("category", "http://loinc.org|X"),)),
        ("status:not=active", (("status:not", "active"),)),
    ],
)
def test_a_filter_is_read_as_search_parameters(query, filters):
    scope = parse_scope(f"system/AllergyIntolerance.rs?{query}")
    assert scope == Scope("system", "AllergyIntolerance", "rs", filters)


def test_a_list_keeps_its_order_and_drops_what_is_no_clinical_scope():
    found = clinical_scopes("openid user/*.r  patient/Patient.rs nonsense system/*.write")
    assert [scope.context for scope in found] == ["user", "patient"]


@pytest.mark.parametrize(
    ("asked", "registered", "granted"),
    [
        ("system/*.rs", "system/*.rs", ["system/*.rs"]),
        ("system/*.read", "system/*.rs", ["system/*.read"]),
        ("system/*.rs", "system/*.read", ["system/*.rs"]),
        ("system/DocumentReference", "system/*.rs", ["system/DocumentReference"]),
        ("system/DocumentReference", "system/*.r", ["system/DocumentReference.r"]),
        ("system/DocumentReference.cruds", "system/*.rs", ["system/DocumentReference.rs"]),
        ("system/DocumentReference.cr", "system/*.rs", ["system/DocumentReference.r"]),
        ("system/DocumentReference.*", "system/*.rs", ["system/DocumentReference.read"]),
        ("system/*.read", "system/*.s", ["system/*.s"]),
        ("system/*.r", "system/*.s", []),
        ("system/*.rs", "user/*.rs patient/*.rs", []),
        ("system/Patient.rs", "system/Encounter.rs", []),
        ("system/*.r system/*.s", "system/*.rs", ["system/*.r", "system/*.s"]),
        ("system/*.rs", "system/*.r system/*.s", ["system/*.rs"]),
        ("system/*.rs system/*.rs", "system/*.rs", ["system/*.rs"]),
        (
            "system/Patient.cruds?a=1",
            "system/*.rs",
            ["system/Patient.rs?a=1"],
        ),
        ("system/Patient.rs?a=1&b=2", "system/Patient.rs?a=1", ["system/Patient.rs?a=1&b=2"]),
        ("system/Patient.rs?a=2", "system/Patient.rs?a=1", ["system/Patient.rs?a=1&a=2"]),
        ("openid system/*.write nonsense", "system/*.rs", []),
    ],
)
def test_what_is_granted_of_what_was_asked(asked, registered, granted):
    assert grantable(asked.split(), registered, CONTEXTS, lambda _scope: True) == granted


@pytest.mark.parametrize(
    ("asked", "registered", "granted"),
    [
        (
            "system/*.rs",
            "system/DocumentReference.rs system/AllergyIntolerance.r",
            {"system/DocumentReference.rs", "system/AllergyIntolerance.r"},
        ),
        (
            "system/AllergyIntolerance.rs",
            "system/AllergyIntolerance.rs?category=food",
            {"system/AllergyIntolerance.rs?category=food"},
        ),
    ],
)
def test_of_more_than_is_registered_what_is_registered_is_granted(asked, registered, granted):
    """decisions §6: access is the scope and the registration together, not all or nothing."""
    assert set(grantable(asked.split(), registered, CONTEXTS, lambda _scope: True)) == granted


def test_scopes_of_another_context_are_left_out():
    asked = ["patient/*.rs", "user/*.rs", "system/*.rs"]
    registered = " ".join(asked)
    assert grantable(asked, registered, ["system"], lambda _scope: True) == ["system/*.rs"]
    assert grantable(asked, registered, ["user", "patient"], lambda _scope: True) == [
        "patient/*.rs",
        "user/*.rs",
    ]
