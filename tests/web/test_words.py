"""Scopes, and where apps lead, in words."""

from __future__ import annotations

import pytest

from fhirapp.auth.scopes import supported
from fhirapp.definition import types
from fhirapp.web.labels import in_words, returns_to
from tests.support.helpers import BASE_URL

PERSONAL = "name, date of birth, address and other personal details"


@pytest.mark.parametrize(
    ("scope", "sentence", "sensitive"),
    [
        ("openid", "Recognize you when you return", False),
        ("patient/AllergyIntolerance.rs", "See allergies and intolerances", False),
        ("patient/AllergyIntolerance", "See allergies and intolerances", False),
        ("patient/DocumentReference.read", "See clinical notes and documents", True),
        ("patient/DocumentReference.s", "Search clinical notes and documents", True),
        (
            "user/Patient.r",
            f"Read, where it knows the id, {PERSONAL} of every patient you have access to",
            False,
        ),
        (
            "patient/AllergyIntolerance.rs?clinical-status=http://x|active",
            "See allergies and intolerances, only where clinical status is active",
            False,
        ),
        ("patient/Unknown.rs", "See Unknown", False),
        ("unknown", "unknown", False),
    ],
)
def test_scopes_are_told_in_words(app, scope, sentence, sensitive):
    with app.app_context():
        assert in_words(scope) == (scope, sentence, sensitive)


@pytest.mark.parametrize(
    ("uris", "place"),
    [
        (["https://a.example/x", "https://a.example:8443/y"], "a.example, a.example:8443"),
        (["http://127.0.0.1/cb", "loopback"], "this device (127.0.0.1), this device"),
        (
            ["http://localhost:3000/", "http://[::1]:1/"],
            "this device (localhost:3000), this device ([::1]:1)",
        ),
        (["/demo/app"], "this server"),
        (["/demo/app", f"{BASE_URL}/demo/app"], "this server"),
        ([f"{BASE_URL}.example/x", f"{BASE_URL}:1/"], "fhir.example.example, fhir.example:1"),
        (["com.example.app:/cb"], "the app that opens com.example.app:"),
        ([], ""),
    ],
)
def test_where_an_app_leads_is_told_in_words(uris, place):
    assert returns_to(uris, BASE_URL) == place


def test_every_supported_scope_has_words_of_its_own(app):
    with app.app_context():
        scopes = supported()
        assert scopes
        for scope in scopes:
            sentence = in_words(scope).sentence
            assert "/" not in sentence, scope
            assert "_" not in sentence, scope
            assert sentence[0].isupper(), scope


def test_every_type_that_is_served_has_words_of_its_own(app):
    with app.app_context():
        for name in types():
            assert name not in in_words(f"patient/{name}.rs").sentence
