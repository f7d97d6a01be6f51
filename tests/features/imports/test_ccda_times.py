"""Times of clinical documents, in C-CDA's form and with dashes. More is in tests/ccda/rules."""

from __future__ import annotations

import json
import re

import pytest

from fhirapp.features.imports.ccda.values import date_time
from fhirapp.fhir.temporal import normalise_date_time
from tests.support.ccda_samples import NAMES, Resource, only, read, sample, served

pytestmark = pytest.mark.usefixtures("_unread_documents")

TIMES = {
    "2024": "2024",
    "202403": "2024-03",
    "20240301": "2024-03-01",
    "20240301-0500": "2024-03-01",
    "2024030115-0500": "2024-03-01",
    "202403011530": "2024-03-01",
    "20240301153000": "2024-03-01",
    "202403011530-0500": "2024-03-01T15:30:00-05:00",
    "20240301153045+0100": "2024-03-01T15:30:45+01:00",
    "20240301153045+01": "2024-03-01T15:30:45+01:00",
    "20240301153000.123+0100": "2024-03-01T15:30:00.123+01:00",
    "20240301153000.123456789+0000": "2024-03-01T15:30:00.123456789+00:00",
    "20240229": "2024-02-29",
    "20240301153060+0000": "2024-03-01T15:30:60+00:00",
    "1980-05": "1980-05",
    "1980-05-10": "1980-05-10",
    "1980-05-10T12:30:00+01:00": "1980-05-10T12:30:00+01:00",
    "1980-05-10T12:30:00.125-0330": "1980-05-10T12:30:00.125-03:30",
    "1980-05-10T12:30:00Z": "1980-05-10T12:30:00+00:00",
    "1980-05-10T12:30+01:00": "1980-05-10T12:30:00+01:00",
    # Without a zone the day is what is known.
    "1980-05-10T12:30:00": "1980-05-10",
    "1980-0500": "1980",
}
NO_TIMES = (
    *("", "garbage", "20240", "2024030", "202403011", "20241301", "20240230", "00000000", "٢٠٢٤"),
    *("20240301240000+0000", "20240301153000+1500", "20240301153000Z", "20240301153000+05000"),
    *("20240301153000.+0000", "20240301 ", "99999999999999999999", "2024-3-1", "2024-02-30"),
    *("2024/03/01", "01-03-2024", "01.03.2024", "2024-03-01 15:30:00", "2024-03-01T15"),
    *("2024-03-01T25:00:00Z", "2024-03-01T15:30+1"),
)


def test_a_time_is_as_exact_as_it_was_written():
    assert {written: date_time(written) for written in TIMES} == TIMES
    assert all(map(normalise_date_time, TIMES.values()))


def test_a_text_that_is_no_time_gives_none():
    assert [written for written in NO_TIMES if date_time(written) != ""] == []


# The value of a time: its day, its time of day to the minute or second, its zone.
VALUE = re.compile(
    r'(<(?:\w+:)?(?:effectiveTime|time|low|high|birthTime|deceasedTime)\b[^>]*?\bvalue=")'
    r"(\d{8})(?:(\d\d)(\d\d)(\d\d)?([+-]\d{4})?)?(?=\")"
)


def dashed(document: str) -> str:
    """Return a document with its times written as 2024-03-01T15:30:00-05:00."""

    def written(found: re.Match[str]) -> str:
        start, day, hour, minute, second, zone = found.groups()
        time = f"T{hour}:{minute}:{second or '00'}{zone or ''}" if hour else ""
        return f"{start}{day[:4]}-{day[4:6]}-{day[6:]}{time}"

    return VALUE.sub(written, document)


def without_originals(resources: list[Resource]) -> str:
    """Return resources without the attached document, and without the words of the source."""
    read_again = served(resources)
    del only(read_again, "DocumentReference")["content"][0]["attachment"]["data"]
    return re.sub(r'"valueString": "[^"]*"', '"valueString": ""', json.dumps(read_again))


def test_dates_with_dashes_are_read_in_every_element():
    for name in NAMES:
        text = sample(name).replace("ISO-8859-1", "UTF-8")
        assert dashed(text) != text
        assert without_originals(read(dashed(text))) == without_originals(read(text))
