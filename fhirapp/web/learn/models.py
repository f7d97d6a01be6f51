"""How far each person is with the lessons."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ForeignKey, Integer
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.auth.models import User
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
