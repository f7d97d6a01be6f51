"""Reading a CSV table: its header, its dialect, its lines, and the remarks on broken ones."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.features.imports.tables import KINDS, TableRow, is_table, records, rows_of
from fhirapp.features.imports.tables.records import COLUMNS, LONGEST, MOST_CELLS
from tests.support.tables import rows_in

HEADS = {
    "allergies": [b"patient_id,substance,severity\n", b"Patient ID;Allergen;Status\r\n",
                  b"sep=;\r\npatient_id;substance;note\r\n",
                  "\ufeffpatient_id,substance,note\n".encode(),
                  "patient_id,substance,note\n".encode("utf-16"),
                  b"\n\npatient_id,substance,note", b"patient_id,substnce,severity,note\n",
                  b"patient_id,substance\n", b"patient_id,substanse,reaction\n",
                  b"patientid,substnce\n"],
    "documents": [b"patient_id\tfile\ttype\n"],
    None: [*(b'{"resourceType":"Patient"}\n', b"<ClinicalDocument/>", b"name,age,city\n"),
           *(b"substance,severity,note\n", b"patient_id,a,b\n", b"", b"\x1f\x8b\x08\x00"),
           *(b"\x00" * 100, b'"' * 1_000, b'sep="\npatient_id"substance"note\n')],
}  # fmt: skip


def test_table_is_recognised_by_its_header():
    found = {
        kind: [head for head in heads if is_table(head) == kind] for kind, heads in HEADS.items()
    }
    assert found == HEADS


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        ("patient_id,substnce,note", ("substnce", "is not a column; is substance meant?")),
        ("patient_id,note", ("substance", "is required")),
        ("substance,note", ("patient_id", "is required, or patient_identifier")),
        ("patient_id,substance,Substance", ("substance", "appears twice")),
        ("patient_id,substance,status,clinical_status", ("clinical_status", "appears twice")),
        ("patient_id,substance," + ",".join(f"c{n}" for n in range(300)), ("",
         "has 302 columns; 200 are read")),
        ("patient_id,substance" + ",x" * 1_000, ("", f"has more than {MOST_CELLS} cells")),
        ('patient_id,"substance', ("", "has a quoted cell that is never closed")),
        ("", ("", "has no header")),
    ],
)  # fmt: skip
def test_header_that_cannot_be_read_is_the_only_row(header, fault):
    (row,) = rows_in(f"{header}\np1,Latex\n".encode() if header else b"\n \n")
    assert row.resources is None
    assert fault in row.faults


def test_unknown_column_is_noted_at_the_header():
    header, row = rows_in(b"patient_id,substance,Ward,,\np1,Latex,7,x,\n")
    assert header == TableRow(
        1,
        b"patient_id,substance,Ward,,\n",
        [],
        [],
        [("Ward", "is not a column of this table, and is not read")],
    )
    assert [fault[1] for fault in row.faults] == ["has 5 cells, the header 3"]


@pytest.mark.parametrize(
    ("middle", "fault"),
    [
        (b'p1,"Latex\n', "is a quote missing?"),
        (b'p1,"Latex"x\n', "is a quote missing?"),
        (b"p1,\x81\x8d\n", "is neither UTF-8 nor Windows-1252"),
        (b"p1," + b"x" * (LONGEST + 1) + b"\n", "is longer than"),
        (b"p1," + b"," * MOST_CELLS + b"\n", "has more than"),
    ],
)
def test_broken_line_does_not_affect_other_lines(middle, fault):
    lines = [b"patient_id,substance\n", b"p0,Latex\n", middle, b'p2,"Latex"\n', b"p3,Latex\n"]
    _, *rows = rows_in(b"".join(lines))
    assert [row.number for row in rows] == [2, 3, 4, 5]
    assert [len(row.faults) for row in rows] == [0, 1, 0, 0]
    assert fault in rows[1].faults[0][1]
    assert rows[1].text == middle[: len(rows[1].text)] != b""


def test_unclosed_quote_does_not_affect_other_lines():
    _, *rows = rows_in(b'patient_id,substance,note\np1,Latex,"open\np2,Latex,x\np3,Latex')
    assert [(row.number, len(row.faults)) for row in rows] == [(2, 1), (3, 0), (4, 0)]


def test_spaces_around_a_quoted_cell_are_not_part_of_it():
    table_ = b'patient_id,substance,note\np1, "Latex" ,"a, "" ,b\n, "" ,c" \n"p2" ,"Nuts","x"\n'
    _, *rows = rows_in(table_)
    notes = [row.resources and row.resources[-1]["note"][0]["text"] for row in rows]
    assert notes == ['a, " ,b\n, " ,c', "x"]
    assert [row.number for row in rows] == [2, 4]
    assert b"".join(row.text for row in rows) == table_.partition(b"\n")[2]


def test_unclosed_quote_does_not_buffer_the_whole_table(monkeypatch):
    monkeypatch.setattr(records, "MOST_LINES", 100)
    lines = b'patient_id,substance,note\np1,Latex,"open\n' + b"p2,Latex,x\n" * 100
    _, *rows = rows_in(lines)
    assert [bool(row.faults) for row in rows] == [True, *[False] * 100]


def test_utf_16_that_ends_within_a_character_is_noted():
    table_ = "patient_id,substance\np1,Latexä".encode("utf-16")[:-1]
    _, row = rows_in(table_)
    assert ("substance", "has a damaged character, U+FFFD") in row.notes


@settings(max_examples=30)
@given(
    st.sampled_from(KINDS),
    st.binary(max_size=60)
    | st.text('",;\n\r\t ax1\x00ä-=', max_size=60).map(lambda text: text.encode()),
)
def test_any_content_below_a_header_is_read_or_reported(kind, content):
    header = ",".join(column.name for column in COLUMNS[kind]).encode() + b"\n"
    _, *rows = rows_of(io.BytesIO(header + content), kind, None)
    for row in rows:
        assert (row.resources is None) == bool(row.faults)
    # Only blank rows are left out.
    assert len(b"".join(row.text for row in rows)) <= len(content)
