"""The grammar of scopes, the permissions they give, and how granted scopes are written."""

from __future__ import annotations

from itertools import product

from fhirapp.auth.scopes import Scope, clinical_scopes, grantable, parse_scope

CONTEXTS = ("patient", "user", "system")


def test_suffix_of_a_scope_gives_its_permissions():
    suffixes = {
        "": "rs",
        ".read": "rs",
        ".*": "rs",
        ".rs": "rs",
        ".r": "r",
        ".s": "s",
        ".cruds": "rs",
        ".cr": "r",
        ".ds": "s",
        ".cruds?category=food": "rs",
    }
    types = ("*", "DocumentReference", "AllergyIntolerance")
    for context, type_, suffix in product(CONTEXTS, types, suffixes):
        scope = parse_scope(f"{context}/{type_}{suffix}")
        assert scope is not None
        assert scope[:3] == (context, type_, suffixes[suffix])


def test_text_that_is_no_scope_or_allows_nothing_here_is_none():
    name = "system/DocumentReference"
    for text in (
        *("", "openid", "launch/patient", "system", "system/", "system/.rs"),
        *("/DocumentReference.rs", f"x{name}.rs", "SYSTEM/DocumentReference.rs"),
        *("system/documentReference.rs", f"{name}.", f"{name}.x", f"{name}.sr", f"{name}.rr"),
        *(f"{name}.RS", f"{name}.reads", f"{name}.rs.rs", f"{name}.rs/x", f"{name}.rs\n"),
        *(f"{name}.rs ", f" {name}.rs", "system/Document Reference.rs"),
        *("system/*DocumentReference.rs", "system/**.rs"),
        # Only writing: nothing is left of it here.
        *(f"{name}.write", f"{name}.cud", f"{name}.c"),
        # A filter without a value.
        *(f"{name}.rs?{query}" for query in ("", "category", "category=", "=x", "&")),
        f"{name}.rs?category=a&b",
    ):
        assert parse_scope(text) is None, text


def test_filter_is_read_as_search_parameters():
    for query, filters in (
        ("category=food", (("category", "food"),)),
        ("b=2&a=1", (("a", "1"), ("b", "2"))),
        ("a=2&a=1", (("a", "1"), ("a", "2"))),
        ("category=http://loinc.org|LP29684-5", (("category", "http://loinc.org|LP29684-5"),)),
        ("category=http%3A%2F%2Floinc.org%7CX", (("category", "http://loinc.org|X"),)),
        ("status:not=active", (("status:not", "active"),)),
    ):
        scope = parse_scope(f"system/AllergyIntolerance.rs?{query}")
        assert scope == Scope("system", "AllergyIntolerance", "rs", filters)


def test_clinical_scopes_keep_their_order_and_drop_others():
    found = clinical_scopes("openid user/*.r  patient/Patient.rs nonsense system/*.write")
    assert [scope.context for scope in found] == ["user", "patient"]


def granted(requested: str, registered: str, contexts: tuple[str, ...] = CONTEXTS) -> list[str]:
    return grantable(requested.split(), registered, contexts, lambda _scope: True)


def test_granted_scopes_are_within_the_registration():
    several = "system/DocumentReference.rs system/AllergyIntolerance.r"
    for requested, registered, expected in (
        ("system/*.rs", "system/*.rs", "system/*.rs"),
        ("system/*.read", "system/*.rs", "system/*.read"),
        ("system/*.rs", "system/*.read", "system/*.rs"),
        ("system/DocumentReference", "system/*.rs", "system/DocumentReference"),
        ("system/DocumentReference", "system/*.r", "system/DocumentReference.r"),
        ("system/DocumentReference.cruds", "system/*.rs", "system/DocumentReference.rs"),
        ("system/DocumentReference.cr", "system/*.rs", "system/DocumentReference.r"),
        ("system/DocumentReference.*", "system/*.rs", "system/DocumentReference.read"),
        ("system/*.read", "system/*.s", "system/*.s"),
        ("system/*.r", "system/*.s", ""),
        ("system/*.rs", "user/*.rs patient/*.rs", ""),
        ("system/Patient.rs", "system/Encounter.rs", ""),
        ("system/*.r system/*.s", "system/*.rs", "system/*.r system/*.s"),
        ("system/*.rs", "system/*.r system/*.s", "system/*.rs"),
        ("system/*.rs system/*.rs", "system/*.rs", "system/*.rs"),
        ("system/Patient.cruds?a=1", "system/*.rs", "system/Patient.rs?a=1"),
        ("system/Patient.rs?a=1&b=2", "system/Patient.rs?a=1", "system/Patient.rs?a=1&b=2"),
        ("system/Patient.rs?a=2", "system/Patient.rs?a=1", "system/Patient.rs?a=1&a=2"),
        ("openid system/*.write nonsense", "system/*.rs", ""),
        # Of more than is registered, what is registered: decisions §6.
        ("system/*.rs", several, several),
        ("system/Patient.rs", "system/Patient.rs?a=1", "system/Patient.rs?a=1"),
    ):
        found = granted(requested, registered)
        assert sorted(found) == sorted(expected.split()), (requested, registered)
        assert registered == several or found == expected.split()


def test_scopes_of_another_context_are_not_granted():
    scopes = "patient/*.rs user/*.rs system/*.rs"
    assert granted(scopes, scopes, ("system",)) == ["system/*.rs"]
    assert granted(scopes, scopes, ("user", "patient")) == ["patient/*.rs", "user/*.rs"]
