"""Access to exports: what the token may search, checked at each request."""

from __future__ import annotations

import pytest
from flask import Flask

from fhirapp.auth.clients.administration import change, set_disabled
from fhirapp.auth.models import CLINICIAN, digest
from fhirapp.auth.tokens import revoke_access_token
from fhirapp.db import writing
from tests.support.authorizing import Flow, add_person, add_program
from tests.support.bulk import ASYNC, EXPORTED, Exports
from tests.support.contract import fill
from tests.support.helpers import Fhir, assert_outcome, lasting, token_for

NEEDED = "An export needs the token of a backend client, with system scopes that read and search."
NOT_COVERED = "The token's scope does not cover the content of the export."
UNKNOWN = "There is no such export here."
SCOPES = (
    "system/*.rs",
    "system/AllergyIntolerance.rs",
    "system/DocumentReference.rs system/Patient.rs",
    "system/AllergyIntolerance.rs?clinical-status=active",
    "system/AllergyIntolerance.rs?category=medication system/AllergyIntolerance.rs?category=food",
    "system/DocumentReference.rs?type=http://loinc.org|18842-5 system/Encounter.rs",
    "system/Patient.rs?gender=female system/Provenance.rs",
    "system/Group.rs",
)


@pytest.fixture(scope="module")
def app(make_app) -> Flask:
    """An app that holds resources of every type."""
    app = make_app()
    fill(app)
    return app


@pytest.mark.parametrize("scope", SCOPES)
def test_export_equals_all_pages_of_the_searches(app, scope):
    exports = Exports(app, scope)
    found = {}
    for name in EXPORTED:
        response = exports.get(name)
        if response.status_code == 200:
            found.update(exports.searched(f"{name}?_count=7"))
        else:
            assert response.status_code == 403
    assert exports.exported() == found != {}


@pytest.mark.parametrize("scope", SCOPES[1:4])
def test_named_type_is_exported_or_forbidden_as_its_search_is(app, scope, subtests):
    for name in EXPORTED:
        with subtests.test(name):
            exports = Exports(app, scope)
            if exports.get(name).status_code == 403:
                refused = exports.kick_off(f"$export?_type={name}")
                message = f"The token's scope does not cover export of {name}."
                assert_outcome(refused, 403, "forbidden", message, "_type")
                assert f'scope="system/{name}.rs"' in refused.headers["WWW-Authenticate"]
            else:
                assert exports.exported(f"$export?_type={name}") == exports.searched(name)


def test_each_named_type_needs_a_scope(app):
    exports = Exports(app, "system/AllergyIntolerance.rs system/Patient.rs")
    assert exports.kick_off("$export?_type=Patient,Encounter").status_code == 403
    assert exports.kick_off("$export?_type=Patient,AllergyIntolerance").status_code == 202


def test_scope_must_both_read_and_search(app, subtests):
    for scope in ["system/AllergyIntolerance.r", "system/*.s", "system/Patient.r system/Patient.s"]:
        with subtests.test(scope=scope):
            refused = Exports(app, scope).kick_off()
            assert_outcome(refused, 403, "forbidden", NEEDED)
            assert 'error="insufficient_scope"' in refused.headers["WWW-Authenticate"]


def test_patients_and_clinicians_export_nothing(app, subtests):
    for path in ["$export", "Patient/$export", "Group/x/$export", "$export/x"]:
        with subtests.test(path=path):
            flow = Flow(app, add_program(app), add_person(app, CLINICIAN))
            clinician = flow.redeem(flow.code("openid user/*.rs")).get_json()["access_token"]
            for token in (clinician, token_for(app, "patient/*.rs", patient="p1")):
                refused = Fhir(app, token).get(path, headers=ASYNC)
                assert_outcome(refused, 403, "forbidden", NEEDED)


def test_only_the_system_scopes_of_a_mixed_token_count(app):
    mixed = "patient/*.rs user/*.rs system/AllergyIntolerance.rs"
    fhir = Fhir(app, token_for(app, mixed, patient="p1"))
    assert fhir.get("$export?_type=Patient", headers=ASYNC).status_code == 403


@pytest.fixture
def done(app):
    """A client with an export that is done: the client, its status, the address of a file."""
    exports = Exports(app, "system/AllergyIntolerance.rs system/Patient.rs")
    status = exports.started("$export?_type=AllergyIntolerance")
    assert exports.work()
    return exports, status, f"{status}/AllergyIntolerance.1.ndjson"


def test_another_client_finds_nothing_even_with_the_whole_address(app, done):
    owner, status, file = done
    other = Exports(app)
    for path in (status, file):
        assert owner.get(path).status_code == 200
        refused = other.get(path)
        assert_outcome(refused, 404, "not-found", UNKNOWN)
        unknown = other.get(path.replace(status, "/fhir/$export/nobody"))
        assert (refused.data, lasting(refused)) == (unknown.data, lasting(unknown))
    assert_outcome(other.request("DELETE", status), 404, "not-found", UNKNOWN)
    assert owner.get(status).status_code == 200


def test_another_token_of_the_same_client_may_read_the_export(app, done):
    owner, status, file = done
    again = Exports(app, "system/AllergyIntolerance.rs", client_id=owner.client_id)
    assert again.get(status).status_code == again.get(file).status_code == 200


@pytest.mark.parametrize(
    "scope", ["system/Patient.rs", "system/AllergyIntolerance.rs?clinical-status=active"]
)
def test_token_that_covers_less_is_refused(app, done, scope):
    owner, status, file = done
    with app.app_context(), writing() as connection:
        wider = "system/AllergyIntolerance.rs system/Patient.rs"
        change(connection, owner.client_id, {"scope": wider})
    less = Exports(app, scope, client_id=owner.client_id)
    for path in (status, file):
        assert_outcome(less.get(path), 403, "forbidden", NOT_COVERED)
    assert less.request("DELETE", status).status_code == 403


def test_provenance_needs_a_scope_of_all_types(app):
    owner = Exports(app, "system/*.rs")
    status = owner.started("$export?_type=Provenance")
    less = Exports(app, "system/Provenance.rs system/Patient.rs", client_id=owner.client_id)
    assert less.get(status).status_code == 403
    assert owner.get(status).status_code == 202


def test_export_of_a_client_that_lost_its_scope_is_refused(app, done):
    owner, status, file = done
    with app.app_context(), writing() as connection:
        change(connection, owner.client_id, {"scope": "system/Patient.rs"})
    for path in (status, file):
        assert_outcome(owner.get(path), 403, "forbidden", NOT_COVERED)
    with app.app_context(), writing() as connection:
        change(connection, owner.client_id, {"scope": "system/*.rs"})
    assert owner.get(file).status_code == 200


def test_client_that_was_disabled_and_a_token_that_was_revoked_are_refused(app, done):
    owner, status, file = done
    with app.app_context(), writing() as connection:
        set_disabled(connection, owner.client_id, disabled=True)
    assert {owner.get(path).status_code for path in (status, file)} == {401}
    with app.app_context(), writing() as connection:
        set_disabled(connection, owner.client_id, disabled=False)
    assert owner.get(file).status_code == 200
    with app.app_context():
        revoke_access_token(digest(owner.token))
    assert {owner.get(path).status_code for path in (status, file)} == {401}


def test_scope_that_is_lost_before_it_is_written_narrows_the_export(app):
    exports = Exports(app, "system/AllergyIntolerance.rs system/Patient.rs")
    status = exports.started()
    with app.app_context(), writing() as connection:
        change(connection, exports.client_id, {"scope": "system/Patient.rs"})
    assert exports.work()
    with app.app_context(), writing() as connection:
        change(connection, exports.client_id, {"scope": "system/*.rs"})
    types = {file["type"] for file in exports.manifest(status)["output"]}
    assert "Patient" in types
    assert "AllergyIntolerance" not in types


def test_export_of_a_client_disabled_before_the_work_fails(app):
    exports = Exports(app)
    status = exports.started()
    for disabled in (True, False):
        with app.app_context(), writing() as connection:
            set_disabled(connection, exports.client_id, disabled=disabled)
        if disabled:
            assert exports.work()
    failed = exports.get(status)
    reason = "The client was disabled or lost its scopes."
    assert_outcome(failed, 500, "exception", reason)


def test_scope_narrows_patient_and_group_exports(app, subtests):
    for level in ["Patient/$export", "Group/grp-allergy-clinic/$export"]:
        with subtests.test(level=level):
            scope = "system/AllergyIntolerance.rs?clinical-status=active system/Group.rs"
            exports = Exports(app, scope)
            allowed = exports.searched("AllergyIntolerance")
            found = exports.exported(level)
            assert {name for name in found if name[0] == "AllergyIntolerance"} <= {*allowed}
            assert {name for name, _ in found} <= {"AllergyIntolerance", "Provenance"}
            assert {*found} & {*allowed}


def test_group_that_may_not_be_read_is_not_exported(app):
    exports = Exports(app, "system/AllergyIntolerance.rs")
    refused = exports.kick_off("Group/grp-allergy-clinic/$export")
    unknown = exports.kick_off("Group/nobody/$export")
    assert refused.status_code == unknown.status_code == 404
    known = refused.data.replace(b"grp-allergy-clinic", b"nobody")
    assert known == unknown.data


def test_patient_export_does_not_disclose_which_patients_exist(app):
    exports = Exports(app, "system/AllergyIntolerance.rs")
    statuses = {
        exports.kick_off("Patient/$export", _patients(row_id)).status_code
        for row_id in ("p1", "nobody")
    }
    assert statuses == {202}


def _patients(*ids: str) -> dict[str, object]:
    listed = [
        {"name": "patient", "valueReference": {"reference": f"Patient/{patient_id}"}}
        for patient_id in ids
    ]
    return {"resourceType": "Parameters", "parameter": listed}
