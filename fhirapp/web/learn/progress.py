"""How far a person is with a lesson: kept in a row for each, from its beginning on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import delete, insert, select, update

from fhirapp.db import db, writing
from fhirapp.fhir.temporal import instant
from fhirapp.web.learn.models import LessonProgress


def of_person(user_id: str) -> Mapping[str, LessonProgress]:
    """Return the lessons that a person began, by name."""
    rows = db.session.scalars(select(LessonProgress).where(LessonProgress.user_id == user_id))
    return {row.lesson: row for row in rows}


def begin(user_id: str, lesson: str) -> None:
    """Begin a lesson, or begin it again: what was done before does not count."""
    row = {"user_id": user_id, "lesson": lesson, "began_at": _now(), "hints": 0, "met": []}
    with _written() as connection:
        connection.execute(delete(LessonProgress).where(*_one(user_id, lesson)))
        connection.execute(insert(LessonProgress), [row])


def one_more_hint(user_id: str, lesson: str, most: int) -> None:
    """Show a hint more, of those that there are."""
    shown = LessonProgress.hints
    with _written() as connection:
        connection.execute(
            update(LessonProgress)
            .where(*_one(user_id, lesson), shown < most)
            .values(hints=shown + 1)
        )


def note(user_id: str, lesson: str, began_at: str, met: Collection[str], *, is_done: bool) -> None:
    """Note which checks were met, by what they say, unless the lesson was begun again meanwhile."""
    began = LessonProgress.began_at == began_at
    with _written() as connection:
        found = connection.execute(
            select(LessonProgress.met, LessonProgress.done_at).where(*_one(user_id, lesson), began)
        ).one_or_none()
        if found is None:
            return
        # Another tab may have noted others.
        values: dict[str, Any] = {"met": sorted({*found.met, *met})}
        if is_done and found.done_at is None:
            values["done_at"] = _now()
        connection.execute(
            update(LessonProgress).where(*_one(user_id, lesson), began).values(**values)
        )


def _written() -> Any:
    """Open the writing transaction; what was read for the page is let go first."""
    db.session.expunge_all()
    db.session.rollback()
    return writing()


def _one(user_id: str, lesson: str) -> Any:
    return LessonProgress.user_id == user_id, LessonProgress.lesson == lesson


def _now() -> str:
    return instant(datetime.now(UTC))
