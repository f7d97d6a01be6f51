"""End date and clinical status of a C-CDA allergy.

An end after the day on which the document was made has not come, and ends nothing. C-CDA R2.1 reads
an end with nullFlavor UNK as resolved on a date that is not known; documents also have it where
nothing at all is known of the times. Source: Allergy - Intolerance Observation, effectiveTime.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fhirapp.features.imports.ccda.entries import CcdaEntry
from fhirapp.features.imports.ccda.narrative import Column, Texts, plain, unique
from fhirapp.features.imports.ccda.reactions import words_of_value
from fhirapp.features.imports.ccda.status_words import status_named, statuses_in
from fhirapp.features.imports.ccda.substances import observations_of
from fhirapp.features.imports.ccda.times import calendar_time, date_time, is_placeholder
from fhirapp.features.imports.ccda.tree import NOTHING, CcdaElement
from fhirapp.features.imports.ccda.values import MAPS, has_code, is_ahead

# C-CDA's Allergy Status Observation.
_STATUS_TEMPLATE = "2.16.840.1.113883.10.20.22.4.28"
_STATUSES = MAPS["statuses"]


class End(NamedTuple):
    """The end of an allergy in words, "" if it has none; is_over and is_doubtful classify it."""

    words: str = ""
    is_over: bool = False
    is_doubtful: bool = False


def end_of(observation: CcdaElement, made: str) -> End:
    """Return the end of an allergy; made is when its document was."""
    low, high = (observation.first(f"effectiveTime/{end}") or NOTHING for end in ("low", "high"))
    written = high.get("value")
    if not written:
        if high.null_flavor != "UNK":
            return End()
        if not date_time(low.get("value")):
            return End("end not known", is_doubtful=True)
        return End("ended on a date that is not known", is_over=True, is_doubtful=True)
    # A date that the calendar does not have still has a year.
    day, year = calendar_time(written), calendar_time(written[:4])
    words = f"end given as {day or written}"
    if (day or year) and is_ahead(day or year, made):
        return End(f"{words}, after the date of the document")
    if not year or is_placeholder(written):
        return End(words, is_doubtful=True)
    return End(f"ended {day}" if day else words, is_over=True)


def observed_statuses(entry: CcdaEntry) -> tuple[list[str], list[str]]:
    """Return the statuses that are observed, and the words of those that are none of FHIR's.

    Those of the allergy come before those of its concern, which count where it has none.
    """
    for statement in entry.statements:
        statuses: list[str] = []
        unclear: list[str] = []
        for observation in observations_of([statement], _STATUS_TEMPLATE, "33999-4"):
            values = [_read_value(value, entry.texts) for value in observation.all("value")]
            text = entry.texts.of(observation.first("text"))
            known = [status for codes, words in values for status in (*codes, *_statuses_in(words))]
            known += _statuses_in([text])
            statuses += known
            unclear += [
                word
                for codes, words in (*values, ([], [] if known else [text]))
                if not (codes or _statuses_in(words))
                for word in words
            ]
        if statuses or any(unclear):
            return statuses, unique(unclear)
    return [], []


def _read_value(value: CcdaElement, texts: Texts) -> tuple[list[str], list[str]]:
    """Return the statuses that the codes of a value mean, and its words."""
    codes = [status for code, status in _STATUSES.items() if has_code(value, code)]
    return codes, words_of_value(value, texts)


def _statuses_in(words: Iterable[str]) -> list[str]:
    return [status for text in words for status in statuses_in(text)]


def statuses_beside(entry: CcdaEntry, comments: Iterable[str]) -> Iterator[str]:
    """Yield the statuses that other words of an entry and its part of the narrative name.

    A cell or a comment counts as a whole: a part of it may be about something else.
    """
    for statement in entry.statements:
        for text in statement.all("text"):
            yield from statuses_in(plain(text))
    yield from map(status_named, comments)
    block = entry.block
    if block is not None and block.element.name == "tr":
        columns = (Column.NOTE,) if Column.STATUS in block.columns.values() else (Column.NOTE, None)
        for cell in block.element.elements:
            if block.columns.get(cell) in columns:
                yield status_named(plain(cell))
    elif block is not None and entry.is_only:
        yield from statuses_in(block.text)
