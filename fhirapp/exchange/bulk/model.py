"""The table of exports. What was asked for, and what came of it, stands in the export's folder."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Integer
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.auth.models import Client
from fhirapp.db import Base

QUEUED, RUNNING, DONE, FAILED = "queued", "running", "done", "failed"


class BulkExport(Base):
    """An export: whose it is and how far it is; never patient data. Times are seconds since 1970.

    A cancelled or expired one has no row.
    """

    __tablename__ = "bulk_export"

    # Random: it is the last part of the status address.
    id: Mapped[str] = mapped_column(primary_key=True)
    client_id: Mapped[str] = mapped_column(ForeignKey(Client.client_id), index=True)
    # QUEUED, RUNNING, DONE or FAILED.
    state: Mapped[str]
    created_at: Mapped[int] = mapped_column(Integer)
    expires_at: Mapped[int] = mapped_column(Integer, index=True)
    # How often it was begun; the number of the attempt at hand, whose files count.
    attempts: Mapped[int] = mapped_column(Integer, default=0)
    # Until when the attempt is its worker's alone; None unless RUNNING.
    lease_until: Mapped[int | None] = mapped_column(Integer)
    percent: Mapped[int] = mapped_column(Integer, default=0)
    # Why it FAILED, as a sentence.
    error: Mapped[str | None]
