"""README and the manual are true: examples print what they print, tables are those of the code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import pytest

from fhirapp.auth.refusals import KEPT_SECONDS, MAX_REFUSALS, PER_MINUTE, UNPROVED
from fhirapp.auth.tokens import GRACE_SECONDS
from fhirapp.features.manual import contents
from tests import ROOT
from tests.support import search_page
from tests.support.shell import MAIN
from tests.tools import manual

PAGES = manual.texts()
# The manual's pages by name, and README by its own.
TEXTS = {path.stem: text for path, text in PAGES.items()}
ALL = "\n".join(TEXTS.values())


class Example(NamedTuple):
    """Commands, and what the manual says that they print; None where it does not say."""

    commands: str
    printed: str | None


def section(page: str, title: str) -> str:
    """Return what is below a heading of a page, up to the next one that is not below it."""
    text = TEXTS[page]
    heading = re.search(rf"^(#+) {re.escape(title)}\n", text, re.MULTILINE)
    assert heading, f"{page}.md has no heading {title!r}"
    rest = text[heading.end() :]
    end = re.search(rf"^#{{1,{len(heading[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def examples(page: str, title: str, language: str = "bash") -> list[Example]:
    """Return the examples of a section."""
    found = re.findall(
        rf"```{language}\n(.*?)```\n(?:```text\n(.*?)```)?", section(page, title), re.DOTALL
    )
    return [Example(commands, printed or None) for commands, printed in found]


def test_generated_tables_are_current():
    """`python -m tests.tools.manual` generates the tables."""
    assert manual.tables_in(ALL) == {name: make() for name, make in manual.TABLES.items()}


def test_contents_list_each_page():
    assert {path.stem for path in manual.MANUAL.glob("*.md")} == set(contents.NAMES)
    assert [name for name in contents.NAMES[1:] if f"]({name}.md)" not in TEXTS["index"]] == []


def test_each_file_that_the_manual_names_exists():
    named = set(re.findall(r"`((?:fhirapp|tests)/[\w/.-]+|[a-z_]+/[\w/]+\.py)`", ALL))
    assert len(named) > 10
    missing = [
        name
        for name in named
        if not any((ROOT / place / name).exists() for place in ("", "fhirapp"))
    ]
    assert missing == []


ROWS = [row for rows in search_page.SECTIONS.values() for row in rows if row.tried]


@pytest.mark.parametrize("row", ROWS, ids=[row.section for row in ROWS])
def test_section_of_the_search_page_is_supported_as_stated(fhir, row):
    for query, expectation in row.tried:
        expectation.check(fhir, query)


def requests() -> list[str]:
    """Return the paths in the first column of the table of requests."""
    return re.findall(r"^\| `GET (\S+)` \|", section("operations", "Requests"), re.MULTILINE)


def test_each_request_is_answered_and_only_the_last_three_without_a_token(fhir, http):
    assert {path: fhir.get(path).status_code for path in requests()} == dict.fromkeys(
        requests(), 200
    )
    # Failures are counted by address: no other test uses this one.
    peer = {"REMOTE_ADDR": "192.0.2.200"}
    answers = {path: http.get(path, environ_overrides=peer).status_code for path in requests()}
    assert [path for path, status in answers.items() if status == 401] == requests()[:-3]


def test_each_link_leads_to_a_file_and_a_heading():
    for path, text in PAGES.items():
        for link in re.findall(r"\]\(([^)]+)\)", text):
            if "://" in link:
                continue
            name, _, anchor = link.partition("#")
            target = path.parent / name if name else path
            assert target.exists(), link
            if anchor:
                headings = re.findall(r"^#+ (.*)$", target.read_text("utf-8"), re.MULTILINE)
                assert anchor in map(contents.anchor_of, headings), link


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Start the demo server as README does, on a free port; return the port."""
    environment = {
        **os.environ,
        "FHIRAPP_INSTANCE_PATH": str(tmp_path_factory.mktemp("instance")),
        "FHIRAPP_PORT": "0",
    }
    with subprocess.Popen(
        [sys.executable, "app.py", "--demo"],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stderr
            said = ""
            while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/fhir", said)):
                line = server.stderr.readline()
                assert line, f"the demo server ended: {said}"
                said += line
            yield int(found[1])
        finally:
            server.terminate()


@pytest.fixture(scope="module")
def shell(demo: int) -> Callable[[str], str]:
    """Return what runs commands of the manual's against the demo and returns what they print.

    They find TOKEN as the first search sets it.
    """

    def run(commands: str) -> str:
        done = subprocess.run(
            ["bash", "-uc", commands.replace("localhost:8000", f"localhost:{demo}")],
            env={**os.environ, "TOKEN": token, "NO_PROXY": "localhost"},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        return done.stdout.replace(f"localhost:{demo}", "localhost:8000")

    token = ""
    first = examples("README", "First search")[0].commands.splitlines()[0]
    token = run(f'{first}\nprintf %s "$TOKEN"')
    return run


@pytest.mark.process
def test_first_search_returns_a_bundle(shell):
    bundle = json.loads(shell(examples("README", "First search")[0].commands))
    assert (bundle["resourceType"], bundle["type"]) == ("Bundle", "searchset")
    assert len(bundle["entry"]) == bundle["total"]


@pytest.mark.process
@pytest.mark.parametrize(
    "example",
    [*examples("README", "First search")[1:], *examples("try", "More searches")[1:]],
    ids=lambda example: example.commands.split("localhost:8000")[1].split()[0].strip("'"),
)
def test_an_example_prints_what_the_manual_prints(shell, example):
    assert example.printed
    assert shell(example.commands) == example.printed


@pytest.fixture
def installed(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Return what runs commands in a folder with a .venv, as after README's two commands."""
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    command = python.with_name("fhirapp")
    # The first line of a Python script could not name an interpreter whose path has a space.
    command.write_text(f"#!/bin/sh\nexec {quote(sys.executable)} -c '{MAIN}' \"$@\"\n")
    command.chmod(0o700)
    environment = {
        **os.environ,
        "FHIRAPP_INSTANCE_PATH": str(tmp_path / "instance"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), *sys.path])),
    }
    return lambda commands: subprocess.run(
        ["bash", "-uc", commands],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
    )


@pytest.mark.process
def test_an_import_reports_what_the_manual_prints(installed):
    example = examples("load", "Load records", "sh")[0]
    # The first command of all says that it created the database.
    installed(".venv/bin/fhirapp client list")
    done = installed(example.commands)
    assert (done.stdout, done.returncode) == (example.printed, 1)


@pytest.mark.process
def test_commands_for_users_and_apps_run_unchanged(installed, tmp_path):
    printed = []
    for example in [
        *examples("connect", "Register an app", "sh"),
        *examples("connect", "Tokens for tests", "sh"),
    ]:
        if "app.py" in example.commands:
            # Servers, and a user who does not exist.
            continue
        done = installed(f"set -e\n{example.commands}")
        assert done.returncode == 0, done.stdout
        printed.append(done.stdout)
    assert [text.splitlines()[-1][-14:] for text in printed[:2]] == ["is registered."] * 2
    # A token of 256 bits.
    assert re.fullmatch(r"[\w-]{43}", printed[2].splitlines()[-1])
    assert (tmp_path / "lab.private.json").stat().st_mode & 0o777 == 0o600
    assert "d" not in json.loads((tmp_path / "lab.jwks.json").read_text())["keys"][0]


@pytest.mark.process
def test_commands_for_schedules_run_unchanged(installed, tmp_path):
    *added, then = examples("administration", "Schedules", "sh")
    for example in added:
        done = installed(f"set -e\n{example.commands}")
        assert done.returncode == 0, done.stdout
    assert sorted(path.name for path in (tmp_path / "inbox").iterdir()) == ["done", "failed"]
    done = installed(f"set -e\n{then.commands}")
    assert done.returncode == 0, done.stdout
    for name in (
        "hospital  pull  hourly",
        "lab  folder  every 5 minutes",
        "nightly  backup  daily",
    ):
        assert name in done.stdout
    assert "done. Backed up and read back" in done.stdout


def test_limits_of_refusals_and_refresh_tokens_are_those_of_the_code():
    told = " ".join(TEXTS["connect"].split())
    days = KEPT_SECONDS // 86_400
    assert (
        f"the newest {MAX_REFUSALS} of each client, for {days} days, at most {PER_MINUTE} a minute"
        in told
    )
    assert f"({UNPROVED} where the client did not authenticate)" in told
    assert f"used again within {GRACE_SECONDS} seconds is refused" in told
