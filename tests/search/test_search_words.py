"""What is a word, and what a search for words means: numbers, scripts without spaces, operators."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.search.tokenizer import MARK, locate_words, normalised, words_in
from tests.support.contract import allergy, publish
from tests.support.effort import sample
from tests.support.noted import TEXTS_OF_NOTES, add, attached, note

NOW = "2026-03-01T00:00:00.000+00:00"
REPEATABLE = settings(max_examples=sample(20, 300))


@pytest.fixture(scope="module")
def app(make_app, tmp_path_factory):
    """An app where a document says each of these, and an allergy does."""
    app = make_app(seed=False)
    folder = tmp_path_factory.mktemp("notes")
    person = {"resourceType": "Patient", "id": "p1"}
    kind = "text/plain; charset=utf-8"
    notes = [note(name, attached(text, kind)) for name, text in TEXTS_OF_NOTES.items()]
    add(app, folder, person, *notes)
    publish(
        app,
        *(allergy(name, note=[{"text": text}]) for name, text in TEXTS_OF_NOTES.items()),
        now=NOW,
    )
    return app


# Values of a search for words, by the notes that they find.
FOUND = {
    "five close": ('"5 mg"', '"5mg"', "5mg", "5 mg", "metformin 5 MG"),
    "five close dated": ("5",),
    "five close half comma naked many dated": ("mg",),
    "half": ('"2.5 mg"', "2.5mg", '"2,5 mg"', r"2\,5 mg"),
    "half chinese": ("2.5", "2.5*"),
    "comma": ('"12.5 mg"',),
    "comma half": ("12.5 mg,2.5 mg",),
    "naked": ('"0.5 mg"', ".5 mg"),
    "many": ("1234567.5",),
    "dated": ("2024", "5 tablets"),
    "": ("10 tablets", "12", "痛胸", "5毫克", "หัวปวด", "통두", '"monia well"'),
    "five": ("37 C",),
    "code": ("j45.0", "b12"),
    "chinese": ("胸痛", '"胸痛三天"', "天", "主诉 三天", "2.5毫克"),
    "chinese japanese": ("痛", "胸*"),
    "japanese": ("訴え", "ｱﾚﾙｷﾞｰ", "発熱あり"),
    "thai": ("ปวดหัว", "ป่วย"),
    "korean": ("환자", "두통", "두통을"),
    "turkish": ("ağr\u0131s\u0131", "AĞRISI", "agrisi", "KIRIK", "şiddetli"),
    "hyphen": ("pneumonia", '"suspected pneumonia and"', "monia", '"well known"', "wellknown",
        "follow-up"),
    "hyphen pain": ("and",),
    "pain": ('"NOT" fever', '"not fever"', "not", '"chest pain, not"', '"-pain"'),
    "code pain": ('"chest pain, not",b12',),
}  # fmt: skip


@pytest.mark.parametrize("search", ["DocumentReference?_text", "AllergyIntolerance?_content"])
def test_a_search_for_words_finds(fhir, search):
    wrong = {}
    for expected, values in FOUND.items():
        for value in values:
            found = fhir.ids(f"{search}={quote(value)}")
            if sorted(found) != sorted(expected.split()):
                wrong[value] = found
    assert wrong == {}


def test_how_words_are_read_is_explained_as_people_write_them(fhir):
    bundle = fhir.read(f"DocumentReference?_content={quote('胸痛三天 2.5 mg')}&_explain=true")
    (outcome,) = [entry["resource"] for entry in bundle["entry"] if "issue" in entry["resource"]]
    assert outcome["issue"][0]["diagnostics"].endswith(
        "matches what has the words '胸痛三天' together and the words '2.5 mg' together."
    )


WORDS_OF = [
    ("1,000 1.5.2 1.234,5", "1·000 1 5 2 1234·5"),
    ("10mg/5ml 2x5 3rd", "10 mg 5 ml 2 x5 3 rd"),
    ("a1.5 x.5 (.5) ..5 5.", "a1 5 x 5 0·5 5 5"),
    ("2·5 2\u066b5 \uff12\uff0e\uff15 l·l", "2·5 2·5 2·5 l l"),
    ("beta-\r\n blocker a-1", f"betablocker a 1 {MARK} beta blocker"),
    ("1-\n2 a-\n1 - \nb", "1 2 a 1 b"),
    ("CT胸部2.5", "ct 胸部 部 2·5"),
    ("\x1f1\x1f2", "1 2"),
]


def test_the_words_of_a_text():
    for text, words in WORDS_OF:
        assert normalised(text) == words


PIECES = st.sampled_from([*"aé1.,- ·\n", *"胸痛환자ปว\u0131_", "12", "mg", "-\n", "2.5", " .5"])


@REPEATABLE
@given(st.lists(PIECES, max_size=25).map("".join))
def test_words_are_located_where_they_stand(text):
    """What the pages mark is what the search finds, save the parts of what a hyphen splits."""
    words = words_in(text)
    whole = words[: words.index(MARK)] if MARK in words else words
    assert [word for word, _, _ in locate_words(text)] == whole
    for word, start, end in locate_words(text):
        assert word[0] in normalised(text[start:end])


@REPEATABLE
@given(st.lists(PIECES, max_size=25).map("".join))
def test_the_faster_way_for_ascii_gives_the_same_words(text):
    words = words_in(text)
    end = words.index(MARK) if MARK in words else len(words)
    assert words_in(text + ". é") == [*words[:end], "e", *words[end:]]


def test_a_long_text_takes_time_in_proportion_to_its_length():
    """The limit of CPU time for each test would not suffice for its square."""
    for piece in ("-\n", "a-\n", "1.", "1", "1,555,", " .5", "a", "痛\n"):
        words_in(piece * (100_000 // len(piece)))
    assert words_in("é" + "1" * 100_000)
    assert words_in("-" + " " * 100_000) == []
