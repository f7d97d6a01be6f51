"""The files of lessons: what is read, what cannot be read and where, a teacher's own folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask

from fhirapp.db import db
from fhirapp.web import learn
from fhirapp.web.learn.interaction import INTERACTIONS
from tests.support.browsing import Browser
from tests.support.learning import Learner

# A lesson that is right, but for what a test changes.
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


def written(front: str, text: str = "Some text.") -> str:
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
    """Leave the folder empty."""
    yield
    for path in folder.iterdir():
        path.unlink()


@pytest.fixture
def teacher(app: Flask) -> Learner:
    return Learner(app)


def words(learner: Learner, path: str = "/learn") -> str:
    page = learner.browser.get(path)
    assert page.status == 200, page.words
    return page.words


def test_a_teachers_lesson_comes_after_ours_and_can_be_done(teacher, folder):
    (folder / "20-latex.md").write_text(written(FRONT, "Look for **latex**."))
    page = teacher.browser.get("/learn")
    assert [*page.offered.values()][-3::2] == ["/learn/latex", "/learn/writing"]
    assert "26. Who is allergic to latex? Find an allergy by its name. 5 minutes" in page.words
    assert "Look for latex." in words(teacher, "/learn/latex")
    teacher.begin("latex")
    assert teacher.met("latex") == [False]
    teacher.ask("AllergyIntolerance?code:text=latex")
    assert teacher.met("latex") == [True]


def test_a_file_that_changes_is_shown_as_it_is_now(teacher, folder):
    path = folder / "latex.md"
    path.write_text(written(FRONT))
    assert "Who is allergic to latex?" in words(teacher)
    path.write_text(written(FRONT.replace("latex?", "latex gloves?")))
    assert "Who is allergic to latex gloves?" in words(teacher)
    path.unlink()
    assert "latex" not in words(teacher)


def test_the_example_of_the_page_for_teachers_is_a_lesson(teacher, folder):
    text = Path(learn.__file__).with_name("writing.md").read_text(encoding="utf-8")
    example = text.split("```\n")[1]
    assert "20-latex.md" in text
    (folder / "20-latex.md").write_text(example)
    assert "{server} becomes the address of this server" in words(teacher, "/learn/writing")
    assert "All lessons are valid." in words(teacher, "/learn/writing")
    teacher.begin("latex")
    teacher.ask("AllergyIntolerance?code:text=latex")
    teacher.answer("latex", "How many are there?", "1")
    assert teacher.met("latex") == [True, True]


UNREADABLE = [
    ("", 1, "The first line must be +++ and nothing else."),
    ("Just text.\n", 1, "The first line must be +++ and nothing else."),
    ("+++\n" + FRONT, 12, "The second +++ line, before the text, is missing."),
    (
        written(FRONT.replace("minutes = 5", "minutes = ")),
        3,
        "This is not valid TOML: Invalid value.",
    ),
    (written(FRONT + f"a = {'9' * 5000}\n"), 13, "This is not valid TOML: Exceeds the limit"),
    (written(FRONT + f"a = {'[' * 5000}\n"), 13, "This is not valid TOML: maximum recursion"),
    (written(FRONT.replace("minutes = 5\n", "")), 1, "minutes is missing. It must be an integer."),
    (written(FRONT.replace("= 5", '= "5"')), 3, "minutes is missing. It must be an integer."),
    (
        written(FRONT.replace('"Our clinic"', '" "')),
        4,
        "level is missing. It must be a string.",
    ),
    (
        written("hint = []\n" + FRONT),
        2,
        (
            "hint is not a key of a lesson. Known keys: title, level, goal, minutes, hints, "
            "checks, person."
        ),
    ),
    (written("hints = 3\n" + FRONT), 2, "hints must be a list of strings."),
    (
        written(FRONT.partition("[[")[0]),
        1,
        "[[checks]] is missing. A lesson needs at least one check.",
    ),
    (
        written(FRONT.replace('says = "Find latex."\n', "")),
        7,
        "says is missing. It must say what to do.",
    ),
    (
        written(FRONT.partition("[checks.")[0]),
        7,
        "A check must have exactly one of request, requests, question, consent and revocation.",
    ),
    (
        written(FRONT.replace('"search"', '"find"')),
        10,
        f"interaction must be one of {', '.join(INTERACTIONS)}.",
    ),
    (
        written(FRONT + 'who = "me"\n'),
        13,
        "who must be one of you, patient, app, backend, nobody.",
    ),
    (written(FRONT + 'status = "200"\n'), 13, "status must be a number or a list of numbers."),
    (written(FRONT + "continues = 1\n"), 13, "continues must be true or false."),
    (written(FRONT + 'serves_at_least = "3"\n'), 13, "serves_at_least must be an integer."),
    (
        written(FRONT + "parameter = 3\n"),
        13,
        (
            "parameter is not a key of a request. Known keys: who, method, interaction, type, id, "
            "version, operation, parameters, without, exactly, status, serves, serves_only, "
            "serves_at_least, same_as, continues."
        ),
    ),
    (
        written(FRONT + '[[checks]]\nsays = "Find latex."\n[checks.request]\nid = "a"\n'),
        14,
        "Two checks have the same text.",
    ),
    (
        written(FRONT.partition("[checks.")[0] + '[checks.question]\naddress = "/fhir/Patient"\n'),
        9,
        "The question needs answer, a string.",
    ),
    (
        written(
            FRONT.partition("[checks.")[0]
            + '[checks.question]\naddress = "Patient"\nanswer = "total"\n'
        ),
        10,
        "address must start with /fhir/.",
    ),
    (
        written(FRONT.partition("[checks.")[0] + "[checks.consent]\n"),
        9,
        "The consent needs client_id, a string.",
    ),
]


@pytest.mark.parametrize(("content", "line", "told"), UNREADABLE)
def test_what_cannot_be_read_is_told_to_staff_with_its_line(teacher, folder, content, line, told):
    path = folder / "broken.md"
    path.write_text(content)
    (folder / "latex.md").write_text(written(FRONT))
    said = words(teacher)
    place = f"{path}:{line} {told}"
    assert place in said
    assert "Who is allergic to latex?" in said
    assert "1. Read one allergy" in said
    assert place in words(teacher, "/learn/writing")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        (
            "My Lesson.md",
            written(FRONT).encode(),
            (
                "Use lowercase letters, digits and hyphens in the file name, for example "
                "20-my-lesson.md."
            ),
        ),
        (
            "latin.md",
            "Ã¼\xe9".encode("latin-1"),
            "The file is not UTF-8. Save it in that encoding.",
        ),
        (
            "99-tokens.md",
            written(FRONT).encode(),
            "The page tokens already exists. Rename the file.",
        ),
        (
            "writing.md",
            written(FRONT).encode(),
            "The page writing already exists. Rename the file.",
        ),
        ("long.md", b"+" * 200_001, "The file is larger than 200000 bytes."),
    ],
)
def test_what_is_wrong_with_a_whole_file_is_told_without_a_line(
    teacher, folder, name, content, told
):
    (folder / name).write_bytes(content)
    assert f"{folder / name} {told}" in words(teacher)


def test_a_folder_as_a_file_breaks_nothing(teacher, folder):
    (folder / "folder.md").mkdir()
    try:
        assert f"{folder / 'folder.md'} The file cannot be read: Is a directory." in words(teacher)
    finally:
        (folder / "folder.md").rmdir()


def test_what_cannot_be_read_is_not_told_to_others(app, folder):
    (folder / "broken.md").write_text("Just text.")
    assert "broken.md" not in words(Learner(app, "patient"))
    page = Browser(app).get("/learn")
    assert (page.status, "broken.md" in page.words) == (200, False)
    assert Learner(app, "patient").browser.get("/learn/writing").status == 403


def test_a_folder_that_is_not_there_is_told(make_app, tmp_path):
    missing = tmp_path / "nowhere"
    teacher = Learner(make_app(demo=True, lessons=str(missing)))
    said = words(teacher)
    assert f"{missing} This folder of FHIRAPP_LESSONS does not exist." in said
    assert "1. Read one allergy" in said
    with teacher.app.app_context():
        db.engine.dispose()


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        '<img src="x" onerror="alert(1)">',
        "[a](javascript:alert(1))",
        "[a](data:text/html,x)",
        "![a](https://elsewhere.example/x.png)",
        '<div style="position:fixed">x</div>',
        '```fhir\n"><script>alert(1)</script>\n```',
    ],
)
def test_a_lessons_text_is_nothing_but_text(teacher, folder, text):
    (folder / "hostile.md").write_text(written(FRONT, text))
    page = teacher.browser.get("/learn/hostile")
    html = page.response.text.partition("<article")[2].partition("</article>")[0]
    for bad in ("<script", "<img", "<div", 'href="javascript', 'href="data'):
        assert bad not in html


def test_links_into_the_api_lead_into_the_explorer(teacher, folder):
    text = "[one](/fhir/Patient/p1)\n\n```fhir\nGET /fhir/Patient?name=a&_count=1\n```\n"
    (folder / "links.md").write_text(written(FRONT, text))
    page = teacher.browser.get("/learn/links")
    assert page.offered["one"] == "/explore?address=%2Ffhir%2FPatient%2Fp1&lesson=links"
    assert page.offered["Open it in the explorer"] == (
        "/explore?address=%2Ffhir%2FPatient%3Fname%3Da%26_count%3D1&lesson=links"
    )
