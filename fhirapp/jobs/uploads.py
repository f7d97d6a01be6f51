"""Uploads: files that come in pieces, all to one server, until an import takes them.

    uploads/<upload>/<number>         what has come of a file
    uploads/<upload>/<number>.json    whose it is, its name and its size

They lie in the server's own instance folder: a piece that reaches another server is refused. Of two
pieces that are sent for the same place of a file, one is taken.

No name becomes a path before the import takes the upload: lay_out() then writes each file under its
own name, where that is harmless. An upload has the id of the job that will take it.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path, PurePosixPath
from shutil import copyfile, rmtree
from typing import Any, NamedTuple

from fhirapp.config import ConfigurationError, settings
from fhirapp.disk import is_older, need_space, refuse_failures, write_atomically
from fhirapp.file_locks import lock
from fhirapp.jobs import queue
from fhirapp.jobs.queue import is_id

ELSEWHERE = (
    "This server does not have what was uploaded before. Send it again. With several servers, the "
    "load balancer must keep each browser on one server (sticky sessions); or use a command "
    "instead: fhirapp import, fhirapp restore."
)
MOST_FILES = 10_000
# In bytes.
_LARGEST = 2**50
# In characters.
_LONGEST_NAME = 2_000
# Of a path: how many parts it may have, and the bytes of a part and of the whole.
_DEEPEST, _LONGEST_PART, _LONGEST = 32, 200, 1_000
_SUFFIX = re.compile(r"\.[a-z0-9]{1,10}$")
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
    user_id: str
    files: list[Uploaded]
    touched_at: int

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def summary(self) -> str:
        """The number of files and their bytes, which a form sends back."""
        return f"{len(self.files)}:{self.size}"

    @property
    def have(self) -> int:
        return sum(file.have for file in self.files)

    @property
    def is_whole(self) -> bool:
        return all(file.have == file.size for file in self.files)


class UploadChunk(NamedTuple):
    """A piece of a file: where it goes, and how many bytes of the upload are still to come."""

    number: int
    name: str
    size: int
    at: int
    left: int
    content: bytes


def find(upload_id: str, user_id: str) -> Upload | None:
    """Return a user's upload that no job has taken yet, None where this server has none."""
    if not is_id(upload_id) or queue.find_any(upload_id) is not None:
        return None
    upload = _read(_folder_of(upload_id))
    return upload if upload is not None and upload.user_id == user_id else None


def of_user(user_id: str) -> list[Upload]:
    """Return a user's uploads to this server that no job has taken yet, newest first."""
    taken = queue.all_ids()
    found = [_read(folder) for folder in _folders() if folder.name not in taken]
    mine = [upload for upload in found if upload is not None and upload.user_id == user_id]
    return sorted(mine, key=lambda upload: upload.touched_at, reverse=True)


def _folder_of(upload_id: str) -> Path:
    return settings().instance / "uploads" / upload_id


def _folders() -> list[Path]:
    return [folder for folder in _folder_of("").glob("*") if is_id(folder.name)]


def _read(folder: Path) -> Upload | None:
    """Return the upload in a folder, None where there is none."""
    first = _description(folder, 0)
    if first is None:
        return None
    numbers = sorted(int(path.stem) for path in folder.glob("*.json"))
    files = []
    for number in numbers:
        if description := _description(folder, number):
            have = _have(folder, number)
            files.append(Uploaded(number, description["name"], description["size"], have))
    return Upload(folder.name, first["user_id"], files, int(folder.stat().st_mtime))


def _description(folder: Path, number: int) -> dict[str, Any] | None:
    """Return user_id, name and size of a file, None where nothing of it is here."""
    path = folder / f"{number}.json"
    return json.loads(path.read_bytes()) if path.exists() else None


def _have(folder: Path, number: int) -> int:
    """Return how many bytes of a file are here."""
    path = folder / str(number)
    return path.stat().st_size if path.exists() else 0


def is_kept(upload_id: str) -> bool:
    """Say whether this server has anything of an upload."""
    return _folder_of(upload_id).is_dir()


def hand_over(upload_id: str, job_id: str) -> bool:
    """Give what an import was to read to another; return whether there was anything."""
    folder = _folder_of(job_id)
    try:
        _folder_of(upload_id).rename(folder)
    except FileNotFoundError:
        return False
    os.utime(folder)
    return True


def remove(upload_id: str) -> None:
    """Remove an upload. What cannot be removed now goes later."""
    rmtree(_folder_of(upload_id), ignore_errors=True)


def remove_old(before: int) -> None:
    """Remove the uploads to which nothing was added since a moment, and whose job ended."""
    for folder in _folders():
        if is_older(folder, before):
            job = queue.find_any(folder.name)
            if job is None or not (job.is_under_way or (job.ended_at or job.created_at) >= before):
                remove(folder.name)


def add(upload_id: str, user_id: str, piece: UploadChunk) -> int:
    """Add a piece; return how much of its file is here.

    The first piece of file 0 begins the upload. Raises OutOfStep; ConfigurationError where the
    piece cannot be taken at all, or finds no room.
    """
    _check(piece)
    folder = _folder_of(upload_id)
    is_first = piece.number == piece.at == 0
    if not is_first and not folder.is_dir():
        raise ConfigurationError(ELSEWHERE)
    need_space(settings().instance, max(piece.left, len(piece.content)), "the upload")
    with refuse_failures("The upload cannot be kept", ". What came so far is kept."):
        if is_first:
            folder.parent.mkdir(mode=0o700, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        with lock(folder / "lock", create=True):
            _append(folder, user_id, piece)
    return piece.at + len(piece.content)


def _append(folder: Path, user_id: str, piece: UploadChunk) -> None:
    """Append a piece to its file, which nobody else does now.

    Raises OutOfStep, OSError; ConfigurationError where upload or file are others.
    """
    # PostgreSQL stores no NUL; like it this is a character that no name keeps.
    name = piece.name.encode(errors="replace").decode().replace("\0", "\x1a")
    description = {"user_id": user_id, "name": name, "size": piece.size}
    first, known = (_description(folder, number) for number in (0, piece.number))
    if (first or description)["user_id"] != user_id:
        raise ConfigurationError("This upload belongs to another user.")
    if (known or description) != description:
        raise ConfigurationError(
            "Another window uploads other files into this upload; reload the page."
        )
    have = _have(folder, piece.number)
    if have != piece.at:
        raise OutOfStep(have)
    if known is None:
        with write_atomically(folder / f"{piece.number}.json") as file:
            file.write(json.dumps(description).encode())
    path = folder / str(piece.number)
    path.touch(mode=0o600)
    with path.open("ab") as file:
        file.write(piece.content)
        file.flush()
        os.fsync(file.fileno())
    os.utime(folder)


def _check(piece: UploadChunk) -> None:
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
    """Return a path made of a file's number, that ends as its name does."""
    suffix = _SUFFIX.search(_NEVER.sub("", name).lower())
    return PurePosixPath(f"file-{number}{suffix[0] if suffix else ''}")


def lay_out(upload_id: str, laid: Path) -> tuple[list[Path], list[str]]:
    """Copy an upload's files to where their names say, below a folder.

    Return what to import, relative to that, and remarks on files that were renamed.
    Raises ConfigurationError where there is no room, OSError.
    """
    folder, remarks = _folder_of(upload_id), []
    upload = _read(folder)
    if upload is None:
        raise ConfigurationError(ELSEWHERE)
    laid.mkdir(mode=0o700, exist_ok=True)
    need_space(laid, upload.size, "what was uploaded")
    for file in upload.files:
        place = _place(laid, file.name, file.number)
        copyfile(folder / str(file.number), laid / place)
        if str(place) != file.name.strip("/"):
            remarks.append(f"{_NEVER.sub(_UNKNOWN, file.name)} was stored as {place}.")
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
