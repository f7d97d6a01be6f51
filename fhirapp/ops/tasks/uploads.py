"""Uploads: files that come in pieces into a folder of their own, until an import is given them.

    uploads/<upload>/owner      whose it is: a user's id
    uploads/<upload>/0.name     a file's bytes in all, and below that its name as it was given
    uploads/<upload>/0          what of it came so far

Nothing of a name becomes a path here (names.py makes paths of them for the import). An upload has
the id of the task that it will be given to.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from fhirapp.config import ConfigurationError, Settings
from fhirapp.disk.files import because, need_space
from fhirapp.disk.flock import take
from fhirapp.ops.tasks.folder import is_id
from fhirapp.ops.tasks.names import NAME
from fhirapp.ops.tasks.start import uploads

MOST_FILES = 10_000
# In characters.
_LONGEST_NAME = 2_000
_OWNER = "owner"


class OutOfStep(Exception):
    """A piece does not go on where its file ends; have is how much of that is here."""

    def __init__(self, have: int) -> None:
        super().__init__(f"{have} bytes are here")
        self.have = have


class Uploaded(NamedTuple):
    """A file of an upload: its name as it was given, its bytes, how many of them are here."""

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
        return sum(one.size for one in self.files)

    @property
    def have(self) -> int:
        return sum(one.have for one in self.files)

    @property
    def is_whole(self) -> bool:
        return all(one.have == one.size for one in self.files)


class Piece(NamedTuple):
    """A piece of a file: where it goes, and how many bytes of the upload are still to come."""

    number: int
    name: str
    size: int
    at: int
    left: int
    content: bytes


def folder_of(settings: Settings, upload_id: str) -> Path:
    """Return the folder of an upload."""
    return uploads(settings) / upload_id


def find(settings: Settings, upload_id: str, user_id: str) -> Upload | None:
    """Return a user's upload, None where there is none of theirs."""
    folder = folder_of(settings, upload_id)
    if not is_id(upload_id) or _owner(folder) != user_id:
        return None
    try:
        numbers = sorted(int(one.name) for one in folder.iterdir() if one.name.isdecimal())
        files = [_uploaded(folder, number) for number in numbers]
        return Upload(upload_id, files, int(folder.stat().st_mtime))
    except (OSError, ValueError):
        # An import took it meanwhile.
        return None


def of_user(settings: Settings, user_id: str) -> list[Upload]:
    """Return a user's uploads that no import was given, newest first."""
    folder = uploads(settings)
    names = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    found = [one for name in names if (one := find(settings, name, user_id)) and one.files]
    return sorted(found, key=lambda one: one.touched_at, reverse=True)


def add(settings: Settings, upload_id: str, user_id: str, piece: Piece) -> int:
    """Add a piece; return how much of its file is here.

    Raises OutOfStep; ConfigurationError where it cannot be taken at all, or finds no room.
    """
    folder = folder_of(settings, upload_id)
    _check(piece)
    try:
        uploads(settings).mkdir(mode=0o700, parents=True, exist_ok=True)
        _own(folder, user_id)
        need_space(folder, max(piece.left, len(piece.content)), "the upload")
        _name(folder, piece)
        return _write(folder / str(piece.number), piece)
    except OSError as error:
        raise ConfigurationError(
            f"The upload cannot be kept ({because(error)}). What came so far is kept."
        ) from None


def _check(piece: Piece) -> None:
    if not 0 <= piece.number < MOST_FILES:
        raise ConfigurationError(
            f"An upload takes {MOST_FILES:,} files at most; put them into a zip archive."
        )
    if not 0 <= piece.at <= piece.at + len(piece.content) <= piece.size:
        raise ConfigurationError("The file changed while it was uploaded; choose it again.")
    if not piece.name or len(piece.name) > _LONGEST_NAME:
        raise ConfigurationError(f"A file's name takes 1 to {_LONGEST_NAME} characters.")


def _own(folder: Path, user_id: str) -> None:
    """Make an upload's folder, its user's. Raises ConfigurationError for somebody else's."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, exist_ok=True)
    with suppress(FileExistsError):
        _write_new(folder / _OWNER, user_id.encode())
    if _owner(folder) != user_id:
        raise ConfigurationError("Somebody else began this upload.")


def _name(folder: Path, piece: Piece) -> None:
    """Note a file's name and size, or see that they are the same yet."""
    told = f"{piece.size}\n{piece.name}".encode(errors="replace")
    path = folder / f"{piece.number}{NAME}"
    with suppress(FileExistsError):
        _write_new(path, told)
    if path.read_bytes() != told:
        raise ConfigurationError(
            "Another window uploads other files into this upload; reload the page."
        )


def _write(path: Path, piece: Piece) -> int:
    """Add a piece to its file. Raises OutOfStep, OSError; the file is then as it was."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        have = os.fstat(descriptor).st_size
        if take(descriptor, alone=True) is False or have != piece.at:
            raise OutOfStep(have)
        # Again: whoever held it may have added to it.
        have = os.fstat(descriptor).st_size
        if have != piece.at:
            raise OutOfStep(have)
        file.seek(have)
        try:
            rest = memoryview(piece.content)
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            file.truncate(have)
            raise
    os.utime(path.parent)
    return have + len(piece.content)


def _write_new(path: Path, content: bytes) -> None:
    """Write a small file. Raises FileExistsError; OSError, and it is not there then."""
    with path.open("xb") as file:
        try:
            file.write(content)
            file.flush()
        except OSError:
            path.unlink()
            raise


def _owner(folder: Path) -> str:
    try:
        return (folder / _OWNER).read_text()
    except OSError:
        return ""


def _uploaded(folder: Path, number: int) -> Uploaded:
    size, _, name = (folder / f"{number}{NAME}").read_text(errors="replace").partition("\n")
    return Uploaded(number, name, int(size), (folder / str(number)).stat().st_size)
