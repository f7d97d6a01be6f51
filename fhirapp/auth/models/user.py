"""Users, their linked records and sessions; and security events: attempts, denied requests."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ForeignKey, Integer, LargeBinary
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.db import Base

CLINICIAN, ADMINISTRATOR, PATIENT = "clinician", "administrator", "patient"
ROLES = (CLINICIAN, ADMINISTRATOR, PATIENT)
STAFF = (CLINICIAN, ADMINISTRATOR)


class User(Base):
    """A person who can sign in."""

    __tablename__ = "auth_user"

    # Random, and the subject (`sub`) of id tokens: never another person's.
    id: Mapped[str] = mapped_column(primary_key=True)
    # As it is typed to sign in, in lower case.
    username: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    role: Mapped[str]
    # argon2id, in its own notation.
    password_hash: Mapped[str]
    # Of the one-time passwords, encrypted with the server's key; None without.
    totp_secret: Mapped[bytes | None] = mapped_column(LargeBinary)
    # The interval of the one-time password used last: none serves twice.
    totp_used: Mapped[int] = mapped_column(Integer, default=0)
    # A Practitioner, as Practitioner/<id>: who this is in the records.
    fhir_user: Mapped[str | None]
    disabled: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[int] = mapped_column(Integer)
    signed_in_at: Mapped[int | None] = mapped_column(Integer)


class UserPatient(Base):
    """A record that a patient user may see: their own, or a child's."""

    __tablename__ = "auth_user_patient"

    user_id: Mapped[str] = mapped_column(ForeignKey(User.id), primary_key=True)
    # A Patient's id; the record may come later than the link.
    patient_id: Mapped[str] = mapped_column(primary_key=True, index=True)
    # Whether it is the user's own: then that Patient is who the user is (fhirUser).
    is_self: Mapped[bool] = mapped_column(default=True)


class Session(Base):
    """A session: a browser that a user signed in with."""

    __tablename__ = "auth_session"

    # Stays while the secret in the cookie changes: what ends with the session refers to it.
    id: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    user_id: Mapped[str] = mapped_column(ForeignKey(User.id), index=True)
    # Whether the second factor, where the user has one, was shown too.
    complete: Mapped[bool]
    # When the password was typed; the absolute limit counts from here.
    signed_in_at: Mapped[int] = mapped_column(Integer)
    used_at: Mapped[int] = mapped_column(Integer, index=True)
    ended_at: Mapped[int | None] = mapped_column(Integer)


class RecoveryCode(Base):
    """A recovery code, which replaces a lost second factor once."""

    __tablename__ = "auth_recovery_code"

    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey(User.id), index=True)


class SetupCode(Base):
    """The one-time address at which the first administrator, or a user's password, is made."""

    __tablename__ = "auth_setup_code"

    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    # None: the first administrator's.
    user_id: Mapped[str | None] = mapped_column(ForeignKey(User.id))
    expires_at: Mapped[int] = mapped_column(Integer)


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
