"""What differs between two texts, line beside line, with the words that changed marked.

Beside each change stands the heading of its section, also where that is far above; a section of
allergies is shown whole where any of it is, for what did not change in it matters as much.

difflib's time grows with the square of what differs, or worse; so what it is given is bounded: what
is longer is compared by paragraphs, and what is longer still not at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal, NamedTuple

# Lines, or paragraphs, of either text that are compared after what is alike at both ends; words of
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
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if max(len(middle_old), len(middle_new)) > _MOST_LINES:
        return None
    rows = [_same(line, at, at) for at, line in enumerate(old[:head], 1)]
    matcher = SequenceMatcher(None, middle_old, middle_new, autojunk=False)
    for tag, low, high, from_, to in matcher.get_opcodes():
        left = [(line, head + low + at) for at, line in enumerate(middle_old[low:high], 1)]
        right = [(line, head + from_ + at) for at, line in enumerate(middle_new[from_:to], 1)]
        if tag == "equal":
            rows += [_same(line, n, m) for (line, n), (_, m) in zip(left, right, strict=True)]
        else:
            rows += [_pair(before, after) for before, after in zip_longest(left, right)]
    shift = len(new) - len(old)
    start = len(old) - tail
    rows += [_same(line, start + at, start + at + shift) for at, line in enumerate(old[start:], 1)]
    return rows


_Numbered = tuple[str, int]


def _same(line: str, left: int, right: int) -> DiffRow:
    pieces = (DiffSpan(_cut(line), is_changed=False),)
    return DiffRow("same", pieces, pieces, left, right)


def _pair(left: _Numbered | None, right: _Numbered | None) -> DiffRow:
    if left is None and right is not None:
        return DiffRow("added", right=_whole(right[0]), right_number=right[1])
    if right is None and left is not None:
        return DiffRow("removed", left=_whole(left[0]), left_number=left[1])
    assert left is not None
    assert right is not None
    left_spans, right_spans = _words(left[0], right[0])
    return DiffRow("changed", left_spans, right_spans, left[1], right[1])


def _whole(line: str) -> tuple[DiffSpan, ...]:
    return (DiffSpan(_cut(line), is_changed=True),)


def _cut(line: str) -> str:
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"


def _words(left: str, right: str) -> tuple[tuple[DiffSpan, ...], tuple[DiffSpan, ...]]:
    """Return two lines, the words that differ marked; all of it where there are too many."""
    old, new = (_WORDS.findall(line) for line in (_cut(left), _cut(right)))
    if max(len(old), len(new)) > _MOST_WORDS:
        return _whole(left), _whole(right)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < 0.3:
        # Two lines that happen to stand beside one another.
        return _whole(left), _whole(right)
    left_spans: list[DiffSpan] = []
    right_spans: list[DiffSpan] = []
    for tag, low, high, from_, to in matcher.get_opcodes():
        left_text, right_text = "".join(old[low:high]), "".join(new[from_:to])
        # A space between two words that changed is no place to begin anew.
        is_changed = tag != "equal" or not left_text.strip()
        _add(left_spans, left_text, is_changed=is_changed)
        _add(right_spans, right_text, is_changed=is_changed)
    return tuple(left_spans), tuple(right_spans)


def _add(pieces: list[DiffSpan], text: str, *, is_changed: bool) -> None:
    if pieces and pieces[-1].is_changed == is_changed:
        text = pieces.pop().text + text
    if text:
        pieces.append(DiffSpan(text, is_changed))


def _fold(rows: Sequence[DiffRow]) -> Iterator[DiffRow]:
    """Yield the rows, long stretches that are alike as one that tells how many.

    After such a stretch the heading of the section is repeated, unless it stands there anyway.
    """
    sections = list(_sections(rows))
    changed = [at for at, row in enumerate(rows) if row.state != "same"]
    near = bytearray(len(rows))
    for at in changed:
        low, high = max(0, at - _KEPT_AROUND), min(len(rows), at + _KEPT_AROUND + 1)
        near[low:high] = b"\1" * (high - low)
    for begin in {sections[at] for at, is_near in enumerate(near) if is_near} - {-1}:
        if _ALLERGIES.match(_text(rows[begin])):
            end = next((n for n in range(begin, len(rows)) if sections[n] != begin), len(rows))
            end = min(end, begin + _MOST_OF_SECTION)
            near[begin:end] = b"\1" * (end - begin)
    alike = 0
    for at, row in enumerate(rows):
        if not near[at]:
            alike += 1
            continue
        if alike:
            yield DiffRow("gap", alike=alike)
            if 0 <= sections[at] < at:
                yield DiffRow("heading", rows[sections[at]].left or rows[sections[at]].right)
            alike = 0
        yield row
    if alike:
        yield DiffRow("gap", alike=alike)


def _sections(rows: Sequence[DiffRow]) -> Iterator[int]:
    """Yield for each row where the heading of its section stands; -1 before the first."""
    heading = -1
    for at, row in enumerate(rows):
        if _is_heading(_text(row)):
            heading = at
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
    return (
        head[0].isupper() and len(head.split()) <= _WORDS_OF_HEADING and bool(_ABOUT.search(head))
    )


def _text(row: DiffRow) -> str:
    return "".join(piece.text for piece in row.right or row.left)
