"""What is a word, and what a search for words means: numbers, scripts without spaces, operators."""

from __future__ import annotations

import time
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.search.tokenizer import MARK, located, normalised, words_in
from tests.support.contract import allergy, publish
from tests.support.helpers import Fhir, assert_outcome, token_for
from tests.support.noted import add, attached, note

NOW = "2026-03-01T00:00:00.000+00:00"
REPEATABLE = settings(deadline=None, derandomize=True, max_examples=300)
# What each note says; as the text of a document, and as a note beside an allergy.
SAID = {
    "five": "Metformin 5 mg daily, 37 C",
    "close": "Metformin 5mg daily",
    "half": "Metformin 2.5 mg daily",
    "comma": "Metformin 12,5 mg daily",
    "naked": "Metformin .5 mg daily",
    "many": "Heparin 1,234,567.5 mg",
    "dated": "Seen on 01.03.2024, 5 tablets of 10 mg",
    "code": "Asthma J45.0, vitamin B12",
    "chinese": "患者主诉胸痛三天\uff0c每次2.5毫克。",
    "japanese": "患者は胸の痛みを訴え、アレルギーはない。\n発熱あ\nり",
    "thai": "ผู้ป่วยปวดหัวมาก",
    "korean": "환자는 두통을 호소한다",
    "turkish": "Şiddetli baş AĞRISI, k\u0131r\u0131k",
    "hyphen": "Suspected pneu-\nmonia and well-\nknown COPD, follow-up",
    "pain": "chest pain, NOT fever and cough",
}


@pytest.fixture(scope="module")
def app(make_app, tmp_path_factory):
    """An app where a document says each of these, and an allergy does."""
    app = make_app(seed=False)
    folder = tmp_path_factory.mktemp("notes")
    person = {"resourceType": "Patient", "id": "p1"}
    kind = "text/plain; charset=utf-8"
    notes = [note(name, attached(text, kind)) for name, text in SAID.items()]
    add(app, folder, person, *notes)
    publish(app, *(allergy(name, note=[{"text": text}]) for name, text in SAID.items()), now=NOW)
    return app


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ('"5 mg"', "five close"),
        ('"5mg"', "five close"),
        ("5mg", "five close"),
        ("5 mg", "five close"),
        ("metformin 5 MG", "five close"),
        ("5", "five close dated"),
        ("mg", "five close half comma naked many dated"),
        ('"2.5 mg"', "half"),
        ("2.5mg", "half"),
        ('"2,5 mg"', "half"),
        (r"2\,5 mg", "half"),
        ("2.5", "half chinese"),
        ("2.5*", "half chinese"),
        ('"12.5 mg"', "comma"),
        ("12.5 mg,2.5 mg", "comma half"),
        ('"0.5 mg"', "naked"),
        (".5 mg", "naked"),
        ("1234567.5", "many"),
        ("2024", "dated"),
        ("5 tablets", "dated"),
        ("10 tablets", ""),
        ("37 C", "five"),
        ("j45.0", "code"),
        ("b12", "code"),
        ("12", ""),
        ("胸痛", "chinese"),
        ('"胸痛三天"', "chinese"),
        ("痛", "chinese japanese"),
        ("天", "chinese"),
        ("主诉 三天", "chinese"),
        ("痛胸", ""),
        ("2.5毫克", "chinese"),
        ("5毫克", ""),
        ("訴え", "japanese"),
        ("ｱﾚﾙｷﾞｰ", "japanese"),
        ("発熱あり", "japanese"),
        ("胸*", "chinese japanese"),
        ("ปวดหัว", "thai"),
        ("ป่วย", "thai"),
        ("หัวปวด", ""),
        ("환자", "korean"),
        ("두통", "korean"),
        ("두통을", "korean"),
        ("통두", ""),
        ("ağr\u0131s\u0131", "turkish"),
        ("AĞRISI", "turkish"),
        ("agrisi", "turkish"),
        ("KIRIK", "turkish"),
        ("şiddetli", "turkish"),
        ("pneumonia", "hyphen"),
        ('"suspected pneumonia and"', "hyphen"),
        ("monia", "hyphen"),
        ('"well known"', "hyphen"),
        ("wellknown", "hyphen"),
        ("follow-up", "hyphen"),
        ('"monia well"', ""),
        ("and", "hyphen pain"),
        ('"NOT" fever', "pain"),
        ('"not fever"', "pain"),
        ("not", "pain"),
        ('"chest pain, not"', "pain"),
        ('"chest pain, not",b12', "code pain"),
        ('"-pain"', "pain"),
    ],
)
@pytest.mark.parametrize("search", ["DocumentReference?_text", "AllergyIntolerance?_content"])
def test_words_find(fhir, search, asked, found):
    assert sorted(fhir.ids(f"{search}={quote(asked)}")) == sorted(found.split())


@pytest.mark.parametrize(
    ("asked", "operator"),
    [
        ("chest AND pain", "AND"),
        ("chest OR pain", "OR"),
        ("chest NOT pain", "NOT"),
        ("NOT pain", "NOT"),
        ("NEAR pain", "NEAR"),
        ("chest -pain", "- before a word"),
        ("-pain", "- before a word"),
        ('-"chest pain"', "- before a word"),
        ("!pain", "! before a word"),
        ("\N{MINUS SIGN}pain", "\N{MINUS SIGN} before a word"),
    ],
)
@pytest.mark.parametrize("name", ["_content", "_text"])
def test_an_operator_of_other_servers_is_refused_and_not_read_as_a_word(
    fhir, name, asked, operator
):
    diagnostics = (
        f"{name}: has no operator {operator}: all words given must be found, a comma means OR, and"
        " words cannot be excluded; put it in quotes to search for it as a word"
    )
    response = fhir.get(f"DocumentReference?{name}={quote(asked)}")
    assert_outcome(response, 400, "value", diagnostics, name)


def test_how_words_are_read_is_explained_as_people_write_them(fhir):
    bundle = fhir.read(f"DocumentReference?_content={quote('胸痛三天 2.5 mg')}&_explain=true")
    (outcome,) = [one["resource"] for one in bundle["entry"] if "issue" in one["resource"]]
    assert outcome["issue"][0]["diagnostics"].endswith(
        "matches what has the words '胸痛三天' together and the words '2.5 mg' together."
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,000 1.5.2 1.234,5", "1·000 1 5 2 1234·5"),
        ("10mg/5ml 2x5 3rd", "10 mg 5 ml 2 x5 3 rd"),
        ("a1.5 x.5 (.5) ..5 5.", "a1 5 x 5 0·5 5 5"),
        ("2·5 2\u066b5 \uff12\uff0e\uff15 l·l", "2·5 2·5 2·5 l l"),
        ("beta-\r\n blocker a-1", f"betablocker a 1 {MARK} beta blocker"),
        ("1-\n2 a-\n1 - \nb", "1 2 a 1 b"),
        ("CT胸部2.5", "ct 胸部 部 2·5"),
        ("\x1f1\x1f2", "1 2"),
    ],
)
def test_the_words_of_a_text(text, words):
    assert normalised(text) == words


PIECES = st.sampled_from(
    [
        *"aé1.,- ·\n",
        "12",
        "mg",
        "胸",
        "痛",
        "환",
        "자",
        "ป",
        "ว",
        "-\n",
        "2.5",
        " .5",
        "\u0131",
        "_",
    ]
)


@REPEATABLE
@given(st.lists(PIECES, max_size=25).map("".join))
def test_words_are_located_where_they_stand(text):
    """What the pages mark is what the search finds, save the parts of what a hyphen splits."""
    words = words_in(text)
    whole = words[: words.index(MARK)] if MARK in words else words
    assert [word for word, _, _ in located(text)] == whole
    for word, start, end in located(text):
        assert word[0] in normalised(text[start:end])


@REPEATABLE
@given(st.lists(PIECES, max_size=25).map("".join))
def test_words_of_ascii_are_those_of_other_text(text):
    """The faster way and the other come to the same."""
    assert words_in(text + ". é") == [*words_of_first(text), "e", *parts_of(text)]


def words_of_first(text):
    words = words_in(text)
    return words[: words.index(MARK)] if MARK in words else words


def parts_of(text):
    words = words_in(text)
    return words[words.index(MARK) :] if MARK in words else []


@pytest.mark.parametrize(
    "text",
    ["-\n" * 500_000, "a-\n" * 300_000, "1." * 500_000, "1" * 1_000_000, "é" + "1" * 999_999,
     "1,555," * 160_000, " .5" * 300_000, "a" * 1_000_000, "痛\n" * 500_000, "-" + " " * 999_999],
    ids=range(10),
)  # fmt: skip
def test_a_text_that_is_made_to_be_slow_is_not(text):
    started = time.process_time()
    words_in(text)
    assert time.process_time() - started < 10


def test_the_pages_mark_what_the_search_finds(app):
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    assert fhir.ids("DocumentReference?_text=pneumonia") == ["hyphen"]
    (place,) = [found[1:] for found in located(SAID["hyphen"]) if found[0] == "pneumonia"]
    assert SAID["hyphen"][slice(*place)] == "pneu-\nmonia"
