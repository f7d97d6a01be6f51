"""SMART's own client for JavaScript, in Chromium, on a page of another origin: both launches, the
user's choices, what each kind of app sends, and who may read the answers (CORS).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from tests.support.authorizing import VERIFIER, challenge
from tests.support.registered import KINDS, PUBLIC, SECRET, register_app

if TYPE_CHECKING:
    from tests.support.browser import Visit
    from tests.support.live import Demo

pytest_plugins = ["tests.support.live", "tests.support.browser"]

SCOPE = "launch/patient openid fhirUser profile patient/*.rs offline_access"
AWAY = "Keep access when you are away"
P1 = "Amelia"
# What the app reads of its patient.
READ = ("AllergyIntolerance", "DocumentReference")


@pytest.fixture(scope="module")
def apps(demo: Demo, app_url: str) -> Mapping[str, dict[str, Any]]:
    """What SMART's client is told of the app, by how that proves who it is."""
    registered = {kind: register_app(demo, kind, app_url) for kind in KINDS}
    return {
        kind: {"clientId": app.client_id, "clientSecret": app.secret, "clientPrivateJwk": app.key}
        for kind, app in registered.items()
    }


@pytest.fixture
def connected(visit: Callable[..., Visit], apps: Mapping[str, Any]) -> Callable[..., Visit]:
    """Return what sends a person's browser from the app to our server."""

    def connect(kind: str = PUBLIC) -> Visit:
        visitor = visit()
        visitor.connect(**apps[kind], scope=SCOPE)
        return visitor

    return connect


def belonging(demo: Demo, resource_type: str, patient: str) -> list[str]:
    """Return the ids of a patient's resources, sorted."""
    newest = {row_id: versions[-1] for row_id, versions in demo.held[resource_type].items()}
    element = {"AllergyIntolerance": "patient", "DocumentReference": "subject"}[resource_type]
    return sorted(
        row_id
        for row_id, resource in newest.items()
        if resource and resource[element]["reference"] == f"Patient/{patient}"
    )


def found(visitor: Visit, search: str) -> list[str]:
    """Return the ids that the app finds, on all pages, sorted."""
    ids: list[str] = visitor.ask(
        f"client.request('{search}', {{ pageLimit: 0, flat: true }})"
        ".then((all) => all.map((one) => one.id))"
    )
    return sorted(ids)


def claims_of(demo: Demo, id_token: str) -> dict[str, Any]:
    """Return what an id token claims, by a signature with a published key."""
    keys = KeySet.import_key_set(json.loads(demo.ask("GET", "/oauth/jwks.json")))
    return dict(jwt.decode(id_token, keys, algorithms=["RS256"]).claims)


@pytest.mark.parametrize("kind", KINDS)
def test_a_clinician_chooses_a_patient_and_the_app_reads_the_record(connected, demo, apps, kind):
    visitor = connected(kind)
    visitor.sign_in("clinician")
    visitor.search(P1)
    visitor.press(P1)
    visitor.allow(tick=[AWAY])
    told = visitor.ready()
    assert told["scope"].split() == SCOPE.split()
    assert told["need_patient_banner"] is True
    assert visitor.ask("client.patient.read().then((one) => one.id)") == "p1"
    assert {name: found(visitor, f"{name}?patient=p1") for name in READ} == {
        name: belonging(demo, name, "p1") for name in READ
    }
    claims = claims_of(demo, told["id_token"])
    assert (claims["iss"], claims["aud"]) == (demo.url, apps[kind]["clientId"])
    assert claims["fhirUser"] == f"{demo.fhir}/Practitioner/dr-adeyemi"
    assert visitor.ask("[client.user.id, client.user.resourceType]") == [
        "dr-adeyemi",
        "Practitioner",
    ]
    assert visitor.ask("client.user.read().then((one) => one.id)") == "dr-adeyemi"


# Neither sends client_id: of a public client the refresh token is all that comes.
@pytest.mark.parametrize(("kind", "has_header"), [(PUBLIC, False), (SECRET, True)])
def test_an_app_refreshes_its_token(connected, kind, has_header):
    visitor = connected(kind)
    visitor.sign_in("patient")
    visitor.allow(tick=[AWAY])
    first = visitor.ready()
    with visitor.page.expect_request("**/oauth/token") as sent:
        again = visitor.ask("client.refresh().then((state) => state.tokenResponse)")
    assert set(parse_qs(sent.value.post_data)) == {"grant_type", "refresh_token"}
    assert ("authorization" in sent.value.headers) == has_header
    for name in ("access_token", "refresh_token"):
        assert again[name] != first[name]
    assert again["scope"] == first["scope"]
    assert visitor.status("Patient/p1") == 200


def test_an_app_that_our_pages_start_is_told_patient_and_visit(visit, apps, demo):
    visitor = visit()
    visitor.open("/launch")
    visitor.sign_in("clinician")
    visitor.search("Luis")
    visitor.follow("Luis")
    visitor.page.locator("#encounter").select_option("enc-p2-2023-ed")
    visitor.press_value(apps[PUBLIC]["clientId"])
    assert visitor.page.url.startswith(f"{visitor.app}?iss=")
    visitor.authorize(**apps[PUBLIC], scope="launch openid fhirUser patient/*.rs")
    visitor.allow()
    told = visitor.ready()
    assert (told["patient"], told["encounter"]) == ("p2", "enc-p2-2023-ed")
    assert visitor.ask("client.encounter.read().then((one) => one.subject.reference)") == (
        "Patient/p2"
    )
    assert found(visitor, "AllergyIntolerance") == belonging(demo, "AllergyIntolerance", "p2")
    style = f"fetch('{told['smart_style_url']}').then((answer) => answer.json())"
    assert "color_background" in visitor.ask(style)


def test_an_app_has_our_pages_in_a_window_of_their_own(visit, apps, demo):
    visitor = visit()
    visitor.page.goto(visitor.app)
    asked = {"iss": demo.fhir, "redirectUri": visitor.app, "scope": SCOPE, **apps[PUBLIC]}
    with visitor.page.expect_popup() as opened:
        visitor.page.evaluate(
            "(asked) => { FHIR.oauth2.authorize(asked) }",
            {**asked, "target": "popup", "completeInTarget": False},
        )
    other = visitor.at(opened.value)
    other.sign_in("patient")
    other.allow()
    # There the app hands the code over to the window that it began in.
    with visitor.page.expect_navigation():
        other.page.evaluate("() => { FHIR.oauth2.ready() }")
    assert visitor.ready()["patient"] == "p1"


def test_our_pages_need_no_script(visit, apps, demo):
    visitor = visit(java_script_enabled=False)
    asked = {
        "response_type": "code",
        "scope": SCOPE,
        "state": "of the app's",
        "code_challenge": challenge(VERIFIER),
        "code_challenge_method": "S256",
        "client_id": apps[PUBLIC]["clientId"],
        "redirect_uri": visitor.app,
        "aud": demo.fhir,
    }
    visitor.open(f"/oauth/authorize?{urlencode(asked)}")
    visitor.sign_in("clinician")
    visitor.search("Luis")
    visitor.press("Luis")
    visitor.follow("choose a different record")
    visitor.search("Hartw")
    visitor.press(P1)
    visitor.allow(tick=[AWAY])
    assert visitor.page.url.startswith(visitor.app)
    told = parse_qs(urlsplit(visitor.page.url).query)
    assert told["state"] == ["of the app's"]
    assert told["code"]


def test_an_app_reads_headers_and_asks_again_with_them(connected):
    visitor = connected()
    visitor.sign_in("patient")
    visitor.allow()
    visitor.ready()
    etag = "({ response }) => response.headers.get('ETag')"
    asked = "{ url: 'Patient/p1', includeResponse: true }"
    assert visitor.ask(f"client.request({asked}).then({etag})") == 'W/"1"'
    again = "{ url: 'Patient/p1', headers: { 'If-None-Match': 'W/\"1\"' } }"
    assert visitor.ask(f"client.request({again}).catch((error) => error.status)") == 304
    challenge_of = "(answer) => answer.headers.get('WWW-Authenticate')"
    address = visitor.address("/fhir/Patient/p1")
    assert "Bearer" in visitor.ask(f"fetch('{address}').then({challenge_of})")


NONSENSE = {"headers": {"Authorization": "Bearer nonsense"}}
POSTED = {
    "method": "POST",
    "body": "token=nonsense&grant_type=nonsense&client_id=demo-app",
    "headers": {"Content-Type": "application/x-www-form-urlencoded"},
}
# Where a page asks us, how, and what an app learns: the status, or that it may not read the answer.
FOR_APPS: list[tuple[str, dict[str, Any], int | str]] = [
    ("/fhir/Patient/p1", {}, 401),
    ("/fhir/Patient/p1", NONSENSE, 401),
    ("/fhir/Patient/nonsense", NONSENSE, 401),
    ("/fhir/Nonsense", NONSENSE, 404),
    ("/api/AllergyIntolerance", NONSENSE, 401),
    ("/oauth/token", POSTED, 400),
    ("/oauth/revoke", POSTED, 200),
    ("/oauth/userinfo", NONSENSE, 401),
    ("/oauth/introspect", POSTED, "TypeError"),
    ("/sign-in", {}, "TypeError"),
    ("/account", {"credentials": "include"}, "TypeError"),
    ("/fhir/Patient/p1", {"credentials": "include"}, "TypeError"),
]
FOR_ALL = [
    ("/.well-known/smart-configuration", {}, 200),
    ("/fhir/.well-known/smart-configuration", {}, 200),
    ("/.well-known/openid-configuration", {}, 200),
    ("/fhir/metadata", {}, 200),
    ("/oauth/jwks.json", {}, 200),
    ("/smart-style.json", {}, 200),
]
ASK = (
    "([url, options]) => fetch(url, options).then((answer) => answer.status, (error) => error.name)"
)


@pytest.mark.parametrize("is_registered", [True, False])
def test_answers_are_for_the_origins_of_registered_apps(visit, is_registered):
    visitor = visit()
    visitor.open("/account")
    visitor.sign_in("patient")
    visitor.page.goto(visitor.app if is_registered else visitor.stranger)
    learned = [
        (path, options, visitor.page.evaluate(ASK, [visitor.address(path), options]))
        for path, options, _ in [*FOR_APPS, *FOR_ALL]
    ]
    nothing = [(path, options, "TypeError") for path, options, _ in FOR_APPS]
    assert learned == [*(FOR_APPS if is_registered else nothing), *FOR_ALL]


# Of the demo: many allergies, none known, refuted ones, none of whom anybody asked.
@pytest.mark.parametrize("patient", ["p1", "p4", "p5", "p8", "p9", "p11"])
def test_the_sample_app_orders_and_names_allergies_as_the_chart_does(visit, demo, patient):
    visitor = visit()
    visitor.open(f"/launch?patient={patient}")
    visitor.sign_in("clinician")
    visitor.press_value("demo-app")
    visitor.allow()
    card = card_of(visitor, "Allergies")
    card.locator("p").first.wait_for()
    visitor.unfold()
    names = card.locator("th > strong").all_inner_texts()
    tab = visitor.tab(f"/patients/{patient}")
    tab.unfold()
    chart = tab.page
    links = chart.locator(f"main a[href^='/patients/{patient}/allergies/']:has(bdi)")
    # What contradicts links to them too, above the table.
    named = [link for link in links.all() if not link.locator("xpath=ancestor::p").count()]
    assert names == [link.inner_text() for link in named]
    summary = summary_of(demo, patient)
    assert names == [part_of(entry, "substance") for entry in entries_of(summary)]
    severe = [part_of(entry, "severe") for entry in entries_of(summary)]
    rows = card.locator("tbody tr").all()
    assert [bool(row.locator(".tag").count()) for row in rows] == severe
    # The statements, whether none is known or nobody has asked.
    shown = card.inner_text()
    told = [
        parameter
        for parameter in summary["parameter"]
        if parameter["name"] in ("conclusion", "finding", "group")
    ]
    assert all(part_of(parameter, "text") in shown for parameter in told)
    assert part_of(told[0], "text") in chart.locator("main").inner_text()


@pytest.mark.parametrize("patient", ["p1", "p4", "p5", "p8"])
def test_the_sample_app_warns_of_the_severe_allergies_that_the_chart_warns_of(visit, patient):
    visitor = visit()
    visitor.open(f"/launch?patient={patient}")
    visitor.sign_in("clinician")
    visitor.press_value("demo-app")
    visitor.allow()
    card_of(visitor, "Allergies").locator("p").first.wait_for()
    warnings = visitor.page.locator(".danger .headline span:nth-child(1)").all_inner_texts()
    chart = visitor.tab(f"/patients/{patient}").page
    assert warnings == chart.locator(".danger .headline a bdi").all_inner_texts()
    assert visitor.page.locator(".none").count() == chart.locator(".none").count()
    assert visitor.page.get_by_role("heading", level=1).inner_text() == "Sample app"
    # The source is folded.
    assert visitor.page.locator("pre.source").is_hidden()


def test_the_sample_app_shows_allergies_where_the_token_allows_nothing_else(visit, demo):
    visitor = visit()
    visitor.open("/demo/app")
    visitor.press("Connect to my records")
    visitor.sign_in("patient")
    for scope in ("openid", "fhirUser", "patient/Patient.rs", "patient/DocumentReference.rs"):
        visitor.page.locator(f'input[value="{scope}"]').uncheck()
    visitor.press("Allow selected")
    card = card_of(visitor, "Allergies")
    card.get_by_role("rowheader").first.wait_for()
    visitor.unfold()
    token = json.loads(visitor.page.locator("#token").inner_text())
    assert set(token["scope"].split()) == {"launch/patient", "patient/AllergyIntolerance.rs"}
    names = [part_of(entry, "substance") for entry in entries_of(summary_of(demo, "p1"))]
    assert card.locator("th > strong").all_inner_texts() == names
    refused = "Not shown: the token does not allow it."
    assert visitor.page.locator("#patient").inner_text() == refused
    assert visitor.page.locator("#notes").inner_text() == refused


def test_the_sample_app_speaks_the_language_of_its_page(visit, demo):
    visitor = visit(locale="de-DE")
    visitor.open("/demo/app")
    visitor.press("Mit meiner Akte verbinden")
    visitor.page.get_by_label("Benutzername").fill("patient")
    visitor.page.get_by_label("Passwort").fill("demo")
    visitor.press("Anmelden")
    visitor.press("Auswahl erlauben")
    visitor.page.locator("#notes li").first.wait_for()
    # Each part of $summary has a name in that language; who recorded it is a name too.
    facts = visitor.page.locator("#allergies small").all_inner_texts()
    labels = {label.strip() for fact in facts for label in re.findall(r"([^:;,]+): ", fact)}
    assert {"klinischer Status", "Reaktion", "erfasst von"} <= labels, labels
    assert not [fact for fact in facts if "[object" in fact or re.search("[a-z][A-Z]", fact)]
    assert "geboren 1958-04-12" in visitor.page.locator("#patient").inner_text()


def card_of(visitor: Visit, heading: str) -> Any:
    """Return the part of the sample app under a heading."""
    return visitor.page.locator(".card").filter(
        has=visitor.page.get_by_role("heading", name=heading, exact=True)
    )


def summary_of(demo: Demo, patient: str) -> dict[str, Any]:
    """Return what the server says of a patient's allergies."""
    path = f"/fhir/AllergyIntolerance/$summary?patient={patient}"
    header = {"Authorization": f"Bearer {demo.patient_token(patient)}"}
    found: dict[str, Any] = json.loads(demo.ask("GET", path, **header))
    return found


def entries_of(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of all groups, in order."""
    groups = [part for part in summary["parameter"] if part["name"] == "group"]
    return [part for group in groups for part in group["part"] if part["name"] == "entry"]


def part_of(held: dict[str, Any], name: str) -> Any:
    """Return the value of a part."""
    (value,) = (
        part[key]
        for part in held["part"]
        if part["name"] == name
        for key in part
        if key.startswith("value")
    )
    return value
