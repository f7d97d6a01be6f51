"""What is entered in error has no clinical status, though it may state one. FHIR R4 ait-2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import insert

from fhirapp.db import writing
from fhirapp.definition import types
from fhirapp.fhir.terminology import ALLERGY_CLINICAL, ALLERGY_VERIFICATION
from fhirapp.server.prepare import prepare
from fhirapp.store.version import INDEX, set_state
from tests.support.contract import allergy, publish
from tests.support.helpers import Fhir, token_for
from tests.support.importing import lines, load, write

NOW = "2026-02-01T00:00:00.000+00:00"
REMARK = (
    "is entered in error, but states a clinicalStatus (FHIR R4 ait-2); it is kept, and a search"
    " by clinical-status does not find it"
)
IN_ERROR = "entered-in-error"


def coded(system: str, *codes: str) -> dict[str, Any]:
    return {"coding": [{"system": system, "code": code} for code in codes]}


def entry(row_id: str, clinical: str = "", *verified: str, **more: Any) -> dict[str, Any]:
    """Return an allergy of p1 with these codes of its two statuses."""
    statuses: dict[str, Any] = {}
    if clinical:
        statuses["clinicalStatus"] = {**coded(ALLERGY_CLINICAL, clinical), "text": "stated so"}
    if verified:
        statuses["verificationStatus"] = coded(ALLERGY_VERIFICATION, *verified)
    return allergy(row_id, **statuses, **more)


OTHER_SYSTEM = entry("other-system", "active", "confirmed")
OTHER_SYSTEM["verificationStatus"]["coding"].append({"system": "urn:x", "code": IN_ERROR})
ENTRIES = (
    entry("error-active", "active", IN_ERROR), entry("error-inactive", "inactive", IN_ERROR),
    entry("error-resolved", "resolved", IN_ERROR), entry("error-alone", "", IN_ERROR),
    # What contradicts itself counts as the graver of the two.
    entry("error-or-confirmed", "active", IN_ERROR, "confirmed"),
    entry("error-or-refuted", "active", "refuted", IN_ERROR), OTHER_SYSTEM,
    entry("confirmed", "active", "confirmed"), entry("refuted", "active", "refuted"),
    entry("unverified", "active"), entry("without", "", "confirmed"),
)  # fmt: skip
ALL = {allergy["id"] for allergy in ENTRIES}
ACTIVE = {
    *("error-or-confirmed", "error-or-refuted", "other-system"),
    *("confirmed", "refuted", "unverified"),
}
STATELESS = ALL - ACTIVE
# The code of any system.
VERIFIED_SO = {row_id for row_id in ALL if "error" in row_id} | {"other-system"}


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    app = make_app(seed=False)
    publish(app, {"resourceType": "Patient", "id": "p1"}, now=NOW)
    for resource in ENTRIES:
        publish(app, resource, now=NOW)
    return app


def found(app: Flask, query: str, scope: str = "system/*.rs") -> set[str]:
    fhir = Fhir(app, token_for(app, scope))
    return set(fhir.ids(f"AllergyIntolerance?{query}&_count=100"))


FOUND = [
    ("clinical-status=active", ACTIVE),
    (f"clinical-status={ALLERGY_CLINICAL}|active", ACTIVE),
    (f"clinical-status={ALLERGY_CLINICAL}|", ACTIVE),
    ("clinical-status=active,inactive,resolved", ACTIVE),
    ("clinical-status=inactive", set()),
    ("clinical-status=resolved", set()),
    ("clinical-status:text=stated", ACTIVE),
    ("clinical-status:not=active", STATELESS),
    ("clinical-status:not=resolved", ALL),
    ("clinical-status:missing=true", STATELESS),
    ("clinical-status:missing=false", ACTIVE),
    ("patient=p1&clinical-status=active", ACTIVE),
    ("patient=p1&clinical-status=active&clinical-status:not=resolved", ACTIVE),
    ("status=active", ACTIVE),
    ("status=inactive,resolved", set()),
    (f"status={ALLERGY_CLINICAL}|", ACTIVE),
    ("status:not=active", STATELESS),
    ("status:missing=true", set()),
    ("status=entered-in-error", VERIFIED_SO),
    ("verification-status=entered-in-error", VERIFIED_SO),
    (
        "clinical-status=active&verification-status:not=entered-in-error",
        {"confirmed", "refuted", "unverified"},
    ),
]


def test_a_search_by_clinical_status_finds_nothing_entered_in_error(clinic):
    for query, expected in FOUND:
        assert found(clinic, query) == expected


def test_a_chain_finds_no_patient_by_what_is_entered_in_error(make_app):
    app = make_app(seed=False)
    publish(app, {"resourceType": "Patient", "id": "p1"}, now=NOW)
    publish(app, entry("error-active", "active", IN_ERROR), now=NOW)
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    has = "Patient?_has:AllergyIntolerance:patient"
    assert fhir.ids(f"{has}:clinical-status=active") == []
    assert fhir.ids(f"{has}:clinical-status:missing=true") == ["p1"]
    assert fhir.ids(f"{has}:verification-status=entered-in-error") == ["p1"]


@pytest.mark.parametrize("code", ["active", "resolved"])
def test_a_scope_by_clinical_status_reaches_nothing_entered_in_error(clinic, code):
    scope = f"system/AllergyIntolerance.rs?clinical-status={code}"
    reached = ACTIVE if code == "active" else set()
    assert found(clinic, "", scope) == reached
    fhir = Fhir(clinic, token_for(clinic, scope))
    for row_id in ALL:
        for path in (f"AllergyIntolerance/{row_id}", f"AllergyIntolerance/{row_id}/_history"):
            status = 200 if row_id in reached else 404
            assert fhir.get(path).status_code == status, path


def test_a_scope_by_verification_reaches_what_is_entered_in_error(clinic):
    scope = "system/AllergyIntolerance.rs?verification-status=entered-in-error"
    assert found(clinic, "", scope) == VERIFIED_SO


def test_corrected_entry_is_found_by_clinical_status(make_app):
    app = make_app(seed=False)
    publish(app, {"resourceType": "Patient", "id": "p1"}, now=NOW)
    for verified, expected in ((IN_ERROR, set()), ("confirmed", {"a"}), (IN_ERROR, set())):
        publish(app, entry("a", "active", verified), now=NOW)
        assert found(app, "clinical-status=active") == expected


def test_import_accepts_and_reports_entries_in_error_with_a_status(empty, tmp_path):
    patient = {"resourceType": "Patient", "id": "p1"}
    report = load(empty, write(tmp_path, lines(patient, *ENTRIES), "x.ndjson"))
    assert report.rejected == []
    stating = ("error-active", "error-inactive", "error-resolved")
    assert dict(report.remarks) == {
        f"{tmp_path}/x.ndjson:{place}: {REMARK}": 1
        for place, one in enumerate(ENTRIES, 2)
        if one["id"] in stating
    }
    assert found(empty, "clinical-status=active") == ACTIVE


def test_a_history_is_reported_by_its_newest_version(empty, tmp_path):
    patient = {"resourceType": "Patient", "id": "p1"}
    load(empty, write(tmp_path, lines(patient), "p.ndjson"))
    for row_id, order in (("now", ("confirmed", IN_ERROR)), ("before", (IN_ERROR, "confirmed"))):
        versions = [
            {
                "fullUrl": f"https://x.example/AllergyIntolerance/{row_id}",
                "resource": {
                    **entry(row_id, "active", verified),
                    "meta": {"versionId": str(n), "lastUpdated": f"2026-01-0{n}T00:00:00Z"},
                },
                "request": {"method": "PUT", "url": f"AllergyIntolerance/{row_id}"},
                "response": {"status": "200", "lastModified": f"2026-01-0{n}T00:00:00Z"},
            }
            for n, verified in reversed([*enumerate(order, 1)])
        ]
        bundle = {"resourceType": "Bundle", "type": "history", "entry": versions}
        report = load(empty, write(tmp_path, lines(bundle), f"{row_id}.ndjson"))
        assert report.rejected == []
        assert sum(remark.endswith(REMARK) for remark in report.remarks) == (row_id == "now")


def test_an_older_database_finds_it_no_longer_after_the_next_start(make_app):
    app = make_app(seed=False)
    publish(app, {"resourceType": "Patient", "id": "p1"}, now=NOW)
    publish(app, entry("error-active", "active", IN_ERROR), now=NOW)
    table = types(app)["AllergyIntolerance"].tables.token
    with app.app_context(), writing() as connection:
        pk = connection.execute(types()["AllergyIntolerance"].table.select()).one().pk
        row = {"pk": pk, "param": "clinical-status", "code": "active", "system": ALLERGY_CLINICAL}
        connection.execute(insert(table), [row])
        set_state(connection, INDEX, "4")
    assert found(app, "clinical-status=active") == {"error-active"}
    prepare(app, lambda _message: None, serving=True)
    assert found(app, "clinical-status=active") == set()
