"""Labels on pages: scopes, the addresses of apps, and browsers, in words."""

from __future__ import annotations

from fhirapp.auth.scopes import supported
from fhirapp.definition import types
from fhirapp.web.browsers import browser
from fhirapp.web.labels import in_words, returns_to
from tests.support.helpers import BASE_URL


def test_scope_has_a_sentence_and_is_marked_if_sensitive(app):
    personal = "name, date of birth, address and other personal details"
    known_id = f"Read, where it knows the id, {personal} of every patient you have access to"
    filtered = "See allergies and intolerances, only where clinical status is active"
    sentences = {
        "openid": ("Recognize you when you return", False),
        "patient/AllergyIntolerance.rs": ("See allergies and intolerances", False),
        "patient/AllergyIntolerance": ("See allergies and intolerances", False),
        "patient/DocumentReference.read": ("See clinical notes and documents", True),
        "patient/DocumentReference.s": ("Search clinical notes and documents", True),
        "user/Patient.r": (known_id, False),
        "patient/AllergyIntolerance.rs?clinical-status=http://x|active": (filtered, False),
        "patient/Unknown.rs": ("See Unknown", False),
        "unknown": ("unknown", False),
    }
    with app.app_context():
        found = {scope: tuple(in_words(scope)) for scope in sentences}
    assert found == {scope: (scope, *words) for scope, words in sentences.items()}


def test_every_supported_scope_and_type_has_a_sentence_of_its_own(app):
    with app.app_context():
        sentences = {scope: in_words(scope).sentence for scope in supported()}
        names = {name: in_words(f"patient/{name}.rs").sentence for name in types()}
    assert sentences
    unworded = {
        scope: sentence
        for scope, sentence in sentences.items()
        if "/" in sentence or "_" in sentence or not sentence[0].isupper()
    }
    assert unworded == {}
    assert {name: sentence for name, sentence in names.items() if name in sentence} == {}


def test_address_of_an_app_is_its_host_or_this_device():
    places = {
        ("https://a.example/x", "https://a.example:8443/y"): "a.example, a.example:8443",
        ("http://127.0.0.1/cb", "loopback"): "this device (127.0.0.1), this device",
        ("http://localhost:3000/", "http://[::1]:1/"): (
            "this device (localhost:3000), this device ([::1]:1)"
        ),
        ("/demo/app",): "this server",
        ("/demo/app", f"{BASE_URL}/demo/app"): "this server",
        (f"{BASE_URL}.example/x", f"{BASE_URL}:1/"): "fhir.example.example, fhir.example:1",
        ("com.example.app:/cb",): "the app that opens com.example.app:",
        (): "",
    }
    assert {uris: returns_to(list(uris), BASE_URL) for uris in places} == places


def test_browser_has_its_usual_name(app):
    webkit = "AppleWebKit/537.36 (KHTML, like Gecko)"
    windows = f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {webkit} Chrome/140.0"
    mac = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/18 Safari/605"
    iphone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) Version/18.6 Safari/604.1"
    firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0"
    names = {
        f"{windows}.0.0 Safari/537.36": "Chrome on Windows",
        f"{windows} Safari/5 Edg/140.0": "Edge on Windows",
        firefox: "Firefox on Linux",
        iphone: "Safari on iPhone",
        f"Mozilla/5.0 (Linux; Android 15) {webkit} Chrome/140 Safari/5": "Chrome on Android",
        mac: "Safari on Mac",
        "curl/8.14.1": "curl",
        "somebody's <b>script</b>": "somebody's <b>script</b>",
        "": "unknown browser",
        None: "unknown browser",
    }
    with app.test_request_context():
        assert {user_agent: browser(user_agent) for user_agent in names} == names
