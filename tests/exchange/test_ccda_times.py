"""Times of clinical documents: as exact as they are, and no more."""

from __future__ import annotations

import pytest

from fhirapp.exchange.ccda.values import date_time
from fhirapp.fhir.temporal import normalise_date_time
from tests.exchange.test_ccda import only, read, sample
from tests.exchange.test_ccda_allergies import DRUG, LATEX, allergy_of, substance

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
    ],
)
def test_a_time_is_as_exact_as_it_was_written(written, expected):
    assert date_time(written) == expected
    assert normalise_date_time(expected)


@pytest.mark.parametrize(
    "written",
    [
        *("", "garbage", "2024-03-01", "20240", "2024030", "202403011", "20241301", "20240230"),
        *("20240301240000+0000", "20240301153000+1500", "20240301153000Z", "00000000", "٢٠٢٤"),
        *("20240301153000+05000", "20240301153000.+0000", "20240301 ", "99999999999999999999"),
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
        ('<low value="about 2008"/>', {"onsetString": "about 2008"}),
        ('<high value="2010"/>', {}),
    ],
)
def test_an_onset_that_is_no_time_is_kept_as_text(time, expected):
    found = allergy_of(f"<effectiveTime>{time}</effectiveTime>{DRUG}" + substance(LATEX))
    onset = {name: value for name, value in found.items() if "onset" in name}
    assert onset == expected


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
            {"start": "2024-05-09T18:10:00-07:00", "end": "2024-05-09"},
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
