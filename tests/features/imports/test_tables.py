"""The resources that a row of a CSV table becomes, and the columns that a faulty one names."""

from __future__ import annotations

import base64
import os
from itertools import product

import pytest

from fhirapp.definition import types
from fhirapp.features.imports.tables import KINDS, is_loinc, is_table, template
from fhirapp.features.imports.tables.files import LARGEST
from fhirapp.features.imports.tables.records import COLUMNS
from fhirapp.fhir.concepts import CONCEPTS
from fhirapp.store.prepare import prepare
from tests.support.tables import faulty_columns, resource_of, row_of, rows_in, table_of

CT = "http://terminology.hl7.org/CodeSystem/"
SNOMED = "http://snomed.info/sct"
RXNORM = "http://www.nlm.nih.gov/research/umls/rxnorm"


def assert_storable(app, *rows):
    """Check that the store takes every resource of the rows."""
    for row in rows:
        for resource in row.resources or ():
            prepare(types(app)[resource["resourceType"]], resource)


@pytest.mark.parametrize("kind", KINDS)
def test_template_is_recognised_and_read_without_remarks(app, kind, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "2024-03-01.pdf").write_bytes(b"%PDF-1.7")
    text = template(kind).encode()
    assert is_table(text) == kind
    rows = rows_in(text, kind, tmp_path)
    assert_storable(app, *rows)
    assert [len(row.resources or ()) for row in rows] == [0, 2, 1]
    assert [(row.faults, row.notes) for row in rows] == [([], [])] * 3
    names = [name for column in COLUMNS[kind] for name in (column.name, *column.also)]
    assert len(names) == len(set(names))
    assert all(column.doc for column in COLUMNS[kind])


def coded(system, code, **more):
    return {"coding": [{"system": system, "code": code, **more}]}


def test_allergy_has_all_elements_of_its_row(app):
    row = row_of(
        patient_id="p9", id="a1", substance="Peanuts", clinical_status="Resolved",
        verification_status="confirmed", type="allergy", encounter="e1",
        category="food; environment", criticality="unable to assess", onset="2009",
        reaction="Hives; odd feeling", severity="MILD", note="one\r\ntwo",
        recorded_date="2024-03-01 09:30+01:00", recorder="Practitioner/dr-x",
    )  # fmt: skip
    assert row.notes == [("reaction", "has no code here: 'odd feeling' is kept as text")]
    urticaria = coded(SNOMED, "126485001", display="Urticaria")
    assert row.resources == [
        {
            "resourceType": "AllergyIntolerance",
            "id": "a1",
            "clinicalStatus": coded(f"{CT}allergyintolerance-clinical", "resolved"),
            "verificationStatus": coded(f"{CT}allergyintolerance-verification", "confirmed"),
            "type": "allergy",
            "category": ["food", "environment"],
            "criticality": "unable-to-assess",
            "code": {**coded(SNOMED, "762952008", display="Peanut"), "text": "Peanuts"},
            "patient": {"reference": "Patient/p9"},
            "encounter": {"reference": "Encounter/e1"},
            "onsetDateTime": "2009",
            "recordedDate": "2024-03-01T08:30:00+00:00",
            "recorder": {"reference": "Practitioner/dr-x"},
            "note": [{"text": "one\ntwo"}],
            "reaction": [
                {
                    "manifestation": [{**urticaria, "text": "Hives"}, {"text": "odd feeling"}],
                    "severity": "mild",
                }
            ],
        }
    ]
    assert_storable(app, row)


def test_document_has_all_elements_of_its_row(app, tmp_path):
    (tmp_path / "a b.rtf").write_bytes(b"{\\rtf1}")
    row = row_of(
        "documents", tmp_path,
        id="d1", title="Visit", type="34117-2", status="superseded",
        doc_status="amended", date="2024-03", author="Dr. Keller; Organization/o1",
        custodian="Lakeside", encounter="Encounter/e1", description="About it",
        period_start="2024-03-01", period_end="2024-03-02", file="a b.rtf",
    )  # fmt: skip
    assert row.notes == []
    name = "History and physical note"
    data = base64.b64encode(b"{\\rtf1}").decode()
    assert resource_of(row) == {
        "resourceType": "DocumentReference",
        "id": "d1",
        "status": "superseded",
        "docStatus": "amended",
        "type": {**coded("http://loinc.org", "34117-2", display=name), "text": name},
        "subject": {"reference": "Patient/p1"},
        "date": "2024-03",
        "author": [{"display": "Dr. Keller"}, {"reference": "Organization/o1"}],
        "custodian": {"display": "Lakeside"},
        "description": "About it",
        "content": [
            {"attachment": {"contentType": "application/rtf", "data": data, "title": "Visit"}}
        ],
        "context": {
            "encounter": [{"reference": "Encounter/e1"}],
            "period": {"start": "2024-03-01", "end": "2024-03-02"},
        },
    }
    assert_storable(app, row)


REFERENCES = [
    ({"patient_id": "p1"}, {"reference": "Patient/p1"}),
    ({"patient_identifier": "urn:x|A 1,2&b"}, {"reference":
     "Patient?identifier=urn:x|A%201%5C%2C2%26b"}),
    ({"patient_id": "p1", "patient_identifier": "urn:x|7"}, {"reference": "Patient/p1",
     "identifier": {"system": "urn:x", "value": "7"}}),
]  # fmt: skip


def test_patient_without_a_name_is_only_referenced():
    rows = [(cells, row_of(**cells)) for cells, _ in REFERENCES]
    assert [(cells, resource_of(row)["patient"]) for cells, row in rows] == REFERENCES
    assert {len(row.resources) for _, row in rows} == {1}


def test_patient_with_a_name_is_created_before_the_allergy(app):
    row = row_of(
        patient_identifier="urn:x|7", patient_family="Moreau", patient_gender="F",
        patient_given="Claire; Anne", patient_birth_date="1984-07",
    )  # fmt: skip
    assert_storable(app, row)
    patient, entry = row.resources
    assert entry["patient"]["reference"] == f"Patient/{patient.pop('id')}"
    assert patient == {
        "resourceType": "Patient",
        "identifier": [{"system": "urn:x", "value": "7"}],
        "name": [{"family": "Moreau", "given": ["Claire", "Anne"]}],
        "gender": "female",
        "birthDate": "1984-07",
    }


# Statements that no allergy is known, and missing information.

NONE_KNOWN = {
    "NKDA": "409137002",
    "no known  Drug Allergies": "409137002",
    "(NKDA)": "409137002",
    "No known allergies.": "716186003",
    "no known food allergy": "429625007",
}


def test_no_known_allergy_has_its_code_and_cannot_be_assessed():
    found = {name: resource_of(row_of(substance=name)) for name in NONE_KNOWN}
    codes = {name: entry["code"]["coding"][0]["code"] for name, entry in found.items()}
    assert codes == NONE_KNOWN
    assert [entry["code"]["text"] for entry in found.values()] == [*NONE_KNOWN]
    assert {entry["criticality"] for entry in found.values()} == {"unable-to-assess"}


@pytest.mark.parametrize("name", ["unknown", "Not known", "UNK"])
def test_unknown_substance_is_no_information_and_never_no_allergy(name):
    row = row_of(substance=name)
    entry = resource_of(row)
    no_information = {"display": "NoInformation", "userSelected": False}
    code = coded(f"{CT}v3-NullFlavor", "NI", **no_information)
    assert entry["code"]["coding"] == code["coding"]
    assert "criticality" not in entry
    assert [column for column, _ in row.notes] == ["substance"]


def test_ambiguous_statement_of_no_allergy_is_refused():
    names = ["none", "None known", "nil", "no", "n/a", "-", "?", "NKDA per patient", "0"]
    names += ["denies allergies", "not asked", "no allergies", "Negative"]
    for name in names:
        ((column, message),) = row_of(substance=name).faults
        assert column == "substance", name
        assert "no known drug allergies or unknown" in message, name


def test_unknown_reaction_has_its_code():
    for cells in ({"reaction": "unknown"}, {"severity": "severe"}):
        (reaction,) = resource_of(row_of(**cells))["reaction"]
        assert reaction["manifestation"][0]["coding"][0]["code"] == "261665006"


# Statuses and codes.


def test_missing_clinical_status_follows_from_the_verification_status():
    cases = {
        ("", ""): "active",
        ("confirmed", ""): "active",
        ("refuted", ""): "inactive",
        ("refuted", "resolved"): "resolved",
        ("entered-in-error", ""): None,
    }
    found = {}
    for verification, status in cases:
        row = row_of(verification_status=verification, clinical_status=status)
        concept = resource_of(row).get("clinicalStatus", {"coding": [{}]})
        found[verification, status] = concept["coding"][0].get("code")
    assert found == cases


def test_code_of_the_source_is_kept_where_the_name_has_another():
    row = row_of(substance="Latex", substance_code="12", substance_system="snomed ct")
    assert resource_of(row)["code"]["coding"] == [{"system": SNOMED, "code": "12"}]
    assert row.notes == [("substance_code", "is kept, but Latex is 111088007 here")]


@pytest.mark.parametrize(
    ("column", "name", "suggestion"),
    [
        ("substance", "Moon dust", ""),
        ("substance", "Penicilin", "; is Penicillin meant?"),
        ("reaction", "Anaphylaxsis", "; is Anaphylaxis meant?"),
    ],
)
def test_unknown_name_stays_text_and_the_probable_name_is_noted(column, name, suggestion):
    row = row_of(**{column: name})
    assert row.notes == [(column, f"has no code here: {name!r} is kept as text{suggestion}")]
    entry = resource_of(row)
    found = entry["code"] if column == "substance" else entry["reaction"][0]["manifestation"][0]
    assert found == {"text": name}


def test_built_in_codes_have_the_check_digits_of_their_systems():
    substances = {*CONCEPTS["substance"].values()}
    manifestations = {*CONCEPTS["reaction"].values()}
    documents = {*CONCEPTS["document"].values()}
    assert (len(substances) >= 80, len(manifestations) >= 30, len(documents) >= 20) == (True,) * 3
    checks = {SNOMED: verhoeff, RXNORM: str.isdigit}
    concepts = substances | manifestations | documents
    assert [
        concept for concept in concepts if not checks.get(concept.system, is_loinc)(concept.code)
    ] == []


def verhoeff(code):
    """Return whether a SNOMED CT identifier ends with its check digit (SNOMED CT RF2 §5.5)."""
    permutations = [[*range(10)], [1, 5, 7, 6, 2, 8, 3, 0, 9, 4]]
    while len(permutations) < 8:
        permutations.append([permutations[-1][number] for number in permutations[1]])
    total = 0
    for place, digit in enumerate(reversed(code)):
        other = permutations[place % 8][int(digit)]
        # The product of two elements of the dihedral group of the pentagon.
        rotation = total % 5 + (other if total < 5 else -other)
        total = rotation % 5 + (5 if (total < 5) != (other < 5) else 0)
    return total == 0


DATES = {
    "can be two days": ["01.03.2024", "3/1/2024"],
    "write 2024-03-13": ["13/03/2024", "03-13-2024"],
    "write 2024-05-05": ["05.05.2024"],
    "write 2024-03-01": ["20240301"],
    "Excel's number": ["45352"],
    "has no zone": ["2024-03-01 09:30"],
    "not a date of the calendar": ["2024-02-30"],
    "is not a date": ["1 March 2024", "24-03-01", "2024-03-01T24:00Z", "2024-03-01 (est.)"],
}


def test_date_in_another_form_is_refused_and_never_guessed():
    for reason, texts in DATES.items():
        for text in texts:
            ((column, message),) = row_of(recorded_date=text).faults
            assert (column, reason in message) == ("recorded_date", True), (text, message)


# Ids.


def test_id_depends_on_the_columns_that_identify_an_allergy():
    base = {"patient_id": "p1", "substance": "Latex"}
    cases = [
        ({"note": "more", "clinical_status": "resolved"}, True),
        ({"substance": "LATEX "}, True),
        ({"substance": "Nickel"}, False),
        ({"patient_id": "P1"}, False),
        ({"reaction": "rash"}, False),
        ({"onset": "2020"}, False),
        ({"recorded_date": "2020"}, False),
    ]

    def id_of(**cells):
        return resource_of(row_of(**cells))["id"]

    assert [(cells, id_of(**{**base, **cells}) == id_of(**base)) for cells, _ in cases] == cases
    known = {"patient_identifier": "urn:x|7"}
    assert id_of(**known) == id_of(**known, patient_family="Moreau")


def test_id_that_fhir_does_not_allow_becomes_an_identifier(app):
    row = row_of(id="2024/17 b")
    assert_storable(app, row)
    assert resource_of(row)["identifier"] == [{"value": "2024/17 b"}]
    assert [column for column, _ in row.notes] == ["id"]
    assert resource_of(row)["id"] != resource_of(row_of(id="2024/17 B"))["id"]


# Faults of a row.

ALLERGY_FAULTS = [
    ({"patient_id": ""}, ["patient_id"]),
    ({"patient_id": "a b"}, ["patient_id"]),
    ({"patient_identifier": "10017"}, ["patient_identifier"]),
    ({"patient_identifier": "|7"}, ["patient_identifier"]),
    ({"patient_id": "p", "patient_gender": "x"}, ["patient_family", "patient_gender"]),
    ({"patient_id": "p", "patient_family": "M", "patient_birth_date": "1.2.1980"},
     ["patient_birth_date"]),
    ({"substance": " ", "note": "x"}, ["substance"]),
    ({"substance_code": "12"}, ["substance_system"]),
    ({"substance_code": "12", "substance_system": "ours"}, ["substance_system"]),
    ({"verification_status": "entered-in-error", "clinical_status": "active"}, ["clinical_status"]),
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
    # A statement that no allergy is known has no details of one.
    ({"substance": "NKDA", "criticality": "high"}, ["criticality"]),
    ({"substance": "NKDA", "reaction": "rash", "severity": "mild"}, ["reaction", "severity"]),
    ({"substance": "NKDA", "substance_code": "764146007", "substance_system": "SNOMED"},
     ["substance_code"]),
]  # fmt: skip
DOCUMENT_FAULTS = [
    ({}, ["file"]),
    ({"text": "x", "file": "y"}, ["file"]),
    ({"text": "x", "content_type": "text/html"}, ["content_type"]),
    ({"text": "x", "type": ""}, ["type"]),
    ({"text": "x", "type": "11506-4"}, ["type"]),
    ({"text": "x", "status": "done"}, ["status"]),
    ({"text": "x", "author": "Encounter/e"}, ["author"]),
    ({"text": "x", "custodian": "Practitioner/e"}, ["custodian"]),
    ({"file": "missing.pdf"}, ["file"]),
]


def test_faulty_row_names_its_columns(tmp_path):
    found = [(cells, faulty_columns(row_of(**cells))) for cells, _ in ALLERGY_FAULTS]
    assert found == ALLERGY_FAULTS
    found = [
        (cells, faulty_columns(row_of("documents", tmp_path, **cells)))
        for cells, _ in DOCUMENT_FAULTS
    ]
    assert found == DOCUMENT_FAULTS


def test_formula_is_kept_as_text():
    for text in ('=HYPERLINK("http://x.example")', "+1", "@SUM(A1)", '="007"'):
        assert resource_of(row_of(note=text))["note"] == [{"text": text}]


# Files beside the table.


def test_file_outside_of_the_folder_is_not_read(tmp_path):
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
    names = ["../secret.txt", "notes/../../secret.txt", "notes/../inside.txt", "/etc/passwd"]
    names += ["C:\\secret.txt", "..\\secret.txt", "\\\\server\\share\\x.txt", "link.txt", "notes"]
    names += ["away/secret.txt", ".", "pipe", "empty.txt", "large.txt", "loop/x", "x" * 5_000]
    found = {name: faulty_columns(row_of("documents", home, file=name)) for name in names}
    assert {name: columns for name, columns in found.items() if columns != ["file"]} == {}
    assert faulty_columns(row_of("documents", file="inside.txt")) == ["file"]


def test_file_of_the_folder_is_read(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("words")
    (tmp_path / "inside.txt").symlink_to(tmp_path / "notes" / "a.txt")
    for name in ("notes/a.txt", "notes\\a.txt", "./notes/a.txt", "inside.txt"):
        (content,) = resource_of(row_of("documents", tmp_path, file=name))["content"]
        assert base64.b64decode(content["attachment"]["data"]) == b"words", name


def rows_with_any_cells(cells):
    """Return the rows of a table whose cells hold any text."""
    row = dict(zip(("id", "substance", "note", "recorder", "reaction"), cells, strict=True))
    text = table_of({"patient_id": "p1", "x": "", **row})
    return rows_in(text.decode(errors="replace").encode())


def test_odd_cells_become_storable_resources_or_faults(app):
    odd = ["", "a;b", "\x00", "\ufffd", "\ufffe", '"', "Latex"]
    for cell, substance in product(odd, odd):
        assert_storable(app, *rows_with_any_cells([cell, substance, cell, cell, cell]))
