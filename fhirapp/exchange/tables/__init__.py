"""CSV of clinics without FHIR: a table of allergies, or of documents, a row for each.

    is_table   which of the two a file is, by its header
    rows_of    its rows as resources, one after the other, with what is wrong in each
    template   the header and two rows, to be filled in

columns.py says what may stand in a table.
"""

from fhirapp.exchange.tables.columns import KINDS, template
from fhirapp.exchange.tables.records import is_table
from fhirapp.exchange.tables.rows import Row, rows_of

__all__ = ["KINDS", "Row", "is_table", "rows_of", "template"]
