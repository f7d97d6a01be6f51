"""The table of DiagnosticReport."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Mapped

from fhirapp.db import DomainVersioned


class DiagnosticReport(DomainVersioned):
    """A report, a row for each version of the document that it is made of."""

    __tablename__ = "diagnostic_report"

    identifier: Mapped[Any | None]
    status: Mapped[str | None]
    category: Mapped[Any | None]
    code: Mapped[Any | None]
    subject: Mapped[Any | None]
    encounter: Mapped[Any | None]
    effective_date_time: Mapped[str | None]
    effective_period: Mapped[Any | None]
    issued: Mapped[str | None]
    performer: Mapped[Any | None]
    presented_form: Mapped[Any | None]
