"""Fetch an export of another FHIR server into a folder, whole and checked.

    An address …/$export starts an export at the server, which is polled, fetched file by file, and
    then deleted there. A run that was stopped can be repeated: as long as the server has the
    export, no other is started, and only the files are fetched that are not complete. An address of
    a manifest, or of the status of an export, is fetched in the same way; an export that others
    started is not deleted.

Source: FHIR Bulk Data Access 2.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import NamedTuple

from fhirapp.features.imports.export_address import sanitize
from fhirapp.features.pull import connection
from fhirapp.features.pull.address import (
    ExportExpired,
    RemoteError,
    TransientError,
    fhir_base,
    following,
    is_export,
    origin,
    place,
)
from fhirapp.features.pull.authorization import Authorization, Credentials, RemoteServer
from fhirapp.features.pull.files import Fetch, FileGone
from fhirapp.features.pull.state import (
    DELETED,
    ERROR,
    OUTPUT,
    DownloadFolder,
    DownloadState,
    FileState,
    ManifestPage,
    opened,
    read_manifest,
)

Say = Callable[[str], None]
# Failures one after the other, until a person is told.
_FIRST_ATTEMPTS = 4
_ATTEMPTS = 10
_MOST_PAGES = 1_000
_FETCHED = (
    "It was fetched already, for a dry run or an import that did not end; later changes on the "
    "server are not in it."
)
_USUAL, _SYSTEM = connection.Bounds(), connection.Clock()


class RemoteFile(NamedTuple):
    """A file that was fetched: where it is, the type it is said to hold, where it came from."""

    path: Path
    type: str
    address: str


class DownloadManifest(NamedTuple):
    """What was fetched. base is that of the FHIR server, without a slash at its end, if known.

    deleted are Bundles of what was deleted at the server, error OperationOutcomes; all are NDJSON.
    request is how the export was asked for, as the server tells it.
    """

    address: str
    base: str | None
    transaction_time: str | None
    output: tuple[RemoteFile, ...]
    deleted: tuple[RemoteFile, ...]
    error: tuple[RemoteFile, ...]
    request: str | None = None


def download(
    address: str,
    folder: Path,
    credentials: Credentials | None,
    say: Say,
    *,
    bounds: connection.Bounds = _USUAL,
    clock: connection.Clock = _SYSTEM,
) -> DownloadManifest:
    """Fetch what an address offers, except files that an earlier run fetched into the folder.

    say is told how far it is. Raises RemoteError, a ConfigurationError; what is here stays.
    """
    origin(address)
    try:
        with opened(folder) as where:
            return _run(_Download(address, where, credentials, say, bounds, clock), where, say)
    except OSError as error:
        raise RemoteError(
            f"The folder {folder} cannot be written: {error.strerror}; fix that, run this again, "
            "and it continues."
        ) from None


def _run(run: _Download, where: DownloadFolder, say: Say) -> DownloadManifest:
    try:
        return run.run()
    except ExportExpired:
        if not run.is_ours:
            raise
    say("The export is no longer on the server; it is started again.")
    where.clear()
    return run.run()


class _Download:
    """One run."""

    def __init__(
        self,
        address: str,
        where: DownloadFolder,
        credentials: Credentials | None,
        say: Say,
        bounds: connection.Bounds,
        clock: connection.Clock,
    ) -> None:
        self.is_ours = is_export(address)
        self._address, self._place, self._say, self._clock = address, where, say, clock
        self._state, self._last_message = DownloadState(address), ""
        self._server = RemoteServer(connection.Wire(bounds, clock), None)
        if credentials is not None:
            wire = self._server.wire
            self._server.authorization = Authorization(wire, credentials, address, clock, say)

    def run(self) -> DownloadManifest:
        """Fetch everything. Raises RemoteError; ExportExpired where it must be begun anew."""
        self._state = known = self._place.load(self._address)
        if not (known.is_finished and all(map(self._place.is_whole, known.files or ()))):
            self._fetch_all()
            self._delete_job()
            self._state.is_finished = True
            self._save()
        else:
            self._say(_FETCHED)
        return self._manifest()

    def _fetch_all(self) -> None:
        if self.is_ours and self._state.job is None:
            self._kick_off()
        self._take_offer()
        files = self._state.files or []
        for number, file in enumerate(files, 1):
            if not self._place.is_whole(file):
                self._fetch(file)
                kind = "" if file.kind == OUTPUT else f" ({file.kind})"
                size = f"{file.length:,} bytes of {sanitize(file.type, 64) or 'resources'}{kind}"
                self._say(f"File {number} of {len(files)}: {size}")

    def _kick_off(self) -> None:
        what = "No export was started"
        headers = {"Accept": "application/fhir+json", "Prefer": "respond-async"}

        def attempt() -> str:
            with self._server.open("GET", self._address, headers) as answer:
                if answer.status != 202:
                    raise self._refusal(what, self._address, answer)
                named = answer.getheader("Content-Location")
            if not named:
                raise RemoteError(
                    f"{what}: the server does not say where its progress can be read."
                )
            return following(self._address, named)

        self._state.job = connection.retry(what, _FIRST_ATTEMPTS, self._clock, attempt)
        self._state.base = fhir_base(self._address)
        self._save()
        self._say(f"The export has started: {place(self._state.job)}")

    def _refusal(self, what: str, address: str, answer: HTTPResponse) -> Exception:
        if answer.status < 300:
            return RemoteError(f"{what}: {place(address)} answers {answer.status}, and not 202.")
        return self._server.fault(what, address, answer)

    def _take_offer(self) -> None:
        """Take up what the server offers now. Raises ExportExpired where that is something else."""
        pages = list(self._pages(self._state.job or self._address))
        first = pages[0]
        entries = [entry for page in pages for entry in page.entries]
        if not self._state.take(entries, first.transaction_time):
            self._say("The server offers other files than before; they are fetched again.")
            self._place.clear()
            fresh = DownloadState(self._address, self._state.base, self._state.job)
            self._state = fresh
            fresh.take(entries, first.transaction_time)
        self._state.requires_token = first.requires_token
        self._state.request = first.request
        if self._state.base is None and first.request is not None:
            self._state.base = fhir_base(first.request)
        self._save()

    def _pages(self, address: str) -> Iterator[ManifestPage]:
        following_page: str | None = address
        for _ in range(_MOST_PAGES):
            if following_page is None:
                return
            offer = self._offer(following_page)
            following_page = offer.next
            yield offer
        raise RemoteError(f"{place(address)} has more than {_MOST_PAGES} pages; it is refused.")

    def _offer(self, address: str) -> ManifestPage:
        """Wait until an export is complete; return what it offers. Raises RemoteError."""
        what, waits = "The progress of the export is not known", 0
        headers = {"Accept": "application/json"}

        def attempt() -> ManifestPage | float:
            with self._server.open("GET", address, headers) as answer:
                if answer.status == 202:
                    self._tell(answer.getheader("X-Progress"))
                    wait = connection.parse_retry_after(
                        answer.getheader("Retry-After"), self._clock.now()
                    )
                    return connection.next_wait(waits + 1, wait)
                if answer.status in (404, 410):
                    raise ExportExpired(
                        str(self._server.fault("The export is not there", address, answer))
                    )
                if answer.status != 200:
                    raise self._server.fault("The export failed", address, answer)
                most = self._server.bounds.manifest_bytes
                return read_manifest(self._server.wire.read(answer, most, place(address)), address)

        while not isinstance(
            offer := connection.retry(what, _ATTEMPTS, self._clock, attempt), ManifestPage
        ):
            self._clock.wait(offer)
            waits += 1
        return offer

    def _tell(self, progress: str | None) -> None:
        """Tell how far the server is, whenever it says something else."""
        message = f"The server is exporting{': ' + sanitize(progress, 100) if progress else ''}"
        if message != self._last_message:
            self._last_message = message
            self._say(message)

    def _fetch(self, file: FileState) -> None:
        """Fetch a file; where its address serves no more, ask once for that of now."""
        for is_last in (False, True):
            self._server.requires_token = self._state.requires_token
            fetch = Fetch(self._server, file, self._place, self._save)
            try:
                connection.retry(
                    f"{place(file.address)} was not fetched", _ATTEMPTS, self._clock, fetch.attempt
                )
                return
            except FileGone as gone:
                if is_last:
                    raise gone.fault from None
            files = self._state.files
            self._take_offer()
            if self._state.files is not files:
                raise ExportExpired("The export is another one now; run this again.")

    def _delete_job(self) -> None:
        """Tell the server that its files are not needed any more; if it minds, so be it."""
        if self._state.job is None:
            return
        try:
            with self._server.open("DELETE", self._state.job, {}) as answer:
                if answer.status < 300 or answer.status in (404, 410):
                    return
                reason = f"it answers {answer.status}"
        except (TransientError, RemoteError) as error:
            reason = str(error).rstrip(".")
        self._say(
            f"The server could not be told to delete the export ({reason}); it will do so in time."
        )

    def _save(self) -> None:
        self._place.save(self._state)

    def _manifest(self) -> DownloadManifest:
        def of(kind: str) -> tuple[RemoteFile, ...]:
            return tuple(
                RemoteFile(self._place.whole(file), file.type, place(file.address))
                for file in self._state.files or ()
                if file.kind == kind
            )

        state = self._state
        base, time = state.base, state.transaction_time
        return DownloadManifest(
            self._address, base, time, of(OUTPUT), of(DELETED), of(ERROR), state.request
        )
