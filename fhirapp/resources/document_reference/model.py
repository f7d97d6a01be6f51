"""The table of DocumentReference."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Mapped

from fhirapp.db import DomainVersioned


class DocumentReference(DomainVersioned):
    """A clinical note or document, a row for each version; its bytes are in Binary."""

    __tablename__ = "document_reference"

    master_identifier: Mapped[Any | None]
    identifier: Mapped[Any | None]
    status: Mapped[str | None]
    doc_status: Mapped[str | None]
    type: Mapped[Any | None]
    category: Mapped[Any | None]
    subject: Mapped[Any | None]
    date: Mapped[str | None]
    author: Mapped[Any | None]
    authenticator: Mapped[Any | None]
    custodian: Mapped[Any | None]
    relates_to: Mapped[Any | None]
    description: Mapped[str | None]
    security_label: Mapped[Any | None]
    content: Mapped[Any | None]
    context: Mapped[Any | None]
    # Computed by store/: the row of the Binary that each attachment pointed to, by Binary id.
    attached: Mapped[Any | None]
