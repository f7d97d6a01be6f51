"""Classes: learners join with a code, each gets an account of their own, and all ends together.

A learner has the role clinician and no password: they come back with a code of their own. With the
account come a backend and an account of the demo's patient, so that no learner's requests count for
another. Classes are a part of the demo: in a clinic such accounts would see real records.
"""

from __future__ import annotations

import secrets
import time
import unicodedata
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from fhirapp.audit.events import record
from fhirapp.auth import throttle
from fhirapp.auth.clients.registration import PAGES
from fhirapp.auth.models import CLINICIAN, PATIENT, STAFF, AccessToken, Grant, User, digest
from fhirapp.auth.throttle import TooOften, network_of
from fhirapp.auth.tokens import revoke_grants
from fhirapp.auth.users import sessions
from fhirapp.auth.users.accounts import add_user, link, remove_users
from fhirapp.config import RefusedCommand
from fhirapp.db import db, writing
from fhirapp.features.demo.accounts import BY_ROLE, add_own_backend, remove_backends
from fhirapp.features.learn.lesson import Lesson
from fhirapp.features.learn.models import Learner, LessonClass, LessonProgress
from fhirapp.keys import keyed_digest

MOST_CLASSES, MOST_LEARNERS = 20, 60
DAYS, MOST_DAYS = 30, 90
# From one network: a school's has one address. Wrong codes, and whoever joined or made a class.
WRONG_CODES, JOINED, MADE = 30, 200, 10
_WINDOW_SECONDS = 3600
LONGEST_NAME, LONGEST_NICKNAME = 80, 40
# Without letters and digits that look alike: I, L, O, 0, 1.
_ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
_CODE, _OWN_CODE = 8, 12
# Beside letters and digits; U+2019 is the curled apostrophe.
_OF_NICKNAMES = frozenset(" .'-\u2019")
# No password has this hash.
_NO_PASSWORD = ""


def learner_of(user_id: str) -> Learner | None:
    """Return what somebody has as a learner in a class, None for others."""
    return db.session.get(Learner, user_id)


def own_patient_of(user_id: str) -> str | None:
    """Return the user name of the patient as whom a learner sends requests; None for others.

    Each learner has their own, so that their requests are told apart from those of others.
    """
    learner = learner_of(user_id)
    return db.session.get_one(User, learner.patient_user_id).username if learner else None


def is_teacher(user: User) -> bool:
    """Return whether somebody may have classes: staff who are no learners themselves."""
    return user.role in STAFF and learner_of(user.id) is None


def class_of(user_id: str) -> LessonClass | None:
    """Return the class that a learner joined."""
    joined = select(Learner.class_id).where(Learner.user_id == user_id)
    return db.session.scalars(select(LessonClass).where(LessonClass.id.in_(joined))).one_or_none()


def classes_of(user: User) -> Sequence[LessonClass]:
    """Return the classes that a teacher finds: an administrator all, others those they made.

    The demo's clinician is many people: each keeps the address of their class.
    """
    listed = select(LessonClass).order_by(LessonClass.created_at.desc(), LessonClass.id)
    if is_shared(user):
        return ()
    if user.role == CLINICIAN:
        listed = listed.where(LessonClass.teacher_id == user.id)
    return db.session.scalars(listed).all()


def is_shared(user: User) -> bool:
    """Return whether an account is the demo's clinician."""
    return user.username == BY_ROLE[CLINICIAN].username


def learners_of(class_id: str) -> Sequence[tuple[Learner, User]]:
    """Return who joined a class, by nickname."""
    joined = select(Learner, User).join(User, User.id == Learner.user_id)
    rows = db.session.execute(joined.where(Learner.class_id == class_id).order_by(Learner.folded))
    return [(learner, user) for learner, user in rows]


def chosen(known: Sequence[Lesson], names: Collection[str] | None) -> Sequence[Lesson]:
    """Return the lessons of a class in its order; all where it names none that is known."""
    by_name = {lesson.name: lesson for lesson in known}
    return [by_name[name] for name in names or () if name in by_name] or known


def make_class(user_id: str, name: str, days: int, address: str) -> str:
    """Make a class; return its id. Raises RefusedCommand, TooOften."""
    if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
        raise RefusedCommand(
            "Enter a class name of 1 to %(most)s printable characters.", most=LONGEST_NAME
        )
    if not 1 <= days <= MOST_DAYS:
        raise RefusedCommand("Enter 1 to %(most)s days.", most=MOST_DAYS)
    now, key = int(time.time()), f"make a class from {network_of(address)}"
    with writing() as connection:
        _check(connection, key, MADE)
        _sweep(connection, now)
        count = connection.execute(select(func.count()).select_from(LessonClass)).scalar_one()
        if count >= MOST_CLASSES:
            raise RefusedCommand(
                "There are already %(most)s classes. End one first.", most=MOST_CLASSES
            )
        throttle.count(connection, key, _WINDOW_SECONDS)
        row: dict[str, Any] = {"id": secrets.token_urlsafe(24), "name": name, "code": _new_code()}
        row |= {"teacher_id": user_id, "created_at": now, "ends_at": now + days * 86_400}
        connection.execute(insert(LessonClass), [row])
        record("class-made", what=name)
    return str(row["id"])


def change_class(class_id: str, what: str, **values: Any) -> None:
    """Change a class; what says how, for the audit trail."""
    with writing() as connection:
        named = select(LessonClass.name).where(LessonClass.id == class_id)
        name = connection.execute(named).scalar_one_or_none()
        if name is not None:
            connection.execute(
                update(LessonClass).where(LessonClass.id == class_id).values(**values)
            )
            record("class-changed", what=f"{name}: {what}")


def renew_code(class_id: str) -> None:
    """Give a class another code: with the one before nobody joins any more."""
    change_class(class_id, "another code", code=_new_code())


def join(code: str, nickname: str, address: str, instead_of: str | None) -> str | None:
    """Join a class; return the secret of the session, None where no class has the code.

    Raises RefusedCommand, TooOften.
    """
    nickname = _nickname(nickname)
    network, now = network_of(address), int(time.time())
    wrong, joined = f"wrong code of a class from {network}", f"joined a class from {network}"
    with writing() as connection:
        _check(connection, wrong, WRONG_CODES)
        _check(connection, joined, JOINED)
        _sweep(connection, now)
        found = connection.execute(
            select(LessonClass.id, LessonClass.name).where(LessonClass.code == _typed(code))
        ).first()
        if found is None:
            throttle.count(connection, wrong, _WINDOW_SECONDS)
            return None
        throttle.count(connection, joined, _WINDOW_SECONDS)
        user_id = _add_learner(connection, found.id, nickname, now)
        record("class-joined", about=f"user/{user_id}", user_id=user_id, what=found.name)
        return sessions.begin(connection, user_id, complete=True, instead_of=instead_of)


def come_back(code: str, address: str, instead_of: str | None) -> str | None:
    """Begin a session with a learner's own code; None where nobody has it. Raises TooOften."""
    wrong = f"wrong code of a class from {network_of(address)}"
    with writing() as connection:
        _check(connection, wrong, WRONG_CODES)
        _sweep(connection, int(time.time()))
        own = select(Learner.user_id).where(Learner.code_digest == digest(_typed(code)))
        user_id = connection.execute(own).scalar_one_or_none()
        if user_id is None:
            throttle.count(connection, wrong, _WINDOW_SECONDS)
            return None
        record("sign-in", about=f"user/{user_id}", user_id=user_id, what="by a learner's code")
        return sessions.begin(connection, user_id, complete=True, instead_of=instead_of)


def reset_learner(class_id: str, user_id: str) -> None:
    """Delete a learner's progress, and revoke the consents and tokens that came of it."""
    with writing() as connection:
        row = _row(connection, class_id, user_id)
        if row is None:
            return
        connection.execute(delete(LessonProgress).where(LessonProgress.user_id == user_id))
        # The learner stays signed in, and the pages keep their token.
        own = (Grant.user_id.in_((user_id, row.patient_user_id)), Grant.client_id != PAGES)
        revoke_grants(connection, *own)
        of_backend = AccessToken.client_id == row.client_id
        connection.execute(update(AccessToken).where(of_backend).values(revoked=True))
        record("learner-reset", about=f"user/{user_id}")


def remove_learner(class_id: str, user_id: str) -> None:
    """Remove a learner from a class, with the accounts that were made for them."""
    with writing() as connection:
        row = _row(connection, class_id, user_id)
        if row is not None:
            _remove(connection, [row])


def end_class(class_id: str) -> None:
    """End a class: it is removed with its learners, their accounts and their progress."""
    with writing() as connection:
        _end(connection, [class_id])


def sweep(now: int) -> None:
    """End the classes whose time has come; now is in seconds since 1970."""
    over = select(LessonClass.id).where(LessonClass.ends_at <= now).limit(1)
    if db.session.execute(over).first() is not None:
        with writing() as connection:
            _sweep(connection, now)


def own_code(user_id: str) -> str:
    """Return the code with which a learner comes back: ABCD-EFGH-JKMN. Its digest is stored."""
    number = int(keyed_digest("learner's code", user_id), 16)
    letters = [
        _ALPHABET[number // len(_ALPHABET) ** place % len(_ALPHABET)] for place in range(_OWN_CODE)
    ]
    return grouped("".join(letters))


def own_secret(user_id: str) -> str:
    """Return the secret of a learner's backend, of which the digest is stored."""
    return keyed_digest("class backend", user_id)[:20]


def grouped(code: str) -> str:
    """Return a code as it is shown: ABCD-EFGH."""
    return "-".join(code[place : place + 4] for place in range(0, len(code), 4))


def _add_learner(connection: Connection, class_id: str, nickname: str, now: int) -> str:
    """Add a learner with accounts and backend; return the id. Raises RefusedCommand."""
    of_class = select(func.count()).where(Learner.class_id == class_id)
    if connection.execute(of_class).scalar_one() >= MOST_LEARNERS:
        raise RefusedCommand("This class is full: %(most)s learners.", most=MOST_LEARNERS)
    folded = _folded(nickname)
    same = select(Learner.user_id).where(Learner.class_id == class_id, Learner.folded == folded)
    if connection.execute(same).first() is not None:
        raise RefusedCommand(
            "This nickname is taken. Choose another. If it is yours, return with your "
            "personal code."
        )
    username = f"learner-{secrets.token_hex(6)}"
    clinician, patient = BY_ROLE[CLINICIAN], BY_ROLE[PATIENT]
    user_id = add_user(
        connection,
        username,
        name=nickname,
        role=CLINICIAN,
        password_hash=_NO_PASSWORD,
        fhir_user=f"Practitioner/{clinician.record}",
    )
    patient_user_id = add_user(
        connection,
        f"{username}-{PATIENT}",
        name=f"{patient.name} ({nickname})",
        role=PATIENT,
        password_hash=_NO_PASSWORD,
    )
    link(connection, patient_user_id, str(patient.record))
    add_own_backend(connection, username, name=f"Backend of {nickname}", secret=own_secret(user_id))
    row: dict[str, Any] = {
        "user_id": user_id,
        "class_id": class_id,
        "folded": folded,
        "client_id": username,
    }
    row |= {"patient_user_id": patient_user_id, "joined_at": now}
    row |= {"code_digest": digest(_typed(own_code(user_id)))}
    connection.execute(insert(Learner), [row])
    return user_id


def _row(connection: Connection, class_id: str, user_id: str) -> Any:
    theirs = (Learner.class_id == class_id, Learner.user_id == user_id)
    return connection.execute(select(Learner.__table__).where(*theirs)).one_or_none()


def _remove(connection: Connection, rows: Sequence[Any]) -> None:
    user_ids = [row.user_id for row in rows]
    for model in (Learner, LessonProgress):
        connection.execute(delete(model).where(model.user_id.in_(user_ids)))
    remove_users(connection, [*user_ids, *(row.patient_user_id for row in rows)])
    remove_backends(connection, [row.client_id for row in rows])


def _end(connection: Connection, class_ids: Collection[str]) -> None:
    is_one = LessonClass.id.in_(class_ids)
    names = connection.execute(select(LessonClass.name).where(is_one)).scalars().all()
    of_them = select(Learner.__table__).where(Learner.class_id.in_(class_ids))
    _remove(connection, connection.execute(of_them).all())
    connection.execute(delete(LessonClass).where(is_one))
    for name in names:
        record("class-ended", what=name)


def _sweep(connection: Connection, now: int) -> None:
    over = connection.execute(select(LessonClass.id).where(LessonClass.ends_at <= now)).scalars()
    if class_ids := over.all():
        _end(connection, class_ids)


def _check(connection: Connection, key: str, limit: int) -> None:
    if wait := throttle.wait_seconds(connection, key, limit):
        raise TooOften(wait)


def _new_code() -> str:
    return "".join(secrets.choice(_ALPHABET) for _place in range(_CODE))


def _typed(code: str) -> str:
    """Return a code without what people put between its letters."""
    return "".join(letter for letter in code.upper() if letter.isalnum())


def _nickname(text: str) -> str:
    """Return a nickname, its spaces made one each. Raises RefusedCommand.

    Letters and digits of any script, with few signs between them: none begins a formula in a
    table, and none turns the direction of the text.
    """
    nickname = " ".join(unicodedata.normalize("NFC", text).split())
    is_name = all(
        char in _OF_NICKNAMES or unicodedata.category(char)[0] in "LMN" for char in nickname
    )
    if not is_name or not 1 <= len(nickname) <= LONGEST_NICKNAME or not nickname[0].isalnum():
        raise RefusedCommand(
            "Enter 1 to %(most)s letters and digits, starting with one of them. Spaces, "
            "dots, hyphens and apostrophes are allowed in between.",
            most=LONGEST_NICKNAME,
        )
    return nickname


def _folded(nickname: str) -> str:
    return unicodedata.normalize("NFKC", nickname).casefold()
