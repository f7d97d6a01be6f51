"""What was open when a backup was taken does not open again; what comes back is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from fhirapp.auth.models import CLINICIAN, User
from fhirapp.auth.users import sessions
from fhirapp.auth.users.accounts import new_setup_code, setup_code
from fhirapp.db import db, writing
from fhirapp.ops.backups.restore import NOTICE, restore
from tests.support.authorizing import Flow, SendBack, add_person, add_program, set_user
from tests.support.backups import NOW, app_in, settings_in, taken
from tests.support.helpers import BASE_URL, Fhir, token_for
from tests.support.shell import fhirapp

OFFLINE = "patient/*.rs offline_access"


def restored(folder: Path, backup: Path) -> None:
    """Restore over what is there."""
    restore(settings_in(folder), backup, NOW, None, force=True)


def test_nothing_that_was_open_at_the_backup_is_open_after_a_restore(tmp_path):
    folder = tmp_path / "instance"
    with app_in(folder, base_url=BASE_URL) as app:
        flow = Flow(app, add_program(app), add_person(app, CLINICIAN))
        token = token_for(app, "system/*.rs")
        tokens = flow.tokens(OFFLINE, patient="one")
        code, launch = flow.code(OFFLINE, patient="one"), flow.launch("one")
        handle = flow.park(OFFLINE)
        with app.app_context(), writing() as connection:
            setup = new_setup_code(connection, flow.user_id)
        backup = taken(folder, tmp_path / "x.backup")
        # All of it serves until then.
        assert Fhir(app, token).get("Patient").status_code == 200
        assert Fhir(app, tokens["access_token"]).get("Patient").status_code == 200
        with app.test_request_context():
            assert sessions.find(flow.session) is not None
            assert setup_code(setup) is not None
    restored(folder, backup)
    with app_in(folder, base_url=BASE_URL) as app:
        flow.app = app
        for one in (token, tokens["access_token"]):
            assert Fhir(app, one).get("Patient").status_code == 401
        assert flow.refresh(tokens["refresh_token"]).get_json()["error"] == "invalid_grant"
        assert flow.redeem(code).get_json()["error"] == "invalid_grant"
        with app.test_request_context():
            assert sessions.find(flow.session) is None
            assert setup_code(setup) is None
        # Somebody signs in anew: what an app began before is not gone on with.
        with app.app_context(), writing() as connection:
            flow.session = sessions.begin(connection, flow.user_id, complete=True)
        with pytest.raises(SendBack):
            flow.park(f"launch {OFFLINE}", launch=launch)
        with pytest.raises(AssertionError):
            flow.decide(handle)
        again = flow.tokens(OFFLINE, patient="one")
        assert Fhir(app, again["access_token"]).get("Patient").status_code == 200


def test_what_a_restore_gives_back_is_told(tmp_path):
    folder = tmp_path / "instance"
    with app_in(folder) as app:
        person = add_person(app, CLINICIAN)
        backup = taken(folder, tmp_path / "x.backup")
        set_user(app, person, disabled=True)
    done = fhirapp(folder, "restore", str(backup), "--force")
    assert done.returncode == 0, done.stderr
    assert (
        "links to records, and clients with their secrets and keys are as they were then: what you "
        "have disabled, unlinked or changed since, do again."
    ) in done.stderr
    assert NOTICE in done.stderr
    with app_in(folder) as app, app.app_context():
        assert db.session.scalars(db.select(User.disabled)).all() == [False]
