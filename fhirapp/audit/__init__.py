"""The audit trail: who requested what, and which resources were in the answer.

write.py appends a line for each request under /fhir, within the request, and for each page that
asks for it (write.note). read.py loads the lines into a small database of its own when an
administrator looks, so that logging costs no write to the records' database.
"""

from __future__ import annotations

from fhirapp.audit.write import init_app

__all__ = ["init_app"]
