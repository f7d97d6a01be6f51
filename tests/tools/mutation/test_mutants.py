"""The mistakes that the mutation check makes: what becomes of a line, and what is left alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.mutation import judge
from tests.tools.mutation.frozen import Frozen, load, save, shares
from tests.tools.mutation.judge import Copy, Judge
from tests.tools.mutation.mutants import mutants
from tests.tools.mutation.selection import Selection

CHANGED = {
    "x = a < b": {"x = (a <= b)"},
    "x = a == b != c": {"x = (a != b != c)", "x = (a == b == c)"},
    "x = a and b": {"x = (a or b)"},
    "x = not a": {"x = (a)"},
    "x = é + 2": {"x = (é - 2)", "x = é + 3", "x = é + (1)"},
    "x = a | b": {"x = (a & b)"},
    "x = True": {"x = False"},
    "x = 'é'": {"x = 'éX'"},
    "x = f'{a!r} b'": {"x = f'{a!r} bX'"},
    "x = [a[i:] for a in b if c]": {
        "x = [a[(i) + 1:] for a in b if c]",
        "x = [a[i:] for a in b if True]",
    },
    "x = a if b else c": {"x = a if True else c", "x = a if False else c"},
    "x = max(a, key=b)": {"x = min(a, key=b)", "x = max(a)"},
    "x = a.get(b, c)": {"x = a.get(b)"},
    "a.b = c": {"pass"},
    "a(b)": {"pass"},
    "raise a": {"pass"},
    "a += b": {"a -= b", "pass"},
    "while a:\n    break": {"while False:\n    break", "while a:\n    pass"},
    "def f():\n    return a": {"def f():\n    return None"},
}
UNCHANGED = [
    "import a",
    "from a import b",
    '"""A docstring."""',
    "x: Literal['a']",
    "def f(a: 'A') -> 'B': ...",
    "def __repr__(self):\n    return 'a'",
    "_log.info('a', 1)",
    "if TYPE_CHECKING:\n    x = 1",
    "if __name__ == '__main__':\n    main()",
    "__all__ = ['a']",
]


@pytest.mark.parametrize("text", CHANGED)
def test_a_mutant_differs_by_one_mistake(text: str) -> None:
    found = [mutant.apply(text) for same in mutants(text).values() for mutant in same]
    assert set(found) == CHANGED[text]
    assert len(found) == len(CHANGED[text])


@pytest.mark.parametrize("text", UNCHANGED)
def test_what_does_nothing_at_run_time_has_no_mutants(text: str) -> None:
    assert not mutants(text)


def test_a_mutant_knows_its_line_and_those_of_its_statement() -> None:
    text = "if a == (\n    1\n):\n    b(\n        2\n    )\n"
    found = mutants(text)
    assert {line: {mutant.statement for mutant in same} for line, same in found.items()} == {
        1: {(1, 3)},
        2: {(1, 3)},
        4: {(4, 6)},
        5: {(4, 6)},
    }


def test_what_is_no_longer_python_is_known() -> None:
    text = "match a:\n    case 1:\n        pass\n"
    assert {
        mutant.apply(text): mutant.compiles(text)
        for same in mutants(text).values()
        for mutant in same
    } == {text.replace("1", "2"): True, text.replace("1", "(0)"): True}


def frozen_in(text: str, after: str) -> Frozen:
    """Describe the mutant of a text that puts this in."""
    found = [mutant for same in mutants(text).values() for mutant in same]
    return Frozen.of("a.py", text, next(m for m in found if m.replacement == after))


ORIGINAL = """
def f(a):
    return a + 1


class C:
    def g(self, a):
        return a + 1
"""


def test_frozen_mutant_names_its_function_and_replaced_text() -> None:
    frozen = [
        (found.line, found.column, found.function, found.text, found.before)
        for same in mutants(ORIGINAL).values()
        for found in (Frozen.of("a.py", ORIGINAL, mutant) for mutant in same)
        if found.after == "(a - 1)"
    ]
    assert frozen == [
        (3, 7, "f", "return a + 1", "a + 1"),
        (8, 7, "C.g", "return a + 1", "a + 1"),
    ]


@pytest.mark.parametrize(
    ("present", "line"),
    [
        (f"import b\n\n{ORIGINAL}", 5),
        (ORIGINAL.replace("return", "b = 1\n    return", 1), 4),
        (ORIGINAL.replace("def f(", "def renamed("), 3),
        (
            ORIGINAL.replace("def f(a):\n    return a + 1", "def f(a):\n    return (\n a +  1)"),
            None,
        ),
        (ORIGINAL.replace("a + 1", "a + 2"), None),
        (ORIGINAL.replace("    return a + 1\n", "    if a:\n        return a + 1\n", 1), 4),
        ("x = 1\n", None),
    ],
)
def test_frozen_mutant_is_found_after_its_line_has_shifted(present: str, line: int | None) -> None:
    found = frozen_in(ORIGINAL, "(a - 1)").find(present)
    assert (found and found.line) == line


def test_frozen_mutant_is_found_in_a_reformatted_line_if_its_text_is_long() -> None:
    text = "def f():\n    return first_function(first_argument, second_argument)\n"
    frozen = frozen_in(text, "return None")
    reformatted = text.replace("(first_", "(\n        first_").replace("t)\n", "t,\n    )\n")
    found = frozen.find(reformatted)
    assert found is not None
    assert found.apply(reformatted) == "def f():\n    return None\n"


def test_list_of_mutants_is_read_as_it_was_written(tmp_path: Path) -> None:
    later = frozen_in(ORIGINAL, "return None").judged(True, ["tests/test_a.py::test_a[é]"])
    earlier = frozen_in("b = 'é'", "'éX'")
    save(tmp_path / "list.json", [later, earlier])
    assert load(tmp_path / "list.json") == [earlier, later]
    assert len((tmp_path / "list.json").read_text("utf-8").splitlines()) == 4


def test_shares_of_packages_follow_their_sizes_with_a_minimum() -> None:
    assert shares({"a": 900, "b": 90, "c": 2, "d": 8}, 100) == {"a": 86, "b": 9, "c": 2, "d": 3}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """A copy of a checkout with one function and its tests."""
    if sys.platform != "linux":
        pytest.skip("the fork server finds processes in /proc")
    root = tmp_path_factory.mktemp("checkout")
    (root / "tests").mkdir()
    (root / "a.py").write_text(
        "from time import sleep\ndef f(a):\n    while a < 3: sleep(0.01); a += 1\n    return a\n"
    )
    (root / "tests" / "test_a.py").write_text(
        "from a import f\n"
        "def test_flaw(): assert f(1) == 4\n"
        "def test_sum(): assert f(1) == 3\n"
        "def test_leaves_a_process():\n"
        "    import subprocess\n"
        "    command = ['sh', '-c', 'echo $$ > ../pid; exec sleep 600']\n"
        "    subprocess.Popen(command, start_new_session=True)\n"
        "    while not __import__('pathlib').Path('../pid').exists(): pass\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        # Plugins take longer to import than all of these tests.
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        patch.setenv("PYTEST_PLUGINS", "xdist.plugin")
        copy = Copy(root, tmp_path_factory.mktemp("copy"))
    copy.run(["tests/test_a.py"], 60, collect=True)
    yield copy
    copy.close()


@pytest.mark.process
@pytest.mark.parametrize(
    ("after", "recorded", "timeout"),
    [
        ("return None", ["tests/test_gone.py::test_a", "tests/test_a.py::test_flaw"], False),
        ("(a <= 3)", [], False),
        ("a -= 1", ["tests/test_a.py::test_sum[case]"], True),
    ],
)
def test_mutant_is_caught_by_a_test_that_passes_without_it(
    copy: Copy, monkeypatch: pytest.MonkeyPatch, after: str, recorded: list[str], timeout: bool
) -> None:
    monkeypatch.setattr(judge, "_LEAST_SECONDS", 3 if timeout else 60)
    monkeypatch.setattr(judge, "_TIMES_EXPECTED", 0)
    text = (copy.root / "a.py").read_text()
    mutant = next(m for same in mutants(text).values() for m in same if m.replacement == after)
    verdict = Judge(copy, Selection(copy.root, []), 60).judge("a.py", mutant, recorded)
    assert (verdict.caught, verdict.by, verdict.timeout) == (
        True,
        ["tests/test_a.py::test_sum"],
        timeout,
    )
    assert (copy.root / "a.py").read_text() == text


@pytest.mark.process
def test_no_process_outlives_its_request(copy: Copy) -> None:
    response = copy.run(["tests/test_a.py::test_leaves_a_process"], 60)
    assert (response["code"], response["ran"]) == (0, 1)
    pid = int((copy.root.parent / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
