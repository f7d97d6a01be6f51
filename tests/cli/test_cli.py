"""The `fhirapp` command: what goes to which stream, exit codes, and errors in one sentence."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey

from fhirapp.cli import COMMANDS
from fhirapp.cli.common import progress_bar
from tests.support.importing import ALLERGY, PATIENT, lines
from tests.support.shell import MAIN, assert_not_done, environment, fhirapp, fhirapp_anew


class Terminal(StringIO):
    """What is written to a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("arguments", [[], ["client"], ["user"]])
def test_without_a_command_the_help_is_shown(tmp_path, arguments):
    done = fhirapp_anew(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == fhirapp(tmp_path, *arguments, "--help").stdout
    assert len(done.stderr.splitlines()) > 5


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["client", "nonsense"], ["serve", "--nonsense"]]
)
def test_an_unknown_command_or_option_is_named(tmp_path, arguments):
    done = fhirapp(tmp_path, *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "nonsense" in done.stderr.strip().splitlines()[-1]


def test_a_misspelled_command_leads_to_what_may_be_meant(tmp_path):
    assert "Did you mean" in fhirapp(tmp_path, "improt").stderr


def test_each_command_is_looked_for_where_it_stands():
    modules = {module for module, _ in COMMANDS.values()}
    found = {
        command.name: module
        for module in modules
        for command in import_module(f"fhirapp.cli.{module}").commands
    }
    assert found == {name: module for name, (module, _) in COMMANDS.items()}


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["docs"], ["completion", "bash"]])
def test_what_touches_no_records_reads_neither_flask_nor_sqlalchemy(arguments):
    code = (
        "import atexit, sys; from fhirapp.cli import main;"
        "atexit.register(lambda: print({'flask', 'sqlalchemy', 'marshmallow'} & {*sys.modules}));"
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "set()"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"PORT": "eighty"}, "FHIRAPP_PORT='eighty' cannot be used"),
        ({"DATABASE_URL": "nonsense"}, "FHIRAPP_DATABASE_URL is not a database address"),
        ({"DATABASE_URL": "postgresql://x:secret@127.0.0.1:1/x"}, "x:***@127.0.0.1:1"),
        ({"DATABASE_URL": "sqlite:////"}, "cannot be used"),
    ],
)
def test_a_setting_that_cannot_be_used_is_one_sentence(tmp_path, settings, words):
    assert_not_done(fhirapp(tmp_path, "serve", **settings), words)


@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["client", "list"]])
def test_an_instance_folder_that_cannot_be_made_is_one_sentence(tmp_path, command):
    file = tmp_path / "file"
    file.write_text("not a folder")
    assert_not_done(fhirapp(file / "instance", *command), str(file / "instance"))


def test_a_file_that_is_no_database_is_one_sentence(tmp_path):
    (tmp_path / "fhirapp.db").write_bytes(b"not a database" * 1000)
    assert_not_done(fhirapp(tmp_path, "db", "check"), "fhirapp.db cannot be used (")


def test_import_tells_what_it_did_and_its_exit_code_whether_all_was_taken(tmp_path):
    path = tmp_path / "records.ndjson"
    path.write_bytes(lines(PATIENT, b"{", ALLERGY))
    done = fhirapp(tmp_path, "import", str(path))
    assert done.returncode == 1
    # No progress bar in a pipe: the fault alone.
    assert done.stderr.startswith(f"{path}:2: is not JSON: ")
    assert len(done.stderr.splitlines()) == 1
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["type", "read", "new", "changed", "same", "deleted", "rejected"] in rows
    assert ["AllergyIntolerance", "1", "1", "0", "0", "0", "0"] in rows
    kept = tmp_path / "imports" / "1.rejected.ndjson"
    assert rows[-1] == ["rejected", "1", str(kept)]
    assert kept.read_bytes() == b"{\n"
    assert kept.stat().st_mode & 0o777 == 0o600
    path.write_bytes(lines(PATIENT, ALLERGY))
    again = fhirapp(tmp_path, "import", str(path), "--json")
    assert again.returncode == 0
    assert again.stderr == ""
    report = json.loads(again.stdout)
    same = {"read": 1, "same": 1, "rejected": 0}
    assert report["changes"] == {"AllergyIntolerance": same, "Patient": same}
    assert report["rejected"] == []


@pytest.mark.parametrize("command", [["db", "reindex"], ["export", "{}/out"], ["import", "{}/a"]])
def test_what_a_command_wrote_is_in_one_file_in_the_end(tmp_path, command):
    """Not in SQLite's log beside it: whoever copies the file has everything."""
    (tmp_path / "a").write_bytes(lines(PATIENT, ALLERGY))
    assert fhirapp(tmp_path, *(word.format(tmp_path) for word in command)).returncode == 0
    assert (tmp_path / "fhirapp.db").exists()
    assert [path.name for path in tmp_path.glob("fhirapp.db-*")] == []


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


def test_import_of_a_path_that_is_not_there_is_one_sentence(tmp_path):
    done = fhirapp(tmp_path, "import", str(tmp_path / "missing"))
    assert_not_done(done, "There is no file or folder")


def test_import_without_a_path_is_refused(tmp_path):
    done = fhirapp(tmp_path, "import")
    assert done.returncode == 2
    assert "PATHS" in done.stderr


@pytest.mark.parametrize(
    "line",
    [b"[" * 100_000, b'{"resourceType":"Patient","id":"a","contained":[{"x":"\\ud800"}]}'],
    ids=["deep", "surrogate"],
)
def test_import_never_ends_in_a_traceback(tmp_path, line):
    path = tmp_path / "records.ndjson"
    path.write_bytes(lines(line, PATIENT))
    done = fhirapp(tmp_path, "import", str(path))
    assert "Traceback" not in done.stderr
    assert done.returncode == 1


def test_token_issue_prints_the_token_alone(tmp_path):
    done = fhirapp(tmp_path, "token", "issue", "--scope", "system/*.rs")
    assert done.returncode == 0
    assert len(done.stdout) == 44
    assert done.stdout.endswith("\n")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--scope", "nonsense"], "None of the scopes 'nonsense' can be granted to operator."),
        (["--scope", "system/*.rs", "--expires", "0"], "'--expires': 0 is not in the range"),
        (["--scope", "system/*.rs", "--expires", "9" * 30], "--expires"),
    ],
)
def test_a_token_that_cannot_be_issued_is_one_sentence(tmp_path, options, words):
    assert_not_done(fhirapp(tmp_path, "token", "issue", *options), words)


def keys_file(folder: Path, content: Any) -> str:
    """Write a key set's file and return its path."""
    path = folder / "keys.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_a_file_that_is_no_key_set_is_one_sentence(tmp_path):
    options = ["--scope", "system/*.rs", "--jwks", keys_file(tmp_path, "{")]
    done = fhirapp(tmp_path, "client", "add", "clinic", *options)
    assert_not_done(done, "keys.json is not JSON.")


def test_a_client_is_added_listed_shown_and_disabled(tmp_path):
    key = ECKey.generate_key("P-384", {"kid": "k"})
    path = keys_file(tmp_path, key.as_dict(private=True))
    added = fhirapp(tmp_path, "client", "add", "clinic", "--scope", "system/*.rs", "--jwks", path)
    assert (added.returncode, added.stdout) == (0, "")
    shown = json.loads(fhirapp(tmp_path, "client", "show", "clinic").stdout)
    # Of a private key that was given by mistake, the public part alone is kept.
    assert shown["jwks"]["keys"][0].keys() == {"kty", "crv", "x", "y", "kid"}
    assert key.as_dict(private=True)["d"].encode() not in (tmp_path / "fhirapp.db").read_bytes()
    listed = json.loads(fhirapp(tmp_path, "client", "list", "--json").stdout)
    assert [(one["client_id"], one["disabled"]) for one in listed] == [("clinic", False)]
    assert fhirapp(tmp_path, "client", "disable", "clinic").returncode == 0
    assert "clinic (disabled)" in fhirapp(tmp_path, "client", "list").stdout
    assert_not_done(fhirapp(tmp_path, "client", "disable", "other"), "Unknown client: other.")
    assert_not_done(fhirapp(tmp_path, "client", "show", "other"), "Unknown client: other.")


def test_keys_are_readable_by_the_servers_user_alone(tmp_path):
    assert fhirapp(tmp_path, "client", "list", "--demo").returncode == 0
    folder = tmp_path / "demo"
    keys = [path for path in folder.iterdir() if "key" in path.name or "jwk" in path.name]
    assert {path.name for path in keys} == {"secret.key", "demo-backend.jwk.json"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}


def test_db_check_and_reindex(tmp_path):
    before = fhirapp(tmp_path, "db", "check")
    assert (before.returncode, before.stderr) == (0, "")
    assert before.stdout.endswith("fhirapp.db is empty; a start creates its tables.\n")
    assert fhirapp(tmp_path, "db", "upgrade").returncode == 0
    assert fhirapp(tmp_path, "db", "check").stdout.endswith("is up to date.\n")
    assert fhirapp(tmp_path, "db", "reindex").stderr == "0 versions rebuilt.\n"


def test_the_shell_completes_commands(tmp_path):
    for shell in ("bash", "zsh", "fish"):
        done = fhirapp(tmp_path, "completion", shell)
        assert done.returncode == 0, done.stderr
        assert "_FHIRAPP_COMPLETE" in done.stdout
    completed = subprocess.run(
        [sys.executable, "-c", MAIN],
        env={
            **environment(tmp_path),
            "_FHIRAPP_COMPLETE": "bash_complete",
            "COMP_WORDS": "fhirapp do",
            "COMP_CWORD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "doctor" in completed.stdout
