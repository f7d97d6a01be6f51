"""Uploads: files that come in pieces into a folder of their own, until an import is given them.

    uploads/<upload>/owner      whose it is: a user's id
    uploads/<upload>/0.name     a file's bytes in all, and below that its name as it was given
    uploads/<upload>/0          what of it came so far

Nothing of a name becomes a path here (names.py makes paths of them for the import). An upload has
the id of the job that it will be given to.

An import reads uploaded files under their own names, where those are harmless.
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

# Files of an upload by their number, their names beside them, and where they are laid out.
NAME, LAID = ".name", "laid"
_DEEPEST, _LONGEST_PART, _LONGEST = 32, 200, 1_000
# Control characters, halves of characters, and what turns the rest of a line around.
_NEVER = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
_UNKNOWN = "\ufffd"
# A folder above, and what an import takes for standard input.
_NO_PARTS = ("..", "-")


def safe_name(name: str, number: int) -> PurePosixPath:
    """Return the relative path that a name means; where it might harm, one made of its number."""
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
    suffix = next((one for one in SUFFIXES if end.endswith(one)), "")
    return PurePosixPath(f"file-{number}{suffix}")


def lay_out(given: Path) -> tuple[list[Path], list[str]]:
    """Move uploaded files to where their names say, below the folder LAID.

    Return what to import, relative to that, and what is to be said of the other names.
    """
    laid, said = given / LAID, []
    laid.mkdir(mode=0o700, exist_ok=True)
    uploaded = sorted(int(one.name) for one in given.iterdir() if one.name.isdecimal())
    for number in uploaded:
        name = (given / f"{number}{NAME}").read_text(errors="replace").partition("\n")[2]
        place = _placed(given / str(number), laid, name, number)
        if str(place) != name.strip("/"):
            said.append(f"{_NEVER.sub(_UNKNOWN, name)} was taken as {place}.")
    found = sorted(Path(one.name) for one in laid.iterdir())
    records = [one for one in found if (laid / one).is_dir() or _is_record(one.name)]
    if not records:
        return found, said
    others = (one for one in found if one not in records)
    said += [f"{one} is read only where a table names it." for one in others]
    return records, said


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
    # Somebody gave another file the name that is made of this number.
    (laid / f"again-{number}").mkdir(mode=0o700)
    place = PurePosixPath(f"again-{number}", *numbered(name, number).parts)
    file.rename(laid / place)
    return place


def _is_record(name: str) -> bool:
    """Say whether a file's name is one that records have."""
    return name.lower().endswith(SUFFIXES)


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


def uploads(settings: Settings) -> Path:
    """Return the folder of what is uploaded, until an import is given it."""
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
