"""Uploads: files that come in pieces into a folder of their own, until an import takes it.

    uploads/<upload>/owner      the id of its user
    uploads/<upload>/0.name     a file's size in bytes, and on the next line its name at the user's
    uploads/<upload>/0          the part of it that has come so far

No name becomes a path before the import takes the upload: lay_out() then moves each file to its own
name, where that is harmless. An upload has the id of the job that will take it.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from fhirapp.config import ConfigurationError, Settings
from fhirapp.disk import because, is_older, need_space, take
from fhirapp.exchange.imports.inputs import SUFFIXES
from fhirapp.jobs.table import is_id

MOST_FILES = 10_000
# In characters.
_LONGEST_NAME = 2_000
_OWNER = "owner"
# The suffix of the file with a file's name, and the folder where files get their names.
NAME, LAID = ".name", "laid"
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


def uploads(settings: Settings) -> Path:
    """Return the folder of the uploads that no import has taken yet."""
    return settings.instance / "uploads"


def old(settings: Settings, before: float) -> list[Path]:
    """Return the uploads to which nothing was added since a moment."""
    return [path for path in uploads(settings).glob("*") if is_older(path, before)]


def folder_of(settings: Settings, upload_id: str) -> Path:
    """Return the folder of an upload."""
    return uploads(settings) / upload_id


def find(settings: Settings, upload_id: str, user_id: str) -> Upload | None:
    """Return a user's upload, None where there is none of theirs."""
    folder = folder_of(settings, upload_id)
    if not is_id(upload_id) or _owner(folder) != user_id:
        return None
    try:
        files = [_uploaded(folder, number) for number in _numbers(folder)]
        return Upload(upload_id, files, int(folder.stat().st_mtime))
    except (OSError, ValueError):
        # An import has taken it meanwhile.
        return None


def of_user(settings: Settings, user_id: str) -> list[Upload]:
    """Return a user's uploads that no import has taken yet, newest first."""
    own = (find(settings, path.name, user_id) for path in uploads(settings).glob("*"))
    begun = [upload for upload in own if upload and upload.files]
    return sorted(begun, key=lambda upload: upload.touched_at, reverse=True)


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
    """Create an upload's folder for its user. Raises ConfigurationError for another user's."""
    if not folder.is_dir():
        folder.mkdir(mode=0o700, exist_ok=True)
    with suppress(FileExistsError):
        _write_new(folder / _OWNER, user_id.encode())
    if _owner(folder) != user_id:
        raise ConfigurationError("This upload belongs to another user.")


def _name(folder: Path, piece: Piece) -> None:
    """Record a file's name and size, or check that they are the same as before."""
    record = f"{piece.size}\n{piece.name}".encode(errors="replace")
    path = folder / f"{piece.number}{NAME}"
    with suppress(FileExistsError):
        _write_new(path, record)
    if path.read_bytes() != record:
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
        # Checked again under the lock: its last holder may have added to the file.
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
    """Write a small new file, whole or not at all. Raises FileExistsError, OSError."""
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


def _numbers(folder: Path) -> list[int]:
    """Return the numbers of the files in an upload's folder."""
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal())


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


def lay_out(folder: Path) -> tuple[list[Path], list[str]]:
    """Move an upload's files to where their names say, below the folder LAID.

    Return what to import, relative to that, and remarks on files that were renamed or left out.
    """
    laid, remarks = folder / LAID, []
    laid.mkdir(mode=0o700, exist_ok=True)
    for number in _numbers(folder):
        name = (folder / f"{number}{NAME}").read_text(errors="replace").partition("\n")[2]
        place = _placed(folder / str(number), laid, name, number)
        if str(place) != name.strip("/"):
            remarks.append(f"{_NEVER.sub(_UNKNOWN, name)} was taken as {place}.")
    paths = sorted(Path(path.name) for path in laid.iterdir())
    records = [
        path for path in paths if (laid / path).is_dir() or path.name.lower().endswith(SUFFIXES)
    ]
    if not records:
        return paths, remarks
    others = (path for path in paths if path not in records)
    remarks += [f"{path} is read only where a table names it." for path in others]
    return records, remarks


def _placed(file: Path, laid: Path, name: str, number: int) -> PurePosixPath:
    for place in (safe_name(name, number), numbered(name, number)):
        target = laid / place
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            # Another file has the name of the folder.
            continue
        if not target.exists():
            file.rename(target)
            return place
    # Another file came with the name that is made of this number.
    (laid / f"again-{number}").mkdir(mode=0o700)
    place = PurePosixPath(f"again-{number}", *numbered(name, number).parts)
    file.rename(laid / place)
    return place
