"""`fhirapp patient …`: a patient's record as a whole."""

from __future__ import annotations

import getpass

import click
from flask import current_app

from fhirapp.cli.common import demo_option, opened_app, say
from fhirapp.config import settings_of
from fhirapp.ops.patients import delete_patient


@click.group()
def patient() -> None:
    """Records of patients, as a whole."""


@patient.command("delete")
@click.argument("patient_id", metavar="ID")
@click.option("--reason", required=True, help="Why; the audit trail keeps it.")
@click.option("--erase", is_flag=True, help="Remove the content of every version too, for good.")
@click.option("--yes", is_flag=True, help="Do not ask for the id again.")
@demo_option
def delete(patient_id: str, reason: str, erase: bool, yes: bool, demo: bool | None) -> None:
    """Delete a patient's record and all that belongs to it; --erase leaves no content."""
    patient_id = patient_id.removeprefix("Patient/")
    if not yes and click.prompt("Type the id again", err=True) != patient_id:
        raise click.ClickException("That is another id; nothing was deleted")
    with opened_app(demo):
        who = f"shell: {getpass.getuser()}"
        settings = settings_of(current_app)
        counts = delete_patient(settings, patient_id, reason, who, erase=erase)
    for name, count in counts.items():
        click.echo(f"{name:<24}{count:>10}")
    say(f"Patient {patient_id} is {'erased' if erase else 'deleted'}.")


commands = [patient]
