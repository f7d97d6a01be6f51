"""`fhirapp backup` and `fhirapp restore`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import click

from fhirapp.cli.common import demo_option, say
from fhirapp.config import Settings
from fhirapp.disk import human_size
from fhirapp.environment import load_settings
from fhirapp.features.backups.archive import InvalidBackup
from fhirapp.features.backups.backup import MissingPassphrase, back_up
from fhirapp.features.backups.passphrase import VARIABLE, read_passphrase
from fhirapp.features.backups.restore import NOTICE, restore
from fhirapp.features.backups.rotation import Naming, at_hand, prune, stem_of
from fhirapp.features.backups.verification import verify_backup
from fhirapp.files import SCHEME

_T = TypeVar("_T")

_passphrase_option = click.option(
    "--passphrase-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help=f"File with the passphrase in line 1.  [default: {VARIABLE}, or a prompt]",
)


@click.command("backup")
@click.argument("given_path", metavar="FILE", type=click.Path())
@click.option("--keep", type=click.IntRange(1), help="Keep only so many, the newest.")
@click.option("--encrypt", is_flag=True, help="Encrypt; prompt for a passphrase if none is set.")
@_passphrase_option
@click.option("--verify", is_flag=True, help="Only test FILE: open a copy and read all of it.")
@demo_option
def backup(
    given_path: str,
    keep: int | None,
    encrypt: bool,
    passphrase_file: Path | None,
    verify: bool,
    demo: bool | None,
) -> int:
    """Back up the database and keys while the server runs; with --verify, verify a backup.

    FILE may be a folder: then the backup is named after the database, with the time in UTC.
    """
    _end_orderly()
    path = Path(given_path)
    if given_path.endswith(os.sep) and not path.is_dir():
        raise InvalidBackup(f"There is no folder {path}.")
    passphrase = _passphrase(passphrase_file)
    settings = load_settings(demo=demo)
    if verify:
        if keep or encrypt:
            raise click.UsageError("--verify takes no backup; leave --keep and --encrypt out")
        with at_hand(settings, given_path) as found:
            return _verify(settings, found, passphrase)
    if given_path.startswith(SCHEME):
        raise click.UsageError(
            "FILE must be on this machine: only the admin page backs up to FHIRAPP_FILES"
        )
    moment = datetime.now(UTC)
    naming = Naming(path.resolve(), stem_of(settings)) if path.is_dir() else None
    target = naming.path(moment) if naming else _file(path, keep)
    if encrypt and passphrase is None:
        passphrase = _prompted(confirm=True)
    taken = back_up(settings, target, moment, passphrase)
    click.echo(taken.path)
    how = "encrypted" if passphrase else "not encrypted: protect it like the records"
    say(f"Backed up and read back: {human_size(taken.size)}, {how}.")
    return _rotate(naming, keep, taken.path) if naming and keep else 0


@click.command("restore")
@click.argument("given_path", metavar="FILE", type=click.Path())
@click.option("--force", is_flag=True, help="Replace a database with content; keep the old.")
@_passphrase_option
@demo_option
def restore_(given_path: str, force: bool, passphrase_file: Path | None, demo: bool | None) -> None:
    """Restore the database and keys from a backup; the server must be stopped.

    FILE may be s3://bucket/prefix/backups/NAME, as the admin page shows it.
    """
    _end_orderly()
    passphrase = _passphrase(passphrase_file)
    settings = load_settings(demo=demo)
    now = datetime.now(UTC)
    with at_hand(settings, given_path) as path:
        done = _with_passphrase(passphrase, lambda p: restore(settings, path, now, p, force=force))
    say(f"Restored as of {done.manifest.taken}: {done.versions} versions of resources.")
    say(NOTICE)
    for kept in done.kept:
        say(f"What was there before is kept in {kept}")
    if done.trail:
        say(f"The audit trail stays; the backup's, of another server, is in {done.trail}")


def _end_orderly() -> None:
    """Have SIGTERM end this process as an error does: nothing half is left, no program runs on."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def _file(path: Path, keep: int | None) -> Path:
    """Return the file that a path names. Raises UsageError where several backups are wanted."""
    if keep:
        raise click.UsageError(
            "--keep needs a folder" + ("" if path.exists() else f"; there is no folder {path}")
        )
    if "%" in path.name:
        raise click.UsageError(
            f"{path.name} would be one file, which each backup replaces: codes such as %F have no "
            "meaning; name a folder, in which each backup has its time in its name"
        )
    # A link leads to where the backup is.
    return path.resolve() if path.is_symlink() else path.absolute()


def _verify(settings: Settings, path: Path, passphrase: str | None) -> int:
    """Verify a backup: a file, or the newest of a folder."""
    if path.is_dir():
        backups = Naming(path.resolve(), stem_of(settings)).backups()
        if not backups:
            raise InvalidBackup(f"There is no backup {path}.")
        path = backups[-1]
    verification = _with_passphrase(passphrase, lambda p: verify_backup(settings, path, p))
    for fault in verification.faults:
        click.echo(fault)
    taken = verification.manifest.taken
    if verification.faults:
        say(f"{path}, taken {taken}, failed verification.")
        return 2
    click.echo(f"{path}, taken {taken}, is verified: {verification.done}.")
    return 0


def _rotate(naming: Naming, keep: int, newest: Path) -> int:
    removed, stuck = prune(naming, keep, newest)
    for path in removed:
        say(f"Removed {path}")
    for path in stuck:
        say(f"{path} should be removed, but cannot be.")
    return 1 if stuck else 0


def _passphrase(file: Path | None) -> str | None:
    """Return the passphrase from a file or the environment, None where neither has it.

    It is removed from the environment, which other processes of this user can read.
    """
    from_environment = os.environ.pop(VARIABLE, None)
    if file is None:
        return from_environment or None
    return read_passphrase(file)


def _prompted(*, confirm: bool) -> str:
    """Ask at the terminal for the passphrase."""
    if not sys.stdin.isatty():
        raise MissingPassphrase(f"No passphrase is set: use --passphrase-file, or set {VARIABLE}.")
    passphrase: str = click.prompt(
        "Passphrase", hide_input=True, confirmation_prompt=confirm, err=True
    )
    return passphrase


def _with_passphrase(passphrase: str | None, work: Callable[[str | None], _T]) -> _T:
    """Call work; where the backup turns out to be encrypted, ask for the passphrase and retry."""
    try:
        return work(passphrase)
    except MissingPassphrase:
        return work(_prompted(confirm=False))
