"""The audit trail of long requests: whom they name is known, and no line is without bounds."""

from __future__ import annotations

import json

import pytest
from flask import Flask

from fhirapp.audit.read import entries
from tests.support.helpers import FHIR_JSON
from tests.support.trails import forget, put_in, raw_lines

ALLERGY = "AllergyIntolerance"
# More than is kept of a form or an address, within what a search takes.
_CODES = ",".join(f"{number:030}" for number in range(150))
_REASON = "r" * 4_100


def looked_at(app: Flask) -> set[str]:
    with app.app_context():
        found = ("p1", "p2", "p3", "nobody", "other")
        return {one for one in found if entries(patient_id=one)}


def lines(app: Flask) -> list[bytes]:
    return [line.rstrip() for line in raw_lines(app) if b'"event":' not in line]


@pytest.mark.parametrize(
    ("path", "form", "patients"),
    [
        (f"{ALLERGY}/_search", {"code": _CODES, "patient": "p2"}, {"p2"}),
        (f"{ALLERGY}/_search", {"code": _CODES, "patient:Patient": "p2", "_count": "0"}, {"p2"}),
        (f"{ALLERGY}/_search?patient=nobody", {"code": _CODES, "patient": "p2"}, {"p2", "nobody"}),
        (f"{ALLERGY}?code={_CODES}&patient=Patient/p2,p3", None, {"p2", "p3"}),
        (f"{ALLERGY}?code={_CODES}&patient=https://fhir.example/fhir/Patient/p2", None, {"p2"}),
        (f"DocumentReference?type={_CODES}&author=Patient/p2", None, {"p2"}),
        ("Patient?_id=nobody", None, {"nobody"}),
        ("Patient?_id=p2&_summary=count", None, {"p2"}),
        ("DocumentReference/$docref", {"profile": _REASON, "patient": "p2"}, {"p2"}),
        # What is ignored names nobody, however much of it there is.
        (f"{ALLERGY}/_search", {"subject": "x," * 4_000, "patient": "p2"}, {"p2"}),
        (f"{ALLERGY}/_search?subject=nobody", {"code": _CODES}, set()),
        (f"{ALLERGY}/al-p1-latex?patient=nobody", None, {"p1"}),
        # Nor what is refused.
        (f"{ALLERGY}/_search", {"code": f"{_CODES},{_CODES}", "patient": "p2"}, set()),
        # Nor what is of another type.
        ("Provenance?target=Organization/other", None, set()),
    ],
)
def test_whom_a_request_names_is_known_however_long_it_is(watched, own_app, path, form, patients):
    answer = watched.get(path) if form is None else watched.post(path, form)
    assert answer.status_code in (200, 400), answer.text
    assert looked_at(own_app) == patients


@pytest.mark.parametrize(
    "value", [{"valueId": "nobody"}, {"valueString": "Patient/nobody"}], ids=["id", "string"]
)
def test_whom_an_operation_names_in_json_is_known(watched, own_app, value):
    members = [{"name": "profile", "valueCanonical": _REASON}, {"name": "patient", **value}]
    content = {"resourceType": "Parameters", "parameter": members}
    answer = watched.post(
        "DocumentReference/$docref", f"\n {json.dumps(content)}", content_type=FHIR_JSON
    )
    assert answer.status_code == 200, answer.text
    assert looked_at(own_app) == {"nobody"}


def test_whose_records_an_export_asks_for_is_known(watched, own_app):
    named = [f"Patient/{one}" for one in ("p2", "p3")]
    members = [{"name": "patient", "valueReference": {"reference": one}} for one in named]
    content = {"resourceType": "Parameters", "parameter": members}
    answer = watched.post(
        "Patient/$export", None, json=content, headers={"Prefer": "respond-async"}
    )
    assert answer.status_code == 202, answer.text
    assert looked_at(own_app) == {"p2", "p3"}


@pytest.mark.parametrize(
    "form",
    [
        {"code": _CODES, "patient": "p2"},
        {"subject": "x," * 9_000, "code": "none"},
        "&".join(f"subject={'x,' * 1_000}" for _ in range(190)),
        "\x01" * 900_000,
        "ü" * 400_000,
    ],
    ids=["long", "ignored", "often", "control", "umlauts"],
)
def test_a_line_is_bounded_however_long_the_form_is(watched, own_app, form):
    watched.post(f"{ALLERGY}/_search", form, content_type="application/x-www-form-urlencoded")
    (line,) = lines(own_app)
    assert len(line) < 9_000
    with own_app.app_context():
        (entry,) = entries()
    # As long as what is kept: who shows it knows that it may be cut off.
    assert len(entry.body) == 4_000


def test_a_control_character_is_kept_as_an_address_writes_it(watched, own_app):
    watched.get("Patient/a%00b%0Ac?name=%01")
    with own_app.app_context():
        (entry,) = entries()
    assert entry.path == "/fhir/Patient/a%00b%0Ac?name=%01"


def test_a_line_without_these_names_is_read_by_its_text(watched, own_app):
    watched.get(f"{ALLERGY}?patient=nobody")
    (line,) = lines(own_app)
    older = line.replace(b',"named":["nobody"]', b"")
    assert older != line
    forget(own_app)
    put_in(own_app, older + b"\n")
    assert looked_at(own_app) == {"nobody"}
