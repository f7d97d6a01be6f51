"""The administrator's pages of patients: found, deleted and erased."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT
from tests.support.browsing import Browser, Page, add_person, id_of
from tests.support.importing import allergy, asking, bundle, load, patient, plain, write

REASON = "Asked for it by letter"
VERA = patient("vera", "111", name=[{"family": "Verschwunden", "given": ["Vera"]}])


@pytest.fixture
def app(make_app: Callable[..., Flask], tmp_path) -> Flask:
    app = make_app(seed=False)
    records = [VERA, allergy("nuts", "Patient/vera")]
    assert load(app, write(tmp_path, bundle("collection", *map(plain, records)))).complete
    return app


@pytest.fixture
def admin(app: Flask) -> Browser:
    return Browser(app).resume(add_person(app, ADMINISTRATOR))


def confirmation(admin: Browser, history: str = "keep") -> Page:
    found = admin.get("/admin/patients").submit("Search", find="Verschwunden")
    record = admin.get(found.offered["Vera Verschwunden"])
    return record.submit("Continue", reason=REASON, history=history)


def test_the_second_page_says_what_goes_and_deletes_nothing(app, admin):
    add_person(app, PATIENT, "vera", name="Vera herself")
    page = confirmation(admin)
    assert page.heading == "Delete this record?"
    assert "allergies and intolerances 1" in page.words
    assert "1 user is linked to this record" in page.words
    assert "Vera herself" in page.offered
    assert REASON in page.words
    assert asking(app).get("Patient/vera").status_code == 200


@pytest.mark.parametrize("typed", ["111", "vera", "vera  VERSCHWUNDEN"])
def test_a_record_is_deleted_by_whoever_types_whose_it_is(app, admin, typed):
    page = confirmation(admin).submit("Delete record", typed=typed)
    assert "Record deleted. Its history is kept." in page.words
    assert REASON in page.words
    assert asking(app).get("Patient/vera").status_code == 410
    assert "deleted a patient record: " in admin.get("/admin/audit?kind=administration").words


@pytest.mark.parametrize("typed", ["", "112", "Verschwunden"])
def test_what_is_typed_must_be_it(app, admin, typed):
    page = confirmation(admin).submit("Delete record", typed=typed)
    assert (page.status, page.heading) == (400, "Delete this record?")
    assert "Nothing was deleted" in page.words
    assert asking(app).get("Patient/vera").status_code == 200


def test_a_reason_is_needed(app, admin):
    page = admin.get("/admin/patients/vera").submit("Continue", reason=" ")
    assert "Enter a reason" in page.words
    assert asking(app).get("Patient/vera").status_code == 200


def test_what_was_deleted_can_be_erased_and_imported_again(app, admin, tmp_path):
    confirmation(admin).submit("Delete record", typed="111")
    record = admin.get("/admin/patients/vera")
    assert "Its earlier versions still exist" in record.words
    page = record.submit("Continue", reason="No copy may stay", history="erase")
    page = page.submit("Erase permanently", typed="vera")
    assert "Record erased." in page.words
    assert asking(app).get("AllergyIntolerance/nuts/_history/1").status_code == 410
    page = page.submit("Allow re-import")
    assert "The record can be imported again." in page.words
    assert load(app, write(tmp_path, bundle("collection", plain(VERA)))).complete
    assert asking(app).get("Patient/vera").status_code == 200


def corrected(admin: Browser, **details: str) -> Page:
    record = admin.get("/admin/patients/vera")
    return record.submit("Compare", why="Misspelled on arrival", **details)


def test_details_are_corrected_after_before_and_after_were_shown(app, admin):
    born = "1958-04-12"
    page = corrected(admin, family="Wieder", given="Vera Maria", birthDate=born, active="no")
    assert page.heading == "Correct these details?"
    assert "Family name Verschwunden Wieder" in page.words
    assert asking(app).read("Patient/vera")["meta"]["versionId"] == "1"
    done = page.submit("Correct details")
    assert "Record corrected." in done.words
    assert "Misspelled on arrival" in done.words
    fhir = asking(app)
    now = fhir.read("Patient/vera")
    assert now["name"] == [{"family": "Wieder", "given": ["Vera", "Maria"]}]
    assert (now["birthDate"], now["active"]) == ("1958-04-12", False)
    assert now["identifier"] == [{"system": "urn:mrn", "value": "111"}]
    assert fhir.read("Patient/vera/_history/1")["name"][0]["family"] == "Verschwunden"
    trail = admin.get("/admin/audit?kind=administration").words
    assert "Misspelled on arrival (family, given, birthDate, active)" in trail


def test_what_somebody_else_changed_meanwhile_is_not_corrected(app, admin):
    page = corrected(admin, family="Wieder")
    corrected(admin, family="Anders").submit("Correct details")
    assert "has been changed in the meantime" in page.submit("Correct details").words
    assert asking(app).read("Patient/vera")["name"][0]["family"] == "Anders"


@pytest.mark.parametrize(
    ("details", "told"),
    [
        ({}, "Nothing was changed."),
        ({"birthDate": "12 April"}, "birthDate"),
        ({"identifier": ""}, "identifier"),
    ],
)
def test_what_cannot_be_is_not_corrected(app, admin, details, told):
    page = corrected(admin, **details)
    if details:
        page = page.submit("Correct details")
    assert (page.status, told in page.words) == (409, True)
    assert asking(app).read("Patient/vera")["meta"]["versionId"] == "1"


def test_an_import_takes_what_is_new_and_not_what_was_corrected(app, admin, tmp_path):
    corrected(admin, family="Wieder").submit("Correct details")
    report = load(app, write(tmp_path, bundle("collection", plain(VERA))))
    assert "Patient/vera: was corrected here, which is kept" in report.table()
    assert asking(app).read("Patient/vera")["name"][0]["family"] == "Wieder"
    anew = {**VERA, "name": [{"family": "Zurueck"}]}
    assert load(app, write(tmp_path, bundle("collection", plain(anew)))).complete
    assert asking(app).read("Patient/vera")["name"][0]["family"] == "Zurueck"


def test_nobody_is_no_page(admin):
    for path in ("/admin/patients/nobody", "/admin/patients/no%20id"):
        assert admin.get(path).status == 404


@pytest.mark.parametrize("role", [CLINICIAN, PATIENT])
def test_others_than_administrators_see_and_do_nothing(app, role):
    browser = Browser(app).resume(add_person(app, role))
    form = {**browser.get("/account").form("Sign out").fields, "reason": REASON, "typed": "vera"}
    for path in ("/admin/patients", "/admin/patients/vera"):
        assert browser.get(path).status == 403
    for path in ("delete", "correct", "admit"):
        assert browser.post(f"/admin/patients/vera/{path}", form).status == 403
    assert asking(app).get("Patient/vera").status_code == 200


TWICE = patient("twice", "222", name=[{"family": "Verschwunden", "given": ["V."]}])
WHY = "Registered twice on arrival"


@pytest.fixture
def twice(app: Flask, tmp_path) -> None:
    records = [TWICE, allergy("bees", "Patient/twice")]
    assert load(app, write(tmp_path, bundle("collection", *map(plain, records)))).complete


def comparison(admin: Browser, into: str = "111") -> Page:
    return admin.get("/admin/patients/twice").submit(
        "Compare the records", into=into, why_merged=WHY
    )


@pytest.mark.usefixtures("twice")
@pytest.mark.parametrize("into", ["111", "vera"])
def test_two_records_are_merged_after_both_were_shown(app, admin, into):
    add_person(app, PATIENT, "twice", name="Vera herself")
    page = comparison(admin, into)
    assert page.heading == "Are these one person?"
    assert "Record number 222 111" in page.words
    assert "allergies and intolerances 1" in page.words
    assert "Vera herself" in page.offered
    assert asking(app).ids("AllergyIntolerance?patient=vera") == ["nuts"]
    wrong = page.submit("Merge the records", typed="111")
    assert (wrong.status, "Nothing was merged" in wrong.words) == (400, True)
    done = page.submit("Merge the records", typed="222", accounts="move")
    assert "The records are merged." in done.words
    assert sorted(asking(app).ids("AllergyIntolerance?patient=vera")) == ["bees", "nuts"]
    assert "merged patient records: " in admin.get("/admin/audit?kind=administration").words


@pytest.mark.usefixtures("twice")
def test_pages_lead_from_the_merged_record_to_the_other(app, admin):
    comparison(admin).submit("Merge the records", typed="twice")
    clinician = Browser(app).resume(add_person(app, CLINICIAN))
    chart = clinician.get("/patients/twice")
    assert (chart.status, chart.path) == (200, "/patients/vera")
    assert clinician.get("/patients/twice/allergies/bees").path == "/patients/vera/allergies/bees"
    for tail in ("/summary", "/summary/document"):
        assert clinician.get(f"/patients/twice{tail}").path == f"/patients/vera{tail}"
    words = clinician.get("/patients/vera").words
    assert "Includes a record that was merged into this one: twice" in words
    # Found by the number of either, and listed once.
    for number in ("222", "111", "Verschwunden"):
        found = clinician.get(f"/patients?name={number}")
        assert "Vera Verschwunden" in found.words
        assert "V. Verschwunden" not in found.words


@pytest.mark.usefixtures("twice")
def test_nothing_is_begun_with_the_merged_record(app, admin):
    """A page that was opened before may still offer it."""
    person = add_person(app, PATIENT, name="Vera herself")
    comparison(admin).submit("Merge the records", typed="twice")
    clinician = Browser(app).resume(add_person(app, CLINICIAN))
    assert clinician.get("/launch?patient=twice").status == 404
    form = {
        "form_token": admin.get("/account").form("Sign out").fields["form_token"],
        "patient": "twice",
        "whose": "own",
    }
    page = admin.post(f"/admin/users/{id_of(app, person)}/link", form)
    assert "This record does not exist." in page.words


@pytest.mark.usefixtures("twice")
def test_a_merge_is_undone_with_a_reason(app, admin):
    comparison(admin).submit("Merge the records", typed="twice")
    record = admin.get("/admin/patients/twice")
    assert "Delete" not in record.words
    assert "Enter a reason" in record.submit("Undo the merge", why_separated=" ").words
    done = record.submit("Undo the merge", why_separated="Two people after all")
    assert "The merge is undone." in done.words
    assert asking(app).ids("AllergyIntolerance?patient=twice") == ["bees"]


@pytest.mark.usefixtures("twice")
@pytest.mark.parametrize(
    ("into", "message"),
    [
        ("999", "No matching patient"),
        ("Verschwunden", "Several patients match"),
        ("222", "these are the same"),
    ],
)
def test_a_record_is_merged_into_one_that_is_found(app, admin, into, message):
    page = comparison(admin, into)
    assert (page.status, message in page.words) == (409, True)
    assert asking(app).ids("AllergyIntolerance?patient=twice") == ["bees"]
