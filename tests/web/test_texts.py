"""The sentences that clinicians, patients and administrators must be shown, by page and state.

Other tests look for elements, fields, links and statuses. Here stands what a page must say in
words: about the allergies of a record, about notes that are not valid or cannot be shown, about
access, and about what an administrator finds nothing of yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
from flask import Flask
from sqlalchemy import delete, insert

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, Client
from fhirapp.features.learn.models import LessonProgress
from tests.support.allergies import NKA, NKDA, PENICILLIN, SEVERE, allergy, patient_with
from tests.support.authorizing import alter
from tests.support.browsing import Browser, id_of
from tests.support.noted import BOMB, DRAWING, add, attached, note
from tests.support.pages import browser_of, explorer_address, submit_to

Sentences = Mapping[str, Sequence[str]]
EXPLAINED = "/explore?address=/fhir/AllergyIntolerance?"
# What a clinician reads, by the address of the page; {names} are those of `records`.
CLINICIANS: Sentences = {
    "/patients?name=nobody": ["No matching patients."],
    "/patients/nobody": ["This record does not exist, or you don't have access to it."],
    "/patients/p1": [
        "5 active or unresolved allergies or intolerances; 1 of them is recorded as severe, as",
        "Not clinical decision support. This section shows only the allergy entries that you have",
    ],
    "/patients/p3": ["Walnut and pecan coded as Tree nut high criticality allergy, food"],
    "/patients/p4": ["Recorded: no known drug allergies. Nothing is recorded about"],
    "/patients/p5": ["born 2 November 1941 (83) · male", "died 2 March 2025"],
    "/patients/p6": ["Recorded: no information about allergies."],
    "/patients/p11": ["No allergy entries are recorded. This does not mean that there are no"],
    "/patients/p12": ["Refuted 1: Penicillin", "inactive, refuted", "Note: Skin tests negative"],
    "/patients/p13": ["Recorded: no known allergies."],
    "/patients/p14": [
        "This record was replaced by another record of the same patient. Allergies in that"
    ],
    "/patients/{anaphylaxis}": [
        "Free text describes 1 of them as severe",
        "Tree nut described as “Anaphylaxis (disorder)”",
    ],
    "/patients/{no_code}": [
        "1 active or unresolved allergy or intolerance",
        "Substance not recorded",
    ],
    "/patients/{no_status}": ["clinical status not recorded"],
    "/patients/{contradiction}": [
        "Check: “No known drug allergy”, recorded on 2 May 2016, is still active alongside"
    ],
    "/patients/{unknown}": [
        "Name not recorded",
        "date of birth not recorded · sex not recorded · no record number",
        "No notes in this record yet.",
    ],
    "/patients/{inactive}": ["This record is marked as not in active use."],
    "/patients/p1/summary": [
        "1 of them is recorded as severe",
        "Medications are not held on this server.",
        "Problems and diagnoses are not held on this server.",
    ],
    "/patients/p1/allergies/al-p1-penicillin": [
        "A reaction to one does not imply a reaction to the others.",
        "written by Northgate Family Medicine",
        "sent by Lakeside General Hospital",
    ],
    "/patients/p1/allergies/al-p1-ragweed": ["Source not recorded."],
    "/patients/p1/allergies/al-p1-metformin": ["Entered in error. This entry is not valid."],
    "/patients/p12/allergies/al-p12-penicillin": ["Refuted. This is recorded as not true."],
    "/patients/p3/allergies/al-p3-egg": [
        "Resolved or inactive. This is recorded as no longer active."
    ],
    "/patients/{contradictory_entry}": [
        "Check This entry is coded as “none known” and as something else."
    ],
    "/patients/{bare_entry}": [
        "Verification verificationStatus not recorded",
        "Reaction not recorded.",
    ],
    "/notes": ["Searches the text of every note that you have access to"],
    "/notes?q=nothing-of-the-kind": ["No matching notes", "None of the notes that you have access"],
    "/notes?q=18842-5": ["Matches the note's details, not its text."],
    "/notes?q=walrus": ["Showing the 20 most relevant of 21 notes. Add a word to narrow"],
    "/notes/n-svg": ["SVG images can contain scripts, so they are not shown here."],
    "/notes/n-bomb": ["Its text cannot be read: XML that declares entities."],
    "/notes/n-bomb/content/1": [
        "This document cannot be shown in its original form: XML that declares entities."
    ],
    "/notes/n-broken-pdf": ["Its text cannot be read: broken PDF."],
    "/notes/n-word": ["This file type cannot be shown here. Save"],
    "/notes/n-called-picture": ["This file type cannot be shown here. Save"],
    "/notes/n-elsewhere": [
        "Stored on another server, and not loaded from there: https://evil.example/"
    ],
    "/notes/n-gone": ["The document is not available, or you don't have access to it."],
    "/notes/n-large": ["Larger than 20 MB"],
    "/notes/n-long?q=penicillin": ["Only the beginning is shown. Save the file to read all of it."],
    "/notes/n-nothing": [
        "This note has no attached document, so its text is not available here.",
        "record of not recorded",
    ],
    "/notes/n-wrong": ["Entered in error. This note is not valid."],
    "/notes/n-old": [
        "Superseded. This note was replaced by a newer one.",
        "A later note replaces this one",
    ],
    "/notes/n-newer": ["The note you are viewing replaces this one"],
    "/notes/n-draft": [
        "Preliminary. This note is not signed as final",
        "Note of unrecorded type",
        "not dated · author not recorded",
    ],
    "/notes/n-turned": ["Contains characters that reverse the direction of text"],
    "/notes/doc-p1-progress-2024": ["Source not recorded."],
    "/notes/doc-p1-discharge-2024?version=1": ["This is version 1, not the current version."],
    f"{EXPLAINED}patients=p1%26code=%26_explain=true": [
        "No parameter filters the search: it returns everything that the token gives access to.",
        "code: has no value and was ignored.",
    ],
    f"{EXPLAINED}patient=p1%26_explain=true": ["Nothing was ignored."],
    "/explore?address=/fhir/Nonsense/1": [
        "This resource or address does not exist, or you don't have access to it."
    ],
    "/explore/token": ["It has access to every type.", "no token can change records."],
    "/demo/app": ["The sample app is available only in the demo."],
    "/learn": ["Lessons are part of the demo. Start it with app.py --demo."],
}
PATIENTS: Sentences = {
    "/patients": ["Ask your clinic to link it."],
    "/explore?address=/fhir/AllergyIntolerance": ["This record is not linked to your account."],
    "/explore/token": ["No record is linked to your account yet."],
    "/notes?q=walrus": ["No record linked to your account"],
    "/launch": ["You don't have access to this"],
}
# What an administrator reads of lists where nothing is yet.
ADMINISTRATORS: Sentences = {
    "/admin/clients": ["apps that developers register at /apps/register wait here"],
    "/admin/grants": ["the consent is listed here with its end date"],
    "/admin/imports": ["Imports from this page, schedules and the command line"],
    "/admin/exports": ["Exports that apps request ($export) are listed here"],
    "/admin/backups": ["Backups are listed here with their size"],
    "/admin/schedules": ["No schedules yet. They are listed here with their next and last run"],
    "/admin/refusals": ["it is listed here for"],
    "/admin/logs": ["Problems are listed here with the request id"],
    "/explore?address=/fhir/AuditEvent": [
        "The audit trail is for administrators, with a scope that names it.",
        "The token of this page never includes the audit trail.",
    ],
}
# In the demo: without a session, and of a trainee who has completed a lesson.
VISITORS: Sentences = {
    "/learn/tokens": ["To do this lesson, sign in as clinician with the password demo."],
    "/learn/nonsense": ["This lesson does not exist."],
}
TRAINEES: Sentences = {
    "/learn/recap": ["1 of 25 lessons done.", "Done on 3 May 2031."],
    "/learn/certificate": [
        "has completed 1 of 25 lessons",
        "nobody verified who did the exercises, and no examining body endorses this certificate",
    ],
    "/learn/tokens": ["Your requests count from the moment you start"],
    "/explore?address=/fhir/AuditEvent": ["No client of the demo is registered for it"],
    "/docs?q=zzzz": ["No section has all of these words"],
}


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask], tmp_path_factory: pytest.TempPathFactory) -> Flask:
    """The seeded app with notes of each state."""
    app = make_app()
    replaced = {"code": "replaces", "target": {"reference": "DocumentReference/n-old"}}
    contents = {
        "n-svg": attached(DRAWING, "image/svg+xml"),
        "n-bomb": attached(BOMB, "application/xml"),
        "n-broken-pdf": attached(b"%PDF-1.7 and no more", "application/pdf"),
        "n-word": attached(b"PK\3\4", "application/msword"),
        "n-called-picture": attached(b"<html></html>", "image/png"),
        "n-elsewhere": {"contentType": "text/plain", "url": "https://evil.example/n.txt"},
        "n-gone": {"contentType": "text/plain", "url": "Binary/never-here"},
        "n-large": {"contentType": "application/pdf", "url": "Binary/b", "size": 20_000_001},
        "n-long": attached("penicillin and a line of words\n" * 33_000),
        "n-turned": attached("Give \u202e01\u202c mg"),
        **{f"n-walrus-{number}": attached("walrus") for number in range(21)},
    }
    add(
        app,
        tmp_path_factory.mktemp("notes"),
        *(note(name, content) for name, content in contents.items()),
        note("n-nothing", content=None, subject=None),
        note("n-wrong", attached("Of another"), status="entered-in-error"),
        note("n-old", attached("Old"), status="superseded"),
        note("n-newer", attached("New"), relatesTo=[replaced]),
        note("n-draft", attached("Draft"), docStatus="preliminary", date=None, type=None),
    )
    return app


@pytest.fixture(scope="module")
def records(clinic: Flask) -> Mapping[str, str]:
    """Publish patients with certain allergies; return their ids, or the paths of entries."""
    anaphylaxis = [{"manifestation": [{"text": "Anaphylaxis (disorder)"}]}]
    no_code = allergy("x", reaction=[{"manifestation": [{"text": "Hives"}]}])
    del no_code["code"]
    known_none = allergy(NKDA, recordedDate="2016-05-02")
    contradictory, bare = allergy(NKA, criticality="high"), allergy("Nuts", verified=None)
    patients = {
        "anaphylaxis": [allergy("Mold"), allergy("Tree nut", reaction=anaphylaxis)],
        "no_code": [no_code],
        "no_status": [allergy("Wasp", status=None, **SEVERE)],
        "contradiction": [known_none, allergy(PENICILLIN, **SEVERE)],
        "unknown": [],
        "contradictory_entry": [contradictory],
        "bare_entry": [bare],
    }
    ids = {name: patient_with(clinic, *entries) for name, entries in patients.items()}
    ids["inactive"] = patient_with(clinic, active=False)
    ids["contradictory_entry"] += f"/allergies/{contradictory['id']}"
    ids["bare_entry"] += f"/allergies/{bare['id']}"
    return ids


def missing(browser: Browser, sentences: Sentences, **names: str) -> dict[str, list[str]]:
    """Return the sentences that pages do not show, by the address of the page."""
    found = {path: browser.get(path.format(**names)).words for path in sentences}
    return {
        path: absent
        for path, words in found.items()
        if (absent := [text for text in sentences[path] if text not in words])
    }


@pytest.mark.parametrize("part", range(10))
def test_clinician_is_shown_these_sentences(clinic, records, part):
    sentences = dict([*CLINICIANS.items()][part::10])
    assert missing(browser_of(clinic, CLINICIAN), sentences, **records) == {}


def test_patient_without_a_record_is_shown_these_sentences(clinic):
    assert missing(browser_of(clinic, PATIENT), PATIENTS) == {}


@pytest.fixture(scope="module")
def new_server(make_app: Callable[..., Flask]) -> Flask:
    """An app without records and apps."""
    app = make_app(seed=False)
    alter(app, delete(Client))
    return app


@pytest.mark.parametrize("part", range(3))
def test_administrator_of_a_new_server_is_shown_these_sentences(new_server, part):
    sentences = dict([*ADMINISTRATORS.items()][part::3])
    assert missing(browser_of(new_server, ADMINISTRATOR), sentences) == {}


def test_visitor_and_trainee_of_the_demo_are_shown_these_sentences(make_app):
    app, day = make_app(demo=True), "2031-05-03T10:00:00.000Z"
    progress = {"lesson": "read-one-allergy", "hints": 0, "met": []}
    progress |= {"user_id": id_of(app, "clinician"), "began_at": day, "done_at": day}
    alter(app, insert(LessonProgress).values([progress]))
    assert missing(Browser(app), VISITORS) == {}
    assert missing(Browser(app).resume("clinician"), TRAINEES) == {}


def test_refused_form_says_what_would_be_right(clinic):
    browser = browser_of(clinic, CLINICIAN)
    refused = browser.post("/account/password", {})
    stranger = submit_to(browser.get("/explore/token"), "/explore/token", token="nonsense")
    no_search = browser.get(explorer_address("/fhir/Patient/p1", method="post"))
    other_site = browser.get(explorer_address("https://evil.example/fhir/Patient"))
    sentences = {
        refused: "This form has expired or did not come from this site. Go back and try again.",
        stranger: "This server has no such token of yours.",
        no_search: "Only a search can be sent as POST",
        other_site: "This page sends requests to this server only.",
    }
    assert [sentence for page, sentence in sentences.items() if sentence not in page.words] == []
