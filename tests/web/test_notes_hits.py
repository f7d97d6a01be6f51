"""Where the words of a search stand in a text."""

from __future__ import annotations

import time

import pytest

from fhirapp.web.notes.search import marked, phrases_of, snippets


def shown(text: str, asked: str) -> str:
    return "".join(
        f"[{one.text}]" if one.is_hit else one.text for one in marked(text, phrases_of(asked))
    )


@pytest.mark.parametrize(
    ("text", "asked", "expected"),
    [
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
    ],
)
def test_hits_are_what_the_search_takes_for_hits(text, asked, expected):
    assert shown(text, asked) == expected


def test_marking_loses_no_character():
    text = "a\u0301\n\t<b>\u202ex\u202c hives \ud83d" * 50
    assert "".join(one.text for one in marked(text, phrases_of("hives"))) == text


def test_the_words_around_hits_begin_and_end_with_whole_words():
    text = f"{'alpha ' * 100}hives {'omega ' * 100}"
    ((before, left, hit, right, after),) = snippets(text, phrases_of("hives"))
    assert (before.text, hit.text, after.text) == ("… ", "hives", " …")
    assert set(left.text.split()) == {"alpha"}
    assert set(right.text.split()) == {"omega"}


def test_each_word_that_was_looked_for_is_shown_before_one_is_shown_twice():
    text = f"{'hives. ' * 10}{'filler ' * 100}rash"
    found = snippets(text, phrases_of("hives rash"))
    hits = [one.text for snippet in found for one in snippet if one.is_hit]
    assert {"hives", "rash"} <= set(hits)


def test_a_megabyte_is_read_in_time():
    text = "penicillin and hives, Müller " * 40_000
    began = time.perf_counter()
    assert snippets(text, phrases_of("penicillin hives nothing"))
    assert time.perf_counter() - began < 20
