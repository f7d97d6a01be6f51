"""Times of clinical documents: as exact as they are, and no more."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from fhirapp.exchange.ccda.times import date_time
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.temporal import normalise_date_time
from tests.support.ccda_allergies import DRUG, LATEX, allergy_of, substance
from tests.support.ccda_samples import NAMES, Resource, only, read, sample
from tests.support.importing import load, stored, write

ORIGINAL = "http://hl7.org/fhir/StructureDefinition/originalText"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2024", "2024"),
        ("202403", "2024-03"),
        ("20240301", "2024-03-01"),
        ("20240301-0500", "2024-03-01"),
        ("2024030115-0500", "2024-03-01"),
        ("202403011530", "2024-03-01"),
        ("20240301153000", "2024-03-01"),
        ("202403011530-0500", "2024-03-01T15:30:00-05:00"),
        ("20240301153045+0100", "2024-03-01T15:30:45+01:00"),
        ("20240301153045+01", "2024-03-01T15:30:45+01:00"),
        ("20240301153000.123+0100", "2024-03-01T15:30:00.123+01:00"),
        ("20240301153000.123456789+0000", "2024-03-01T15:30:00.123456789+00:00"),
        ("20240229", "2024-02-29"),
        ("20240301153060+0000", "2024-03-01T15:30:60+00:00"),
        ("1980-05", "1980-05"),
        ("1980-05-10", "1980-05-10"),
        ("1980-05-10T12:30:00+01:00", "1980-05-10T12:30:00+01:00"),
        ("1980-05-10T12:30:00.125-0330", "1980-05-10T12:30:00.125-03:30"),
        ("1980-05-10T12:30:00Z", "1980-05-10T12:30:00+00:00"),
        ("1980-05-10T12:30+01:00", "1980-05-10T12:30:00+01:00"),
        # Without a zone the day is what is known.
        ("1980-05-10T12:30:00", "1980-05-10"),
        ("1980-0500", "1980"),
    ],
)
def test_a_time_is_as_exact_as_it_was_written(written, expected):
    assert date_time(written) == expected
    assert normalise_date_time(expected)


@pytest.mark.parametrize(
    "written",
    [
        *("", "garbage", "20240", "2024030", "202403011", "20241301", "20240230"),
        *("20240301240000+0000", "20240301153000+1500", "20240301153000Z", "00000000", "٢٠٢٤"),
        *("20240301153000+05000", "20240301153000.+0000", "20240301 ", "99999999999999999999"),
        *("2024-3-1", "2024-02-30", "2024/03/01", "01-03-2024", "01.03.2024"),
        *("2024-03-01 15:30:00", "2024-03-01T15", "2024-03-01T25:00:00Z", "2024-03-01T15:30+1"),
    ],
)
def test_what_is_no_time_gives_none(written):
    assert date_time(written) == ""


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ('<low value="20080501"/>', {"onsetDateTime": "2008-05-01"}),
        (
            '<low value="200805011200"/>',
            {
                "onsetDateTime": "2008-05-01",
                "_onsetDateTime": {"extension": [{"url": ORIGINAL, "valueString": "200805011200"}]},
            },
        ),
        ('<low value="2008-05-01"/>', {"onsetDateTime": "2008-05-01"}),
        (
            '<low value="2008-05-01T12:00"/>',
            {
                "onsetDateTime": "2008-05-01",
                "_onsetDateTime": {
                    "extension": [{"url": ORIGINAL, "valueString": "2008-05-01T12:00"}]
                },
            },
        ),
        ('<low value="about 2008"/>', {"onsetString": "about 2008"}),
        ('<low value="01.05.2008"/>', {"onsetString": "01.05.2008"}),
        ('<high value="2010"/>', {}),
    ],
)
def test_an_onset_that_is_no_time_is_kept_as_text(time, expected):
    found = allergy_of(f"<effectiveTime>{time}</effectiveTime>{DRUG}" + substance(LATEX))
    onset = {name: value for name, value in found.items() if "onset" in name}
    assert onset == expected


# Days from which systems count, or that they store without a date.
PLACEHOLDERS = [
    *("00010101", "0001-01-01", "0001", "00010101000000+0000", "0001-01-01T00:00:00+01:00"),
    *("00000000", "0000-00-00", "0000", "99991231", "99999999", "99991231235959-0500", "29991231"),
    *("18000101", "17530101", "11111111", "18401231", "18410101", "18581117", "18991230"),
    *("18991231", "19000101", "1900-01-01", "190001", "1900", "190001010000-0500"),
]
UNKNOWN = {
    "url": "http://hl7.org/fhir/StructureDefinition/data-absent-reason",
    "valueCode": "unknown",
}


def left_out(written: str) -> dict[str, Any]:
    """Return what stands beside an element whose placeholder is left out."""
    return {"extension": [UNKNOWN, {"url": ORIGINAL, "valueString": written}]}


@pytest.mark.parametrize("written", PLACEHOLDERS)
def test_an_onset_that_is_a_placeholder_is_not_known_and_a_note_says_so(written):
    time = f'<effectiveTime><low value="{written}"/></effectiveTime>'
    found = allergy_of(time + DRUG + substance(LATEX))
    onset = {name: value for name, value in found.items() if "onset" in name}
    assert onset == {"_onsetDateTime": left_out(written)}
    assert found["note"] == [{"text": f"The onset is not known: {written} is a placeholder."}]


@pytest.mark.parametrize(
    "written", ["19000102", "190002", "1901", "19010101", "18991229", "19700101", "20000101"]
)
def test_an_onset_long_ago_is_kept(written):
    time = f'<effectiveTime><low value="{written}"/></effectiveTime>'
    found = allergy_of(time + DRUG + substance(LATEX))
    assert found["onsetDateTime"] == date_time(written) != ""
    assert "note" not in found


@pytest.mark.parametrize("written", ["12052008", "1 January 0001", "long ago"])
def test_an_onset_that_may_be_a_date_is_kept_as_text(written):
    time = f'<effectiveTime><low value="{written}"/></effectiveTime>'
    assert allergy_of(time + DRUG + substance(LATEX))["onsetString"] == written


@pytest.mark.parametrize("written", PLACEHOLDERS)
def test_an_end_that_is_a_placeholder_ends_no_allergy(written):
    time = f'<effectiveTime><low value="2010"/><high value="{written}"/></effectiveTime>'
    ended = '<statusCode code="completed"/>'
    found = allergy_of(time + DRUG + substance(LATEX), concern=ended)
    assert found["clinicalStatus"]["coding"][0]["code"] == "active"
    assert "extension" not in found
    assert "end given as " in found["note"][0]["text"]


def test_an_author_whose_time_is_a_placeholder_recorded_nothing_in_the_year_one():
    times = ("00010101", "20200102", "99991231")
    authors = "".join(f'<author><time value="{time}"/></author>' for time in times)
    found = allergy_of(authors + DRUG + substance(LATEX))
    assert found["recordedDate"] == "2020-01-02"


@pytest.mark.parametrize("written", ["00010101", "19000101", "99991231", "0001-01-01", "unknown"])
def test_a_document_whose_time_is_no_date_has_that_of_its_last_author(written):
    document = sample("ccd")
    made = document.partition('<effectiveTime value="')[2].partition('"')[0]
    document = document.replace(
        f'<effectiveTime value="{made}"', f'<effectiveTime value="{written}"', 1
    )
    author = document.partition("<author>")[2].partition('<time value="')[2].partition('"')[0]
    document = document.replace(f'<time value="{author}"', '<time value="20240304050607+0000"', 1)
    found = only(read(document), "DocumentReference")
    assert found["date"] == "2024-03-04T05:06:07+00:00"


def test_a_period_with_placeholders_is_open():
    document = sample("discharge-summary")
    document = document.replace("202405091810-0700", "00010101").replace(
        "202405120900-0700", "99991231"
    )
    visit = only(read(document), "Encounter")
    assert visit["period"] == {"_start": left_out("00010101"), "_end": left_out("99991231")}
    assert visit["status"] == "unknown"


@pytest.mark.parametrize("written", ["00010101", "0000", "18000101", "99991231"])
def test_a_birth_date_that_is_a_placeholder_is_not_known(written):
    document = sample("unstructured").replace("19710412", written)
    patient = only(read(document), "Patient")
    assert "birthDate" not in patient
    assert patient["_birthDate"] == left_out(written)


def test_somebody_may_be_born_on_the_first_day_of_1900():
    document = sample("unstructured").replace("19710412", "19000101")
    assert only(read(document), "Patient")["birthDate"] == "1900-01-01"


@pytest.mark.parametrize(
    ("indicator", "expected"),
    [("false", {"deceasedBoolean": False}), ("true", {"deceasedBoolean": True}), ("", {})],
)
def test_a_time_of_death_that_is_a_placeholder_does_not_say_that_somebody_died(indicator, expected):
    said = f'<sdtc:deceasedInd value="{indicator}"/>' if indicator else ""
    time = '<sdtc:deceasedTime value="00010101"/>'
    document = sample("unstructured")
    birth = '<birthTime value="19710412"/>'
    assert birth in document
    document = document.replace(birth, f"{birth}{said}{time}")
    patient = only(read(document), "Patient")
    assert {name: value for name, value in patient.items() if "deceased" in name} == expected


@pytest.mark.parametrize(
    ("written", "is_named"),
    [("00010101", True), ("9999", True), ("19000101", False), ("19710412", False)],
)
def test_the_report_of_an_import_names_placeholders(empty, tmp_path, written, is_named):
    text = sample("unstructured").replace("19710412", written)
    report = load(empty, write(tmp_path, text.encode(), "document.xml"))
    remark = f"its dates have placeholders, such as {written}; they are read as not known"
    assert list(report.remarks) == [f"{tmp_path}/document.xml: {remark}"] * is_named


def test_a_birth_date_that_is_no_time_is_kept_beside_it():
    document = sample("unstructured").replace('birthTime value="19710412"', 'birthTime value="?"')
    patient = only(read(document), "Patient")
    assert "birthDate" not in patient
    assert patient["_birthDate"] == {"extension": [{"url": ORIGINAL, "valueString": "?"}]}


def test_the_time_of_birth_is_kept_beside_its_date():
    document = sample("unstructured").replace('value="19710412"', 'value="197104120615-0800"')
    patient = only(read(document), "Patient")
    assert patient["birthDate"] == "1971-04-12"
    assert patient["_birthDate"]["extension"][0]["valueDateTime"] == "1971-04-12T06:15:00-08:00"


@pytest.mark.parametrize(
    ("low", "high", "period"),
    [
        (
            "202405091810-0700",
            "20240509",
            # R4 per-1: ends that meet within a day are as exact as the day.
            {
                "start": "2024-05-09",
                "_start": {
                    "extension": [{"url": ORIGINAL, "valueString": "2024-05-09T18:10:00-07:00"}]
                },
                "end": "2024-05-09",
            },
        ),
        ("20240512", "20240509", {"start": "2024-05-12"}),
        ("202405091810-0700", "202405091709-0800", {"start": "2024-05-09T18:10:00-07:00"}),
    ],
)
def test_a_period_that_ends_before_it_begins_keeps_its_end_as_text(low, high, period):
    document = sample("discharge-summary")
    document = document.replace("202405091810-0700", low).replace("202405120900-0700", high)
    found = only(read(document), "Encounter")["period"]
    kept = found.pop("_end", None)
    assert found == period
    assert (kept is None) == ("end" in period)


@pytest.mark.parametrize(
    ("high", "status"),
    [
        ("202405120900-0700", "finished"),
        # The document was made on this day.
        ("20240512", "finished"),
        ("20240513", "unknown"),
        ("202405130900-0700", "unknown"),
        ("2024-05-13T09:00:00-07:00", "unknown"),
        ("20990101", "unknown"),
        ("9999", "unknown"),
    ],
)
def test_a_visit_whose_end_has_not_come_is_not_finished(high, status):
    document = sample("discharge-summary").replace("202405120900-0700", high)
    visit = only(read(document), "Encounter")
    assert visit["status"] == status


def test_a_visit_at_a_time_that_has_not_come_is_not_finished():
    document = sample("discharge-summary").replace(
        '<low value="202405091810-0700"/><high value="202405120900-0700"/>', ""
    )
    document = document.replace("<effectiveTime></effectiveTime>", '<effectiveTime value="2099"/>')
    assert '<effectiveTime value="2099"/>' in document
    assert only(read(document), "Encounter")["status"] == "unknown"


# The value of a time: its day, its time of day to the minute or second, its zone.
TIMES = re.compile(
    r'(<(?:\w+:)?(?:effectiveTime|time|low|high|birthTime|deceasedTime)\b[^>]*?\bvalue=")'
    r"(\d{8})(?:(\d\d)(\d\d)(\d\d)?([+-]\d{4})?)?(?=\")"
)


def dashed(document: str) -> str:
    """Return a document with its times written as 2024-03-01T15:30:00-05:00."""

    def written(found: re.Match[str]) -> str:
        start, day, hour, minute, second, zone = found.groups()
        time = f"T{hour}:{minute}:{second or '00'}{zone or ''}" if hour else ""
        return f"{start}{day[:4]}-{day[4:6]}-{day[6:]}{time}"

    return TIMES.sub(written, document)


def without_originals(resources: list[Resource]) -> list[Resource]:
    """Return resources without the attached document, and without the words of the source."""
    read_again = json.loads(fhir_json.dumps(resources))
    del only(read_again, "DocumentReference")["content"][0]["attachment"]["data"]
    shown = re.sub(r'"valueString": "[^"]*"', '"valueString": ""', json.dumps(read_again))
    return json.loads(shown)


@pytest.mark.parametrize("name", NAMES)
def test_dates_with_dashes_are_read_wherever_a_document_has_a_date(name):
    text = sample(name).replace("ISO-8859-1", "UTF-8")
    assert dashed(text) != text
    assert without_originals(read(dashed(text))) == without_originals(read(text))


@pytest.mark.parametrize(
    ("written", "as_c_cda"),
    [
        ("1980-05-10", "19800510"),
        ("1980-05", "198005"),
        ("1980-05-10T12:30:00+01:00", "19800510123000+0100"),
    ],
)
def test_the_report_of_an_import_names_dates_with_dashes(empty, tmp_path, written, as_c_cda):
    text = sample("unstructured")
    report = load(empty, write(tmp_path, text.encode(), "plain.xml"))
    assert not report.remarks
    text = text.replace('birthTime value="19710412"', f'birthTime value="{written}"')
    report = load(empty, write(tmp_path, text.encode(), "dashes.xml"))
    remark = (
        f"its dates have dashes, such as {written}; they are read as dates, but C-CDA requires "
        f"{as_c_cda}"
    )
    assert list(report.remarks) == [f"{tmp_path}/dashes.xml: {remark}"]


@pytest.mark.parametrize("names", [("a.xml", "b.xml"), ("b.xml", "a.xml")])
def test_the_newer_of_two_documents_counts_also_by_dates_with_dashes(empty, tmp_path, names):
    text = sample("ccd")
    made = text.partition('<effectiveTime value="')[2].partition('"')[0]
    for name, day in zip(names, ("2001-09-10", "2001-10-09"), strict=True):
        document = text.replace(
            f'<effectiveTime value="{made}"', f'<effectiveTime value="{day}"', 1
        )
        write(tmp_path / "documents", document.encode(), name)
    load(empty, tmp_path / "documents")
    together = stored(empty)
    load(empty, tmp_path / "documents" / names[1])
    assert stored(empty) == together
