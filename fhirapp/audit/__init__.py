"""The audit trail: who asked for what, and which resources were answered.

trail.py appends a line for each request under /fhir, in the request, and for each page that says so
(trail.note); index.py reads the lines into a small database of its own when somebody looks, so that
asking costs no writing to the records.
"""

from __future__ import annotations

from flask import Flask

from fhirapp.audit import write


def init_app(app: Flask) -> None:
    """Note every request under /fhir."""
    write.init_app(app)
