"""The mistakes that the mutation check makes: what becomes of a line, and what is left alone."""

from __future__ import annotations

import pytest

from tests.bench.mutants import mutants

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
