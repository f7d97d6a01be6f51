"""The words of a search in a text: marked, and with the words around them."""

from __future__ import annotations

from fhirapp.web.notes.search import marked, phrases_of, snippets


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
        pieces = marked(text, phrases_of(query))
        found = "".join(f"[{piece.text}]" if piece.is_hit else piece.text for piece in pieces)
        assert found == expected, (text, query)
    text = "a\u0301\n\t<b>\u202ex\u202c hives \ud83d" * 50
    assert "".join(piece.text for piece in marked(text, phrases_of("hives"))) == text


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
