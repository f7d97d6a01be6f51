"""What went wrong: attempts to sign in that failed, and requests that were refused."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Integer, LargeBinary
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.db import Base


class Attempt(Base):
    """How often something was tried within a window, counted for all processes."""

    __tablename__ = "auth_attempt"

    # Of what is counted: a name that was typed may be a password.
    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    times: Mapped[int] = mapped_column(Integer)
    expires_at: Mapped[int] = mapped_column(Integer, index=True)


class Refusal(Base):
    """Why a client's request was refused, for its owner and the administrator to read."""

    __tablename__ = "auth_refusal"

    # The X-Request-Id of the answer.
    request_id: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[int] = mapped_column(Integer, index=True)
    client_id: Mapped[str] = mapped_column(index=True)
    user_id: Mapped[str | None]
    status: Mapped[int] = mapped_column(Integer)
    # What was asked for, without ids and values: GET /fhir/AllergyIntolerance/<id>
    asked: Mapped[str]
    # As refusals.py words it: a list of sentences.
    reasons: Mapped[Any]
