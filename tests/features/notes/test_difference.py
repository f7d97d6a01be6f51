"""The comparison of two texts."""

from __future__ import annotations

import random

import pytest

from fhirapp.features.notes.difference import DiffRow, difference


def sides(row: DiffRow) -> tuple[str, str, str]:
    """Return a row's state and its two sides, with brackets around what is changed."""
    left, right = (
        "".join(f"[{piece.text}]" if piece.is_changed else piece.text for piece in side)
        for side in (row.left, row.right)
    )
    return row.state, left, right


def compared(before: list[str], after: list[str]) -> list[DiffRow]:
    return list(difference("\n".join(before), "\n".join(after)).rows)


def numbered(count: int) -> list[str]:
    return [f"line {number}" for number in range(count)]


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ("a\nb", "a\nb", [("gap", "", "")]),
        ("", "a", [("added", "", "[a]")]),
        ("a", "", [("removed", "[a]", "")]),
        ("a\nc", "a\nb\nc", [("same", "a", "a"), ("added", "", "[b]"), ("same", "c", "c")]),
        ("5 mg daily.", "50 mg daily.", [("changed", "[5] mg daily.", "[50] mg daily.")]),
        (
            "no growth so far, pending",
            "no growth after five days, pending",
            [("changed", "no growth [so far], pending", "no growth [after five days], pending")],
        ),
        ("one thing", "quite another", [("changed", "[one thing]", "[quite another]")]),
    ],
)
def test_similar_lines_are_paired_and_changed_words_marked(before, after, rows):
    found = difference(before, after)
    assert [sides(row) for row in found.rows] == rows
    assert found.is_none is (before == after)


def test_unchanged_lines_are_counted_and_line_numbers_hold():
    before = numbered(100)
    rows = compared(before, [*before[:50], "new", *before[50:]])
    assert [row.alike for row in rows if row.state == "gap"] == [47, 47]
    assert [row.right_number for row in rows if row.state == "added"] == [51]
    last = [row for row in rows if row.state == "same"][-1]
    assert (last.left_number, last.right_number) == (53, 54)
    rows = compared([*"abcd"], [*"axycd"])
    same = [(row.left_number, row.right_number) for row in rows if row.state == "same"]
    assert same == [(1, 1), (3, 4), (4, 5)]


@pytest.mark.parametrize(
    ("lines", "gap", "unit"),
    [(700, "\n", "lines"), (3_000, "\n", "paragraphs"), (3_000, "\n\n", "")],
)
def test_very_different_texts_are_compared_by_paragraphs_or_not_at_all(lines, gap, unit):
    before, after = (
        gap.join(f"word {chance.randrange(50)} of a line" for _ in range(lines))
        for chance in (random.Random(1), random.Random(2))
    )
    assert difference(before, after).unit == unit


def test_change_in_a_long_text_is_found_by_lines():
    lines = numbered(20_000)
    found = difference("\n".join(lines), "\n".join([*lines[:10_000], "new", *lines[10_000:]]))
    assert (found.unit, found.added, found.removed) == ("lines", 1, 0)


def test_very_long_line_is_cut():
    found = difference("a " * 100_000, "b " * 100_000)
    assert max(len(piece.text) for row in found.rows for piece in row.left) < 21_000


def test_change_is_shown_under_the_heading_of_its_section():
    body = numbered(20)
    before = ["HOSPITAL COURSE", *body, "given 5 mg", "Plan:", *body, "see him in May"]
    after = [*before]
    after[21], after[-1] = "given 50 mg", "see him in June"
    rows = compared(before, after)
    headings = [row for row in rows if row.state == "heading"]
    # A heading is not repeated where it is in view.
    assert [sides(row)[1] for row in headings] == ["HOSPITAL COURSE", "Plan:"]
    assert rows[rows.index(headings[0]) - 1].state == "gap"


def test_heading_is_recognized():
    lines = {
        **dict.fromkeys(("ASSESSMENT", "ASSESSMENT AND PLAN", "Anything at all:"), True),
        **dict.fromkeys(("## Past history", "Known problems", "Medications: none"), True),
        **dict.fromkeys(("Dose: 5 mg", "no allergies", "BP 120/80", "T 36.8", "A", ""), False),
        "He has a history of asthma, with allergies": False,
    }
    body = numbered(10)
    found = {line: compared([line, *body, "old"], [line, *body, "new"]) for line in lines}
    assert {line: "heading" in [row.state for row in rows] for line, rows in found.items()} == lines


def test_changed_section_of_allergies_is_shown_whole():
    allergies, other = [f"- substance {number}" for number in range(12)], numbered(12)
    before = ["Medications:", *other, "Allergies:", *allergies, "Plan:", *other]
    for changed in ("- substance 0", "line 11"):
        after = [f"{line}: severe" if line == changed else line for line in before]
        shown = [sides(row)[2] for row in compared(before, after)]
        assert {"Allergies:", *allergies[1:]} <= {*shown}
        assert "line 5" not in shown
