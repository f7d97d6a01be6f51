"""What happened to the service is in the trail: who did it, from where, about whom."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pyotp
import pytest
from flask import Flask
from sqlalchemy import update

from fhirapp.audit.entries import ADMINISTRATION, AuditEntry, entries, patients_named_by
from fhirapp.audit.events import EVENTS
from fhirapp.audit.store import NAME
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, User
from fhirapp.auth.users import second_factor
from fhirapp.db import writing
from tests.support.app_pages import client_of, register
from tests.support.authorizing import Flow, add_program, alter
from tests.support.browsing import Browser, add_person, id_of
from tests.support.bulk import Exports
from tests.support.shell import run_command
from tests.support.trails import attachment_of, noted

# Events that the tests of their subjects check.
ELSEWHERE = {
    *("missing", "packed", "seal-missing", "trail-imported", "trail-unverified"),
    "restore-confirmed",
    "restore-failed",
    "restored",
    "settings-changed",
    "setting-changed",
    "provider-linked",
    "provider-unlinked",
    "app-expired",
    *("user-removed", "learner-reset"),
    *(f"class-{what}" for what in ("made", "changed", "joined", "ended")),
    *(f"patient-{what}" for what in ("deleted", "erased", "corrected", "admitted")),
    *("patients-merged", "merge-undone"),
    *(f"schedule-{what}" for what in ("added", "begun", "paused", "resumed", "removed")),
}
OF_SHELL = {"token-issued", "keys-changed", "export", "import"}


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """A server with records."""
    return make_app()


class Scene:
    """Somebody who does something, and somebody else it is about."""

    def __init__(self, app: Flask) -> None:
        self.app = app
        self.admin_id = self._added(ADMINISTRATOR)
        self.admin = Browser(app).resume(self.name)
        self.person_id = self._added(CLINICIAN)
        self.person = Browser(app).resume(self.name)
        self.path = f"/admin/users/{self.person_id}"

    def _added(self, role: str) -> str:
        self.name = add_person(self.app, role)
        return id_of(self.app, self.name)

    def press(self, button: str, path: str = "", **filled: Any) -> None:
        """Press a button on a page of the administrator's, by default the person's."""
        page = self.admin.get(path or self.path).submit(button, **filled)
        assert page.status == 200, page.words

    def post(self, action: str, **form: str) -> None:
        """Send a form of the person's page, by what it does: several have the same button."""
        token = self.admin.get(self.path).forms[0].fields["form_token"]
        page = self.admin.post(f"{self.path}/{action}", form | {"form_token": token})
        assert page.status == 200, page.words

    def secret(self) -> str:
        """Give the person a second factor; return its secret."""
        secret = second_factor.new_secret()
        with self.app.app_context(), writing() as connection:
            second_factor.enable(connection, self.person_id, secret, 0)
        return secret

    def app_page(self) -> str:
        """Register an app that waits; return the administrator's page of it."""
        self.client_id = client_of(self.app, register(self.app, "confidential")).client_id
        return f"/admin/clients/{self.client_id}"


def as_patient(scene: Scene) -> str:
    """Make the person a patient, who may be linked to records."""
    alter(scene.app, update(User).where(User.id == scene.person_id).values(role=PATIENT))
    return "p2"


def sign_in_as_person(scene: Scene, password: str = "demo") -> Any:
    return Browser(scene.app, scene.person.address).sign_in(scene.name, password)


def wrong_code(scene: Scene) -> None:
    scene.secret()
    assert sign_in_as_person(scene).submit("Sign in", code="000000").status == 403


def turn_on(scene: Scene) -> None:
    page = scene.person.get("/account/second-factor")
    key = "".join(page.words.partition("Or enter this secret in the app:")[2].split()[:8])
    page = page.submit("Turn on second factor", code=pyotp.TOTP(key).now(), password="demo")
    assert "recovery" in page.words


def allow(scene: Scene) -> None:
    program = add_program(scene.app)
    scene.client_id = program.client_id
    Flow(scene.app, program, scene.person_id).tokens("user/*.rs")


def take_back(scene: Scene) -> None:
    allow(scene)
    assert scene.person.get("/account/apps").submit("Revoke access").status == 200


def change_app(scene: Scene, button: str, **filled: Any) -> None:
    path = scene.app_page()
    if button != "Reject and delete app":
        scene.press("Approve app", path)
    scene.press(button, path, **filled)


def switch_on(scene: Scene) -> None:
    change_app(scene, "Disable")
    scene.press("Enable", f"/admin/clients/{scene.client_id}")


def unlink(scene: Scene) -> None:
    links(scene)
    scene.post("unlink", patient="p2")


def shown(scene: Scene) -> None:
    links(scene)
    assert scene.person.get("/account").status == 200


def presses(button: str, path: str = "", **filled: Any) -> Callable[[Scene], None]:
    return lambda scene: scene.press(button, path, **filled)


def links(scene: Scene) -> None:
    scene.post("link", patient=as_patient(scene), whose="own")


def adds_user(scene: Scene) -> None:
    scene.press("Add user", "/admin/users/new", name="New", username=f"n{scene.name}")


def changes_password(scene: Scene) -> None:
    new = {"password": "four words in a row", "again": "four words in a row"}
    scene.person.get("/account/password").submit("Change password", old="demo", **new)


PERSON, ADMIN, APP, NOBODY = "person", "admin", "app", ""
DONE: dict[str, tuple[str, str, Callable[[Scene], Any]]] = {
    "sign-in": (PERSON, PERSON, sign_in_as_person),
    "sign-in-failed": (NOBODY, PERSON, lambda scene: sign_in_as_person(scene, "wrong")),
    "code-failed": (PERSON, PERSON, wrong_code),
    "sign-out": (PERSON, PERSON, lambda scene: scene.person.get("/account").submit("Sign out")),
    "sessions-ended": (ADMIN, PERSON, presses("Sign out everywhere")),
    "user-added": (ADMIN, "new", adds_user),
    "administrator-made": (ADMIN, PERSON, presses("Change role", role=ADMINISTRATOR)),
    "role-changed": (ADMIN, PERSON, presses("Change role", role=PATIENT)),
    "user-disabled": (ADMIN, PERSON, presses("Disable")),
    "user-enabled": (ADMIN, PERSON, lambda it: (it.press("Disable"), it.press("Enable"))),
    "password-changed": (PERSON, PERSON, changes_password),
    "password-address": (ADMIN, PERSON, presses("Create link")),
    "factor-on": (PERSON, PERSON, turn_on),
    "factor-off": (ADMIN, PERSON, lambda it: (it.secret(), it.press("Remove second factor"))),
    "record-linked": (ADMIN, PERSON, links),
    "record-unlinked": (ADMIN, PERSON, unlink),
    "practitioner-changed": (
        *(ADMIN, PERSON),
        lambda scene: scene.post("practitioner", fhir_user="Practitioner/pr1"),
    ),
    "app-allowed": (PERSON, APP, allow),
    "app-ended": (PERSON, APP, take_back),
    "app-registered": (NOBODY, APP, lambda scene: scene.app_page()),
    "app-approved": (ADMIN, APP, lambda scene: scene.press("Approve app", scene.app_page())),
    "app-rejected": (ADMIN, APP, lambda scene: change_app(scene, "Reject and delete app")),
    "app-changed": (ADMIN, APP, lambda scene: change_app(scene, "Save", scope="user/*.r")),
    "app-disabled": (ADMIN, APP, lambda scene: change_app(scene, "Disable")),
    "app-enabled": (ADMIN, APP, switch_on),
    "app-secret": (ADMIN, APP, lambda scene: change_app(scene, "Create the secret")),
    "patients-found": (PERSON, NOBODY, shown),
}


def newest(app: Flask, event: str) -> AuditEntry:
    with app.app_context():
        return entries(kind=ADMINISTRATION, event=event, limit=1)[0]


@pytest.mark.parametrize("event", DONE)
def test_event_records_who_from_where_about_whom(clinic, event):
    scene = Scene(clinic)
    who, about, act = DONE[event]
    act(scene)
    entry = newest(clinic, event)
    people = {PERSON: scene.person_id, ADMIN: scene.admin_id, NOBODY: None}
    assert entry.user_id == people[who]
    if about == PERSON:
        assert entry.about == f"user/{scene.person_id}"
    elif about == APP:
        assert entry.about == f"app/{scene.client_id}"
    elif about == "new":
        assert entry.about.startswith("user/")
        assert entry.about not in (f"user/{scene.person_id}", f"user/{scene.admin_id}")
    if event not in ("app-allowed", "app-registered"):
        assert entry.address in (scene.person.address, scene.admin.address)
    with clinic.app_context():
        named = patients_named_by([entry.number]).get(entry.number, [])
    assert bool(named) == (event in ("record-linked", "record-unlinked", "patients-found"))


def test_each_event_has_a_test():
    assert DONE.keys() | OF_SHELL | ELSEWHERE == EVENTS.keys()


def test_search_for_a_patient_on_a_page_is_recorded(clinic):
    scene = Scene(clinic)
    scene.person.get("/patients?name=Luis")
    with clinic.app_context():
        searched = entries(user_id=scene.person_id, limit=5)
    (found,) = (entry for entry in searched if "Luis" in entry.path)
    assert (found.address, found.via) == (scene.person.address, "patients")
    assert found.served


def test_passwords_are_in_no_event(clinic):
    scene = Scene(clinic)
    sign_in_as_person(scene, "my secret mistake")
    assert newest(clinic, "sign-in-failed").about == f"user/{scene.person_id}"
    with clinic.app_context():
        assert not any("secret mistake" in repr(event) for event in entries(kind=None, limit=50))


def test_bulk_export_records_its_patients(clinic):
    exports = Exports(clinic)
    exports.done("Group/grp-allergy-clinic/$export?_type=Patient")
    entry = newest(clinic, "export")
    assert entry.client_id == exports.client_id
    (line,) = [
        noted_line for noted_line in noted(clinic) if noted_line["request"] == entry.request_id
    ]
    patients = attachment_of(clinic, line["request"])
    with clinic.app_context():
        assert entries(patient_id=patients[0], kind=ADMINISTRATION, event="export")
    assert patients == sorted(set(patients))
    assert line["what"].startswith(f"{len(patients)} patients; ")
    assert 0 < len(patients) < 14


def test_commands_are_recorded_as_of_the_shell(tmp_path):
    run_command(tmp_path, "import", "--demo", "/dev/null")
    run_command(tmp_path, "token", "issue", "--demo", "--scope", "system/*.rs")
    run_command(tmp_path, "key", "rotate")
    run_command(tmp_path, "export", "--demo", str(tmp_path / "out"))
    done, patients = {}, []
    for folder in (tmp_path, tmp_path / "demo"):
        with closing(sqlite3.connect(folder / NAME)) as store:
            for line, attachment in store.execute("SELECT line, attachment FROM audit_entry"):
                content = json.loads(line)
                done[content["event"]] = content
                patients += json.loads(attachment or "[]")
    assert done.keys() >= OF_SHELL
    for event in OF_SHELL:
        assert done[event]["from"].startswith("shell: ")
    assert done["export"]["what"].startswith(f"{len(patients)} patients; ")
    assert "p1" in patients
