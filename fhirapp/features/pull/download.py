"""Fetch exports of other FHIR servers into folders, whole and checked.

    An address …/$export starts an export at the server, which is polled, fetched file by file, and
    then deleted there. A run that was stopped can be repeated: as long as the server has the
    export, no other is started, and only the files are fetched that are not complete. An address of
    a manifest, or of the status of an export, is fetched in the same way; an export that others
    started is not deleted.

Source: FHIR Bulk Data Access 2.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from fhirapp.features.imports.deletions import partial_export_error, partial_export_reason
from fhirapp.features.imports.downloads import Downloads, is_address
from fhirapp.features.imports.export_address import sanitize
from fhirapp.features.pull import remote
from fhirapp.features.pull.authorization import AuthorizedServer, Credentials
from fhirapp.features.pull.folder import (
    KINDS,
    OUTPUT,
    DownloadFolder,
    DownloadState,
    RemoteFile,
    fetch,
    opened,
)
from fhirapp.features.pull.remote import RemoteError, is_export, redact_url, resolve_url, retry
from fhirapp.fhir import json as fhir_json

Say = Callable[[str], None]
# Failures in a row, until the download stops with a message.
_FIRST_ATTEMPTS = 4
_ATTEMPTS = 10
_MOST_PAGES = 1_000
# Characters of a request; the parameters that limit the export may be at its end.
_LONGEST_REQUEST = 20_000
_USUAL, _SYSTEM = remote.Bounds(), remote.Clock()


class DownloadManifest(NamedTuple):
    """The files of a download, all of them NDJSON.

    base is that of the FHIR server, without a final slash, if known; request is how the export was
    requested, as the server tells it. deleted are Bundles of what was deleted at the server, error
    are OperationOutcomes.
    """

    base: str | None
    transaction_time: str | None
    request: str | None
    output: list[Path]
    deleted: list[Path]
    error: list[Path]


def download_all(
    arguments: Sequence[str],
    folder: Path,
    client_id: str | None,
    key: Path | None,
    say: Say,
    *,
    complete: bool,
    prefix: str = "",
) -> Downloads:
    """Download the addresses among the arguments of an import; the others are paths.

    client_id is this server's at the other, key the file with its private key, or both are None.

    Each address has its folder within a folder, whose name begins with prefix. Its files stay until
    they are imported, so that a second run need not download them again. With complete, a partial
    export is refused. Raises RemoteError, ConfigurationError.
    """
    credentials = Credentials(client_id, key) if client_id and key else None
    for address in filter(is_address, arguments) if complete else ():
        if is_export(address):
            # Before the other server starts an export.
            _check_complete(address, address)
    downloads = Downloads()
    for argument in arguments:
        if not is_address(argument):
            downloads.paths.append(Path(argument))
            continue
        own = folder / f"{prefix}{sha256(argument.encode()).hexdigest()[:16]}"
        manifest = download(argument, own, credentials, say)
        if complete and not (manifest.request is None and is_export(argument)):
            _check_complete(argument, manifest.request)
        downloads.folders.append(own)
        downloads.paths += [*manifest.output, *manifest.deleted]
        for path in manifest.error:
            downloads.faults += (f"{redact_url(argument)}: {text}" for text in _errors_in(path))
        if manifest.base:
            downloads.bases.append(manifest.base.rstrip("/") + "/")
        if manifest.transaction_time:
            downloads.times.append(manifest.transaction_time)
    return downloads


def _check_complete(address: str, request: str | None) -> None:
    """Refuse an address whose export is partial. Raises ConfigurationError."""
    if reason := partial_export_reason(request):
        raise partial_export_error(redact_url(address), reason)


def _errors_in(path: Path) -> Iterator[str]:
    """Yield the errors in a file of OperationOutcomes; a line that cannot be read is one."""
    with path.open("rb") as file:
        for line in file:
            try:
                errors = [
                    issue.get("diagnostics") or issue["code"]
                    for issue in fhir_json.loads(line)["issue"]
                    if issue["severity"] in ("fatal", "error")
                ]
            except (ValueError, TypeError, KeyError, AttributeError):
                errors = [line.decode(errors="replace")]
            yield from (sanitize(str(error), 300) for error in errors)


def download(
    address: str,
    folder: Path,
    credentials: Credentials | None,
    say: Say,
    *,
    bounds: remote.Bounds = _USUAL,
    clock: remote.Clock = _SYSTEM,
) -> DownloadManifest:
    """Fetch what an address offers, except files that an earlier run fetched into the folder.

    say is called with the progress. Raises RemoteError, a ConfigurationError; the files stay.
    """
    remote.origin(address)
    try:
        with opened(folder) as where:
            if credentials is None:
                server = remote.RemoteServer(bounds, clock)
            else:
                server = AuthorizedServer(bounds, clock, credentials, address, say)
            run = _Download(address, where, server, say)
            try:
                return run.run()
            except remote.ExportExpired:
                if not is_export(address):
                    raise
            say("The export is no longer on the server; it is started again.")
            where.clear()
            return run.run()
    except OSError as error:
        raise RemoteError(
            f"The folder {folder} cannot be written: {error.strerror}; fix that, run this again, "
            "and it continues."
        ) from None


class _Download:
    """One run."""

    def __init__(
        self, address: str, where: DownloadFolder, server: remote.RemoteServer, say: Say
    ) -> None:
        self._address, self._where, self._server, self._say = address, where, server, say
        self._state, self._last_message = DownloadState(address), ""

    def run(self) -> DownloadManifest:
        """Fetch everything. Raises RemoteError; ExportExpired where it must be started anew."""
        state = self._state = self._where.load(self._address)
        if state.is_finished and not self._missing():
            self._say(
                "It was fetched already, for an import that did not end; later changes on the "
                "server are not in it."
            )
        else:
            if is_export(self._address) and state.job is None:
                self._kick_off()
            self._read_manifest()
            self._fetch_files()
            self._delete_job()
            self._save(is_finished=True)
        paths = {
            kind: [path for _, file, path in self._files() if file.kind == kind] for kind in KINDS
        }
        state = self._state
        return DownloadManifest(state.base, state.transaction_time, state.request, **paths)

    def _save(self, **changes: Any) -> None:
        self._state = replace(self._state, **changes)
        self._where.save(self._state)

    def _files(self) -> Iterator[tuple[int, RemoteFile, Path]]:
        """Yield the files of the manifest: their numbers, from 1, and paths."""
        for number, file in enumerate(self._state.files or (), 1):
            yield number, file, self._where.path(number, file)

    def _missing(self) -> tuple[int, RemoteFile, Path] | None:
        return next((found for found in self._files() if not found[2].exists()), None)

    def _kick_off(self) -> None:
        what = "No export was started"
        headers = {"Accept": "application/fhir+json", "Prefer": "respond-async"}

        def attempt() -> str:
            with self._server.open("GET", self._address, headers) as answer:
                status = answer.status_code
                if status < 300 and status != 202:
                    name = redact_url(self._address)
                    raise RemoteError(f"{what}: {name} answers {status}, and not 202.")
                if status != 202:
                    raise self._server.fault(what, self._address, answer)
                status_address = answer.headers.get("Content-Location")
            if not status_address:
                raise RemoteError(
                    f"{what}: the server does not say where its progress can be read."
                )
            return resolve_url(self._address, status_address)

        job = retry(what, _FIRST_ATTEMPTS, self._server.clock, attempt)
        self._save(job=job)
        self._say(f"The export has started: {redact_url(job)}")

    def _read_manifest(self) -> None:
        """Note what the server offers now. Raises ExportExpired, RemoteError."""
        address = self._state.job or self._address
        pages = [first := self._poll(address)]
        while next_address := pages[-1].next:
            if len(pages) == _MOST_PAGES:
                raise RemoteError(
                    f"{redact_url(address)} has more than {_MOST_PAGES} pages; it is refused."
                )
            pages.append(self._poll(next_address))
        files = [file for page in pages for file in page.files]
        if self._state.files is not None:
            # If the files are the same, their addresses may still have new signatures.
            known, offered = (
                [replace(file, address="") for file in listed]
                for listed in (self._state.files, files)
            )
            if (known, self._state.transaction_time) != (offered, first.transaction_time):
                self._say("The server offers other files than before; they are fetched again.")
                self._where.clear()
        self._save(
            transaction_time=first.transaction_time,
            request=first.request,
            requires_token=first.requires_token,
            files=files,
            is_finished=False,
        )

    def _poll(self, address: str) -> _ManifestPage:
        """Wait until an export is complete; return its manifest. Raises RemoteError."""
        server, waits = self._server, 0

        def attempt() -> _ManifestPage | float:
            with server.open("GET", address, {"Accept": "application/json"}) as answer:
                if answer.status_code == 202:
                    self._tell(answer.headers.get("X-Progress"))
                    return remote.next_wait(waits + 1, server.retry_after(answer))
                if answer.status_code in (404, 410):
                    fault = server.fault("The export is not there", address, answer)
                    raise remote.ExportExpired(str(fault))
                if answer.status_code != 200:
                    raise server.fault("The export failed", address, answer)
                body = server.read(answer, address, server.bounds.manifest_bytes)
                return _parse_manifest(body, address)

        what = "The progress of the export is not known"
        while isinstance(found := retry(what, _ATTEMPTS, server.clock, attempt), float):
            server.clock.wait(found)
            waits += 1
        return found

    def _tell(self, progress: str | None) -> None:
        """Tell how far the server is, whenever it says something else."""
        message = f"The server is exporting{': ' + sanitize(progress, 100) if progress else ''}"
        if message != self._last_message:
            self._last_message = message
            self._say(message)

    def _fetch_files(self) -> None:
        """Fetch the missing files; where one is gone, use its present address once."""
        gone = 0
        while missing := self._missing():
            number, file, path = missing
            try:
                size = self._fetch(file, path)
            except remote.FileGone:
                if gone == number:
                    raise
                gone = number
                self._read_manifest()
            else:
                kind = "" if file.kind == OUTPUT else f" ({file.kind})"
                content = f"{size:,} bytes of {sanitize(file.type, 64) or 'resources'}{kind}"
                self._say(f"File {number} of {len(self._state.files or ())}: {content}")

    def _fetch(self, file: RemoteFile, path: Path) -> int:
        name, needs_token = redact_url(file.address), self._state.requires_token
        if needs_token and not self._server.trusts(file.address):
            raise RemoteError(f"{name} wants a token, which only goes to the server of the export.")
        # False: the address is the proof, and a token beside it is too much (Bulk Data §2.5.6).
        attempt = partial(fetch, self._server, file, path, with_token=needs_token is not False)
        return retry(f"{name} was not fetched", _ATTEMPTS, self._server.clock, attempt)

    def _delete_job(self) -> None:
        """Have the server delete the export, if this download started it; a failure is told."""
        if self._state.job is None:
            return
        try:
            with self._server.open("DELETE", self._state.job, {}) as answer:
                if answer.status_code < 300 or answer.status_code in (404, 410):
                    return
                reason = f"it answers {answer.status_code}"
        except (remote.TransientError, RemoteError) as error:
            reason = str(error).rstrip(".")
        self._say(
            f"The server could not be told to delete the export ({reason}); it will do so in time."
        )


class _ManifestPage(NamedTuple):
    """A page of a manifest; next is the address of the page after it."""

    transaction_time: str | None
    request: str | None
    requires_token: bool | None
    files: list[RemoteFile]
    next: str | None


def _parse_manifest(body: bytes, address: str) -> _ManifestPage:
    """Return the manifest that was fetched from an address. Raises RemoteError if it is invalid."""
    try:
        content = fhir_json.loads(body)
    except ValueError:
        raise _invalid(address, "it is not JSON") from None
    if not isinstance(content, dict) or not isinstance(content.get(OUTPUT), list):
        raise _invalid(address, "it has no list of output")
    needs = content.get("requiresAccessToken")
    return _ManifestPage(
        _text(content.get("transactionTime")),
        _text(content.get("request"), _LONGEST_REQUEST),
        needs if isinstance(needs, bool) else None,
        [file for kind in KINDS for file in _listed(content, kind, address)],
        _next_address(content, address),
    )


def _listed(content: dict[str, Any], kind: str, address: str) -> Iterator[RemoteFile]:
    """Yield the files of a kind."""
    entries = content.get(kind) or []
    if not isinstance(entries, list):
        raise _invalid(address, f"its {kind} is no list")
    for entry in entries:
        url = entry.get("url") if isinstance(entry, dict) else None
        if not isinstance(url, str) or not url:
            raise _invalid(address, f"a file of its {kind} has no url")
        count, size = _number(entry.get("count")), _number(entry.get("fileSize"))
        type_name = _text(entry.get("type")) or ""
        yield RemoteFile(kind, type_name, resolve_url(address, url), count, size)


def _next_address(content: dict[str, Any], address: str) -> str | None:
    links = content.get("link")
    for link in links if isinstance(links, list) else ():
        if isinstance(link, dict) and link.get("relation") == "next":
            if not isinstance(link.get("url"), str):
                raise _invalid(address, "its next page has no url")
            return resolve_url(address, link["url"])
    return None


def _invalid(address: str, why: str) -> RemoteError:
    name = redact_url(address)
    return RemoteError(
        f"{name} is not the manifest of a Bulk Data export ({why}); to export from a FHIR server, "
        f"name its export address, such as {name.rstrip('/')}/$export."
    )


def _text(value: Any, longest: int = 300) -> str | None:
    return sanitize(value, longest) if isinstance(value, str) else None


def _number(value: Any) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_whole else None
