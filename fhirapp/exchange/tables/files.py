"""Documents beside a table: read by a path that stays in the table's folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath, PureWindowsPath

LARGEST = 64 * 1024 * 1024
# Where the system knows them: no link is followed at the last step, no pipe waited for.
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)

_TYPES = {
    ".pdf": "application/pdf",
    ".txt": "text/plain",
    ".text": "text/plain",
    ".md": "text/markdown",
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "application/xhtml+xml",
    ".rtf": "application/rtf",
    ".xml": "text/xml",
    ".json": "application/json",
    ".csv": "text/csv",
    ".doc": "application/msword",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".xls": "application/vnd.ms-excel",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".gif": "image/gif",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".dcm": "application/dicom",
    ".zip": "application/zip",
}


class Unreachable(ValueError):
    """A document that is not read; str() says why."""


def media_type_of(name: str) -> str | None:
    """Return the media type that a file's ending stands for."""
    return _TYPES.get(PurePosixPath(name).suffix.casefold())


def read_beside(folder: Path | None, name: str) -> bytes:
    """Return the bytes of a file of the folder. Raises Unreachable."""
    if folder is None:
        raise Unreachable("cannot be read: the table does not come from a folder")
    path = _inside(folder, name)
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        raise Unreachable(f"cannot be read: {error.strerror}") from None
    try:
        return _content(descriptor)
    except OSError as error:
        raise Unreachable(f"cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)


def _content(descriptor: int) -> bytes:
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        raise Unreachable("is not a file")
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        # It may have grown since.
        content = b"" if about.st_size > LARGEST else file.read(LARGEST + 1)
    if max(about.st_size, len(content)) > LARGEST:
        raise Unreachable(f"is larger than {LARGEST} bytes")
    if not content:
        raise Unreachable("is empty")
    return content


def _inside(folder: Path, name: str) -> Path:
    """Return where a name leads, links resolved, if that is in the folder. Raises Unreachable."""
    windows = PureWindowsPath(name)
    # A table from Windows writes notes\visit.pdf.
    relative = PurePosixPath(windows.as_posix())
    if windows.drive or windows.root or relative.is_absolute() or ".." in relative.parts:
        raise Unreachable("must be a path in the table's own folder, without ..")
    try:
        home = folder.resolve(strict=True)
        path = (home / relative).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise Unreachable("is not there") from None
    if not path.is_relative_to(home):
        raise Unreachable("leads out of the table's folder")
    return path
