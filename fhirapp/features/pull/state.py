"""The folder of a download, and its progress in state.json, so that another run can continue.

output/, deleted/ and error/ hold complete files, parts/ the file that is being fetched. The names
of files are chosen here; the manifest of the other server names none.

The manifest lists the files of the export, and the resources that were deleted since.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from fhirapp.features.imports.export_address import sanitize
from fhirapp.features.pull.address import RemoteError, following, place
from fhirapp.fhir import json as fhir_json
from fhirapp.file_locks import lock

OUTPUT, DELETED, ERROR = KINDS = ("output", "deleted", "error")
_FOLDERS = ("parts", *KINDS)
# Characters of a request; the parameters that limit the export may be at its end.
_LONGEST_REQUEST = 20_000


class ManifestEntry(NamedTuple):
    """A file of the export; resources and size in bytes where the manifest has them."""

    kind: str
    type: str
    address: str
    resources: int | None
    size: int | None


class ManifestPage(NamedTuple):
    """A page of a manifest; next is the address of the page after it."""

    transaction_time: str | None
    request: str | None
    requires_token: bool | None
    entries: tuple[ManifestEntry, ...]
    next: str | None


def read_manifest(body: bytes, address: str) -> ManifestPage:
    """Parse the manifest that was fetched from an address. Raises RemoteError if it is invalid."""
    try:
        content = fhir_json.loads(body)
    except ValueError:
        raise _no_manifest(address, "it is not JSON") from None
    if not isinstance(content, dict) or not isinstance(content.get(OUTPUT), list):
        raise _no_manifest(address, "it has no list of output")
    needs = content.get("requiresAccessToken")
    return ManifestPage(
        _text(content.get("transactionTime")),
        _text(content.get("request"), _LONGEST_REQUEST),
        needs if isinstance(needs, bool) else None,
        tuple(_entries(content, address)),
        _next(content, address),
    )


def _entries(content: dict[str, Any], address: str) -> Iterator[ManifestEntry]:
    for kind in KINDS:
        listed = content.get(kind) or []
        if not isinstance(listed, list):
            raise _no_manifest(address, f"its {kind} is no list")
        for entry in listed:
            url = entry.get("url") if isinstance(entry, dict) else None
            if not isinstance(url, str) or not url:
                raise _no_manifest(address, f"a file of its {kind} has no url")
            type_name = _text(entry.get("type")) or ""
            size = _number(entry.get("fileSize"))
            yield ManifestEntry(
                kind, type_name, following(address, url), _number(entry.get("count")), size
            )


def _next(content: dict[str, Any], address: str) -> str | None:
    """Return the address of the manifest's next page, None on the last page."""
    links = content.get("link")
    for link in links if isinstance(links, list) else ():
        if isinstance(link, dict) and link.get("relation") == "next":
            url = link.get("url")
            if not isinstance(url, str):
                raise _no_manifest(address, "its next page has no url")
            return following(address, url)
    return None


def _text(value: Any, longest: int = 300) -> str | None:
    return sanitize(value, longest) if isinstance(value, str) else None


def _number(value: Any) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_whole else None


def _no_manifest(address: str, why: str) -> RemoteError:
    where = place(address)
    return RemoteError(
        f"{where} is not the manifest of a Bulk Data export ({why}); to export from a FHIR server, "
        f"name its export address, such as {where.rstrip('/')}/$export."
    )


_STATE, _LOCK = "state.json", "lock"
_VERSION = 1
_TYPE = re.compile("[A-Za-z]{1,64}")


@dataclass
class FileState:
    """A file of the export; length is its size in bytes here, once it is complete."""

    kind: str
    type: str
    address: str
    resources: int | None
    size: int | None
    name: str
    length: int | None = None


@dataclass
class DownloadState:
    """The progress of a download; job is the status address of the export."""

    address: str
    base: str | None = None
    job: str | None = None
    transaction_time: str | None = None
    requires_token: bool | None = None
    # None until the manifest was read.
    files: list[FileState] | None = None
    is_finished: bool = False
    # The request of the export, from the manifest.
    request: str | None = None
    version: int = field(default=_VERSION, kw_only=True)

    def take(self, entries: Sequence[ManifestEntry], transaction_time: str | None) -> bool:
        """Note the files of a manifest; False if they differ from those noted before."""
        offered = [(entry.kind, entry.type, entry.resources, entry.size) for entry in entries]
        if self.files is not None:
            known = [(file.kind, file.type, file.resources, file.size) for file in self.files]
            if (known, self.transaction_time) != (offered, transaction_time):
                return False
            # The files are the same; their addresses may have new signatures.
            for known_file, entry in zip(self.files, entries, strict=True):
                known_file.address = entry.address
            return True
        self.transaction_time = transaction_time
        self.files = [
            FileState(*entry, name=_name(number, entry.type))
            for number, entry in enumerate(entries, 1)
        ]
        return True


def _name(number: int, type_name: str) -> str:
    safe_type = type_name if _TYPE.fullmatch(type_name) else "Resource"
    return f"{number:05}.{safe_type}.ndjson"


class DownloadFolder:
    """A folder that holds one download."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def part(self, file: FileState) -> Path:
        """Return the path of a file while it is fetched."""
        return self.folder / "parts" / file.name

    def whole(self, file: FileState) -> Path:
        """Return the path of a complete file."""
        return self.folder / file.kind / file.name

    def is_whole(self, file: FileState) -> bool:
        """Say whether a file is complete, with the length that was fetched."""
        try:
            return file.length is not None and self.whole(file).stat().st_size == file.length
        except FileNotFoundError:
            return False

    def load(self, address: str) -> DownloadState:
        """Return the progress of the download. Raises RemoteError if its address is another."""
        try:
            content = json.loads((self.folder / _STATE).read_bytes())
        except FileNotFoundError:
            return DownloadState(address)
        except ValueError:
            content = None
        state = _state(content)
        if state is None:
            raise RemoteError(
                f"The file {self.folder / _STATE} cannot be read; delete the folder, and the "
                "download starts again."
            )
        if state.address != address:
            raise RemoteError(
                f"The folder {self.folder} holds a download of {place(state.address)}; name "
                "another folder, or delete that one."
            )
        return state

    def save(self, state: DownloadState) -> None:
        """Store the progress of the download."""
        draft = self.folder / f"{_STATE}.new"
        with private_file(draft) as file:
            file.write(json.dumps(asdict(state), indent=1).encode())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.folder / _STATE)

    def clear(self) -> None:
        """Remove the download; other files in the folder stay."""
        for name in _FOLDERS:
            for path in (self.folder / name).glob("*.ndjson*"):
                path.unlink()
        (self.folder / _STATE).unlink(missing_ok=True)


def _state(content: Any) -> DownloadState | None:
    if not isinstance(content, dict) or content.get("version") != _VERSION:
        return None
    try:
        files = content.pop("files")
        state = DownloadState(**content)
        state.files = None if files is None else [_file_state(file) for file in files]
    except (TypeError, KeyError):
        return None
    # A name is a path that is written to, so only generated names are valid.
    names = [_name(number, file.type) for number, file in enumerate(state.files or (), 1)]
    if [file.name for file in state.files or ()] != names:
        return None
    return state


def _file_state(content: dict[str, Any]) -> FileState:
    """Return a file's state, without fields that other versions of this program store."""
    return FileState(*(content[known.name] for known in fields(FileState)))


def private_file(path: Path) -> BinaryIO:
    """Open a new file, in place of an earlier one, that only this user can read."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    return path.open("wb")


@contextmanager
def opened(folder: Path) -> Iterator[DownloadFolder]:
    """Create and lock a folder of a download. Raises RemoteError if another run has locked it."""
    with ExitStack() as stack:
        try:
            for name in _FOLDERS:
                (folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
            is_ours = stack.enter_context(lock(folder / _LOCK, wait=False, create=True))
        except OSError as error:
            raise RemoteError(f"The folder {folder} cannot be made: {error.strerror}.") from None
        if is_ours is False:
            raise RemoteError(f"Another run downloads into {folder}; wait for it.")
        yield DownloadFolder(folder)
