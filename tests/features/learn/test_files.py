"""Files of lessons: a teacher's own folder, and files that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask

from fhirapp.features import learn
from fhirapp.features.learn.interaction import INTERACTIONS
from tests.support.browsing import Browser
from tests.support.learning import Learner
from tests.support.pages import elements, texts

# A valid lesson.
FRONT = """title = "Who is allergic to latex?"
minutes = 5
level = "Our clinic"
goal = "Find an allergy by its name."

[[checks]]
says = "Find latex."
[checks.request]
interaction = "search"
type = "AllergyIntolerance"
parameters = ["code:text=latex"]
"""
CHECK = FRONT.partition("[checks.")[0]
SEARCH = "AllergyIntolerance?code:text=latex"


def lesson(front: str = FRONT, text: str = "Some text.") -> str:
    return f"+++\n{front}+++\n{text}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lessons")


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask], folder: Path) -> Flask:
    """A demo with a teacher's folder."""
    return make_app(demo=True, lessons=str(folder))


@pytest.fixture(autouse=True)
def _empty(folder: Path) -> Iterator[None]:
    yield
    for path in folder.iterdir():
        path.rmdir() if path.is_dir() else path.unlink()


def titles(learner: Learner) -> list[str]:
    """Return the titles of the teacher's lessons, with their numbers."""
    listed = elements(learner.browser.get("/learn"), "a.lesson")
    return [texts(link, "strong")[0] for link in listed][25:]


def faults(learner: Learner, path: str = "/learn") -> list[str]:
    """Return what a page says about files that cannot be read."""
    return [
        fault
        for found in elements(learner.browser.get(path), "ul.findings")
        for fault in texts(found, "li")
    ]


def test_teachers_lesson_is_listed_last_and_can_be_done(learner, folder):
    (folder / "20-latex.md").write_text(lesson(text="Look for **latex**."))
    assert titles(learner) == ["26. Who is allergic to latex?"]
    page = learner.browser.get("/learn/latex")
    assert texts(page, "article.card.prose") == ["Look for latex."]
    learner.begin("latex")
    assert learner.met("latex") == [False]
    learner.ask(SEARCH)
    assert learner.met("latex") == [True]


def test_changed_file_is_shown_as_it_is_now(learner, folder):
    path = folder / "latex.md"
    for name in ("latex?", "latex gloves?"):
        path.write_text(lesson(FRONT.replace("latex?", name)))
        assert titles(learner) == [f"26. Who is allergic to {name}"]
    path.unlink()
    assert titles(learner) == []


def test_example_on_the_page_for_teachers_is_a_valid_lesson(learner, folder):
    text = Path(learn.__file__).with_name("writing.md").read_text(encoding="utf-8")
    assert "20-latex.md" in text
    (folder / "20-latex.md").write_text(text.split("```\n")[1])
    assert faults(learner, "/learn/writing") == []
    assert "{server}" in learner.browser.get("/learn/writing").words
    learner.begin("latex")
    learner.ask(SEARCH)
    learner.answer("latex", "How many are there?", "1")
    assert learner.met("latex") == [True, True]


# The content of a file, the line of its fault, and key words of the sentence.
UNREADABLE = [
    ("", 1, "The first line must be +++"),
    ("Just text.\n", 1, "The first line must be +++"),
    ("+++\n" + FRONT, 12, "The second +++ line"),
    (lesson(FRONT.replace("minutes = 5", "minutes = ")), 3, "Invalid value."),
    (lesson(FRONT + f"a = {'9' * 5000}\n"), 13, "Exceeds the limit"),
    (lesson(FRONT + f"a = {'[' * 5000}\n"), 13, "maximum recursion"),
    (lesson(FRONT.replace("minutes = 5\n", "")), 1, "minutes is missing. It must be an integer."),
    (lesson(FRONT.replace("= 5", '= "5"')), 3, "minutes is missing. It must be an integer."),
    (lesson(FRONT.replace('"Our clinic"', '" "')), 4, "level is missing. It must be a string."),
    (lesson("hint = []\n" + FRONT), 2, "Known keys: title, level, goal, minutes, hints, checks,"),
    (lesson("hints = 3\n" + FRONT), 2, "hints must be a list of strings."),
    (lesson(FRONT.partition("[[")[0]), 1, "[[checks]] is missing."),
    (lesson(FRONT.replace('says = "Find latex."\n', "")), 7, "says is missing."),
    (lesson(CHECK), 7, "exactly one of request, requests, question, consent and revocation."),
    (lesson(FRONT.replace('"search"', '"find"')), 10, f"one of {', '.join(INTERACTIONS)}."),
    (lesson(FRONT + 'who = "me"\n'), 13, "who must be one of you, patient, app, backend, nobody."),
    (lesson(FRONT + 'status = "200"\n'), 13, "status must be a number or a list of numbers."),
    (lesson(FRONT + "continues = 1\n"), 13, "continues must be true or false."),
    (lesson(FRONT + 'serves_at_least = "3"\n'), 13, "serves_at_least must be an integer."),
    (lesson(FRONT + "parameter = 3\n"), 13, "Known keys: who, method, interaction, type, id,"),
    (
        lesson(FRONT + '[[checks]]\nsays = "Find latex."\n[checks.request]\nid = "a"\n'),
        *(14, "Two checks have the same text."),
    ),
    (
        lesson(CHECK + '[checks.question]\naddress = "/fhir/Patient"\n'),
        *(9, "The question needs answer, a string."),
    ),
    (
        lesson(CHECK + '[checks.question]\naddress = "Patient"\nanswer = "total"\n'),
        *(10, "address must start with /fhir/."),
    ),
    (lesson(CHECK + "[checks.consent]\n"), 9, "The consent needs client_id, a string."),
]


def test_unreadable_files_are_listed_with_line_and_reason(learner, folder):
    expected = {}
    for number, (content, line, words) in enumerate(UNREADABLE):
        path = folder / f"broken-{number}.md"
        path.write_text(content)
        expected[f"{path}:{line}"] = words
    for name, content_, words in (
        ("My Lesson.md", lesson().encode(), "lowercase letters, digits and hyphens"),
        ("latin.md", "Ã¼\xe9".encode("latin-1"), "not UTF-8"),
        ("99-tokens.md", lesson().encode(), "The page tokens already exists."),
        ("writing.md", lesson().encode(), "The page writing already exists."),
        ("long.md", b"+" * 200_001, "larger than 200000 bytes"),
    ):
        (folder / name).write_bytes(content_)
        expected[f"{folder / name}"] = words
    (folder / "folder.md").mkdir()
    expected[f"{folder / 'folder.md'}"] = "Is a directory"
    (folder / "latex.md").write_text(lesson())
    for path in ("/learn", "/learn/writing"):
        found = faults(learner, path)
        assert len(found) == len(expected)
        for place, words in expected.items():
            (fault,) = [line for line in found if line.startswith(f"{place} ")]
            assert words in fault
    # The other lessons are shown.
    assert titles(learner) == ["26. Who is allergic to latex?"]


def test_faults_of_files_are_shown_to_staff_alone(app, folder):
    (folder / "broken.md").write_text("Just text.")
    patient = Learner(app, "patient")
    for browser in (patient.browser, Browser(app)):
        page = browser.get("/learn")
        assert (page.status, "broken.md" in page.words) == (200, False)
    assert patient.browser.get("/learn/writing").status == 403


def test_text_of_a_lesson_is_sanitized_and_its_links_lead_to_the_explorer(learner, folder):
    text = "\n\n".join(
        [
            *("<script>alert(1)</script>", '<img src="x" onerror="alert(1)">'),
            *("[a](javascript:alert(1))", "[a](data:text/html,x)"),
            *("![a](https://elsewhere.example/x.png)", '<div style="position:fixed">x</div>'),
            '```fhir\n"><script>alert(1)</script>\n```',
            "| a | b |\n|---|---|\n| verificationStatus | c |",
            "[one](/fhir/Patient/p1)\n\n```fhir\nGET /fhir/Patient?name=a&_count=1\n```",
        ]
    )
    (folder / "hostile.md").write_text(lesson(text=text))
    page = learner.browser.get("/learn/hostile")
    (article,) = elements(page, "article")
    assert {element.tag for element in article.iter()} & {"script", "img", "div", "style"} == set()
    assert [table.get("tabindex") for table in elements(article, "table")] == ["0"]
    addresses = [link.get("href", "") for link in elements(article, "a")]
    assert {address.partition("?")[0] for address in addresses} == {"/learn/hostile/explore"}
    explored = [learner.browser.get(address) for address in addresses]
    sent = [page.form("Send").fields["address"].strip() for page in explored]
    assert {"/fhir/Patient/p1", "/fhir/Patient?name=a&_count=1"} < {*sent}
