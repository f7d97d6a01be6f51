"""What differs between two texts, line beside line, with the words that changed marked.

Beside each change stands the heading of its section, also where that is far above; a section of
allergies is shown whole where any of it is, for what did not change in it matters as much.

difflib's time grows with the square of what differs, or worse; so what it is given is bounded: what
is longer is compared by paragraphs, and what is longer still not at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby, zip_longest
from operator import itemgetter
from typing import Literal, NamedTuple

# Lines, or paragraphs, of either text that are compared between equal beginnings and ends; words of
# a line.
_MOST_LINES, _MOST_WORDS = 800, 200
# Characters of a line that is shown beside another.
_MOST_CHARACTERS = 20_000
_KEPT_AROUND = 3
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")

# What a section is about, as notes head it: alone on a line, or before a colon.
_ABOUT = re.compile(
    r"\b(?:allerg\w*|medications?|assessment|plan|diagnos[ei]s|history|subjective|objective"
    r"|impression|procedures?|exam(?:ination)?|findings|problems?|vitals?|labs?|results)\b",
    re.IGNORECASE,
)
_LONGEST_HEADING, _WORDS_OF_HEADING = 60, 4
_ALLERGIES = re.compile(r"\s*(?:#+ )?(?:drug |food |known )?allerg", re.IGNORECASE)
# Of a section of allergies, how many lines are shown though they are alike.
_MOST_OF_SECTION = 80

State = Literal["same", "changed", "removed", "added", "gap", "heading"]


class DiffSpan(NamedTuple):
    """A stretch of a line, and whether the other side has it too."""

    text: str
    is_changed: bool


class DiffRow(NamedTuple):
    """A line of both texts; a number is 0 where a side has none. Of a gap, how many are alike.

    A heading is that of the section in which the rows after it stand, and stands in left.
    """

    state: State
    left: tuple[DiffSpan, ...] = ()
    right: tuple[DiffSpan, ...] = ()
    left_number: int = 0
    right_number: int = 0
    alike: int = 0


class Difference(NamedTuple):
    """How two texts differ; unit is what was compared, "" where that would take too long."""

    rows: tuple[DiffRow, ...]
    unit: Literal["lines", "paragraphs", ""]
    added: int
    removed: int

    @property
    def is_none(self) -> bool:
        return bool(self.unit) and not self.added and not self.removed


def difference(before: str, after: str) -> Difference:
    """Return how two texts differ."""
    old, new = before.splitlines(), after.splitlines()
    rows = _diff_rows(old, new)
    if rows is not None:
        return _count(rows, "lines")
    rows = _diff_rows(_paragraphs(old), _paragraphs(new))
    return Difference((), "", 0, 0) if rows is None else _count(rows, "paragraphs")


def _count(rows: list[DiffRow], unit: Literal["lines", "paragraphs"]) -> Difference:
    added = sum(row.state in ("added", "changed") for row in rows)
    removed = sum(row.state in ("removed", "changed") for row in rows)
    return Difference(tuple(_fold(rows)), unit, added, removed)


def _paragraphs(lines: Sequence[str]) -> list[str]:
    """Return lines joined up to an empty one, or where there is none up to a good many."""
    found: list[list[str]] = [[]]
    for line in lines:
        if not line.strip() or len(found[-1]) >= 40:
            found.append([])
        if line.strip():
            found[-1].append(line)
    return ["\n".join(paragraph) for paragraph in found if paragraph]


def _diff_rows(old: Sequence[str], new: Sequence[str]) -> list[DiffRow] | None:
    """Return every line beside its like; None where there are too many that differ."""
    most = min(len(old), len(new))
    head = next((at for at in range(most) if old[at] != new[at]), most)
    most -= head
    tail = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
    old_end, new_end = len(old) - tail, len(new) - tail
    if max(old_end, new_end) - head > _MOST_LINES:
        return None
    matcher = SequenceMatcher(None, old[head:old_end], new[head:new_end], autojunk=False)
    pairs = [(at, at) for at in range(head)]
    for _tag, low, high, from_, to in matcher.get_opcodes():
        left, right = range(head + low, head + high), range(head + from_, head + to)
        pairs += zip_longest(left, right, fillvalue=_NONE)
    pairs += zip(range(old_end, len(old)), range(new_end, len(new)), strict=True)
    return [_row(old, new, left, right) for left, right in pairs]


# The place of a line that a side does not have.
_NONE = -1


def _row(old: Sequence[str], new: Sequence[str], left: int, right: int) -> DiffRow:
    if left == _NONE:
        return DiffRow("added", right=_span(new[right], is_changed=True), right_number=right + 1)
    if right == _NONE:
        return DiffRow("removed", _span(old[left], is_changed=True), left_number=left + 1)
    if old[left] == new[right]:
        spans = _span(old[left], is_changed=False)
        return DiffRow("same", spans, spans, left + 1, right + 1)
    return DiffRow("changed", *_words(old[left], new[right]), left + 1, right + 1)


def _span(line: str, *, is_changed: bool) -> tuple[DiffSpan, ...]:
    return (DiffSpan(_cut(line), is_changed),)


def _cut(line: str) -> str:
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"


def _words(left: str, right: str) -> tuple[tuple[DiffSpan, ...], tuple[DiffSpan, ...]]:
    """Return two lines, the words that differ marked; all of it where there are too many."""
    old, new = (_WORDS.findall(_cut(line)) for line in (left, right))
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    # Below this ratio two lines merely happen to stand beside one another.
    if max(len(old), len(new)) > _MOST_WORDS or matcher.ratio() < 0.3:
        return _span(left, is_changed=True), _span(right, is_changed=True)
    pieces = [
        ("".join(old[low:high]), "".join(new[from_:to]), tag != "equal")
        for tag, low, high, from_, to in matcher.get_opcodes()
    ]
    # A space between two words that changed is marked with them.
    pieces = [(was, now, is_changed or not was.strip()) for was, now, is_changed in pieces]
    return (
        _joined((was, is_changed) for was, _now, is_changed in pieces),
        _joined((now, is_changed) for _was, now, is_changed in pieces),
    )


def _joined(pieces: Iterable[tuple[str, bool]]) -> tuple[DiffSpan, ...]:
    """Return spans of neighbouring pieces that are changed alike."""
    groups = groupby((piece for piece in pieces if piece[0]), key=itemgetter(1))
    return tuple(
        DiffSpan("".join(text for text, _changed in group), is_changed)
        for is_changed, group in groups
    )


def _fold(rows: Sequence[DiffRow]) -> Iterator[DiffRow]:
    """Yield the rows, long stretches that are alike as one that tells how many.

    After such a stretch the heading of the section is repeated, unless it stands there anyway.
    """
    sections = list(_sections(rows))
    changed = [at for at, row in enumerate(rows) if row.state != "same"]
    shown = {near for at in changed for near in range(at - _KEPT_AROUND, at + _KEPT_AROUND + 1)}
    shown.intersection_update(range(len(rows)))
    for begin in {sections[at] for at in shown} - {_NONE}:
        if _ALLERGIES.match(_text(rows[begin])):
            shown.update(range(begin, begin + min(sections.count(begin), _MOST_OF_SECTION)))
    for is_shown, group in groupby(range(len(rows)), key=shown.__contains__):
        first, *others = group
        if not is_shown:
            yield DiffRow("gap", alike=1 + len(others))
            continue
        if first > 0 and _NONE < sections[first] < first:
            heading = rows[sections[first]]
            yield DiffRow("heading", heading.left or heading.right)
        yield from (rows[at] for at in (first, *others))


def _sections(rows: Sequence[DiffRow]) -> Iterator[int]:
    """Yield for each row the place of the heading of its section; _NONE before the first."""
    heading = _NONE
    for at, row in enumerate(rows):
        heading = at if _is_heading(_text(row)) else heading
        yield heading


def _is_heading(line: str) -> bool:
    """Say whether a line heads a section: "PLAN", "Past history:", "Allergies: penicillin"."""
    head, colon, rest = line.strip().lstrip("# ").partition(":")
    if not head or len(head) > _LONGEST_HEADING:
        return False
    if colon and (not rest.strip() or (_ABOUT.search(head) and head[0].isupper())):
        return True
    if colon or any(sign.isdigit() or sign in ".;,!?" for sign in head):
        return False
    if head.isupper():
        return len(head) > 2
    is_short = len(head.split()) <= _WORDS_OF_HEADING
    return head[0].isupper() and is_short and bool(_ABOUT.search(head))


def _text(row: DiffRow) -> str:
    return "".join(piece.text for piece in row.right or row.left)
