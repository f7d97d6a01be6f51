"""The search for words in notes and its hits, the list of a patient's notes, and its filters."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from flask import Flask

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.auth.models import PATIENT
from fhirapp.features.notes import listing, of_patient
from fhirapp.features.notes.search import mark_hits, phrases_of, snippets
from tests.support.browsing import Page
from tests.support.noted import MARKUP, SCRIPTED, TWO_PAGES, attached, note
from tests.support.pages import browser_of, elements, in_order, links, submit_to, texts

MANY = 60
PATIENTS = ("none", "few", "many", "past")


def of(patient: str, note_id: str, *content: Any, type_: str = "Consult", **more: Any) -> Any:
    """Return a note of a patient, with the name of its author where `by` gives one."""
    author = more.pop("by", None)
    by = {"author": [{"display": author}]} if author else {}
    subject, kind = {"reference": f"Patient/{patient}"}, {"text": type_}
    return note(note_id, *content, subject=subject, type=kind, **by, **more)


def replaces(note_id: str) -> Any:
    return {"code": "replaces", "target": {"reference": f"DocumentReference/{note_id}"}}


@pytest.fixture(scope="module")
def clinic(app_with: Callable[..., Flask]) -> Flask:
    patients = ({"resourceType": "Patient", "id": f"o-{name}"} for name in PATIENTS)
    return app_with(
        [
            *patients,
            note("f-html", attached(SCRIPTED, "text/html"), subject={"reference": "Patient/p3"}),
            note("f-pdf", attached(TWO_PAGES, "application/pdf")),
            note("f-markup", attached(f"Zebra said {MARKUP} twice")),
            note("f-accent", attached("Allergie: Bésylate d'amlodipine, œdème")),
            *(
                note(
                    f"m-{n}",
                    attached(f"walrus number {n}"),
                    subject={"reference": "Patient/p9"},
                    date=f"2020-{n % 12 + 1:02}-{n // 12 + 1:02}T00:00:00Z",
                    status="superseded" if n == 0 else "current",
                )
                for n in range(MANY)
            ),
            of("o-few", "o-1", by="Dr. A"),
            of("o-few", "o-2", by="Dr. B", status="superseded"),
            of("o-few", "o-3", by="Dr. A", type_="Progress & plan"),
            of("o-few", "o-4", docStatus="amended", relatesTo=[replaces("o-2")]),
            of("o-past", "o-alone", status="superseded"),
            of("o-past", "o-wrong", status="entered-in-error", relatesTo=[replaces("o-alone")]),
            of("o-past", "o-older", status="superseded"),
            of("o-past", "o-newer", relatesTo=[replaces("o-older")]),
            *(
                of(
                    *("o-many", f"o-m{n}"),
                    type_="Consult" if n % 2 else "Progress",
                    status="entered-in-error" if n < 3 else "current",
                    date=f"2025-01-01T{n // 60:02}:{n % 60:02}:00Z",
                )
                for n in range(130)
            ),
        ]
    )


# The search in all notes.


def test_matches_are_shown_with_the_words_around_them_and_escaped(browser):
    shown = {
        "torasemide": "Second page: <mark>torasemide</mark>",
        '"after amoxicillin"': "Hives <mark>after amoxicillin</mark>.",
        "amoxi*": "after <mark>amoxicillin</mark>",
        "besylate": "<mark>Bésylate</mark> d&#39;amlodipine",
        '"said img"': "Zebra <mark>said &lt;img</mark> src",
        "zebra,giraffe": "<mark>Zebra</mark> said &lt;img src=x onerror=&#34;run()&#34;&gt;",
    }
    form = browser.get("/notes")
    for words, snippet in shown.items():
        page = submit_to(form, "/notes", q=words)
        assert (page.status, snippet in page.response.text) == (200, True), words
    page = browser.get("/notes?q=torasemide")
    assert links(page, "/notes/") == ["/notes/f-pdf?q=torasemide"]
    assert "Amelia Rose Hartwell" in texts(page, "li.note-line")[0]
    # A match in the details has no words to show.
    page = browser.get("/notes?q=18842-5")
    assert elements(page, "p.snippet")
    assert elements(page, "mark") == []


def test_best_matches_are_shown_first_and_all_of_them_page_by_page(browser):
    page = browser.get("/notes?q=walrus")
    assert len(elements(page, "li.note-line")) == 20
    (newest,) = [address for address in links(page, "/notes?") if "order=newest" in address]
    page, found = browser.get(newest), []
    while True:
        found += re.findall(r'href="/notes/([^?"]+)', page.response.text)
        following = [address for address in links(page, "/notes?") if "cursor=" in address]
        if not following:
            break
        page = browser.get(following[0])
    assert len(found) == len({*found}) == MANY


def test_invalid_search_is_refused_with_the_reason(browser):
    reasons = {
        "q=AND": "a comma means OR",
        "q=%22": "is not understood; use words",
        "q=...": "has no letter or digit",
        "q=" + "a+" * 21: "at most 20 words",
        "q=" + "a" * 501: "500 characters or fewer",
        "q=pain&from=yesterday": "2024-03-05",
        "q=pain&from=2024-13-45": "date",
        "q=pain&cursor=nonsense": "first page",
    }
    for query, words in reasons.items():
        page = browser.get(f"/notes?{query}")
        (notice,) = texts(page, "p.notice")
        assert (page.status, words in notice) == (400, True), (query, notice)


def test_search_is_limited_to_record_type_and_dates(browser):
    counts = {
        "q=walrus&patient=p9": "60 notes",
        "q=walrus&patient=p1": "No matching notes",
        "q=walrus&from=2020-12-01&to=2020-12-02": "2 notes",
        "q=walrus&kind=18842-5": "No matching notes",
        "q=walrus&kind=11506-3": "60 notes",
        "patient=p9&to=2020-01-01": "1 note",
    }
    found = {query: texts(browser.get(f"/notes?{query}"), "h2")[0] for query in counts}
    assert found == counts


def test_patient_searches_their_own_notes_alone(clinic):
    own = browser_of(clinic, PATIENT, "p9")
    assert texts(own.get("/notes?q=walrus"), "h2") == ["60 notes"]
    assert texts(own.get("/notes?q=torasemide"), "h2") == ["No matching notes"]
    assert own.get("/notes?q=torasemide&patient=p1").status == 403
    assert own.get("/notes?patient=p1&part=timeline").status == 403
    # Of two records one is searched, with a link to the other.
    page = browser_of(clinic, PATIENT, "p2", "p9").get("/notes?q=walrus")
    assert texts(page, "h2") == ["No matching notes"]
    (other,) = [address for address in links(page, "/notes?") if "patient=p9" in address]
    assert texts(page.browser.get(other), "h2") == ["60 notes"]
    assert browser_of(clinic, PATIENT).get("/notes?q=walrus").status == 403


# The notes of a patient.


def test_notes_of_a_patient_are_listed_by_fifties(browser):
    page = browser.get("/notes?patient=p9&to=2021-01-01")
    assert len(elements(page, "li.note-line")) == 50
    more = page.offered["More notes"]
    assert len(elements(browser.get(more), "li.note-line")) == 10
    # htmx loads the lines alone.
    lines = browser.get(f"{more}&part=lines")
    assert len(elements(lines, "li.note-line")) == 10
    assert "<html" not in lines.response.text
    assert "superseded" in texts(lines, "li.note-line.past")[0]
    chart = browser.get("/patients/p9")
    assert len(elements(chart, "svg.timeline")) == 1
    # The superseded one, which none replaces, is among the first.
    assert len(elements(chart, "li.note-line")) == 51
    assert chart.offered["More notes"].startswith("/notes?patient=p9&status=current&cursor=")
    assert texts(submit_to(chart, "/notes", q=""), "h2") == ["63 notes"]
    assert elements(browser.get("/patients/o-none"), "svg.timeline") == []


def test_timeline_of_very_many_notes_is_loaded_after_the_chart(browser, monkeypatch):
    monkeypatch.setattr(of_patient, "READ_WHOLE", 100)
    page = browser.get("/patients/o-many")
    assert elements(page, "svg.timeline") == []
    assert len(elements(page, "div", hx_get="/notes?patient=o-many&part=timeline")) == 1
    (timeline,) = [address for address in links(page, "/notes?") if "timeline=1" in address]
    assert elements(browser.get(timeline), "svg.timeline")


def test_timeline_is_loaded_alone_or_above_the_list(browser):
    assert len(elements(browser.get("/notes?patient=p9&timeline=1"), "svg")) == 1
    part = browser.get("/notes?patient=p9&part=timeline")
    assert (len(elements(part, "svg")), "<html" in part.response.text) == (1, False)
    assert browser.get("/notes?part=timeline").status == 400


# The notes on the chart, and their filters.


def ids(page: Page) -> list[str]:
    return re.findall(r'href="/notes/(o-\w+)"', page.response.text.partition("plain-list")[2])


def choices(page: Page) -> dict[str, str]:
    """Return the address of each choice of the filters, by its words with its count."""
    return {
        text: link.get("href", "").replace("&amp;", "&")
        for filters in elements(page, "div.filters")
        for link, text in zip(elements(filters, "a"), texts(filters, "a"), strict=True)
        if elements(link, "span.count")
    }


def test_superseded_notes_are_folded_and_counted(browser):
    page = browser.get("/patients/o-few")
    (fold,) = [
        details
        for details in elements(page, "details.past")
        if "note" in texts(details, "summary")[0]
    ]
    assert texts(fold, "summary")[0] == "1 superseded note"
    assert [link.get("href") for link in elements(fold, "a")] == ["/notes/o-2"]
    assert {*ids(page)} == {"o-1", "o-2", "o-3", "o-4"}


@pytest.mark.parametrize("most", [1_000, 3])
def test_superseded_note_is_listed_where_no_valid_note_replaces_it(browser, monkeypatch, most):
    monkeypatch.setattr(of_patient, "READ_WHOLE", most)
    monkeypatch.setattr(of_patient, "PAGE", min(most, 50))
    page = browser.get("/patients/o-past")
    assert {*ids(page)[:2]} == {"o-alone", "o-newer"}
    counted = ("1 superseded note", "1 note entered in error")
    # Of a long list all superseded ones are found by the link.
    counted = counted if most > 3 else ("2 superseded notes", "1 note entered in error")
    assert in_order(page.words, *counted)


def test_filters_count_the_notes_that_they_would_show(browser):
    page = browser.get("/patients/o-few")
    assert sorted(choices(page)) == [
        *("Consult 3", "Dr. A 2", "Dr. B 1", "Progress & plan 1"),
        *("amended 1", "author not recorded 1", "superseded 1"),
    ]
    assert ids(browser.get(choices(page)["superseded 1"])) == ["o-2"]
    by_author = browser.get(choices(page)["Dr. A 2"])
    assert {*ids(by_author)} == {"o-1", "o-3"}
    assert {"Consult 1", "Progress & plan 1"} <= {*choices(by_author)}
    both = browser.get(choices(by_author)["Progress & plan 1"])
    assert ids(both) == ["o-3"]
    # A chosen filter is removed by its link, and all filters by another.
    assert {*ids(browser.get(choices(both)["Dr. A 1"]))} == {"o-3"}
    assert len(ids(browser.get(both.links["Show all notes"]))) == 4
    none = browser.get("/patients/o-few?type=%3Cscript%3Ealert(1)%3C/script%3E")
    assert (ids(none), "<script>alert" in none.response.text) == ([], False)


def test_many_notes_are_cut_short_on_the_chart(browser):
    page = browser.get("/patients/o-many")
    assert len(ids(page)) == 50
    assert len(elements(browser.get(page.offered["More notes"]), "li.note-line")) == 50
    (past,) = [address for address in links(page, "/notes?") if "entered-in-error" in address]
    assert len(elements(browser.get(past), "li.note-line.past")) == 3
    filtered = browser.get("/patients/o-many?author=author+not+recorded")
    assert len(ids(filtered)) == 100
    assert "30 more notes match" in filtered.words
    assert len(ids(browser.get("/patients/o-many?type=Consult"))) == 65


# Marked words, and the words around them.


def test_marked_words_are_those_that_the_search_finds():
    cases = [
        ("Penicillin, PENICILLIN.", "penicillin", "[Penicillin], [PENICILLIN]."),
        ("penicillinase", "penicillin", "penicillinase"),
        ("penicillinase", "penicil*", "[penicillinase]"),
        ("chest pain; pain, chest", '"chest pain"', "[chest pain]; pain, chest"),
        ("chest\n pain", '"chest pain"', "[chest\n pain]"),
        ("chest pains", '"chest pai"*', "[chest pains]"),
        ("pain in the chest", "chest pain", "[pain] in the [chest]"),
        ("Müller, Mu\u0308ller", "muller", "[Müller], [Mu\u0308ller]"),
        ("Straße", "strasse", "[Straße]"),
        ("hives or rash", "hives,rash", "[hives] or [rash]"),
        ("a b a b a", '"a b a"', "[a b a b a]"),
        ("nothing", "AND", "nothing"),
        ("nothing", "", "nothing"),
    ]
    for text, query, expected in cases:
        pieces = mark_hits(text, phrases_of(query))
        found = "".join(f"[{piece.text}]" if piece.is_hit else piece.text for piece in pieces)
        assert found == expected, (text, query)
    text = "a\u0301\n\t<b>\u202ex\u202c hives \ud83d" * 50
    assert "".join(piece.text for piece in mark_hits(text, phrases_of("hives"))) == text


def test_every_page_of_a_search_is_read(monkeypatch):
    following = [{"relation": "next", "url": "/fhir/DocumentReference?_cursor=second"}]
    pages = {"": (["a", "b"], following), "second": (["c", "d"], [])}
    read = []

    def page_of(path: str, _token: object, **_options: object) -> dict[str, Any]:
        read.append(parse_qs(urlsplit(path).query).get("_cursor", [""])[0])
        ids, link = pages[read[-1]]
        entries = [{"search": {"mode": "match"}, "resource": {"id": id_}} for id_ in ids]
        return {"entry": entries, "link": link}

    monkeypatch.setattr(listing, "read", page_of)
    token = OwnToken("", "", None, 0)
    found = {
        most: [note["id"] for note in listing.every("DocumentReference", [], token, most)]
        for most in (2, 3, 9)
    }
    assert found == {2: ["a", "b"], 3: ["a", "b", "c"], 9: ["a", "b", "c", "d"]}
    assert read == ["", "", "second", "", "second"]


def test_snippet_begins_and_ends_with_whole_words():
    text = f"{'alpha ' * 100}hives {'omega ' * 100}"
    ((before, left, hit, right, after),) = snippets(text, phrases_of("hives"))
    assert (before.text, hit.text, after.text) == ("… ", "hives", " …")
    assert ({*left.text.split()}, {*right.text.split()}) == ({"alpha"}, {"omega"})


def test_snippets_show_each_word_before_one_is_repeated():
    text = f"{'hives. ' * 10}{'filler ' * 100}rash"
    found = snippets(text, phrases_of("hives rash"))
    assert {piece.text for snippet in found for piece in snippet if piece.is_hit} >= {
        *("hives", "rash")
    }
    assert snippets("penicillin and hives, Müller " * 4_000, phrases_of("penicillin nothing"))
