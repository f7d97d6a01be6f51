"""What addresses offer is downloaded for an import."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from fhirapp.config import Settings
from fhirapp.features.imports.deletions import partial_export_error, partial_export_reason
from fhirapp.features.imports.downloads import Downloads, is_address
from fhirapp.features.imports.export_address import sanitize
from fhirapp.features.pull.address import is_export, place
from fhirapp.features.pull.authorization import Credentials
from fhirapp.features.pull.download import Say, download
from fhirapp.fhir import json as fhir_json


def download_all(
    arguments: Sequence[str],
    settings: Settings,
    client_id: str | None,
    key: Path | None,
    say: Say,
    *,
    complete: bool,
) -> Downloads:
    """Download the addresses among the arguments of an import; the others are paths.

    client_id is this server's at the other, key the file with its private key, or both are None.

    Complete files stay in the instance folder until they are imported, so that a second run need
    not download them again. With complete, a partial export is refused. Raises RemoteError,
    ConfigurationError.
    """
    credentials = Credentials(client_id, key) if client_id and key else None
    for address in filter(is_address, arguments) if complete else ():
        if is_export(address):
            # Before the other server begins to work.
            _check_complete(address, address)
    downloads = Downloads()
    for argument in arguments:
        if not is_address(argument):
            downloads.paths.append(Path(argument))
            continue
        folder = settings.instance / "downloads" / sha256(argument.encode()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        manifest = download(argument, folder, credentials, say)
        if complete and not (manifest.request is None and is_export(argument)):
            _check_complete(argument, manifest.request)
        downloads.folders.append(folder)
        downloads.paths += [file.path for file in (*manifest.output, *manifest.deleted)]
        for file in manifest.error:
            downloads.faults += (f"{place(argument)}: {text}" for text in _errors_in(file.path))
        if manifest.base:
            downloads.bases.append(manifest.base.rstrip("/") + "/")
        if manifest.transaction_time:
            downloads.times.append(manifest.transaction_time)
    return downloads


def _check_complete(address: str, request: str | None) -> None:
    """Refuse an address whose export is partial. Raises ConfigurationError."""
    if reason := partial_export_reason(request):
        raise partial_export_error(place(address), reason)


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
