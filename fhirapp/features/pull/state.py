"""The folder of a download, and its progress in state.json, so that another run can continue.

output/, deleted/ and error/ hold complete files; parts/ the one that is being fetched. All names
are our own.

The manifest lists the files of the export, and what was deleted meanwhile.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from fhirapp.features.imports.export_address import sanitize
from fhirapp.features.pull.address import RemoteError, following, place
from fhirapp.fhir import json as fhir_json

OUTPUT, DELETED, ERROR = KINDS = ("output", "deleted", "error")
# Whole, since what narrows an export may stand at its end.
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
    """Return what a manifest at an address says. Raises RemoteError where it is none."""
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
        for one in listed:
            url = one.get("url") if isinstance(one, dict) else None
            if not isinstance(url, str) or not url:
                raise _no_manifest(address, f"a file of its {kind} has no url")
            type_name = _text(one.get("type")) or ""
            size = _number(one.get("fileSize"))
            yield ManifestEntry(
                kind, type_name, following(address, url), _number(one.get("count")), size
            )


def _next(content: dict[str, Any], address: str) -> str | None:
    """Return where a manifest that comes in pages goes on."""
    links = content.get("link")
    for one in links if isinstance(links, list) else ():
        if isinstance(one, dict) and one.get("relation") == "next":
            url = one.get("url")
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


try:
    import fcntl
except ImportError:  # Windows: two runs in one folder are not kept apart there.
    fcntl = None  # type: ignore[assignment]

_STATE, _LOCK = "state.json", "lock"
_VERSION = 1
_TYPE = re.compile("[A-Za-z]{1,64}")


@dataclass
class FileState:
    """A file that is offered; length is its size in bytes here, once it is complete."""

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
    # None until the server has told.
    files: list[FileState] | None = None
    is_finished: bool = False
    # How the export was asked for, as the server tells it.
    request: str | None = None
    version: int = field(default=_VERSION, kw_only=True)

    def take(self, entries: Sequence[ManifestEntry], transaction_time: str | None) -> bool:
        """Take up what is offered; False where it is not what was offered before."""
        offered = [(one.kind, one.type, one.resources, one.size) for one in entries]
        if self.files is not None:
            known = [(one.kind, one.type, one.resources, one.size) for one in self.files]
            if (known, self.transaction_time) != (offered, transaction_time):
                return False
            # The same files; their addresses may have been signed anew.
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
        """Return where a file is while it is fetched."""
        return self.folder / "parts" / file.name

    def whole(self, file: FileState) -> Path:
        """Return where a file is when it is whole."""
        return self.folder / file.kind / file.name

    def is_whole(self, file: FileState) -> bool:
        """Say whether a file is here as it was fetched."""
        try:
            return file.length is not None and self.whole(file).stat().st_size == file.length
        except FileNotFoundError:
            return False

    def load(self, address: str) -> DownloadState:
        """Return how far the download of an address is. Raises RemoteError for another one's."""
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
        """Write how far the download is."""
        draft = self.folder / f"{_STATE}.new"
        with private_file(draft) as file:
            file.write(json.dumps(asdict(state), indent=1).encode())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.folder / _STATE)

    def clear(self) -> None:
        """Forget the download; nothing else in the folder is touched."""
        for name in ("parts", "output", "deleted", "error"):
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
    # What a name leads to is written to: it must be one of ours.
    names = [_name(number, file.type) for number, file in enumerate(state.files or (), 1)]
    if [file.name for file in state.files or ()] != names:
        return None
    return state


def _file_state(content: dict[str, Any]) -> FileState:
    """Return a file's state, without fields that other versions of this program store."""
    return FileState(*(content[known.name] for known in fields(FileState)))


def private_file(path: Path) -> BinaryIO:
    """Open a new or emptied file that only this user may read."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    return path.open("wb")


@contextmanager
def opened(folder: Path) -> Iterator[DownloadFolder]:
    """Hold a folder, made where there is none. Raises RemoteError where another run has it."""
    try:
        for name in ("parts", "output", "deleted", "error"):
            (folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise RemoteError(f"The folder {folder} cannot be made: {error.strerror}.") from None
    try:
        if fcntl is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RemoteError(f"Another run downloads into {folder}; wait for it.") from None
        yield DownloadFolder(folder)
    finally:
        with suppress(OSError):
            os.close(descriptor)
