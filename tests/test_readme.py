"""README.md is true: its examples print what it prints, its tables are those of the code."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from fhirapp.cli import cli
from fhirapp.config import PREFIX, Settings
from fhirapp.resources.allergy_intolerance.params import PARAMS as ALLERGY_INTOLERANCE
from fhirapp.resources.document_reference.params import PARAMS as DOCUMENT_REFERENCE
from fhirapp.search.parameter import Parameters

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")

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


def table(title: str) -> list[str]:
    """Return the lines of the tables in a section."""
    return [line for line in section(title).splitlines() if line.startswith("|")]


def rendered(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table as README writes them."""
    lines = [f"| {' | '.join(row)} |" for row in (header, *rows)]
    return [lines[0], "|---" * len(header) + "|", *lines[1:]]


def settings_table() -> list[str]:
    rows = []
    for setting in fields(Settings):
        default = int(setting.default) if isinstance(setting.default, bool) else setting.default
        shown = setting.metadata["shown"] or f"`{default}`"
        name = PREFIX + setting.name.upper()
        rows.append((f"`{name}`", shown, setting.metadata["doc"]))
    return rendered(("Variable", "Default", "Meaning"), rows)


def parameters_table(parameters: Parameters) -> list[str]:
    rows = [(f"`{one.name}`", one.kind, one.doc) for one in parameters]
    return rendered(("Parameter", "Type", "Meaning"), rows)


def commands_table() -> list[str]:
    rows = [(f"`{name}`", command.help or "") for name, command in _commands(cli, "fhirapp")]
    return rendered(("Command", "What it does"), rows)


def _commands(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    for word, command in sorted(group.commands.items()):
        if isinstance(command, click.Group):
            yield from _commands(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


def test_the_settings_are_those_of_the_code():
    assert table("Settings") == settings_table()


@pytest.mark.parametrize(
    ("title", "parameters"),
    [("AllergyIntolerance", ALLERGY_INTOLERANCE), ("DocumentReference", DOCUMENT_REFERENCE)],
)
def test_the_search_parameters_are_those_of_the_code(title, parameters):
    assert table(title) == parameters_table(parameters)


def test_the_commands_are_those_of_the_code():
    assert table("Commands") == commands_table()


def test_each_link_to_a_file_leads_to_one():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    files = [link for link in links if "://" not in link]
    assert files
    assert [link for link in files if not (ROOT / link).exists()] == []


def unsupported(pattern: str) -> list[str]:
    """Return the names in code marks under "Not supported yet" that a pattern fits, each once."""
    found = re.findall(rf"`({pattern})`", section("Not supported yet"))
    assert found
    return list(dict.fromkeys(found))


@pytest.mark.parametrize(
    "name",
    [
        *unsupported(r"_[a-zA-Z]+"),
        *(f"code{modifier}" for modifier in unsupported(r":[a-z-]+")),
        "patient.name",
        *unsupported(r"description|location|relationship"),
    ],
)
def test_what_readme_calls_unsupported_is_refused_under_strict_handling(fhir, name):
    response = fhir.get(f"DocumentReference?{name}=x", headers={"Prefer": "handling=strict"})
    assert response.status_code == 400
    assert response.get_json(force=True)["issue"][0]["code"] == "not-supported"


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


RECORDS = {
    "Patient": [
        {"resourceType": "Patient", "id": "ana", "name": [{"text": "Ana Example"}]},
        {"resourceType": "Patient", "id": "ben", "name": [{"text": "Ben Example"}]},
    ],
    "AllergyIntolerance": [
        {"resourceType": "AllergyIntolerance", "id": "a1", "patient": {"reference": "Patient/ana"}},
        {"resourceType": "AllergyIntolerance", "id": "a2"},
    ],
    "Observation": [{"resourceType": "Observation", "id": "o1"}],
}


def test_an_import_reports_what_readme_prints(tmp_path):
    folder = tmp_path / "records"
    folder.mkdir()
    for name, resources in RECORDS.items():
        lines = "".join(json.dumps(resource) + "\n" for resource in resources)
        (folder / f"{name}.ndjson").write_text(lines, encoding="utf-8")
    example = examples("Load your records", "sh")[0]
    command, *arguments = shlex.split(example.commands)
    assert command == ".venv/bin/fhirapp"
    done = subprocess.run(
        [sys.executable, "-c", "from fhirapp.cli import main; main()", *arguments],
        cwd=tmp_path,
        env={**os.environ, "FHIRAPP_INSTANCE_PATH": str(tmp_path / "instance")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
    )
    assert (done.stdout, done.returncode) == (example.printed, 1)
