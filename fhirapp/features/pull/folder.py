"""The folder of a download: its state, and the files of the export, each fetched and checked.

output/, deleted/ and error/ hold complete files, whose names do not come from the other server.
state.json has the progress, so that another run can continue.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from fhirapp.disk import write_atomically
from fhirapp.features.imports.export_address import sanitize
from fhirapp.features.pull.remote import (
    GZIP,
    Body,
    DamagedError,
    FileGone,
    RemoteError,
    RemoteServer,
    fhir_base,
    redact_url,
)
from fhirapp.file_locks import lock

OUTPUT, DELETED, ERROR = KINDS = ("output", "deleted", "error")
LOCK = "lock"
_STATE = "state.json"
_VERSION = 1
_TYPE = re.compile("[A-Za-z]{1,64}")
_BLOCK = 1 << 20
# How often the free disk space is checked.
_CHECK_BYTES = 64 << 20
_LAST_LINE = 16 << 20
_BOM = b"\xef\xbb\xbf"
_HEADERS = {"Accept": "application/fhir+ndjson, application/ndjson"}


@dataclass(frozen=True)
class RemoteFile:
    """A file of the export; resources and size in bytes where the manifest has them."""

    kind: str
    type: str
    address: str
    resources: int | None
    size: int | None


@dataclass
class DownloadState:
    """The progress of a download; job is the status address of an export that was started for it.

    files are None until the manifest was read; request is that of the export, from the manifest.
    """

    address: str
    job: str | None = None
    transaction_time: str | None = None
    requires_token: bool | None = None
    files: list[RemoteFile] | None = None
    is_finished: bool = False
    request: str | None = None
    version: int = field(default=_VERSION, kw_only=True)

    @property
    def base(self) -> str | None:
        """The base of the FHIR server, if it is known."""
        return fhir_base(self.address) or (fhir_base(self.request) if self.request else None)


class DownloadFolder:
    """A folder that holds one download."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, number: int, file: RemoteFile) -> Path:
        """Return the path of a complete file; number is its position in the manifest, from 1."""
        type_name = file.type if _TYPE.fullmatch(file.type) else "Resource"
        return self.folder / file.kind / f"{number:05}.{type_name}.ndjson"

    def load(self, address: str) -> DownloadState:
        """Return the progress of the download. Raises RemoteError if its address is another."""
        try:
            state = _state(json.loads((self.folder / _STATE).read_bytes()))
        except FileNotFoundError:
            return DownloadState(address)
        except (ValueError, TypeError, KeyError):
            raise RemoteError(
                f"The file {self.folder / _STATE} cannot be read; delete the folder, and the "
                "download starts again."
            ) from None
        if state.address != address:
            raise RemoteError(
                f"The folder {self.folder} holds a download of {redact_url(state.address)}; name "
                "another folder, or delete that one."
            )
        return state

    def save(self, state: DownloadState) -> None:
        """Store the progress of the download."""
        with write_atomically(self.folder / _STATE) as file:
            file.write(json.dumps(asdict(state), indent=1).encode())

    def clear(self) -> None:
        """Remove the download; other files in the folder stay."""
        for name in KINDS:
            for path in (self.folder / name).glob("*.ndjson"):
                path.unlink()
        (self.folder / _STATE).unlink(missing_ok=True)


def _state(content: Any) -> DownloadState:
    """Return a stored state, without fields that other versions of this program store.

    Raises ValueError, TypeError, KeyError.
    """
    if content["version"] != _VERSION:
        raise ValueError(f"version {content['version']}")
    known = {field.name for field in fields(DownloadState)}
    state = DownloadState(**{name: content[name] for name in known & content.keys()})
    if state.files is not None:
        names = [field.name for field in fields(RemoteFile)]
        state.files = [RemoteFile(*(file[name] for name in names)) for file in content["files"]]
    return state


@contextmanager
def opened(folder: Path) -> Iterator[DownloadFolder]:
    """Create and lock a folder of a download. Raises RemoteError if another run has locked it."""
    with ExitStack() as stack:
        try:
            for name in KINDS:
                (folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
            # The age that sweep() of jobs.py looks at begins again with each run.
            os.utime(folder)
            is_ours = stack.enter_context(lock(folder / LOCK, wait=False, create=True))
        except OSError as error:
            raise RemoteError(f"The folder {folder} cannot be made: {error.strerror}.") from None
        if is_ours is False:
            raise RemoteError(f"Another run downloads into {folder}; wait for it.")
        yield DownloadFolder(folder)


def fetch(server: RemoteServer, file: RemoteFile, path: Path, *, with_token: bool) -> int:
    """Fetch a file, check it and store it at a path; return its size in bytes.

    Raises TransientError, FileGone, RemoteError; nothing is stored then.
    """
    name, most = redact_url(file.address), server.bounds.file_bytes
    with server.open("GET", file.address, _HEADERS, with_token=with_token) as answer:
        if answer.status_code != 200:
            fault = server.fault(f"{name} was not fetched", file.address, answer)
            raise FileGone(str(fault)) if answer.status_code in (401, 403, 404, 410) else fault
        body = Body(answer, most, f"{name} is larger than {most} bytes; it is refused.")
        if body.encoding not in ("", "identity", *GZIP):
            raise RemoteError(
                f"{name} comes encoded as {sanitize(body.encoding, 40)}, which was not asked for."
            )
        if answer.headers.get("Content-Type", "").lower().startswith("text/html"):
            raise RemoteError(f"{name} is a web page, not NDJSON.")
        with write_atomically(path) as part:
            need_room = partial(_need_room, name, path.parent, server.bounds.free_bytes)
            size = _copy(body, part, need_room)
            found = count_resources(part)
            if file.resources is not None and found != file.resources:
                raise DamagedError(f"{found} resources came where {file.resources} were announced")
            if file.size is not None and file.size not in (body.received, size):
                raise DamagedError(f"{size} bytes came where {file.size} were announced")
            if not body.is_framed and not is_ended(part):
                raise DamagedError("the connection was lost in the middle of a resource")
    return size


def _copy(body: Body, part: BinaryIO, need_room: Callable[[int], None]) -> int:
    """Write a body, without gzip, and return its size. Raises TransientError, RemoteError."""
    size = checked_at = 0
    need_room(body.length or 0)
    for block in body.decoded("file"):
        size += len(block)
        part.write(block)
        if size - checked_at >= _CHECK_BYTES:
            checked_at = size
            need_room(max(0, (body.length or 0) - body.received))
    return size


def _need_room(name: str, folder: Path, spare: int, size: int) -> None:
    """Check that the disk has room for so many bytes more. Raises RemoteError."""
    free = shutil.disk_usage(folder).free
    if free < size + spare:
        raise RemoteError(
            f"{name} needs {size} bytes more, and the disk of {folder} has {free} left; make room, "
            "run this again, and it continues."
        )


def count_resources(file: BinaryIO) -> int:
    """Return the number of lines that are not blank.

    Raises DamagedError if the first begins no JSON object.
    """
    count, is_begun, is_first = 0, False, True
    file.seek(0)
    # In pieces: a line may be too long for the memory.
    for piece in iter(partial(file.readline, _BLOCK), b""):
        text = piece.strip()
        if is_first:
            text = piece.removeprefix(_BOM).strip()
            if text and not text.startswith(b"{"):
                raise DamagedError("the file is not NDJSON")
            is_first = not text
        is_begun = is_begun or bool(text)
        if piece.endswith(b"\n"):
            count += is_begun
            is_begun = False
    return count + is_begun


def is_ended(file: BinaryIO) -> bool:
    """Say whether a file ends with a whole line."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LAST_LINE))
    end = file.read()
    if not end or end.endswith(b"\n"):
        return True
    start = end.rfind(b"\n") + 1
    if start == 0 and size > _LAST_LINE:
        return end.rstrip().endswith(b"}")
    try:
        orjson.loads(end[start:].removeprefix(_BOM))
    except orjson.JSONDecodeError:
        return False
    return True
