"""The columns of the two tables: what each means, and two examples of it.

The manual's tables are these; `template` is what `fhirapp import --template` prints.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import NamedTuple

ALLERGIES = "allergies"
DOCUMENTS = "documents"


class Column(NamedTuple):
    """A column: its name, its meaning and what the two rows of the template have there.

    also names what other sources call it. lines says whether a cell may have line breaks: in any
    other column they come from a quote that is missing.
    """

    name: str
    doc: str
    first: str = ""
    second: str = ""
    required: str = ""
    also: tuple[str, ...] = ()
    lines: bool = False


_EITHER = "this or patient_identifier"
_PATIENT = (
    Column(
        "patient_id",
        "Id of the patient: letters, digits, `-` and `.`, at most 64",
        "",
        "p2",
        required=_EITHER,
    ),
    Column(
        "patient_identifier",
        "Number of the patient's record as `system|value`: who issued it, as an address, and the "
        "number",
        "http://clinic.example/mrn|10017",
        required="this or patient_id",
    ),
    Column(
        "patient_family",
        "Family name. With a name, the patient is made too; leave all names empty for a patient "
        "who is on the server already",
        "Moreau",
        also=("patient_family_name", "patient_last_name"),
    ),
    Column(
        "patient_given",
        "Given names, `;` between them",
        "Claire",
        also=("patient_given_name", "patient_first_name"),
    ),
    Column("patient_birth_date", "Date of birth", "1984-07-19", also=("patient_birthdate",)),
    Column("patient_gender", "`male`, `female`, `other` or `unknown`", "female"),
)
_ID = Column(
    "id",
    "Id of the row in the source. With it a row that is changed becomes the next version; without "
    "it the id follows from {key}",
    "{first}",
    "{second}",
)

_ALLERGIES = (
    *_PATIENT,
    _ID._replace(
        doc=_ID.doc.format(key="patient, substance, code, reaction, onset and recorded_date"),
        first="a-1",
        second="a-2",
        also=("allergy_id",),
    ),
    Column(
        "substance",
        "Name of the substance; `NKDA` or `no known drug allergies`, `no known allergies`, "
        "`no known food allergies`; `unknown` where nothing is known, which never means none",
        "Penicillin",
        "NKDA",
        required="yes",
        also=("substance_name", "allergen"),
    ),
    Column("substance_code", "Code of the substance, where the source has one", "764146007"),
    Column(
        "substance_system",
        "Its code system: `SNOMED CT`, `RxNorm`, `UNII`, `CVX` or an address",
        "SNOMED CT",
        required="with substance_code",
    ),
    Column(
        "clinical_status",
        "`active`, `inactive` or `resolved`. Empty: `active`; `inactive` for one that is refuted; "
        "none for one that was entered in error",
        "active",
        also=("status",),
    ),
    Column(
        "verification_status",
        "`unconfirmed`, `confirmed`, `refuted` or `entered-in-error`",
        "confirmed",
        also=("verification",),
    ),
    Column("type", "`allergy` or `intolerance`", "allergy"),
    Column(
        "category",
        "`food`, `medication`, `environment`, `biologic`; `;` between several",
        "medication",
    ),
    Column("criticality", "`low`, `high` or `unable-to-assess`", "high"),
    Column(
        "reaction",
        "What happened; `;` between several, `unknown` where it is not known",
        "Hives; shortness of breath",
        also=("reactions",),
        lines=True,
    ),
    Column("severity", "Of the reaction: `mild`, `moderate` or `severe`", "severe"),
    Column("onset", "When the allergy began", "2009-05", also=("onset_date",)),
    Column(
        "recorded_date",
        "When it was recorded",
        "2024-03-01",
        "2024-03-01T09:30:00+01:00",
        also=("recorded",),
    ),
    Column(
        "recorder",
        "Who recorded it: `Practitioner/<id>`, or a name",
        "Dr. Anna Keller",
        "Practitioner/dr-keller",
    ),
    Column("encounter", "Id of the encounter"),
    Column(
        "note",
        "Anything else, in words",
        "Carries an emergency kit.",
        also=("notes", "comment"),
        lines=True,
    ),
)

_DOCUMENTS = (
    *_PATIENT,
    _ID._replace(
        doc=_ID.doc.format(key="patient, type, date, title and file (or text)"),
        first="d-1",
        second="d-2",
        also=("document_id",),
    ),
    Column("title", "Title of the document", "Visit of 1 March 2024", "Telephone call"),
    Column(
        "type",
        "Kind of document: its LOINC code, or a name such as `Progress note`",
        "11506-3",
        "Telephone encounter note",
        required="yes",
        also=("document_type",),
    ),
    Column("status", "`current`, `superseded` or `entered-in-error`. Empty: `current`", "current"),
    Column("doc_status", "`preliminary`, `final`, `amended` or `entered-in-error`", "final"),
    Column("date", "When it was written", "2024-03-01T10:15:00+01:00", "2024-03-04"),
    Column(
        "author",
        "Who wrote it: `Practitioner/<id>` or a name; `;` between several",
        "Practitioner/dr-keller",
        "Dr. Anna Keller",
        also=("authors",),
        lines=True,
    ),
    Column("custodian", "Who keeps it: `Organization/<id>` or a name", "Lakeside Clinic"),
    Column("encounter", "Id of the encounter", "visit-2024-03-01"),
    Column("period_start", "Begin of the encounter or of the care", "2024-03-01"),
    Column("period_end", "Its end", "2024-03-01"),
    Column("description", "What it is about, in words", "", "Asked about the rash", lines=True),
    Column(
        "file",
        "Path of the document, from the CSV's folder: `notes/visit.pdf`",
        "notes/2024-03-01.pdf",
        required="this or text",
    ),
    Column(
        "text",
        "The document itself, where it is plain text",
        "",
        "Rash is gone. No further visit needed.",
        required="this or file",
        lines=True,
    ),
    Column(
        "content_type",
        "Media type of the file; by default it follows from the file's ending",
        also=("media_type", "mime_type"),
    ),
)

COLUMNS: dict[str, tuple[Column, ...]] = {ALLERGIES: _ALLERGIES, DOCUMENTS: _DOCUMENTS}
KINDS = tuple(COLUMNS)


def template(kind: str) -> str:
    """Return a table of a kind: its header and two rows, commas between the cells."""
    columns = COLUMNS[kind]
    return "".join(
        _line(cells)
        for cells in (
            [column.name for column in columns],
            [column.first for column in columns],
            [column.second for column in columns],
        )
    )


def _line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
