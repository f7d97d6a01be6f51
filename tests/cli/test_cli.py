"""The `fhirapp` command: streams, exit codes, errors in one sentence; and `fhirapp patient`."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from fhirapp.cli.common import progress_bar
from tests.support.client_commands import done, refusal, shell
from tests.support.importing import ALLERGY, PATIENT, lines
from tests.support.shell import MAIN, assert_not_done, environment, fhirapp_anew


class Terminal(StringIO):
    """What is written to a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.smoke
def test_command_line_shows_its_help_and_refuses_in_a_process_of_its_own(tmp_path):
    help_shown = fhirapp_anew(tmp_path)
    assert (help_shown.returncode, help_shown.stdout) == (2, "")
    assert help_shown.stderr.splitlines() == shell(tmp_path, "--help").stdout.splitlines()
    assert_not_done(fhirapp_anew(tmp_path, "serve", "--port", "x"), "fhirapp: ", "'x'")


def test_group_without_a_command_shows_its_help(instance):
    for group in ([], ["client"], ["user"]):
        result = shell(instance, *group)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == shell(instance, *group, "--help").stdout
        assert len(result.stderr.splitlines()) > 5


def test_unknown_command_or_option_is_named(instance):
    for arguments in (["nonsense"], ["client", "nonsense"], ["serve", "--nonsense"]):
        assert "nonsense" in refusal(instance, *arguments)
    assert "import" in refusal(instance, "improt").partition("Did you mean")[2]


@pytest.mark.smoke
def test_commands_without_records_import_neither_flask_nor_sqlalchemy():
    code = (
        "import sys\nfrom fhirapp.cli import cli\n"
        "for arguments in (['--version'], ['--help'], ['docs'], ['completion', 'bash']):\n"
        "    try:\n        cli.main(arguments, prog_name='fhirapp')\n"
        "    except SystemExit as end:\n        assert not end.code, arguments\n"
        "print({'flask', 'sqlalchemy', 'marshmallow'} & {*sys.modules})"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == "set()", result.stderr


def test_invalid_setting_is_refused_in_one_sentence(instance):
    for settings, words in (
        ({"PORT": "eighty"}, "FHIRAPP_PORT='eighty' cannot be used"),
        ({"DATABASE_URL": "nonsense"}, "FHIRAPP_DATABASE_URL is not a database address"),
        ({"DATABASE_URL": "sqlite:////"}, "cannot be used"),
    ):
        assert words in refusal(instance, "serve", **settings)
    unreachable = {"DATABASE_URL": "postgresql://x:secret@127.0.0.1:1/x", "SECRET": "x" * 40}
    assert "x:***@127.0.0.1:1" in refusal(instance, "serve", **unreachable)


def test_instance_folder_or_database_that_cannot_be_used_is_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    for command in (["serve", "--port", "0"], ["client", "list"]):
        assert str(file / "instance") in refusal(file / "instance", *command)
    (tmp_path / "fhirapp.db").write_bytes(b"not a database" * 1000)
    assert "fhirapp.db cannot be used (" in refusal(tmp_path, "db", "check")


def test_import_reports_counts_and_rejected_lines(instance):
    path = instance / "records.ndjson"
    path.write_bytes(lines(PATIENT, b"{", ALLERGY))
    result = shell(instance, "import", str(path))
    assert result.exit_code == 1
    # No progress bar in a pipe: only the fault.
    assert result.stderr.startswith(f"{path}:2: is not JSON: ")
    assert len(result.stderr.splitlines()) == 1
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["type", "read", "new", "changed", "same", "deleted", "rejected"] in rows
    assert ["AllergyIntolerance", "1", "1", "0", "0", "0", "0"] in rows
    rejected = instance / "imports" / "1.rejected.ndjson"
    assert rows[-1] == ["rejected", "1", str(rejected)]
    assert rejected.read_bytes() == b"{\n"
    assert stat.S_IMODE(rejected.stat().st_mode) == 0o600


def test_database_is_checked_upgraded_and_reindexed(tmp_path):
    before = done(tmp_path, "db", "check")
    assert before.stderr == ""
    assert "is empty" in before.stdout
    done(tmp_path, "db", "upgrade")
    assert done(tmp_path, "db", "check").stdout.endswith("is up to date.\n")
    assert done(tmp_path, "db", "reindex").stderr == "0 versions rebuilt.\n"


def test_database_is_one_file_after_each_command(instance):
    """Nothing is left in SQLite's log: whoever copies the file has everything."""
    (instance / "a").write_bytes(lines(PATIENT, ALLERGY))
    for command in (["db", "reindex"], ["import", f"{instance}/a"], ["export", f"{instance}/out"]):
        done(instance, *command)
        assert (instance / "fhirapp.db").exists()
        assert [path.name for path in instance.glob("fhirapp.db-*")] == []


@pytest.mark.parametrize("total", [200, None])
def test_progress_on_a_terminal_is_a_bar_where_the_total_is_known(monkeypatch, total):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress_bar("Importing") as show:
        show(50, total)
        show(200, total)
    shown = terminal.getvalue()
    assert "Importing" in shown
    assert [percent in shown for percent in ("25%", "100%")] == [total is not None] * 2


def test_import_prints_its_report_as_json(practice_folder):
    path = practice_folder / "records.ndjson"
    result = done(practice_folder, "import", str(path), "--json")
    assert result.stderr == ""
    report = json.loads(result.stdout)
    assert report["changes"]["Patient"] == {"read": 2, "same": 2, "rejected": 0}
    assert report["rejected"] == []
    assert "There is no file or folder" in refusal(
        practice_folder, "import", str(practice_folder / "missing")
    )
    assert "PATHS" in refusal(practice_folder, "import")


def test_token_issue_prints_only_the_token(instance):
    result = done(instance, "token", "issue", "--scope", "system/*.rs")
    assert (len(result.stdout), result.stdout[-1], result.stderr) == (44, "\n", "")
    for options, words in (
        (["--scope", "nonsense"], "None of the scopes 'nonsense' can be granted to operator."),
        (["--scope", "system/*.rs", "--expires", "0"], "'--expires': 0 is not in the range"),
    ):
        assert words in refusal(instance, "token", "issue", *options)
    for patient in ("", "a\nb", "\udcff", "Practitioner/x"):
        command = ("token", "issue", "--scope", "patient/*.rs", "--patient", patient)
        assert refusal(instance, *command) == f"{patient!r} is not a Patient id."


@pytest.mark.smoke
def test_shell_completes_commands(tmp_path):
    for name in ("bash", "zsh", "fish"):
        assert "_FHIRAPP_COMPLETE" in done(tmp_path, "completion", name).stdout
    completing = {"_FHIRAPP_COMPLETE": "bash_complete", "COMP_WORDS": "fhirapp do"}
    completed = subprocess.run(
        [sys.executable, "-c", MAIN],
        env={**environment(tmp_path), **completing, "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "doctor" in completed.stdout


# fhirapp patient.


@pytest.fixture
def folder(instance: Path) -> Path:
    """An instance folder with the patients one, who has an allergy, and two."""
    records = instance / "records.ndjson"
    records.write_bytes(lines(PATIENT, {**PATIENT, "id": "two"}, ALLERGY))
    done(instance, "import", str(records), "--no-provenance")
    return instance


def test_record_is_deleted_with_a_reason_in_the_audit_trail(folder):
    for patient, reason, words in (
        ("three", "A letter", "Unknown patient: three."),
        ("one", " ", "Enter a reason"),
    ):
        command = ("patient", "delete", patient, "--reason", reason, "--yes")
        assert words in refusal(folder, *command)
    result = done(folder, "patient", "delete", "Patient/one", "--reason", "A letter", "--yes")
    assert result.stdout.split() == ["AllergyIntolerance", "1", "Patient", "1"]
    assert "one is deleted" in result.stderr
    assert "A letter" in done(folder, "audit", "list", "--patient", "one").stdout


def test_erasure_asks_for_the_id_again(folder):
    command = ("patient", "delete", "one", "--reason", "A letter", "--erase")
    assert shell(folder, *command, stdin=b"two\n", echoes=True).exit_code == 2
    result = shell(folder, *command, stdin=b"one\n", echoes=True)
    assert result.exit_code == 0
    assert "one is erased" in result.stderr


def test_records_are_merged_and_separated(folder):
    result = done(folder, "patient", "merge", "one", "Patient/two", "--reason", "Twice", "--yes")
    assert result.stdout.split() == ["AllergyIntolerance", "1"]
    assert "one is merged into two" in result.stderr
    result = done(folder, "patient", "undo-merge", "Patient/one", "--reason", "Two people")
    assert result.stdout.split() == ["AllergyIntolerance", "1"]
    assert "one is a record of its own again" in result.stderr
