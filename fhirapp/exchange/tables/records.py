"""The records of CSV: cells between separators, quoted where they hold one. RFC 4180.

Python's csv keeps neither the text of a record nor where a quote was left open; both are needed to
say what is wrong with it, and to read on after it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from fhirapp.exchange.tables.lines import LONGEST, Line

_INSIDE = re.compile('[^"]*+(?:""[^"]*+)*+')
_OPENING = re.compile(' *"')
_SPACES = re.compile(" *")
# More than any table has: a line of nothing but separators does not fill the memory.
MOST_CELLS = 500
# Of one record, whose lines are held until it ends.
MOST_LINES = 100_000


class Record(NamedTuple):
    """A record, which begins at line number; where it has a fault it has no cells."""

    number: int
    text: bytes
    cells: list[str]
    note: str = ""
    fault: str = ""


class _Broken(ValueError):
    """A record whose quotes do not fit together."""


def records_of(lines: Iterator[Line], separator: str, number: int) -> Iterator[Record]:
    """Yield the records, the first of which begins at line number.

    A quote that is never closed spoils its own line only: the others are read as if it were none.
    """
    waiting: deque[Line] = deque()

    def following() -> Line | None:
        return waiting.popleft() if waiting else next(lines, None)

    while (line := following()) is not None:
        taken = [line]
        cells = _Cells(separator)
        size = len(line.text)
        try:
            if line.fault:
                raise _Broken(line.fault)
            while not cells.take(line.text):
                following_line = following()
                full = size > LONGEST or len(taken) >= MOST_LINES
                if following_line is None or following_line.fault or full:
                    if following_line is not None:
                        waiting.appendleft(following_line)
                    raise _Broken("has a quoted cell that is never closed")
                line = following_line
                taken.append(line)
                size += len(line.text)
        except _Broken as error:
            waiting.extendleft(reversed(taken[1:]))
            yield Record(number, taken[0].raw, [], fault=str(error))
            number += 1
            continue
        note = next((one.note for one in taken if one.note), "")
        yield Record(number, b"".join(one.raw for one in taken), cells.found, note)
        number += len(taken)


class _Cells:
    """The cells of a record, taken from one line after the other."""

    def __init__(self, separator: str) -> None:
        self.found: list[str] = []
        self._separator = separator
        # The parts of a quoted cell that is not closed yet.
        self._open: list[str] | None = None

    def take(self, line: str) -> bool:
        """Take a line; return whether the record ends with it. Raises _Broken."""
        end = len(line.rstrip("\r\n"))
        if self._open is None and '"' not in line:
            self.found = line[:end].split(self._separator, MOST_CELLS)
            return self._counted()
        place = 0
        while place <= end:
            self._counted()
            if self._open is None:
                opening = _OPENING.match(line, place)
                if opening is None:
                    place = self._plain(line, place, end)
                    continue
                self._open = []
                place = opening.end()
            inside = _INSIDE.match(line, place)
            assert inside is not None  # It matches the empty text.
            self._open.append(inside[0])
            if inside.end() == len(line):
                return False
            self.found.append("".join(self._open).replace('""', '"'))
            self._open = None
            place = self._after(line, inside.end() + 1, end)
        return self._counted()

    def _counted(self) -> bool:
        if len(self.found) > MOST_CELLS:
            raise _Broken(f"has more than {MOST_CELLS} cells")
        return True

    def _plain(self, line: str, place: int, end: int) -> int:
        """Take a cell without quotes; return where the next begins, beyond the end after the last.

        A quote inside it is a character like any other: 5" tube.
        """
        close = line.find(self._separator, place, end)
        close = end if close < 0 else close
        self.found.append(line[place:close])
        return close + 1

    def _after(self, line: str, place: int, end: int) -> int:
        """Return where the cell after a quoted one begins."""
        spaces = _SPACES.match(line, place, end)
        assert spaces is not None  # It matches the empty text.
        place = spaces.end()
        if place < end and line[place] != self._separator:
            raise _Broken("has a quoted cell that does not end at a separator: is a quote missing?")
        return place + 1
