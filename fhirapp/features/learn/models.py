"""How far each person is with the lessons; and classes, whose learners have their own accounts."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ForeignKey, Integer, LargeBinary, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.auth.models import Client, User
from fhirapp.db import Base


class LessonProgress(Base):
    """A lesson that a person began. Times are instants as they are served."""

    __tablename__ = "lesson_progress"

    user_id: Mapped[str] = mapped_column(ForeignKey(User.id, ondelete="CASCADE"), primary_key=True)
    # The name of its file, without number and ending.
    lesson: Mapped[str] = mapped_column(primary_key=True)
    began_at: Mapped[str]
    # None until every check was met.
    done_at: Mapped[str | None]
    hints: Mapped[int] = mapped_column(Integer, default=0)
    # What its checks say, of those that were met: a check that is worded anew is met anew.
    met: Mapped[Any]


class LessonClass(Base):
    """A class of learners, which ends with their accounts. Times are seconds since 1970."""

    __tablename__ = "lesson_class"

    # Random: a teacher who knows it, from the address of the class's page, manages the class.
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    # What learners join with.
    code: Mapped[str] = mapped_column(unique=True)
    # Who made it; None once that account is gone.
    teacher_id: Mapped[str | None] = mapped_column(ForeignKey(User.id, ondelete="SET NULL"))
    created_at: Mapped[int] = mapped_column(Integer)
    ends_at: Mapped[int] = mapped_column(Integer, index=True)
    # The names of its lessons in their order; None for all.
    lessons: Mapped[Any | None]


class Learner(Base):
    """Somebody who joined a class, and what was made for them alone."""

    __tablename__ = "lesson_learner"
    __table_args__ = (UniqueConstraint("class_id", "folded"),)

    user_id: Mapped[str] = mapped_column(ForeignKey(User.id), primary_key=True)
    class_id: Mapped[str] = mapped_column(ForeignKey(LessonClass.id))
    # The nickname without upper case: no two in a class are alike.
    folded: Mapped[str]
    # Of the code to come back with.
    code_digest: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    # Their backend, and the account of the patient as whom they send requests in the explorer.
    client_id: Mapped[str] = mapped_column(ForeignKey(Client.client_id))
    patient_user_id: Mapped[str] = mapped_column(ForeignKey(User.id))
    joined_at: Mapped[int] = mapped_column(Integer)
