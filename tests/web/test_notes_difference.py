"""What differs between two texts."""

from __future__ import annotations

import random
import time

import pytest

from fhirapp.web.notes.difference import Row, difference


def told(row: Row) -> tuple[str, str, str]:
    left, right = (
        "".join(f"[{one.text}]" if one.is_changed else one.text for one in side)
        for side in (row.left, row.right)
    )
    return row.state, left, right


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ("a\nb", "a\nb", [("gap", "", "")]),
        ("", "a", [("added", "", "[a]")]),
        ("a", "", [("removed", "[a]", "")]),
        ("a\nc", "a\nb\nc", [("same", "a", "a"), ("added", "", "[b]"), ("same", "c", "c")]),
        (
            "Give 5 mg daily.",
            "Give 50 mg daily.",
            [("changed", "Give [5] mg daily.", "Give [50] mg daily.")],
        ),
        (
            "no growth so far, pending",
            "no growth after five days, pending",
            [
                (
                    "changed",
                    "no growth [so far], pending",
                    "no growth [after five days], pending",
                )
            ],
        ),
        ("one thing", "quite another", [("changed", "[one thing]", "[quite another]")]),
    ],
)
def test_lines_stand_beside_their_like_and_words_that_differ_are_marked(before, after, rows):
    assert [told(row) for row in difference(before, after).rows] == rows


def test_texts_that_are_alike_have_no_difference():
    assert difference("a\nb", "a\nb").is_none
    assert difference("", "").is_none
    assert not difference("a", "b").is_none


def test_long_stretches_that_are_alike_are_told_by_their_number():
    before = [f"line {n}" for n in range(100)]
    after = [*before[:50], "new", *before[50:]]
    rows = difference("\n".join(before), "\n".join(after)).rows
    assert [row.alike for row in rows if row.state == "gap"] == [47, 47]
    assert [row.right_number for row in rows if row.state == "added"] == [51]
    assert [(row.left_number, row.right_number) for row in rows if row.state == "same"][-1] == (
        53,
        54,
    )


def test_numbers_of_lines_hold_at_both_ends():
    before, after = "a\nb\nc\nd", "a\nx\ny\nc\nd"
    rows = [row for row in difference(before, after).rows if row.state == "same"]
    assert [(row.left_number, row.right_number) for row in rows] == [(1, 1), (3, 4), (4, 5)]


def noise(lines: int, kinds: int, seed: int, *, apart: bool) -> str:
    chance = random.Random(seed)
    gap = "\n\n" if apart else "\n"
    return gap.join(f"word {chance.randrange(kinds)} of a line" for _ in range(lines))


@pytest.mark.parametrize(
    ("lines", "apart", "unit"),
    [(700, False, "lines"), (5_000, False, "paragraphs"), (40_000, False, ""), (10_000, True, "")],
)
def test_what_would_take_too_long_is_compared_by_paragraphs_or_not_at_all(lines, apart, unit):
    for kinds in (2, 50, 1_000_000):
        one, other = (noise(lines, kinds, seed, apart=apart) for seed in (1, 2))
        began = time.perf_counter()
        found = difference(one, other)
        assert time.perf_counter() - began < 30
        assert found.unit == unit


def test_a_change_in_a_very_long_text_is_found_by_lines():
    lines = [f"line {n}" for n in range(50_000)]
    found = difference("\n".join(lines), "\n".join([*lines[:25_000], "new", *lines[25_000:]]))
    assert (found.unit, found.added, found.removed) == ("lines", 1, 0)


def test_one_line_of_a_megabyte_is_cut():
    found = difference("a " * 500_000, "b " * 500_000)
    assert max(len(piece.text) for row in found.rows for piece in row.left) < 21_000


def test_beside_a_change_stands_the_heading_of_its_section():
    body = [f"line {n}" for n in range(20)]
    before = ["HOSPITAL COURSE", *body, "given 5 mg", "Plan:", *body, "see him in May"]
    after = [*before]
    after[21], after[-1] = "given 50 mg", "see him in June"
    rows = difference("\n".join(before), "\n".join(after)).rows
    headings = [told(row)[1] for row in rows if row.state == "heading"]
    assert headings == ["HOSPITAL COURSE", "Plan:"]
    # It is not repeated where it stands in view.
    assert [row.state for row in rows].count("heading") == 2
    at = [row.state for row in rows].index("heading")
    assert rows[at - 1].state == "gap"


@pytest.mark.parametrize(
    ("line", "is_heading"),
    [
        ("ASSESSMENT", True),
        ("ASSESSMENT AND PLAN", True),
        ("Anything at all:", True),
        ("## Past history", True),
        ("Known problems", True),
        ("Medications: none", True),
        ("Dose: 5 mg", False),
        ("no allergies", False),
        ("He has a history of asthma, with allergies", False),
        ("BP 120/80", False),
        ("T 36.8", False),
        ("A", False),
        ("", False),
    ],
)
def test_what_heads_a_section_is_told_from_what_does_not(line, is_heading):
    before = [line, *(f"line {n}" for n in range(10)), "old"]
    rows = difference("\n".join(before), "\n".join([*before[:-1], "new"])).rows
    assert ("heading" in [row.state for row in rows]) == is_heading


@pytest.mark.parametrize("changed", ["- substance 0", "line 11"])
def test_a_section_of_allergies_is_shown_whole_where_any_of_it_is(changed):
    allergies = [f"- substance {n}" for n in range(12)]
    other = [f"line {n}" for n in range(12)]
    before = ["Medications:", *other, "Allergies:", *allergies, "Plan:", *other]
    after = [f"{line}: severe" if line == changed else line for line in before]
    shown = [told(row)[2] for row in difference("\n".join(before), "\n".join(after)).rows]
    assert all(one in shown for one in ("Allergies:", *allergies[1:]))
    assert "line 5" not in shown
