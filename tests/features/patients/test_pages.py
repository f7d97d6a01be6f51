"""The administrator's pages of patients: corrected, merged, deleted and erased.

Who may open them is tested in tests/web/test_pages.py, what is done to the records
in the other modules of this folder.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT
from tests.support.browsing import Browser, Page, add_person, id_of
from tests.support.importing import allergy, asking, bundle, load, patient, plain, write

PATH = "/admin/patients"
VERA = patient("vera", "111", name=[{"family": "Verschwunden", "given": ["Vera"]}])
TWICE = patient("twice", "222", name=[{"family": "Verschwunden", "given": ["V."]}])
REASON = "Asked for it by letter"


@pytest.fixture
def app(make_app: Callable[..., Flask], tmp_path) -> Flask:
    app = make_app(seed=False)
    records = [VERA, allergy("nuts", "Patient/vera"), TWICE, allergy("bees", "Patient/twice")]
    assert load(app, write(tmp_path, bundle("collection", *map(plain, records)))).complete
    return app


@pytest.fixture
def admin(app: Flask) -> Browser:
    return Browser(app).resume(add_person(app, ADMINISTRATOR))


def trail(admin: Browser) -> str:
    return admin.get("/admin/audit?kind=administration").words


def confirmation(admin: Browser, history: str = "keep") -> Page:
    """Return the page that asks whether to delete Vera's record, with the reason filled in."""
    found = admin.get(PATH).submit("Search", find="Verschwunden")
    record = admin.get(found.offered["Vera Verschwunden"])
    page = admin.get(record.offered["Delete this record"])
    return page.send("/delete", reason=REASON, history=history, typed="nobody")


def test_id_that_is_the_record_number_is_shown_once(app, admin, tmp_path):
    same = patient("9001", "9001", name=[{"family": "Gleich"}])
    assert load(app, write(tmp_path / "same", bundle("collection", plain(same)))).complete
    page = admin.get(f"{PATH}?find=Gleich")
    assert page.words.count("9001") == 1
    assert "111 · vera" in admin.get(f"{PATH}?find=Vera").words


def test_record_is_deleted_by_whoever_types_whose_it_is(app, admin):
    add_person(app, PATIENT, "vera", name="Vera herself")
    page = confirmation(admin)
    assert page.form_to("/delete").fields["reason"] == REASON
    for shown in ("allergies and intolerances 1", "1 user is linked to this record"):
        assert shown in page.words
    assert "Vera herself" in page.offered
    for typed in ("", "112", "Verschwunden"):
        refused = page.send("/delete", typed=typed)
        assert (refused.status, len(refused.alerts)) == (400, 1)
    assert asking(app).get("Patient/vera").status_code == 200
    refused = page.send("/delete", reason=" ", typed="111")
    assert (refused.status, len(refused.alerts)) == (400, 1)
    page = page.send("/delete", typed="vera  VERSCHWUNDEN")
    assert page.path == f"{PATH}?done=deleted"
    assert REASON in page.words
    assert asking(app).get("Patient/vera").status_code == 410
    assert "deleted a patient record: " in trail(admin)


def test_deleted_record_is_erased_and_admitted_again(app, admin):
    confirmation(admin).send("/delete", typed="111")
    assert "Its earlier versions still exist" in admin.get(f"{PATH}/vera").words
    page = admin.get(f"{PATH}/vera/delete")
    done = page.send("/delete", reason="No copy may stay", history="erase", typed="vera")
    assert done.path == f"{PATH}?done=erased"
    assert asking(app).get("AllergyIntolerance/nuts/_history/1").status_code == 410
    assert admin.get(PATH).send("/admit").path == f"{PATH}?done=admitted"
    # What an import does then is tested in tests/features/patients/test_deletion.py.


def corrected(admin: Browser, **details: str) -> Page:
    """Return the page that shows a correction before it is made."""
    return admin.get(f"{PATH}/vera").send("/correct", reason="Misspelled on arrival", **details)


def test_details_are_corrected_after_a_comparison(app, admin):
    born = "1958-04-12"
    page = corrected(admin, family="Wieder", given="Vera Maria", birthDate=born, active="no")
    assert "Family name Verschwunden Wieder" in page.words
    stale = corrected(admin, family="Anders")
    assert asking(app).read("Patient/vera")["meta"]["versionId"] == "1"
    assert page.send("/correct").path == f"{PATH}?done=corrected"
    fhir = asking(app)
    now = fhir.read("Patient/vera")
    assert now["name"] == [{"family": "Wieder", "given": ["Vera", "Maria"]}]
    assert (now["birthDate"], now["active"]) == (born, False)
    assert now["identifier"] == [{"system": "urn:mrn", "value": "111"}]
    assert fhir.read("Patient/vera/_history/1")["name"][0]["family"] == "Verschwunden"
    assert "Misspelled on arrival (family, given, birthDate, active)" in trail(admin)
    # What somebody else changed meanwhile is not corrected.
    assert "has been changed in the meantime" in stale.send("/correct").words
    assert asking(app).read("Patient/vera")["meta"]["versionId"] == "2"


def test_invalid_correction_is_refused(app, admin):
    assert corrected(admin).status == 409
    for name, value in (("birthDate", "12 April"), ("identifier", "")):
        page = corrected(admin, **{name: value}).send("/correct")
        assert (page.status, name in page.words) == (409, True)
    assert asking(app).read("Patient/vera")["meta"]["versionId"] == "1"
    for path in ("nobody", "no%20id"):
        assert admin.get(f"{PATH}/{path}").status == 404


def merge(admin: Browser) -> None:
    """Merge the second record into the first."""
    page = admin.get(f"{PATH}/twice/merge?into=vera")
    page.send("/merge", typed="222", reason="Registered twice")


def test_other_record_is_chosen_among_those_that_may_be_the_same(app, admin, tmp_path):
    records = [
        patient("a", "1", birthDate="1960-05-01", gender="male"),
        patient("b", "2", birthDate="1960-05-01", gender="female"),
        patient("c", "3", birthDate="1961-05-01"),
    ]
    load(app, write(tmp_path, bundle("collection", *map(plain, records))))
    page = admin.get(f"{PATH}/a/merge")
    assert f"{PATH}/a/merge?into=b" in page.links.values()
    assert f"{PATH}/a/merge?into=c" not in page.links.values()
    (sexes,) = admin.get(f"{PATH}/a/merge?into=b").alerts
    assert sexes.startswith("The sexes differ: male and female.")
    (dates,) = admin.get(f"{PATH}/a/merge?into=c").alerts
    assert dates.startswith("The dates of birth differ: 1960-05-01 and 1961-05-01.")
    assert admin.get(f"{PATH}/a/merge?into=a").status == 409
    assert admin.get(f"{PATH}/a/merge?into=none").status == 200
    assert admin.get(f"{PATH}/none/merge").status == 404


def test_records_are_merged_after_a_comparison(app, admin):
    swap = admin.get(f"{PATH}/twice/merge?into=vera").links["Keep the other record instead"]
    assert swap == f"{PATH}/vera/merge?into=twice"
    add_person(app, PATIENT, "twice", name="Vera herself")
    found = admin.get(f"{PATH}/twice").offered["Merge into another record"]
    page = admin.get(found).submit("Search", find="Verschwunden")
    page = admin.get(page.offered["Vera Verschwunden"])
    assert "Record number 222 111" in page.words
    assert "allergies and intolerances 1" in page.words
    assert "Vera herself" in page.offered
    wrong = page.send("/merge", typed="111", reason="Registered twice")
    assert (wrong.status, len(wrong.alerts)) == (400, 1)
    assert asking(app).ids("AllergyIntolerance?patient=vera") == ["nuts"]
    done = wrong.send("/merge", typed="222", accounts="move")
    assert done.path == f"{PATH}?done=merged"
    assert sorted(asking(app).ids("AllergyIntolerance?patient=vera")) == ["bees", "nuts"]
    assert "merged patient records: " in trail(admin)


def test_records_are_separated_with_a_reason(app, admin):
    merge(admin)
    record = admin.get(f"{PATH}/twice")
    assert f"{PATH}/twice/delete" not in record.actions
    refused = record.send("/separate", reason=" ")
    assert (refused.status, len(refused.alerts)) == (409, 1)
    done = record.send("/separate", reason="Two people after all")
    assert done.path == f"{PATH}?done=separated"
    assert asking(app).ids("AllergyIntolerance?patient=twice") == ["bees"]


def test_pages_redirect_from_the_merged_record_and_offer_nothing_with_it(app, admin):
    person = add_person(app, PATIENT, name="Vera herself")
    merge(admin)
    clinician = Browser(app).resume(add_person(app, CLINICIAN))
    for tail in ("", "/allergies/bees", "/summary", "/summary/document"):
        page = clinician.get(f"/patients/twice{tail}")
        assert (page.status, page.path) == (200, f"/patients/vera{tail}")
    words = clinician.get("/patients/vera").words
    assert "Includes a record that was merged into this one: twice" in words
    # Found by the number of either, and listed once.
    for number in ("222", "111", "Verschwunden"):
        found = clinician.get(f"/patients?name={number}")
        assert ["V. V" in found.words, "Vera V" in found.words] == [False, True]
    # A page that was opened before may still offer it.
    assert clinician.get("/launch?patient=twice").status == 404
    path = f"/admin/users/{id_of(app, person)}/link"
    assert admin.post_with_token(path, patient="twice", whose="own").status == 409
