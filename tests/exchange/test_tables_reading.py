"""Reading a table: its header, its dialect, its lines, and what is said of broken ones."""

from __future__ import annotations

import base64
import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.exchange.tables import KINDS, Row, is_table, rows_of
from fhirapp.exchange.tables.columns import COLUMNS
from fhirapp.exchange.tables.records import LONGEST, MOST_CELLS, MOST_LINES, WINDOWS
from tests.exchange.test_tables import the_last


def read(table: bytes, kind: str = "allergies") -> list[Row]:
    """Return all rows of a table that stands alone."""
    return list(rows_of(io.BytesIO(table), kind, None))


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"patient_id,substance,severity\n", "allergies"),
        (b"Patient ID;Allergen;Status\r\n", "allergies"),
        (b"patient_id\tfile\ttype\n", "documents"),
        (b"sep=;\r\npatient_id;substance;note\r\n", "allergies"),
        ("\ufeffpatient_id,substance,note\n".encode(), "allergies"),
        ("patient_id,substance,note\n".encode("utf-16"), "allergies"),
        (b"\n\npatient_id,substance,note", "allergies"),
        (b"patient_id,substnce,severity,note\n", "allergies"),
        (b"patient_id,substance\n", "allergies"),
        (b"patient_id,substanse,reaction\n", "allergies"),
        (b"patientid,substnce\n", "allergies"),
        (b'{"resourceType":"Patient"}\n', None),
        (b"<ClinicalDocument/>", None),
        (b"name,age,city\n", None),
        (b"substance,severity,note\n", None),
        (b"patient_id,a,b\n", None),
        (b"", None),
        (b"\x1f\x8b\x08\x00", None),
        (b"\x00" * 100, None),
        (b'"' * 1_000, None),
    ],
)
def test_a_table_is_recognised_by_its_header(head, kind):
    assert is_table(head) == kind


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        ("patient_id,substnce,note", ("substnce", "is not a column; is substance meant?")),
        ("patient_id,note", ("substance", "is required")),
        ("substance,note", ("patient_id", "is required, or patient_identifier")),
        ("patient_id,substance,Substance", ("substance", "appears twice")),
        ("patient_id,substance,status,clinical_status", ("clinical_status", "appears twice")),
        (
            "patient_id,substance," + ",".join(f"c{n}" for n in range(300)),
            ("", "has 302 columns; 200 are read"),
        ),
        (
            "patient_id,substance" + ",x" * 1_000,
            ("", f"has more than {MOST_CELLS} cells"),
        ),
        ('patient_id,"substance', ("", "has a quoted cell that is never closed")),
        ("", ("", "has no header")),
    ],
)
def test_a_header_that_cannot_be_read_is_the_only_row(header, fault):
    (row,) = read(f"{header}\np1,Latex\n".encode() if header else b"\n \n")
    assert row.resources is None
    assert fault in row.faults


def test_a_header_tells_what_is_not_read():
    header, row = read(b"patient_id,substance,Ward,,\np1,Latex,7,x,\n")
    assert header == Row(
        1,
        b"patient_id,substance,Ward,,\n",
        [],
        [],
        [("Ward", "is not a column of this table, and is not read")],
    )
    assert [fault[1] for fault in row.faults] == ["has 5 cells, the header 3"]


# Dialects


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("codec", "note"),
    [("utf-8", []), ("utf-8-sig", []), ("utf-16", []), ("cp1252", [("", WINDOWS)])],
)
def test_every_dialect_is_read_and_kept_as_it_stood(separator, end, codec, note):
    lines = [
        f"sep={separator}",
        separator.join(["patient_id", "substance", "note", "", ""]),
        separator.join(["p1", "Käse", '"a, b; c\td"', "", ""]),
        separator * 4,
        separator.join(["p1", "Latex", f'"one{end}""two"""', ""]),
    ]
    text = end.join(lines).encode(codec)
    rows = read(text)
    assert b"".join(row.text for row in rows) == text.replace(
        b"".join([(separator * 4 + end).encode(codec.replace("utf-16", "utf-16-le"))])
        if codec == "utf-16"
        else (separator * 4 + end).encode(),
        b"",
    )
    _, cheese, latex = rows
    assert the_last(cheese)["code"]["text"] == "Käse"
    assert the_last(cheese)["note"] == [{"text": "a, b; c\td"}]
    assert the_last(latex)["note"] == [{"text": 'one\n"two"'}]
    assert [one for one in cheese.notes if not one[0]] == note
    assert [row.number for row in rows] == [2, 3, 5]


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
def test_a_broken_line_spoils_itself_alone(middle, fault):
    lines = [b"patient_id,substance\n", b"p0,Latex\n", middle, b'p2,"Latex"\n', b"p3,Latex\n"]
    _, *rows = read(b"".join(lines))
    assert [row.number for row in rows] == [2, 3, 4, 5]
    assert [len(row.faults) for row in rows] == [0, 1, 0, 0]
    assert fault in rows[1].faults[0][1]
    assert rows[1].text == middle[: len(rows[1].text)] != b""


def test_a_quote_that_is_never_closed_spoils_its_line_alone():
    _, *rows = read(b'patient_id,substance,note\np1,Latex,"open\np2,Latex,x\np3,Latex')
    assert [(row.number, len(row.faults)) for row in rows] == [(2, 1), (3, 0), (4, 0)]


def test_a_quote_that_is_never_closed_does_not_hold_the_whole_table():
    lines = b'patient_id,substance,note\np1,Latex,"open\n' + b"p2,Latex,x\n" * MOST_LINES
    _, *rows = read(lines)
    assert [bool(row.faults) for row in rows] == [True, *[False] * MOST_LINES]


def test_a_cell_of_ten_megabytes_is_read():
    text = "word " * 2_000_000
    note = f'patient_id,type,text\np1,Letter,"{text}\nend"\n'.encode()
    _, row = read(note, "documents")
    (content,) = the_last(row)["content"]
    assert base64.b64decode(content["attachment"]["data"]) == f"{text}\nend".encode()


def test_utf_16_that_ends_within_a_character_is_reported():
    table_ = "patient_id,substance\np1,Latexä".encode("utf-16")[:-1]
    _, row = read(table_)
    assert ("substance", "has a damaged character, U+FFFD") in row.notes


def test_rows_are_read_one_by_one():
    class Endless(io.RawIOBase):
        """A table without an end."""

        def __init__(self) -> None:
            self._began = False

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            text = b"p1,Latex\n" if self._began else b"patient_id,substance\n"
            self._began = True
            buffer[: len(text)] = text
            return len(text)

    rows = rows_of(io.BufferedReader(Endless()), "allergies", None)
    assert [next(rows).number for _ in range(1_000)][-1] == 1_000


@settings(max_examples=300)
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
