"""Every page as somebody sees it: by user, with what they do there before it is looked at."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode, urljoin

import pyotp
from sqlalchemy import insert

from fhirapp.auth.clients.registration import owner_code
from fhirapp.auth.models import CLINICIAN, Grant
from fhirapp.auth.users import passwords
from fhirapp.auth.users.accounts import add_user, find_user, new_setup_code
from fhirapp.features.demo.accounts import APP as DEMO_APP
from fhirapp.features.demo.accounts import SECRET as DEMO_PASSWORD
from fhirapp.jobs.queue import add as add_job
from fhirapp.jobs.queue import new_id
from fhirapp.jobs.schedules import ScheduleRow
from tests.support.authorizing import VERIFIER, challenge
from tests.support.registered import RS384, SECRET, register_app, register_backend

if TYPE_CHECKING:
    from tests.support.browser import Visit
    from tests.support.live import Demo

NOBODY, WALKER = "", "walker"
REQUEST = "/oauth/authorize?{request}"
CONSENT = "/oauth/authorize/<handle>"
USER = "/admin/users/<uuid:key>"
CLIENT = "/admin/clients/<client_id>"
ALLERGY = "/patients/<patient_id>/allergies/<allergy_id>"
EXPLAINED = "patient=p1%26nonsense=x%26_explain=true&narrow=1"
LATEX = "&reference=AllergyIntolerance/al-p1-latex"


class Page(NamedTuple):
    """A page: the rule of its address, where to begin (there, unless told), what to do then."""

    rule: str
    begin: str = ""
    go: Callable[[Visit], None] = lambda _: None


def _press(words: str) -> Callable[[Visit], None]:
    return lambda one: one.press(words)


def _press_first(words: str) -> Callable[[Visit], None]:
    """Return what presses the first of several buttons: other tests may have allowed apps too."""
    return lambda one: one.press_first(words)


def _enter(button: str, **filled: str) -> Callable[[Visit], None]:
    """Return what fills in fields, by their ids, and presses a button of their form."""

    def go(one: Visit) -> None:
        for name, text in filled.items():
            one.page.locator(f"#{name}").fill(text)
        form = one.page.locator("form", has=one.page.locator(f"#{name}"))
        with one.page.expect_navigation():
            form.get_by_role("button", name=button).click()

    return go


def _set(**values: str) -> Callable[[Visit], None]:
    """Return what changes one setting on the page of settings."""
    ((name, text),) = values.items()
    return _enter("Save", **{f"value-{name}": text})


def _allow(one: Visit) -> None:
    one.allow()
    one.open("/account/apps")


def _use(one: Visit) -> None:
    one.press("Connect to my records")
    one.allow()
    one.page.get_by_role("heading", name="Allergies").wait_for()


def _learn(one: Visit) -> None:
    one.press("Start")
    one.open("/explore?address=/fhir/AllergyIntolerance%3Fpatient%3Dp4&method=POST")
    one.open("/learn/search-by-post")
    one.page.get_by_text("Your requests pass every check").wait_for()


def _make_class(one: Visit) -> None:
    """Make a class, which somebody joins in another browser."""
    _enter("Create class", name="Nursing")(one)
    code, browser = one.page.locator(".code").inner_text(), one.page.context.browser
    assert browser is not None
    context = browser.new_context()
    other = context.new_page()
    other.goto(urljoin(one.page.url, f"/learn/join?code={code}"))
    other.locator("#nickname").fill("Ben")
    other.get_by_role("button", name="Join").click()
    context.close()
    one.page.reload()
    one.unfold()


def _join_class(one: Visit) -> None:
    _make_class(one)
    code = one.page.locator(".code").inner_text()
    one.open("/learn/join")
    _enter("Join", code=code, nickname="Ana")(one)


def _repeat(one: Visit) -> None:
    with one.page.expect_navigation():
        one.page.get_by_role("link", name="Repeat and compare").first.click()


def _documented(one: Visit) -> None:
    one.page.locator('[data-tag="AllergyIntolerance"]').wait_for()


def _turn_on(one: Visit) -> None:
    secret = one.page.locator(".secret").inner_text().replace(" ", "")
    one.page.locator("[name=keep_apps]").check()
    _enter("Turn on second factor", code=pyotp.TOTP(secret).now(), password=DEMO_PASSWORD)(one)


def _sign_in_again(one: Visit) -> None:
    one.press("Sign out")
    one.sign_in(WALKER)


def _rotate(one: Visit) -> None:
    one.press("Rotate the signing key")
    one.press("Rotate key")


def _import(one: Visit) -> None:
    lines = b'{"resourceType":"AllergyIntolerance","id":"none"}\n'
    file = {"name": "a.ndjson", "mimeType": "text/plain", "buffer": lines}
    one.page.locator("#files").set_input_files([file])
    one.press("Start import")
    one.page.get_by_text("Downloads").wait_for()


def _export(one: Visit) -> None:
    one.press("Start export")
    one.page.get_by_text("Download all as one archive").wait_for()


def _back_up(one: Visit) -> None:
    one.press("Take a backup")
    # It looks again by itself no more.
    one.page.locator("#list:not([hx-trigger]) td a").first.wait_for()
    _newest_backup(one)


def _newest_backup(one: Visit) -> None:
    with one.page.expect_navigation():
        one.page.locator("td a").first.click()


def _begin_to_delete(one: Visit) -> None:
    _newest_backup(one)
    one.press("Delete this backup")


def _begin_to_restore(one: Visit) -> None:
    with one.page.expect_navigation():
        one.page.get_by_role("link", name="Restore ").first.click()


# By who sees them, in the order in which they are looked at.
PAGES: Mapping[str, Sequence[Page]] = {
    NOBODY: [
        Page("/"),
        Page("/api-docs", go=_documented),
        Page("/api-docs/signed-in"),
        Page("/docs"),
        Page("/docs", "/docs?q=refresh+token"),
        Page("/docs", "/docs?q=zzzz"),
        Page("/docs/<name>", "/docs/search"),
        Page("/docs/<name>", "/docs/load"),
        Page("/docs/<name>", "/docs/deploy"),
        Page("/docs/<name>", "/docs/decisions"),
        Page("/docs/<name>", "/docs/security"),
        Page("/sign-in"),
        Page("/sign-in", "/sign-in?done=signed-out"),
        Page("/sign-in", go=_enter("Sign in", username="nobody", password="nonsense")),
        Page("/setup", "/setup?code={invitation}"),
        Page("/setup", "/setup?code=nonsense"),
        Page("/oauth/authorize"),
        Page("/demo/app"),
        Page("/learn"),
        Page("/learn/<name>", "/learn/dates"),
        Page("/learn/join"),
        Page("/learn/join", go=_enter("Join", code="ABCDEFGH", nickname="Ana")),
        Page("/apps/register"),
        Page("/apps/register", "/apps/register?kind=public"),
        Page("/apps/register", "/apps/register?kind=confidential"),
        Page("/apps/register", "/apps/register?kind=backend", _enter("Register app", name="Mine")),
        Page("/apps/<code>", "/apps/{code_of_waiting}"),
        Page("/apps/<code>", "/apps/{code_of_backend}"),
        Page("/apps/<code>", "/apps/{code_of_app}"),
        Page("/apps/<code>/test", "/apps/{code_of_app}", _press("Test this app")),
        Page("/apps/<code>/secret", "/apps/{code_of_app}", _press("Create a new secret")),
    ],
    "patient": [
        Page("/"),
        Page("/account"),
        # Signed in already.
        Page("/sign-in"),
        Page(CONSENT, REQUEST),
        Page(CONSENT, "/oauth/authorize?{visits}"),
        Page(CONSENT, "/oauth/authorize?{visits}", _press("Follow-up encounter")),
        Page("/account/apps", REQUEST, _allow),
        Page("/account/apps", go=_press_first("Revoke access")),
        Page("/demo/app", go=_use),
        Page("/patients/<patient_id>", "/patients"),
        Page("/patients/<patient_id>/viewers", "/patients/p1/viewers"),
        # That record is not theirs.
        Page("/patients/<patient_id>", "/patients/p2"),
        Page("/notes", "/notes?q=penicillin"),
        Page("/notes/<note_id>", "/notes/doc-p1-consult-2025?q=penicillin"),
        # That is not for patients.
        Page("/launch"),
    ],
    "clinician": [
        Page(CONSENT, REQUEST),
        Page(CONSENT, REQUEST, _enter("Search", name="nobody")),
        Page(CONSENT, REQUEST, _enter("Search", name="30.02.1958")),
        Page(CONSENT, REQUEST, _press("Luis")),
        Page("/launch"),
        Page("/launch", "/launch?name=nobody"),
        Page("/patients"),
        Page("/patients", "/patients?name=nobody"),
        Page("/patients", "/patients?name=30.02.1958"),
        Page("/patients/<patient_id>", "/patients/p3"),
        # Nobody has asked; another record of the same person.
        Page("/patients/<patient_id>", "/patients/p11"),
        Page("/patients/<patient_id>", "/patients/p12"),
        Page(ALLERGY, "/patients/p3/allergies/al-p3-egg"),
        Page(ALLERGY, "/patients/p1/allergies/al-p1-penicillin"),
        Page("/patients/<patient_id>/summary", "/patients/p3/summary"),
        Page("/patients/<patient_id>/viewers", "/patients/p1/viewers"),
        Page("/patients/<patient_id>/viewers", "/patients/p1/viewers?before=1"),
        Page("/launch", "/launch?patient=p2"),
        Page("/notes"),
        Page("/notes", "/notes?q=penicillin&from=2020-01-01"),
        Page("/notes", "/notes?q=AND"),
        Page("/notes", "/notes?q=nothing-of-the-kind"),
        Page("/notes", "/notes?patient=p1&timeline=1"),
        Page("/notes/<note_id>", "/notes/doc-p1-progress-2024?q=penicillin"),
        Page("/notes/<note_id>", "/notes/doc-p1-scan-2023"),
        Page("/notes/<note_id>", "/notes/doc-p12-discharge-2023"),
        Page("/notes/<note_id>", "/notes/doc-p1-discharge-2024?version=1"),
        Page("/notes/<note_id>", "/notes/doc-p10-lab-2025"),
        Page("/notes/<note_id>", "/notes/nothing-of-the-kind"),
        Page("/notes/<note_id>/versions", "/notes/doc-p1-discharge-2024/versions"),
        Page("/notes/<note_id>/difference", "/notes/doc-p1-discharge-2024/difference?from=1&to=3"),
        Page("/explore", "/explore?address=/fhir/AllergyIntolerance?" + EXPLAINED),
        Page("/explore"),
        Page("/explore", "/explore?address=/fhir/AllergyIntolerance?patient=p1%26x.y=1"),
        Page("/explore", "/explore?address=/fhir/AllergyIntolerance&view=table"),
        Page("/explore", "/explore?address=/fhir/DocumentReference?patient=p1&view=raw"),
        Page("/explore", "/explore?address=/fhir/AllergyIntolerance?clinical-status=activ"),
        Page("/explore", "/explore?address=nonsense"),
        Page("/explore/why", "/explore/why?address=/fhir/AllergyIntolerance?code=x&reference=x"),
        Page("/explore/why", "/explore/why?address=/fhir/AllergyIntolerance?code=x" + LATEX),
        Page("/explore/compare", "/explore/compare?address=/fhir/AllergyIntolerance?_count=9"),
        Page("/explore/history"),
        Page("/explore/history", go=_repeat),
        Page("/explore/token"),
        Page("/explore/token", go=_enter("Inspect", token="nonsense")),
        Page("/learn"),
        Page("/learn/writing"),
        Page("/learn/<name>", "/learn/tokens"),
        Page("/learn/<name>", "/learn/tokens", _press("Start")),
        Page("/learn/<name>", "/learn/tokens", _press("Show a hint")),
        Page("/learn/<name>/answer", "/learn/tokens", _enter("Answer", **{"answer-1": "nonsense"})),
        Page("/learn/<name>", "/learn/search-by-post", _learn),
        Page("/learn/recap"),
        Page("/learn/certificate"),
        Page("/learn/certificate", "/learn/certificate?name=Robin"),
        Page("/learn/classes"),
        Page("/learn/classes/<class_id>", "/learn/classes", _make_class),
        # From here on somebody else is signed in.
        Page("/learn/class", "/learn/classes", _join_class),
        Page("/learn"),
    ],
    WALKER: [
        Page("/account"),
        Page("/account/apps"),
        Page("/account/sessions"),
        Page("/account/password"),
        Page("/account/second-factor"),
        Page(
            "/account/second-factor",
            go=_enter("Turn on second factor", code="nonsense", password="x"),
        ),
        Page("/account/second-factor", go=_turn_on),
        Page("/account/second-factor"),
        Page("/sign-in/code", "/account", _sign_in_again),
        Page("/sign-in/code", go=_enter("Sign in", code="nonsense")),
    ],
    "admin": [
        Page("/admin/grants", "/admin/grants?ended=1"),
        Page("/admin/grants", "/admin/grants?person=nobody"),
        Page(
            "/admin/grants/take-back",
            "/admin/grants?person=walker",
            _press("Revoke all matching consents"),
        ),
        Page("/"),
        Page("/admin/users"),
        Page("/admin/users", "/admin/users?name=nobody"),
        Page("/admin/users/new"),
        Page("/admin/users/new", go=_enter("Add user", name="Somebody", username="admin")),
        Page(USER, "/admin/users/{patient}"),
        Page(USER, "/admin/users/{patient}?find=Luis"),
        Page(USER, "/admin/users/{walker}"),
        Page(f"{USER}/address", "/admin/users/{walker}", _press("Create link")),
        Page("/admin/about"),
        Page("/admin/patients"),
        Page("/admin/patients", "/admin/patients?find=Luis"),
        Page("/admin/patients/<patient_id>", "/admin/patients/p2"),
        Page("/admin/patients/<patient_id>/delete", "/admin/patients/p2/delete"),
        Page("/admin/patients/<patient_id>/merge", "/admin/patients/p2/merge"),
        Page("/admin/patients/<patient_id>/merge", "/admin/patients/p2/merge?into=p1"),
        Page("/admin/patients/<patient_id>/merge", "/admin/patients/p12/merge"),
        Page(
            "/admin/patients/<patient_id>/correct",
            "/admin/patients/p2",
            _enter("Compare", reason="Misspelled", family="Ortega"),
        ),
        Page("/admin/clients"),
        Page(CLIENT, "/admin/clients/{waiting}"),
        Page(CLIENT, "/admin/clients/{app}"),
        Page(CLIENT, "/admin/clients/{backend}"),
        Page(f"{CLIENT}/change", "/admin/clients/{app}", _enter("Save", scope="nonsense")),
        Page(f"{CLIENT}/secret", "/admin/clients/{app}", _press("Create secret")),
        Page(f"{CLIENT}/owner", "/admin/clients/{app}", _press("Create link")),
        Page("/admin/imports"),
        Page("/admin/imports", go=_press("Start import")),
        Page("/admin/imports/<job_id>", "/admin/imports", _import),
        Page("/admin/exports"),
        Page("/admin/exports", go=_enter("Start export", since="nonsense")),
        Page("/admin/exports/<job_id>", "/admin/exports", _export),
        Page("/admin/backups"),
        Page("/admin/backups", go=_enter("Take a backup", passphrase="nonsense")),
        Page("/admin/backups/<name>", "/admin/backups", _back_up),
        Page("/admin/backups/<name>/restore", "/admin/backups", _begin_to_restore),
        Page("/admin/backups/<name>/delete", "/admin/backups", _begin_to_delete),
        Page("/admin/schedules"),
        Page("/admin/schedules/<kind>/new", "/admin/schedules/pull/new"),
        Page(
            "/admin/schedules/<kind>/new",
            "/admin/schedules/backup/new",
            _enter("Add the schedule", name="one", when="nonsense"),
        ),
        Page("/admin/schedules/<name>", "/admin/schedules/nightly"),
        Page("/admin/schedules/<name>/<action>", "/admin/schedules/nightly", _press("Remove")),
        Page("/admin/refusals"),
        Page("/admin/refusals", "/admin/refusals?id=nonsense"),
        Page("/admin"),
        Page("/admin/audit"),
        Page("/admin/audit", "/admin/audit?patient=a"),
        Page("/admin/audit", "/admin/audit?user=nobody"),
        Page("/admin/audit", "/admin/audit?kind=administration"),
        Page("/admin/settings"),
        Page("/admin/settings", go=_set(export_hours="48")),
        Page("/admin/settings/<name>", "/admin/settings", _set(export_hours="nonsense")),
        Page("/admin/logs"),
        Page("/admin/logs", "/admin/logs?id=nonsense"),
        Page("/admin/check"),
        Page("/admin/check", "/admin/check?whole=1"),
        Page("/admin/keys"),
        Page("/admin/keys/rotate", "/admin/keys", _press("Rotate the signing key")),
        Page("/admin/keys", go=_rotate),
        Page("/explore", "/explore?address=/fhir/AuditEvent"),
        Page(
            "/account/password",
            go=_enter("Change password", old="x", password="y" * 10, again="y" * 10),
        ),
    ],
}


def added(demo: Demo, app_url: str) -> dict[str, str]:
    """Add to a demo what pages show; return what the addresses name."""
    app = register_app(demo, SECRET, app_url).client_id
    waiting = register_app(demo, SECRET, app_url, approved=False).client_id
    backend = register_backend(demo, RS384).client_id
    clients = {"app": app, "waiting": waiting, "backend": backend}
    with demo.writing() as connection:
        walker = add_user(
            connection,
            WALKER,
            name="Robin Walker",
            role=CLINICIAN,
            password_hash=passwords.hashed(DEMO_PASSWORD),
        )
        people = {"walker": walker, "patient": find_user(connection, "patient")["id"]}
        invitation = new_setup_code(connection, walker)
        connection.execute(insert(Grant).values(_consent(walker, DEMO_APP)))
        connection.execute(insert(ScheduleRow).values(_schedule()))
        # A run that failed.
        add_job(
            connection,
            new_id(),
            "backup",
            "schedule:nightly",
            90,
            schedule="nightly",
            error="The disk is full.",
        )
        codes = {f"code_of_{name}": owner_code(connection, one) for name, one in clients.items()}
    # One request that is refused, to be told of.
    narrow = {"Authorization": f"Bearer {demo.token('system/AllergyIntolerance.rs')}"}
    demo.ask("GET", "/fhir/DocumentReference", **narrow)
    request = {
        "response_type": "code",
        "client_id": app,
        "redirect_uri": app_url,
        "aud": demo.fhir,
        "scope": "launch/patient openid fhirUser profile patient/*.rs offline_access",
        "code_challenge": challenge(VERIFIER),
        "code_challenge_method": "S256",
    }
    visits = urlencode({**request, "scope": "openid launch/encounter"})
    requests = {"request": urlencode(request), "visits": visits}
    return {**clients, **people, **codes, **requests, "invitation": invitation}


def _consent(user_id: str, client_id: str) -> dict[str, object]:
    """Return a consent of a user to an app."""
    times = {"signed_in_at": 0, "created_at": 0, "expires_at": 2**31}
    return {
        "id": "5e0c9a4e-0d5c-4b6a-9b0a-9d1f0e6c1a2b",
        "user_id": user_id,
        "client_id": client_id,
        "scope": "openid launch/patient patient/*.rs",
        "patient_id": "p1",
        **times,
    }


def _schedule() -> dict[str, object]:
    """Return a schedule."""
    return {
        "name": "nightly",
        "kind": "backup",
        "timing": "daily 02:00",
        "options": {"keep": 14, "drill": "yes"},
        "is_paused": False,
        "handled_at": int(time.time()),
    }
