"""Uploads: files that come in pieces, to whichever server, until an import takes them.

Each piece is a file of its own (fhirapp/files.py) and a row of upload_piece, which decides: a piece
counts once its row is there, and of two that are sent for the same place one finds none.

No name becomes a path before the import takes the upload: lay_out() then writes each file under its
own name, where that is harmless. An upload has the id of the job that will take it.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from itertools import chain, groupby
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from fhirapp.config import ConfigurationError, settings
from fhirapp.db import db, writing
from fhirapp.disk import because, need_space
from fhirapp.exchange.imports import SUFFIXES
from fhirapp.exchange.models import UploadPiece
from fhirapp.files import orphans, shared_files
from fhirapp.jobs import table
from fhirapp.jobs.table import JobRow, is_id

_pieces = UploadPiece.__table__
_UPLOADS = "uploads"
MOST_FILES = 10_000
# In bytes.
_LARGEST = 2**50
# In characters.
_LONGEST_NAME = 2_000
# Of a path: how many parts it may have, and the bytes of a part and of the whole.
_DEEPEST, _LONGEST_PART, _LONGEST = 32, 200, 1_000
# Control characters, surrogates, and what turns the rest of a line around.
_NEVER = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
_UNKNOWN = "\ufffd"
# A folder above, and what an import takes for standard input.
_NO_PARTS = ("..", "-")


class OutOfStep(Exception):
    """A piece does not go on where its file ends; have is how much of that is here."""

    def __init__(self, have: int) -> None:
        super().__init__(f"{have} bytes are here")
        self.have = have


class Uploaded(NamedTuple):
    """A file of an upload: its name at the user's, its bytes, how many of them are here."""

    number: int
    name: str
    size: int
    have: int


class Upload(NamedTuple):
    """An upload: its files, when something came last in seconds since 1970."""

    id: str
    files: list[Uploaded]
    touched_at: int

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def have(self) -> int:
        return sum(file.have for file in self.files)

    @property
    def is_whole(self) -> bool:
        return all(file.have == file.size for file in self.files)


class Piece(NamedTuple):
    """A piece of a file: where it goes, and how many bytes of the upload are still to come."""

    number: int
    name: str
    size: int
    at: int
    left: int
    content: bytes


def find(upload_id: str, user_id: str) -> Upload | None:
    """Return a user's upload that no import has taken yet, None where there is none of theirs."""
    if not is_id(upload_id):
        return None
    found = _uploads(_pieces.c.upload_id == upload_id, _pieces.c.user_id == user_id)
    return next(iter(found), None)


def of_user(user_id: str) -> list[Upload]:
    """Return a user's uploads that no import has taken yet, newest first."""
    found = _uploads(_pieces.c.user_id == user_id)
    return sorted(found, key=lambda upload: upload.touched_at, reverse=True)


def _uploads(*conditions: ColumnElement[bool]) -> list[Upload]:
    columns = _pieces.c
    query = (
        select(
            columns.upload_id,
            columns.number,
            columns.name,
            columns.size,
            func.max(columns.at + columns.length),
            func.max(columns.added_at),
        )
        .where(*conditions, columns.upload_id.not_in(select(JobRow.id)))
        .group_by(columns.upload_id, columns.number, columns.name, columns.size)
        .order_by(columns.upload_id, columns.number)
    )
    found: dict[str, Upload] = {}
    with db.engine.connect() as connection:
        for upload_id, number, name, size, have, touched_at in connection.execute(query):
            upload = found.get(upload_id, Upload(upload_id, [], 0))
            upload.files.append(Uploaded(number, name, size, have))
            found[upload_id] = upload._replace(touched_at=max(upload.touched_at, touched_at))
    return [*found.values()]


def is_kept(upload_id: str) -> bool:
    """Say whether there is anything of an upload."""
    query = select(_pieces.c.number).where(_pieces.c.upload_id == upload_id).limit(1)
    with db.engine.connect() as connection:
        return connection.execute(query).first() is not None


def hand_over(upload_id: str, job_id: str) -> bool:
    """Give what an import was to read to another; return whether there was anything."""
    with writing() as connection:
        moved = connection.execute(
            update(UploadPiece)
            .where(_pieces.c.upload_id == upload_id)
            .values(upload_id=job_id, added_at=int(time.time()))
        )
    return moved.rowcount > 0


def remove(upload_id: str) -> None:
    """Remove an upload. Its pieces that cannot be removed now have no row, and go later."""
    with writing() as connection:
        condition = _pieces.c.upload_id == upload_id
        stored = [*connection.execute(select(_pieces.c.stored).where(condition)).scalars()]
        connection.execute(delete(UploadPiece).where(condition))
    with suppress(OSError):
        shared_files(settings()).delete(filter(None, stored))


def remove_old(kind: str, before: int) -> None:
    """Remove the uploads to which nothing was added since a moment, as their imports ended.

    kind is that of the imports' jobs.
    """
    touched = func.max(_pieces.c.added_at)
    query = select(_pieces.c.upload_id).group_by(_pieces.c.upload_id).having(touched < before)
    with db.engine.connect() as connection:
        old = [*connection.execute(query).scalars()]
    for upload_id in old:
        job = table.find(upload_id, kind)
        if job is None or not (job.is_under_way or (job.ended_at or job.created_at) >= before):
            remove(upload_id)
    # Of those that were handed over the folder has another name.
    folder_name = func.substr(_pieces.c.stored, len(_UPLOADS) + 2, len(table.new_id()))
    with db.engine.connect() as connection:
        known = {*connection.execute(select(folder_name).distinct()).scalars()}
    for folder in orphans(shared_files(settings()), _UPLOADS, known, before):
        if is_id(folder.removeprefix(f"{_UPLOADS}/")):
            shared_files(settings()).delete_folder(folder)


def add(upload_id: str, user_id: str, piece: Piece) -> int:
    """Add a piece; return how much of its file is here.

    Raises OutOfStep; ConfigurationError where it cannot be taken at all, or finds no room.
    """
    _check(piece)
    # PostgreSQL stores no NUL; like it this is a character that no name keeps.
    name = piece.name.encode(errors="replace").decode().replace("\0", "\x1a")
    with db.engine.connect() as connection:
        have = _have(connection, upload_id, user_id, piece, name)
    if (have or 0) != piece.at:
        raise OutOfStep(have or 0)
    if not piece.content and (piece.size or have is not None):
        return piece.at
    store = shared_files(settings())
    stored = f"{_UPLOADS}/{upload_id}/{piece.number}-{piece.at}-{token_hex(8)}" * bool(
        piece.content
    )
    try:
        if store.is_folder:
            need_space(Path(store.place), max(piece.left, len(piece.content)), "the upload")
        if stored:
            store.put(stored, piece.content)
    except OSError as error:
        raise ConfigurationError(
            f"The upload cannot be kept ({because(error)}). What came so far is kept."
        ) from None
    row = {
        "upload_id": upload_id,
        "number": piece.number,
        "at": piece.at,
        "user_id": user_id,
        "name": name,
        "size": piece.size,
        "length": len(piece.content),
        "stored": stored,
        "added_at": int(time.time()),
    }
    try:
        with writing() as connection:
            # Again, as nobody else writes now.
            have = _have(connection, upload_id, user_id, piece, name)
            if (have or 0) != piece.at:
                raise OutOfStep(have or 0)
            if have is None or piece.content:
                connection.execute(insert(UploadPiece), [row])
    except BaseException:
        if stored:
            with suppress(OSError):
                store.delete([stored])
        raise
    return piece.at + len(piece.content)


def _have(
    connection: Connection, upload_id: str, user_id: str, piece: Piece, name: str
) -> int | None:
    """Return how much of a piece's file is here, None where it is not begun.

    Raises ConfigurationError where upload or file are others.
    """
    columns = _pieces.c
    owners = select(columns.user_id).where(columns.upload_id == upload_id).limit(1)
    if connection.execute(owners).scalar() not in (None, user_id):
        raise ConfigurationError("This upload belongs to another user.")
    last = (
        select(columns.name, columns.size, columns.at + columns.length)
        .where(columns.upload_id == upload_id, columns.number == piece.number)
        .order_by(columns.at.desc())
        .limit(1)
    )
    row = connection.execute(last).first()
    if row is None:
        return None
    if (row[0], row[1]) != (name, piece.size):
        raise ConfigurationError(
            "Another window uploads other files into this upload; reload the page."
        )
    return int(row[2])


def _check(piece: Piece) -> None:
    if not 0 <= piece.number < MOST_FILES:
        raise ConfigurationError(
            f"An upload takes {MOST_FILES:,} files at most; put them into a zip archive."
        )
    if not 0 <= piece.at <= piece.at + len(piece.content) <= piece.size <= _LARGEST:
        raise ConfigurationError("The file changed while it was uploaded; choose it again.")
    if not piece.name or len(piece.name) > _LONGEST_NAME:
        raise ConfigurationError(f"A file's name takes 1 to {_LONGEST_NAME} characters.")


def safe_name(name: str, number: int) -> PurePosixPath:
    """Return the relative path that a name means; a harmful one is replaced by its number."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if (
        not parts
        or len(parts) > _DEEPEST
        or _NEVER.search(name)
        or any(part in _NO_PARTS or len(part.encode()) > _LONGEST_PART for part in parts)
        or len(name.encode()) > _LONGEST
    ):
        return numbered(name, number)
    return PurePosixPath(*parts)


def numbered(name: str, number: int) -> PurePosixPath:
    """Return a path made of a file's number, that ends as its name does where that is known."""
    end = _NEVER.sub("", name).lower()
    suffix = next((suffix for suffix in SUFFIXES if end.endswith(suffix)), "")
    return PurePosixPath(f"file-{number}{suffix}")


def lay_out(upload_id: str, laid: Path) -> tuple[list[Path], list[str]]:
    """Write an upload's files where their names say, below a folder of this machine.

    Return what to import, relative to that, and remarks on files that were renamed.
    Raises ConfigurationError where there is no room, OSError.
    """
    columns, remarks = _pieces.c, []
    query = (
        select(columns.number, columns.name, columns.stored, columns.length)
        .where(columns.upload_id == upload_id)
        .order_by(columns.number, columns.at)
    )
    with db.engine.connect() as connection:
        rows = connection.execute(query).all()
    laid.mkdir(mode=0o700, exist_ok=True)
    need_space(laid, sum(row.length for row in rows), "what was uploaded")
    store = shared_files(settings())
    for number, pieces in groupby(rows, key=lambda row: row.number):
        first = next(pieces)
        place = _place(laid, first.name, number)
        with (laid / place).open("xb") as file:
            for row in chain([first], pieces):
                if row.stored:
                    file.write(store.read(row.stored))
        if str(place) != first.name.strip("/"):
            remarks.append(f"{_NEVER.sub(_UNKNOWN, first.name)} was stored as {place}.")
    return sorted(Path(path.name) for path in laid.iterdir()), remarks


def _place(laid: Path, name: str, number: int) -> PurePosixPath:
    """Return where a file goes, in a folder that is there."""
    for place in (safe_name(name, number), numbered(name, number)):
        target = laid / place
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            # Another file has the name of the folder.
            continue
        if not target.exists():
            return place
    # Another file came with the name that is made of this number.
    (laid / f"again-{number}").mkdir(mode=0o700)
    return PurePosixPath(f"again-{number}", *numbered(name, number).parts)
