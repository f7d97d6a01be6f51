"""CSV of clinics without FHIR: what a row becomes, and what is said of one that is wrong."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp import create_app
from fhirapp.config import load_settings
from fhirapp.definition import Definition, types
from fhirapp.exchange.tables import KINDS, Row, is_table, rows_of, template, vocabulary
from fhirapp.exchange.tables.columns import COLUMNS
from fhirapp.exchange.tables.files import LARGEST, FolderFiles
from fhirapp.store.prepare import prepare

CT = "http://terminology.hl7.org/CodeSystem/"
SNOMED = "http://snomed.info/sct"
RXNORM = "http://www.nlm.nih.gov/research/umls/rxnorm"


@pytest.fixture(scope="module")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Definition]:
    """The types; no database is opened."""
    folder = str(tmp_path_factory.mktemp("instance"))
    return dict(types(create_app(load_settings({}, instance_path=folder))))


@pytest.fixture(scope="module")
def read(definitions) -> Callable[..., list[Row]]:
    """Return what reads a table's bytes; whatever it makes may be stored."""

    def run(table: bytes, kind: str = "allergies", folder: Path | None = None) -> list[Row]:
        rows = list(rows_of(io.BytesIO(table), kind, FolderFiles(folder) if folder else None))
        for row in rows:
            assert (row.resources is None) == bool(row.faults)
            for resource in row.resources or ():
                prepare(definitions[resource["resourceType"]], resource)
        return rows

    return run


def table(*rows: dict[str, str]) -> bytes:
    """Return a table with the columns of its rows, semicolons between the cells."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([row.get(name, "") for name in names] for row in rows)]
    quoted = [['"' + cell.replace('"', '""') + '"' for cell in line] for line in lines]
    return "".join(";".join(line) + "\r\n" for line in quoted).encode()


@pytest.fixture
def one(read) -> Callable[..., Row]:
    """Return what reads a table of one row; a patient is named where the row names none."""

    def run(kind: str = "allergies", folder: Path | None = None, **cells: str) -> Row:
        patient = {} if any(name.startswith("patient_") for name in cells) else {"patient_id": "p1"}
        required = {"substance": "Latex"} if kind == "allergies" else {"type": "Letter", "text": ""}
        header, row = read(table({**patient, **required, **cells}), kind, folder)
        assert header.faults == []
        return row

    return run


def the_last(row: Row) -> dict[str, Any]:
    assert row.faults == []
    assert row.resources is not None
    return row.resources[-1]


# The two templates


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_is_recognised_and_read_without_a_word(read, kind, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "2024-03-01.pdf").write_bytes(b"%PDF-1.7")
    text = template(kind).encode()
    assert is_table(text) == kind
    rows = read(text, kind, tmp_path)
    assert [len(row.resources or ()) for row in rows] == [0, 2, 1]
    assert [(row.faults, row.notes) for row in rows] == [([], [])] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_every_column_has_a_meaning_and_one_name(kind):
    columns = COLUMNS[kind]
    names = [name for column in columns for name in (column.name, *column.also)]
    assert len(names) == len(set(names))
    assert all(column.doc for column in columns)


def test_an_allergy_has_all_that_its_row_says(one):
    row = one(
        patient_id="p9",
        id="a1",
        substance="Peanuts",
        clinical_status="Resolved",
        verification_status="confirmed",
        type="allergy",
        category="food; environment",
        criticality="unable to assess",
        reaction="Hives; odd feeling",
        severity="MILD",
        onset="2009",
        recorded_date="2024-03-01 09:30+01:00",
        recorder="Practitioner/dr-x",
        encounter="e1",
        note="one\r\ntwo",
    )
    assert row.notes == [("reaction", "has no code here: 'odd feeling' is kept as text")]
    assert row.resources == [
        {
            "resourceType": "AllergyIntolerance",
            "id": "a1",
            "clinicalStatus": {
                "coding": [{"system": f"{CT}allergyintolerance-clinical", "code": "resolved"}]
            },
            "verificationStatus": {
                "coding": [{"system": f"{CT}allergyintolerance-verification", "code": "confirmed"}]
            },
            "type": "allergy",
            "category": ["food", "environment"],
            "criticality": "unable-to-assess",
            "code": {
                "coding": [{"system": SNOMED, "code": "762952008", "display": "Peanut"}],
                "text": "Peanuts",
            },
            "patient": {"reference": "Patient/p9"},
            "encounter": {"reference": "Encounter/e1"},
            "onsetDateTime": "2009",
            "recordedDate": "2024-03-01T08:30:00+00:00",
            "recorder": {"reference": "Practitioner/dr-x"},
            "note": [{"text": "one\ntwo"}],
            "reaction": [
                {
                    "manifestation": [
                        {
                            "coding": [
                                {"system": SNOMED, "code": "126485001", "display": "Urticaria"}
                            ],
                            "text": "Hives",
                        },
                        {"text": "odd feeling"},
                    ],
                    "severity": "mild",
                }
            ],
        }
    ]


def test_a_document_has_all_that_its_row_says(one, tmp_path):
    (tmp_path / "a b.rtf").write_bytes(b"{\\rtf1}")
    row = one(
        "documents",
        tmp_path,
        id="d1",
        title="Visit",
        type="34117-2",
        status="superseded",
        doc_status="amended",
        date="2024-03",
        author="Dr. Keller; Organization/o1",
        custodian="Lakeside",
        encounter="Encounter/e1",
        period_start="2024-03-01",
        period_end="2024-03-02",
        description="About it",
        file="a b.rtf",
    )
    assert row.notes == []
    loinc = {"system": "http://loinc.org", "code": "34117-2"}
    assert the_last(row) == {
        "resourceType": "DocumentReference",
        "id": "d1",
        "status": "superseded",
        "docStatus": "amended",
        "type": {
            "coding": [{**loinc, "display": "History and physical note"}],
            "text": "History and physical note",
        },
        "subject": {"reference": "Patient/p1"},
        "date": "2024-03",
        "author": [{"display": "Dr. Keller"}, {"reference": "Organization/o1"}],
        "custodian": {"display": "Lakeside"},
        "description": "About it",
        "content": [
            {
                "attachment": {
                    "contentType": "application/rtf",
                    "data": base64.b64encode(b"{\\rtf1}").decode(),
                    "title": "Visit",
                }
            }
        ],
        "context": {
            "encounter": [{"reference": "Encounter/e1"}],
            "period": {"start": "2024-03-01", "end": "2024-03-02"},
        },
    }


# Patients


@pytest.mark.parametrize(
    ("cells", "reference"),
    [
        ({"patient_id": "p1"}, {"reference": "Patient/p1"}),
        (
            {"patient_identifier": "urn:x|A 1,2&b"},
            {"reference": "Patient?identifier=urn:x|A%201%5C%2C2%26b"},
        ),
        (
            {"patient_id": "p1", "patient_identifier": "urn:x|7"},
            {"reference": "Patient/p1", "identifier": {"system": "urn:x", "value": "7"}},
        ),
    ],
)
def test_a_patient_without_a_name_is_pointed_to(one, cells, reference):
    row = one(**cells)
    assert len(row.resources) == 1
    assert the_last(row)["patient"] == reference


def test_a_patient_with_a_name_is_made_and_comes_first(one):
    row = one(
        patient_identifier="urn:x|7",
        patient_family="Moreau",
        patient_given="Claire; Anne",
        patient_birth_date="1984-07",
        patient_gender="F",
    )
    patient, entry = row.resources
    assert entry["patient"]["reference"] == f"Patient/{patient.pop('id')}"
    assert patient == {
        "resourceType": "Patient",
        "identifier": [{"system": "urn:x", "value": "7"}],
        "name": [{"family": "Moreau", "given": ["Claire", "Anne"]}],
        "gender": "female",
        "birthDate": "1984-07",
    }


# No allergy, and no information: service.md 2.3, decisions 2.19


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("NKDA", "409137002"),
        ("no known  Drug Allergies", "409137002"),
        ("(NKDA)", "409137002"),
        ("No known allergies.", "716186003"),
        ("no known food allergy", "429625007"),
    ],
)
def test_that_no_allergy_is_known_is_a_code_that_cannot_be_assessed(one, said, code):
    entry = the_last(one(substance=said))
    assert entry["code"]["coding"][0]["code"] == code
    assert entry["code"]["text"] == said
    assert entry["criticality"] == "unable-to-assess"


@pytest.mark.parametrize("said", ["unknown", "Not known", "UNK"])
def test_unknown_is_no_information_and_never_no_allergy(one, said):
    row = one(substance=said)
    assert the_last(row)["code"]["coding"] == [
        {
            "system": f"{CT}v3-NullFlavor",
            "code": "NI",
            "display": "NoInformation",
            "userSelected": False,
        }
    ]
    assert "criticality" not in the_last(row)
    assert [column for column, _ in row.notes] == ["substance"]


@pytest.mark.parametrize(
    "said",
    [
        "none",
        "None known",
        "nil",
        "no",
        "n/a",
        "-",
        "?",
        "NKDA per patient",
        "denies allergies",
        "not asked",
        "no allergies",
        "0",
        "Negative",
    ],
)
def test_what_may_mean_no_allergy_is_refused(one, said):
    ((column, message),) = one(substance=said).faults
    assert column == "substance"
    assert "no known drug allergies or unknown" in message


def test_an_empty_substance_is_refused(one):
    assert [fault[0] for fault in one(substance=" ", note="x").faults] == ["substance"]


@pytest.mark.parametrize(
    ("cells", "columns"),
    [
        ({"criticality": "high"}, ["criticality"]),
        ({"reaction": "rash", "severity": "mild"}, ["reaction", "severity"]),
        ({"substance_code": "764146007", "substance_system": "SNOMED"}, ["substance_code"]),
    ],
)
def test_no_allergy_that_looks_like_one_is_refused(one, cells, columns):
    row = one(substance="NKDA", **cells)
    assert [fault[0] for fault in row.faults] == columns


def test_an_unknown_reaction_has_its_code(one):
    for cells in ({"reaction": "unknown"}, {"severity": "severe"}):
        (reaction,) = the_last(one(**cells))["reaction"]
        assert reaction["manifestation"][0]["coding"][0]["code"] == "261665006"


# Statuses and codes


@pytest.mark.parametrize(
    ("verification", "status", "expected"),
    [
        ("", "", "active"),
        ("confirmed", "", "active"),
        ("refuted", "", "inactive"),
        ("refuted", "resolved", "resolved"),
        ("entered-in-error", "", None),
    ],
)
def test_a_missing_clinical_status_follows_from_the_verification_status(
    one, verification, status, expected
):
    entry = the_last(one(verification_status=verification, clinical_status=status))
    found = entry.get("clinicalStatus", {}).get("coding", [{}])[0].get("code")
    assert found == expected


def test_a_code_of_the_source_is_kept_though_the_name_has_another_here(one):
    row = one(substance="Latex", substance_code="12", substance_system="snomed ct")
    assert the_last(row)["code"]["coding"] == [{"system": SNOMED, "code": "12"}]
    assert row.notes == [("substance_code", "is kept, but Latex is 111088007 here")]


def test_an_unknown_name_is_text_without_a_code_and_noted(one):
    row = one(substance="Moon dust")
    assert the_last(row)["code"] == {"text": "Moon dust"}
    assert row.notes == [("substance", "has no code here: 'Moon dust' is kept as text")]


@pytest.mark.parametrize(
    ("column", "said", "meant"),
    [("substance", "Penicilin", "Penicillin"), ("reaction", "Anaphylaxsis", "Anaphylaxis")],
)
def test_a_mistyped_name_stays_text_and_the_probable_name_is_noted(one, column, said, meant):
    row = one(**{column: said})
    told = f"has no code here: {said!r} is kept as text; is {meant} meant?"
    assert (column, told) in row.notes
    assert said in str(the_last(row))


@pytest.mark.parametrize(
    "concept",
    dict.fromkeys(
        [
            *vocabulary.SUBSTANCES.values(),
            *vocabulary.MANIFESTATIONS.values(),
            *vocabulary.DOCUMENT_TYPES.values(),
        ]
    ),
    ids=lambda concept: concept.display,
)
def test_a_built_in_code_has_the_check_digit_of_its_system(concept):
    if concept.system == SNOMED:
        assert verhoeff(concept.code)
    elif concept.system == RXNORM:
        assert concept.code.isdigit()
    else:
        assert vocabulary.is_loinc(concept.code)


def verhoeff(code: str) -> bool:
    """Return whether a SNOMED CT identifier ends with its check digit (SNOMED CT RF2 §5.5)."""
    swap = [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 5, 7, 6, 2, 8, 3, 0, 9, 4]]
    while len(swap) < 8:
        swap.append([swap[-1][swap[1][digit]] for digit in range(10)])
    total = 0
    for place, digit in enumerate(reversed(code)):
        total = turned(total, swap[place % 8][int(digit)])
    return total == 0


def turned(one: int, other: int) -> int:
    """Multiply two elements of the dihedral group of the pentagon."""
    if one < 5:
        return (one + other) % 5 + (0 if other < 5 else 5)
    return (one - other) % 5 + (5 if other < 5 else 0)


def test_the_built_in_tables_are_of_use():
    assert len(set(vocabulary.SUBSTANCES.values())) >= 80
    assert len(set(vocabulary.MANIFESTATIONS.values())) >= 30
    assert len(set(vocabulary.DOCUMENT_TYPES.values())) >= 20


# Dates are never guessed


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("01.03.2024", "can be two days"),
        ("3/1/2024", "can be two days"),
        ("13/03/2024", "write 2024-03-13"),
        ("03-13-2024", "write 2024-03-13"),
        ("05.05.2024", "write 2024-05-05"),
        ("20240301", "write 2024-03-01"),
        ("45352", "Excel's number"),
        ("2024-03-01 09:30", "has no zone"),
        ("2024-02-30", "not a date of the calendar"),
        ("1 March 2024", "is not a date"),
        ("24-03-01", "is not a date"),
        ("2024-03-01T24:00Z", "is not a date"),
        ("2024-03-01 (est.)", "is not a date"),
    ],
)
def test_a_date_in_another_form_is_refused(one, said, told):
    ((column, message),) = one(recorded_date=said).faults
    assert column == "recorded_date"
    assert told in message


# Ids


def test_the_same_table_has_the_same_ids(read):
    rows = table({"patient_id": "p1", "substance": "Latex"}, {"patient_id": "p2", "substance": "x"})
    first, second = read(rows), read(rows)
    assert first == second
    assert len({the_last(row)["id"] for row in first[1:]}) == 2


@pytest.mark.parametrize(
    ("cells", "same"),
    [
        ({"note": "more", "clinical_status": "resolved"}, True),
        ({"substance": "LATEX "}, True),
        ({"substance": "Nickel"}, False),
        ({"patient_id": "P1"}, False),
        ({"reaction": "rash"}, False),
        ({"onset": "2020"}, False),
        ({"recorded_date": "2020"}, False),
    ],
)
def test_an_id_follows_from_what_tells_a_row_from_others(one, cells, same):
    base = {"patient_id": "p1", "substance": "Latex"}
    assert (the_last(one(**base))["id"] == the_last(one(**{**base, **cells}))["id"]) is same


def test_an_id_is_the_same_whether_the_row_makes_the_patient_or_not(one):
    known = {"patient_identifier": "urn:x|7"}
    made = {**known, "patient_family": "Moreau"}
    assert the_last(one(**known))["id"] == the_last(one(**made))["id"]


def test_an_id_that_fhir_does_not_allow_is_kept_as_an_identifier(one):
    row = one(id="2024/17 b")
    assert the_last(row)["identifier"] == [{"value": "2024/17 b"}]
    assert [column for column, _ in row.notes] == ["id"]
    assert the_last(row)["id"] != the_last(one(id="2024/17 B"))["id"]


# Faults of a row


@pytest.mark.parametrize(
    ("cells", "columns"),
    [
        ({"patient_id": ""}, ["patient_id"]),
        ({"patient_id": "a b"}, ["patient_id"]),
        ({"patient_identifier": "10017"}, ["patient_identifier"]),
        ({"patient_identifier": "|7"}, ["patient_identifier"]),
        ({"patient_id": "p", "patient_gender": "x"}, ["patient_family", "patient_gender"]),
        (
            {"patient_id": "p", "patient_family": "M", "patient_birth_date": "1.2.1980"},
            ["patient_birth_date"],
        ),
        ({"substance_code": "12"}, ["substance_system"]),
        ({"substance_code": "12", "substance_system": "ours"}, ["substance_system"]),
        (
            {"verification_status": "entered-in-error", "clinical_status": "active"},
            ["clinical_status"],
        ),
        ({"category": "food; pets"}, ["category"]),
        ({"severity": "fatal", "type": "x"}, ["type", "severity"]),
        ({"recorder": "Organization/o1"}, ["recorder"]),
        ({"recorder": "A; B"}, ["recorder"]),
        ({"encounter": "Patient/p1"}, ["encounter"]),
        ({"note": "a\x00b"}, ["note"]),
        ({"type": "allergy\nallergy"}, ["type"]),
        ({"substance": "Latex\nNickel"}, ["substance"]),
        ({"reaction": ";".join(["rash"] * 101)}, ["reaction"]),
        ({"note": "x" * 1_100_000}, ["note"]),
    ],
)
def test_a_row_that_is_wrong_says_in_which_columns(one, cells, columns):
    row = one(**cells)
    assert row.resources is None
    assert [column for column, _ in row.faults] == columns


@pytest.mark.parametrize(
    ("cells", "columns"),
    [
        ({}, ["file"]),
        ({"text": "x", "file": "y"}, ["file"]),
        ({"text": "x", "content_type": "text/html"}, ["content_type"]),
        ({"text": "x", "type": ""}, ["type"]),
        ({"text": "x", "type": "11506-4"}, ["type"]),
        ({"text": "x", "status": "done"}, ["status"]),
        ({"text": "x", "author": "Encounter/e"}, ["author"]),
        ({"text": "x", "custodian": "Practitioner/e"}, ["custodian"]),
        ({"file": "missing.pdf"}, ["file"]),
    ],
)
def test_a_document_that_is_wrong_says_in_which_columns(one, tmp_path, cells, columns):
    assert [column for column, _ in one("documents", tmp_path, **cells).faults] == columns


def test_a_formula_is_text(one):
    for said in ('=HYPERLINK("http://x.example")', "+1", "@SUM(A1)", '="007"'):
        assert the_last(one(note=said))["note"] == [{"text": said}]


# Files beside the table


@pytest.mark.parametrize(
    "name",
    [
        "../secret.txt",
        "notes/../../secret.txt",
        "notes/../inside.txt",
        "/etc/passwd",
        "C:\\secret.txt",
        "..\\secret.txt",
        "\\\\server\\share\\x.txt",
        "link.txt",
        "away/secret.txt",
        "notes",
        ".",
        "pipe",
        "empty.txt",
        "large.txt",
        "loop/x",
        "x" * 5_000,
    ],
)
def test_a_file_that_is_not_one_of_the_folder_is_not_read(one, tmp_path, name):
    home = tmp_path / "home"
    (home / "notes").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    (home / "link.txt").symlink_to(tmp_path / "secret.txt")
    (home / "away").symlink_to(tmp_path)
    (home / "loop").symlink_to(home / "loop")
    (home / "empty.txt").touch()
    (home / "inside.txt").write_text("words")
    os.mkfifo(home / "pipe")
    with (home / "large.txt").open("wb") as file:
        file.truncate(LARGEST + 1)
    row = one("documents", home, file=name)
    assert [column for column, _ in row.faults] == ["file"]


@pytest.mark.parametrize("name", ["notes/a.txt", "notes\\a.txt", "./notes/a.txt", "inside.txt"])
def test_a_file_of_the_folder_is_read(one, tmp_path, name):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("words")
    (tmp_path / "inside.txt").symlink_to(tmp_path / "notes" / "a.txt")
    (content,) = the_last(one("documents", tmp_path, file=name))["content"]
    assert base64.b64decode(content["attachment"]["data"]) == b"words"


def test_without_a_folder_no_file_is_read(one):
    assert [column for column, _ in one("documents", file="a.txt").faults] == ["file"]


@settings(max_examples=200)
@given(st.lists(st.text(max_size=12), min_size=5, max_size=5))
def test_whatever_the_cells_say_what_comes_out_may_be_stored(read, cells):
    row = dict(zip(("id", "substance", "note", "recorder", "reaction"), cells, strict=True))
    text = table({"patient_id": "p1", "x": "", **row})
    read(text.decode(errors="replace").encode())
