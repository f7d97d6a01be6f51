"""What `fhirapp import` is given, once addresses of other servers are fetched to this disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from shutil import rmtree

from fhirapp.cli.common import say
from fhirapp.config import Settings
from fhirapp.exchange.importing.narrowed import refusal, why_narrowed
from fhirapp.exchange.remote.address import is_export, place
from fhirapp.exchange.remote.authorization import Credentials
from fhirapp.exchange.remote.download import download
from fhirapp.exchange.remote.faults import shown
from fhirapp.fhir import json as fhir_json

_SCHEMES = ("http://", "https://")


class Fetched:
    """Paths to import, the bases that their references mean, the folders to forget when done."""

    def __init__(self) -> None:
        self.paths: list[Path] = []
        self.bases: list[str] = []
        self.folders: list[Path] = []
        # What servers say that their exports lack.
        self.faults: list[str] = []

    def forget(self) -> None:
        """Remove what was fetched: it is imported."""
        for folder in self.folders:
            rmtree(folder, ignore_errors=True)


def is_address(given: str) -> bool:
    """Say whether an argument is an address, and no path."""
    return given.startswith(_SCHEMES)


def fetch(
    given: Sequence[str],
    settings: Settings,
    credentials: Credentials | None,
    *,
    whole: bool = False,
) -> Fetched:
    """Fetch the addresses among what was given; what is no address is a path as it stands.

    What is fetched lies in the instance folder until it is imported: a second run goes on where
    the first one stopped. Where it must be whole, an export of a part is refused. Raises
    RemoteError, ConfigurationError.
    """
    fetched = Fetched()
    for one in filter(is_address, given) if whole else ():
        if is_export(one):
            # Before another server is set to work.
            _check_whole(one, one)
    for one in given:
        if not is_address(one):
            fetched.paths.append(Path(one))
            continue
        folder = settings.instance / "downloads" / sha256(one.encode()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        manifest = download(one, folder, credentials, say)
        if whole and not (manifest.request is None and is_export(one)):
            _check_whole(one, manifest.request)
        fetched.folders.append(folder)
        fetched.paths += [file.path for file in (*manifest.output, *manifest.deleted)]
        for file in manifest.error:
            fetched.faults += (f"{place(one)}: {text}" for text in _serious(file.path))
        if manifest.base:
            fetched.bases.append(manifest.base.rstrip("/") + "/")
    return fetched


def _check_whole(given: str, request: str | None) -> None:
    """Refuse an address whose export was asked for a part. Raises ConfigurationError."""
    if why := why_narrowed(request):
        raise refusal(place(given), why)


def _serious(path: Path) -> Iterator[str]:
    """Yield what OperationOutcomes say that is more than a hint; what cannot be read is."""
    with path.open("rb") as file:
        for line in file:
            try:
                issues = fhir_json.loads(line)["issue"]
                told = [
                    one.get("diagnostics") or one["code"]
                    for one in issues
                    if one["severity"] in ("fatal", "error")
                ]
            except (ValueError, TypeError, KeyError, AttributeError):
                told = [line.decode(errors="replace")]
            yield from (shown(str(one), 300) for one in told)
