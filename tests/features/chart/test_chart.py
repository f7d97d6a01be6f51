"""The chart: who finds and sees a record, the order of its allergies, its banners and its summary.

The conclusion about a patient's allergies is tested in tests/clinical/test_summary.py, the
sentences of the pages in tests/web/test_texts.py.
"""

from __future__ import annotations

from datetime import date
from typing import Any
from xml.etree import ElementTree

import pytest

from fhirapp.auth.models import PATIENT
from fhirapp.features.chart.elements import born, died
from tests.support.allergies import (
    NKA,
    NKDA,
    NO_INFORMATION,
    PENICILLIN,
    RXNORM,
    SEVERE,
    SNOMED,
    allergy,
    coded,
    patient_with,
    rich,
)
from tests.support.noted import note
from tests.support.pages import browser_of, elements, in_order, links, texts
from tests.support.publishing import TIMES, delete, publish

HOSTILE = "<script>alert(1)</script>\u202e&quot;'--"
LOINC = "http://loinc.org"
RASH = {"reaction": [{"manifestation": [{"text": "Rash"}], "severity": "mild"}]}
TAILS = ("", "/allergies/al-p1-penicillin", "/summary", "/summary/document", "/viewers")


# Who finds and sees a record.


def test_patient_search_finds_by_name_date_or_number_and_refuses_a_date(clinician):
    """What is found is tested in tests/web/test_people.py."""
    found = {
        "name=hart+1958-04-12": ["/patients/p1"],
        "name=LGH-100274": ["/patients/p2"],
        "name=30.02.1958": [],
    }
    pages = {query: clinician.get(f"/patients?{query}") for query in found}
    assert {query: links(page, "/patients/") for query, page in pages.items()} == found
    assert {page.status for page in pages.values()} == {200}
    assert len(texts(pages["name=30.02.1958"], "p.notice")) == 1


def test_patient_list_has_sex_age_severe_allergies_and_possible_duplicates(clinician):
    listed = {
        link.get("href"): " ".join("".join(link.itertext()).split())
        for link in elements(clinician.get("/patients"), "a.choice")
    }
    assert "born 12 April 1958 (" in listed["/patients/p1"]
    assert "LGH-100237 · female Severe: Penicillin" in listed["/patients/p1"]
    marked = {path for path, words in listed.items() if "possible duplicate" in words}
    assert marked == {"/patients/p12", "/patients/p14"}


def test_chart_names_a_possible_duplicate_with_number_and_allergies(clinician):
    for here, there, name in (("p12", "p14", "Ceftriaxone"), ("p14", "p12", "Chlorhexidine")):
        page = clinician.get(f"/patients/{here}")
        (line,) = (text for text in texts(page, "p.pinned") if text.startswith("Possible dup"))
        told = ("born 8 March 1966", "LGH-", "in that record:", name, "not in the list below")
        assert in_order(line, "Kowalczyk", *told)
        assert f"/patients/{there}" in links(page, f"/patients/{there}")
    assert "Possible duplicate" not in clinician.get("/patients/p1").words


def test_list_says_so_where_allergies_cannot_be_read(clinician, monkeypatch):
    monkeypatch.setattr("fhirapp.features.chart.routes.allergies_in_brief", lambda *_, **__: {})
    assert "Severe allergies cannot be shown" in clinician.get("/patients").words
    chart = clinician.get("/patients/p12").words
    assert "allergies cannot be shown right now" in chart


def test_patient_is_led_to_their_record_or_chooses_among_several(clinic):
    assert browser_of(clinic, PATIENT, "p1").get("/patients").path == "/patients/p1"
    page = browser_of(clinic, PATIENT, "p4", "p13", "not-here").get("/patients?name=hartwell")
    assert links(page, "/patients/") == ["/patients/p4", "/patients/p13"]


def test_record_of_another_patient_is_answered_like_one_that_does_not_exist(clinic):
    patient = browser_of(clinic, PATIENT, "p1")
    others = ("nobody", "p2", "p 1", "x" * 65)
    pages = [patient.get(f"/patients/{other}{tail}") for other in others for tail in TAILS]
    pages.append(patient.get("/patients/p1/allergies/al-p2-morphine"))
    assert {(page.status, page.words) for page in pages} == {(404, pages[0].words)}


def test_deleted_or_unknown_record_is_not_found(clinic, clinician):
    gone = patient_with(clinic)
    delete(clinic, TIMES[1], f"Patient/{gone}")
    paths = [f"/patients/{patient}{tail}" for patient in ("nobody", gone) for tail in TAILS]
    paths += ["/patients/p1/allergies/al-p2-morphine", "/patients/p1/allergies/nothing"]
    assert {path: clinician.get(path).status for path in paths} == dict.fromkeys(paths, 404)


# The International Patient Summary.


def test_summary_page_shows_the_narrative_of_its_document(clinician):
    assert "/patients/p1/summary" in links(clinician.get("/patients/p1"), "/patients/p1/")
    page = clinician.get("/patients/p1/summary")
    assert (page.status, page.heading) == (200, "Amelia Rose Hartwell")
    assert in_order(
        page.words,
        *("12 April 1958", "LGH-100237", "Penicillin (high criticality)"),
        *("Anaphylaxis, Angioedema, Bronchospasm · Collapse minutes after", "Dr. Folake Adeyemi"),
    )
    (download,) = links(page, "/patients/p1/summary/")
    sent = clinician.get(download).response
    assert sent.content_type == "application/fhir+json"
    assert sent.headers["Content-Disposition"] == 'attachment; filename="patient-summary-p1.json"'
    sections = sent.get_json(force=True)["entry"][0]["resource"]["section"]
    assert texts(page, "h2") == [section["title"] for section in sections]
    for section in sections:
        words = ElementTree.fromstring(section["text"]["div"]).itertext()
        assert in_order(page.words, section["title"], *map(str.strip, words))


def test_summary_is_in_the_language_of_its_reader(clinician):
    def composition(**options: Any) -> dict[str, Any]:
        sent = clinician.get("/patients/p1/summary/document", **options).response
        return sent.get_json(force=True)["entry"][0]["resource"]

    german = {"headers": {"Accept-Language": "de"}}
    page, document = clinician.get("/patients/p1/summary", **german), composition(**german)
    titles = [section["title"] for section in document["section"]]
    assert texts(page, "h2") == titles
    assert "Medikation" in " ".join(titles)
    assert "5 aktive oder nicht abgeklungene Allergien" in page.words
    assert all(' lang="de">' in section["text"]["div"] for section in document["section"])
    # The next reader's document is not in German.
    assert (document["language"], composition()["language"]) == ("de", "en")


# The chart.


def test_chart_shows_severe_allergies_first_and_entries_in_error_last(clinician):
    page = clinician.get("/patients/p1")
    assert in_order(
        page.words,
        *("born 12 April 1958", "female", "LGH-100237"),
        "Severe: Penicillin (Anaphylaxis, Angioedema, Bronchospasm)",
        "active, confirmed · onset 2 June 1974 UTC · last occurred 20 November 1998 · recorded 14"
        " February 2023 UTC · recorded by Dr. Folake Adeyemi",
        # So that a phone shows them without scrolling.
        "Patient summary (IPS)",
        *("Active 5", "Penicillin high criticality allergy, medication"),
        "same class · Penicillins: amoxicillin, ampicillin, penicillin G, penicillin V",
        "Anaphylaxis, Angioedema, Bronchospasm · Collapse minutes after an injection before surgery"
        " (severe, 20 November 1998 UTC); Urticaria, Itching of skin · Hives on the trunk, two"
        " hours after the second tablet (moderate, 2 June 1974)",
        *("Carries an alert card.", "active, confirmed onset 2 June 1974 UTC"),
        *("Ibuprofen intolerance, medication", "coded as sulfamethoxazole / trimethoprim"),
        *("Ragweed", "Entered in error 1: Metformin"),
    )


def test_sections_of_allergies_are_in_the_order_of_their_weight(clinic, clinician):
    patient = patient_with(
        clinic,
        allergy("Egg", verified="refuted"),
        allergy("Soy", "resolved"),
        allergy("Milk", None),
        allergy("Fish"),
        allergy("Kiwi", verified="unconfirmed"),
        allergy("Fig", None, "entered-in-error"),
    )
    page = clinician.get(f"/patients/{patient}")
    assert texts(page, "tr.standing-row") == [
        *("Active 2", "Unresolved: clinical status not recorded 1")
    ]
    folded = [texts(section, "summary")[0] for section in elements(page, "details.past")]
    assert folded == ["Resolved or inactive 1: Soy", "Refuted 1: Egg", "Entered in error 1: Fig"]


def test_anaphylaxis_without_a_recorded_severity_stands_first(clinic, clinician):
    reaction = [{"manifestation": [{"text": "Anaphylaxis (disorder)"}]}]
    patient = patient_with(clinic, allergy("Mold", **RASH), allergy("Nut", reaction=reaction))
    page = clinician.get(f"/patients/{patient}")
    assert texts(page, "a.substance") == ["Nut", "Mold"]
    assert texts(page, "span.tag.risk") == ["described as “Anaphylaxis (disorder)”"]


def test_code_without_a_display_is_shown_with_its_system(clinic, clinician):
    patient = patient_with(clinic, allergy(coded((SNOMED, "764146007"))))
    assert texts(clinician.get(f"/patients/{patient}"), "a.substance") == ["SNOMED CT 764146007"]


def test_contradiction_leads_to_the_entries_that_it_is_about(clinic, clinician):
    entries = [allergy(NKDA, recordedDate="2016-05-02"), allergy(PENICILLIN, **SEVERE)]
    patient = patient_with(clinic, *entries)
    page = clinician.get(f"/patients/{patient}")
    (pinned,) = elements(page, "p.pinned")
    assert [link.get("href") for link in elements(pinned, "a")] == [
        f"/patients/{patient}/allergies/{entry['id']}" for entry in entries
    ]
    assert page.response.text.index('class="pinned') < page.response.text.index('id="allergies"')


def test_every_allergy_of_hundreds_is_shown(clinic, clinician):
    names = [f"Substance {number}" for number in range(300)]
    page = clinician.get(f"/patients/{patient_with(clinic, *map(allergy, names))}")
    assert sorted(texts(page, "a.substance")) == sorted(names)


def test_text_of_a_record_is_escaped_and_cut_short(clinic, clinician):
    person = {"name": [{"text": HOSTILE}], "identifier": [{"value": HOSTILE}]}
    reaction = {"manifestation": [{"text": HOSTILE}], "description": "x" * 100_000}
    remark = [{"text": HOSTILE, "authorString": HOSTILE}]
    entry = allergy(HOSTILE, reaction=[reaction], note=remark, onsetString=HOSTILE)
    patient = patient_with(clinic, entry, **person)
    for tail in ("", f"/allergies/{entry['id']}", "/viewers", "/summary"):
        page = clinician.get(f"/patients/{patient}{tail}")
        assert page.status == 200
        assert "<script>alert" not in page.response.text
        assert "alert(1)" in page.words
        assert len(page.response.text) < 350_000
        assert "unsafe" not in page.headers["Content-Security-Policy"]
    patient = patient_with(clinic, allergy("y" * 500_000), name=[{"text": "x" * 900_000}])
    assert len(clinician.get(f"/patients/{patient}").response.text) < 100_000


def test_every_entry_that_r4_allows_is_shown_and_opens(clinic, clinician):
    patient, published = rich(clinic)
    chart = clinician.get(f"/patients/{patient}").response.text
    for row_id in published:
        path = f"/patients/{patient}/allergies/{row_id}"
        assert f'href="{path}"' in chart
        page = clinician.get(path)
        assert (page.status, bool(page.heading)) == (200, True)


def test_age_is_as_exact_as_the_dates_are():
    cases = (
        ({"birthDate": "1958-04-12"}, "born 12 April 1958 (68)"),
        ({"birthDate": "1958-11-23"}, "born 23 November 1958 (67)"),
        ({"birthDate": "1958-11"}, "born November 1958 (about 68)"),
        ({"birthDate": "1958"}, "born 1958 (about 68)"),
        ({"birthDate": "2026-11-01"}, "born 1 November 2026 (21 days)"),
        ({"birthDate": "2026-05-01"}, "born 1 May 2026 (6 months)"),
        ({"birthDate": "2027-01-01"}, "born 1 January 2027"),
        ({"birthDate": "1958-04-12", "deceasedDateTime": "2000-04-11"}, "born 12 April 1958 (41)"),
        ({"birthDate": "1958-04-12", "deceasedBoolean": True}, "born 12 April 1958"),
        ({}, "date of birth not recorded"),
    )
    found = [born(person, date(2026, 11, 22)) for person, _ in cases]
    assert found == [words for _, words in cases]


def test_death_is_shown_with_its_date_where_that_is_recorded(clinic, clinician):
    cases = (
        ({"deceasedDateTime": "2025-03-02T10:00:00+00:00"}, "died 2 March 2025 UTC"),
        ({"deceasedBoolean": True}, "died, date not recorded"),
        ({"deceasedBoolean": False}, ""),
        ({}, ""),
    )
    assert [died(person) for person, _ in cases] == [words for _, words in cases]
    page = clinician.get(f"/patients/{patient_with(clinic, deceasedDateTime='2025-03-02')}")
    assert texts(page, "p.died") == ["died 2 March 2025"]


# The banners.


def test_banner_names_each_severe_allergy_with_its_reaction(clinic, clinician):
    hives = [{"manifestation": [{"text": "Hives"}]}]
    codeine = coded((RXNORM, "2670", "Codeine"), text="Aspirin")
    patient = patient_with(
        clinic,
        allergy("Milk", **RASH),
        allergy("Walnut", criticality="high"),
        allergy("Latex", criticality="high", reaction=hives),
        allergy(PENICILLIN, **SEVERE),
        allergy("Wasp", status=None, **SEVERE),
        allergy("Peanut", note=[{"text": "Throat closed at school"}]),
        allergy(codeine, **SEVERE),
    )
    page = clinician.get(f"/patients/{patient}")
    # High criticality does not make its reaction a severe one.
    assert sorted(texts(page, "p.headline")) == [
        "High criticality: Latex (Hives)",
        "High criticality: Walnut (reaction not recorded)",
        "Severe: Aspirin, coded as Codeine (Anaphylaxis)",
        "Severe: Peanut (“Throat closed at school”)",
        "Severe: Penicillin (Anaphylaxis)",
        "Severe: Wasp (Anaphylaxis)",
    ]
    assert page.response.text.index('class="danger"') < page.response.text.index('id="allergies"')
    assert texts(page, "p.pinned")[0].startswith(
        "Check: “Aspirin” names two different substances, “Aspirin” and “Codeine”"
    )


def test_banner_puts_what_may_kill_first_and_whole_without_semantic_tags(clinic, clinician):
    def coded_reaction(*names, severity):
        manifestations = [coded((SNOMED, str(900 + n), name)) for n, name in enumerate(names)]
        return {"manifestation": manifestations, "severity": severity}

    wheals = coded_reaction(
        *(f"Wheal of region {number} (finding)" for number in range(40)),
        "Dyspnea (finding)",
        "Anaphylaxis caused by food (disorder)",
        severity="moderate",
    )
    itching = coded_reaction("Eruption of skin (disorder)", severity="severe")
    nut = coded((SNOMED, "1", "Tree nut (substance)"), text="Tree nut (substance)")
    patient = patient_with(clinic, allergy(nut, reaction=[itching, wheals]))
    (headline,) = texts(clinician.get(f"/patients/{patient}"), "p.headline")
    assert headline.startswith(
        "Severe: Tree nut (Anaphylaxis caused by food, Wheal of region 0, Wheal of region 1, "
    )
    words = clinician.get(f"/patients/{patient}").words
    assert "Tree nut (substance)" not in words
    assert "(finding)" not in words


def test_names_in_a_list_include_the_display_of_the_code(clinic, clinician):
    codeine = coded((RXNORM, "2670", "Codeine"), text="Aspirin")
    entries = allergy("Latex", **SEVERE), allergy(codeine), allergy(codeine, status="resolved")
    page = clinician.get(f"/patients/{patient_with(clinic, *entries)}")
    (other,), (folded,) = texts(page, "p.also"), texts(page, "summary")
    assert all(text.endswith("Aspirin (coded as Codeine)") for text in (other, folded))


def test_allergy_that_is_over_or_was_none_is_no_warning(clinic, clinician):
    for elements_ in (
        {"verified": "refuted"},
        {"verified": "entered-in-error", "status": None},
        {"status": "resolved"},
        {"status": "inactive"},
    ):
        patient = patient_with(clinic, allergy("Egg", **elements_, **SEVERE))
        page = clinician.get(f"/patients/{patient}")
        assert (elements(page, ".danger"), texts(page, "p.headline")) == ([], []), elements_
        assert "Egg" in texts(page, "summary")[0]


def test_banner_has_dates_and_the_recorder_of_each_allergy(clinic, clinician):
    worker = {"resourceType": "Practitioner", "id": "w", "name": [{"text": "Dr. W"}]}
    dates = {"onsetDateTime": "1974-06-02", "recordedDate": "2016-05-02"}
    recorder = {"reference": "Practitioner/dr-sato"}
    patient = patient_with(
        clinic,
        allergy(PENICILLIN, **SEVERE, **dates, recorder=recorder),
        allergy("Bee venom", **SEVERE, contained=[worker], recorder={"reference": "#w"}),
        allergy("Wasp", **SEVERE, asserter={"display": "His mother"}),
        allergy("Hornet", **SEVERE),
    )
    (banner,) = texts(clinician.get(f"/patients/{patient}"), "section.danger")
    assert "onset 2 June 1974 · recorded 2 May 2016 · recorded by Keiko Sato" in banner
    assert "active, confirmed · onset not recorded · recorded by Dr. W" in banner
    assert "reported by His mother" in banner
    assert "source not recorded" in banner


def test_recorder_without_a_name_is_in_the_language_of_the_page(clinic, clinician):
    unnamed = {"resourceType": "Practitioner", "id": "w"}
    entry = allergy("Wasp", **SEVERE, contained=[unnamed], recorder={"reference": "#w"})
    path = f"/patients/{patient_with(clinic, entry)}"
    assert "recorded by name not recorded" in clinician.get(path).words
    german = clinician.get(path, headers={"Accept-Language": "de"}).words
    assert ("Name nicht erfasst" in german, "name not recorded" in german) == (True, False)


def test_banner_has_notes_and_names_the_other_active_allergies(clinic, clinician):
    patient = patient_with(
        clinic,
        allergy(PENICILLIN, **SEVERE, note=[{"text": "Cefazolin was tolerated"}]),
        allergy("Fish", **RASH),
        allergy("Milk", None),
        allergy("Egg", "resolved"),
        allergy("Soy", verified="refuted"),
    )
    (banner,) = elements(clinician.get(f"/patients/{patient}"), "section.danger")
    assert "Cefazolin was tolerated" in " ".join(banner.itertext())
    assert texts(banner, "p.also")[0].partition(": ")[2] == "Fish, Milk"


def test_banner_counts_the_severe_allergies_that_it_leaves_out(clinic, clinician):
    patient = patient_with(clinic, *(allergy(f"Food {n}", **SEVERE) for n in range(14)))
    headlines = texts(clinician.get(f"/patients/{patient}"), "p.headline")
    assert len(headlines) == 13
    assert headlines[-1].startswith("2 more severe")


@pytest.mark.parametrize(
    ("entries", "title", "css_class"),
    [
        ([], "Nothing recorded", "none open"),
        ([allergy(NKA)], "None known", "none"),
        ([allergy(NKDA)], "None known for some allergens only", "none open"),
        ([allergy(NO_INFORMATION)], "No information", "none open"),
        ([allergy("Egg", "resolved")], "None active", "none open"),
        ([allergy(NKA), allergy("Egg", **RASH)], None, None),
    ],
)
def test_absence_of_allergies_has_its_reason_in_the_banner(
    clinic, clinician, entries, title, css_class
):
    page = clinician.get(f"/patients/{patient_with(clinic, *entries)}")
    banners = [
        (texts(banner, "strong")[0], banner.get("class")) for banner in elements(page, "div.none")
    ]
    assert banners == ([(title, css_class)] if title else [])


def test_banner_of_no_information_has_its_date_source_and_reason(clinic, clinician):
    statement = allergy(
        NO_INFORMATION,
        recordedDate="2025-04-21",
        recorder={"display": "Dr. Sato"},
        note=[{"text": "No interpreter was at hand"}],
    )
    (banner,) = texts(clinician.get(f"/patients/{patient_with(clinic, statement)}"), "div.none")
    assert in_order(banner, "21 April 2025", "Dr. Sato", "No interpreter was at hand")


def documents(patient: str, **notes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return notes of a patient without content, by the end of their ids."""
    subject = {"reference": f"Patient/{patient}"}
    return [
        note(f"{patient}-{name}", subject=subject, content=[], **given)
        for name, given in notes.items()
    ]


def test_valid_directives_and_warnings_are_pinned_above_the_notes(clinic, clinician):
    patient = patient_with(clinic)
    living_will = coded((LOINC, "86533-7", "Living will"))
    adi = [coded((LOINC, "42348-3"))]
    dnr = coded((LOINC, "84095-9", "Do not resuscitate"))
    recent = {f"n{n}": {"date": f"2026-01-01T00:{n:02}:00Z"} for n in range(60)}
    published = documents(
        patient,
        dnr={"type": dnr, "date": "2025-01-02"},
        adi={"type": coded(text="Scan"), "category": adi, "date": "2024-01-02"},
        words={"description": "DNR, signed by his wife", "date": "2023-01-02"},
        alert={"type": coded(text="Patient alert"), "date": "2022-01-02"},
        old={"type": living_will, "status": "superseded"},
        wrong={"type": living_will, "docStatus": "entered-in-error"},
        note={"type": coded(text="Progress note"), "description": "Feels well"},
        will={"type": living_will, "date": "1999-01-01"},
        # The directives are older than all notes that the chart lists.
        **recent,
    )
    publish(clinic, TIMES[0], *published)
    page = clinician.get(f"/patients/{patient}")
    assert [line.rpartition(" · ")[0] for line in texts(page, "p.pinned")] == [
        "Directive: Do not resuscitate · 2 Jan 2025",
        "Directive: Scan · 2 Jan 2024",
        "Directive: Note: DNR, signed by his wife · 2 Jan 2023",
        "Warning: Patient alert · 2 Jan 2022",
        "Directive: Living will · 1 Jan 1999",
    ]
    assert page.response.text.index('class="pinned') < page.response.text.index("notes-heading")
