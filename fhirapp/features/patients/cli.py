"""`fhirapp patient …`: a patient's record as a whole."""

from __future__ import annotations

import getpass
from collections.abc import Mapping

import click

from fhirapp.cli.common import demo_option, opened_app, say
from fhirapp.config import settings
from fhirapp.features.patients.deletion import delete_patient
from fhirapp.features.patients.merge import merge_patients, undo_merge


@click.group()
def patient() -> None:
    """Whole patient records."""


@patient.command("delete")
@click.argument("patient_id", metavar="ID")
@click.option("--reason", required=True, help="Reason, kept in the audit trail.")
@click.option("--erase", is_flag=True, help="Remove the content of every version for good.")
@click.option("--yes", is_flag=True, help="Do not ask for the id as confirmation.")
@demo_option
def delete(patient_id: str, reason: str, erase: bool, yes: bool, demo: bool | None) -> None:
    """Delete a patient's record and all that belongs to it; --erase leaves no content."""
    patient_id = patient_id.removeprefix("Patient/")
    if not yes and click.prompt("Type the id to confirm", err=True) != patient_id:
        raise click.ClickException("The ids differ; nothing was deleted")
    with opened_app(demo):
        counts = delete_patient(settings(), patient_id, reason, _who(), erase=erase)
    _say(counts)
    say(f"Patient {patient_id} is {'erased' if erase else 'deleted'}.")


@patient.command("merge")
@click.argument("source", metavar="ID")
@click.argument("target", metavar="INTO")
@click.option("--reason", required=True, help="Reason, kept in the audit trail.")
@click.option(
    "--move-accounts",
    is_flag=True,
    help="Give users who see ID access to INTO; else they just lose ID.",
)
@click.option("--yes", is_flag=True, help="Do not ask for the id as confirmation.")
@demo_option
def merge(
    source: str, target: str, reason: str, move_accounts: bool, yes: bool, demo: bool | None
) -> None:
    """Merge a patient's record ID into INTO, another record of the same person."""
    source, target = (reference.removeprefix("Patient/") for reference in (source, target))
    if (
        not yes
        and click.prompt("Type the id of the merged record (ID) to confirm", err=True) != source
    ):
        raise click.ClickException("The ids differ; nothing was merged")
    with opened_app(demo):
        counts = merge_patients(
            settings(), source, target, reason, _who(), move_accounts=move_accounts
        )
    _say(counts)
    say(f"Patient {source} is merged into {target}.")


@patient.command("undo-merge")
@click.argument("source", metavar="ID")
@click.option("--reason", required=True, help="Reason, kept in the audit trail.")
@demo_option
def undo(source: str, reason: str, demo: bool | None) -> None:
    """Undo a merge: what was moved goes back to the record ID."""
    source = source.removeprefix("Patient/")
    with opened_app(demo):
        counts = undo_merge(settings(), source, reason)
    _say(counts)
    say(f"Patient {source} is a record of its own again.")


def _who() -> str:
    return f"shell: {getpass.getuser()}"


def _say(counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        click.echo(f"{name:<24}{count:>10}")
