"""README.md is true: its examples print what it prints, its tables are those of the code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from fhirapp.auth.refusals import KEPT, KEPT_SECONDS, PER_MINUTE, UNPROVED
from fhirapp.auth.tokens import GRACE_SECONDS
from tests.rest.test_capability import LEFT_OUT
from tests.support import readme, search_page

ROOT = readme.README.parent
README = readme.README.read_text(encoding="utf-8")

PROGRAMS = ("bash", "curl", "python3")
runs_examples = pytest.mark.skipif(
    not all(map(shutil.which, PROGRAMS)), reason=f"README's examples need {', '.join(PROGRAMS)}"
)


class Example(NamedTuple):
    """Commands, and what README says that they print; None where it does not say."""

    commands: str
    printed: str | None


def section(title: str) -> str:
    """Return what stands under a heading, up to the next one that is not below it."""
    heading = re.search(rf"^(#+) {re.escape(title)}\n", README, re.MULTILINE)
    assert heading, f"README.md has no heading {title!r}"
    rest = README[heading.end() :]
    end = re.search(rf"^#{{1,{len(heading[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def examples(title: str, language: str = "bash") -> list[Example]:
    """Return the examples of a section."""
    found = re.findall(
        rf"```{language}\n(.*?)```\n(?:```text\n(.*?)```)?", section(title), re.DOTALL
    )
    return [Example(commands, printed or None) for commands, printed in found]


@pytest.mark.parametrize("name", readme.TABLES)
def test_a_table_is_that_of_the_declarations(name):
    """`python -m tests.support.readme` makes the tables anew."""
    assert readme.tables_in(README).get(name) == readme.TABLES[name]()


def test_no_other_table_is_said_to_be_made():
    assert readme.tables_in(README).keys() == readme.TABLES.keys()


def test_tables_are_made_anew_and_nothing_else_is_touched():
    assert readme.with_tables(README) == README
    spoiled = README.replace("| `_id` | token |", "| `_id` | nonsense |")
    assert spoiled != README
    assert readme.with_tables(spoiled) == README


ROWS = [row for rows in search_page.SECTIONS.values() for row in rows if row.tried]


@pytest.mark.parametrize("row", ROWS, ids=[row.section for row in ROWS])
def test_a_section_of_the_search_page_is_ticked_off_truthfully(fhir, row):
    for query, expectation in row.tried:
        expectation.check(fhir, query)


def requests() -> list[str]:
    """Return the paths in the first column of the table of requests."""
    return re.findall(r"^\| `GET (\S+)` \|", section("Other requests"), re.MULTILINE)


@pytest.mark.parametrize("path", requests())
def test_a_request_is_answered(fhir, path):
    assert fhir.get(path).status_code == 200


def test_the_last_three_requests_need_no_token(http):
    # Failures are counted by address: this is nobody else's.
    peer = {"REMOTE_ADDR": "192.0.2.200"}
    answers = {path: http.get(path, environ_overrides=peer).status_code for path in requests()}
    assert [path for path, status in answers.items() if status == 401] == requests()[:-3]


def test_each_link_to_a_file_leads_to_one():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    files = [link for link in links if "://" not in link]
    assert files
    assert [link for link in files if not (ROOT / link).exists()] == []


def test_each_link_within_readme_leads_to_a_heading():
    headings = re.findall(r"^#+ (.*)$", README, re.MULTILINE)
    # As GitHub makes them: lower case, hyphens for spaces, no punctuation.
    anchors = {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}
    links = re.findall(r"\]\(#([^)]+)\)", README)
    assert links
    assert [link for link in links if link not in anchors] == []


def test_the_parameters_that_are_left_out_are_told():
    told = section("Not supported yet")
    left_out = {name for kind, names in LEFT_OUT.items() if kind for name in names}
    assert [name for name in left_out if f"`{name}`" not in told] == []


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
    """Return what runs commands of README's against the demo and returns what they print.

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
    first = examples("First search")[0].commands.splitlines()[0]
    token = run(f'{first}\nprintf %s "$TOKEN"')
    return run


@runs_examples
def test_the_first_search_answers_a_bundle(shell):
    bundle = json.loads(shell(examples("First search")[0].commands))
    assert (bundle["resourceType"], bundle["type"]) == ("Bundle", "searchset")
    assert len(bundle["entry"]) == bundle["total"]


@runs_examples
@pytest.mark.parametrize(
    "example",
    [*examples("First search")[1:], *examples("More to try")],
    ids=lambda example: example.commands.split("localhost:8000")[1].split()[0].strip("'"),
)
def test_an_example_prints_what_readme_prints(shell, example):
    assert example.printed
    assert shell(example.commands) == example.printed


@pytest.fixture
def installed(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Return what runs commands of README's in a folder with a .venv, as after its two commands."""
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    command = python.with_name("fhirapp")
    command.write_text(f"#!{sys.executable}\nfrom fhirapp.cli import main\nmain()\n")
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


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="README's examples need bash")


@needs_bash
def test_an_import_reports_what_readme_prints(installed):
    example = examples("Load your records", "sh")[0]
    done = installed(example.commands)
    assert (done.stdout, done.returncode) == (example.printed, 1)


@needs_bash
def test_the_commands_for_people_and_apps_work_as_they_stand(installed, tmp_path):
    printed = []
    for example in examples("People and apps", "sh"):
        if "app.py" in example.commands:
            # Servers, and somebody who is not there.
            continue
        done = installed(f"set -e\n{example.commands}")
        assert done.returncode == 0, done.stdout
        printed.append(done.stdout)
    assert [one.splitlines()[-1][-14:] for one in printed[:2]] == ["is registered."] * 2
    # A token of 256 bits.
    assert re.fullmatch(r"[\w-]{43}", printed[2].splitlines()[-1])
    assert (tmp_path / "lab.private.json").stat().st_mode & 0o777 == 0o600
    assert "d" not in json.loads((tmp_path / "lab.jwks.json").read_text())["keys"][0]


def test_what_readme_says_of_refusals_and_refresh_tokens_is_so():
    told = " ".join(section("People and apps").split())
    days = KEPT_SECONDS // 86_400
    assert (
        f"the newest {KEPT} of each client, for {days} days, at most {PER_MINUTE} a minute" in told
    )
    assert f"({UNPROVED} where nobody proved to be the client)" in told
    assert f"used again within {GRACE_SECONDS} seconds is refused" in told
