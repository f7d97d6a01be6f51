"""Generate the tables of README and the manual from the declarations in the code.

`python -m tests.tools.manual` updates the pages. Each table is between two comments,
`<!-- table: settings -->` and `<!-- /table -->`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from inspect import signature
from pathlib import Path

import click

from fhirapp.cli import cli
from fhirapp.config import PREFIX, Settings, declared
from fhirapp.definition import Definition
from fhirapp.documents import extractor, ocr
from fhirapp.documents.media import MAX_CHARACTERS
from fhirapp.features.imports.repair.log import RULES
from fhirapp.features.imports.tables.records import COLUMNS
from fhirapp.fhir.substance_classes import CLASSES, RXNORM
from fhirapp.fhir.terminology import SNOMED_CT
from fhirapp.rest import include, middleware, paging, response
from fhirapp.rest.definitions import modifiers_of
from fhirapp.search import index, query, string, words
from fhirapp.search.page import MAX_KEYS
from fhirapp.search.parameter import Parameter
from fhirapp.search.query import COMMON, WORDS
from fhirapp.search.reference import Reference
from fhirapp.server import connections, fair
from tests import ROOT
from tests.support.contract import SERVED
from tests.support.search_page import PAGE, SECTIONS

README = ROOT / "README.md"
MANUAL = ROOT / "fhirapp" / "features" / "manual" / "docs"

# The main types of the service; the others share a table.
MAIN = ("AllergyIntolerance", "DocumentReference")

Row = tuple[str, ...]


def table(header: Row, rows: Iterable[Row]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(map(_cell, row))} |" for row in (header, *rows)]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def commands() -> str:
    rows = [
        (f"`{name}`", (command.help or "").partition("\n\n")[0])
        for name, command in _commands(cli, "fhirapp")
    ]
    return table(("Command", "What it does"), rows)


def _commands(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


def settings() -> str:
    rows = []
    for setting in declared():
        default = int(setting.default) if isinstance(setting.default, bool) else setting.default
        shown = setting.metadata["shown"] or f"`{default}`"
        name = PREFIX + setting.name.upper()
        rows.append((f"`{name}`", shown, setting.metadata["doc"]))
    return table(("Variable", "Default", "Meaning"), rows)


def parameters(listed: Iterable[Parameter]) -> str:
    rows = [
        (f"`{param.name}`", param.kind, " ".join(modifiers(param)) or "none", param.doc)
        for param in listed
    ]
    return table(("Parameter", "Type", "Modifiers", "Meaning"), rows)


# Names that stand for several modifiers in the tables.
_GROUPS = {
    "codes": {"not", "text", "in", "not-in", "below"},
    "texts": {"exact", "contains"},
}


def modifiers(parameter: Parameter) -> list[str]:
    """Return the modifiers that a parameter supports, without `:missing`, which all support.

    `Type` stands for several types, a name of _GROUPS for several modifiers.
    """
    taken = [name for name in modifiers_of(parameter) if name != "missing"]
    words = [word for word, names in _GROUPS.items() if names <= {*taken}]
    grouped = {name for word in words for name in _GROUPS[word]}
    if isinstance(parameter, Reference) and parameter.targets:
        taken.append(parameter.targets[0] if len(parameter.targets) == 1 else "Type")
    return [*words, *(f"`:{name}`" for name in taken if name not in grouped)]


def own_parameters(definition: Definition) -> str:
    shared = (*COMMON, *WORDS)
    return parameters(param for param in definition.params if param not in shared)


def other_types() -> str:
    return "\n\n".join(
        f"### {name}\n\n{own_parameters(definition)}"
        for name, definition in sorted(SERVED.items())
        if definition.searchable and name not in MAIN
    )


def substance_classes() -> str:
    names = {SNOMED_CT: "SNOMED CT", RXNORM: "RxNorm"}
    rows = []
    for name, substance_class in CLASSES.items():
        by_system: dict[str, list[str]] = {}
        for (system, code), display in substance_class.codes.items():
            by_system.setdefault(system, []).append(f"{display} ({code})")
        listed = [f"{names[system]}: {', '.join(codes)}" for system, codes in by_system.items()]
        rows.append((f"`{name}`", "; ".join(listed), substance_class.source))
    return table(("Class", "Codes", "Source"), rows)


def operations() -> str:
    rows = []
    for _, definition in sorted(SERVED.items()):
        for operation in definition.operations:
            path = f"{definition.name}{'/<id>' if operation.instance else ''}"
            for param in operation.parameters:
                marks = [*["required"] * param.required, *["may be repeated"] * param.repeats]
                meaning = "; ".join([param.doc, *marks])
                rows.append((f"`{path}/${operation.name}`", f"`{param.name}`", param.type, meaning))
    return table(("Operation", "Parameter", "Type", "Meaning"), rows)


def search_page() -> str:
    parts = []
    for title, rows in SECTIONS.items():
        listed = [
            (
                f"[{row.section}]({PAGE}#{row.anchor})",
                row.here if row.tried else "not needed",
                f"`{row.tried[0][0]}`" if row.tried else "",
                row.how,
            )
            for row in rows
        ]
        header = ("On FHIR's page", "Here", "Try, after `/fhir/`", "How it is read here")
        parts.append(f"## {title}\n\n{table(header, listed)}")
    return "\n\n".join(parts)


_CLOSED = "the connection is closed"


def limits() -> str:
    body = connections.BODY_BYTES_PER_SECOND // 1000
    answer = connections.ANSWER_SECONDS * connections.ANSWER_BYTES_PER_SECOND // 1000
    reader = signature(extractor.Extractor).parameters
    rows = [
        ("Matches on a page, by `_count`", f"{Settings.page_max:,}", "is cut"),
        ("Ids in `_id`", f"{query.MAX_IDS}", "400"),
        ("Values of a search, commas counted", f"{query.MAX_VALUES}", "400"),
        ("Conditions of a search, repetitions counted", f"{query.MAX_CONDITIONS}", "400"),
        ("Characters of a value in a search", f"{query.MAX_LENGTH:,}", "400"),
        ("Parameters of a request", f"{response.MAX_PARAMETERS}", "400"),
        ("Parameters to sort by", f"{MAX_KEYS}", "400"),
        ("`_include` and `_revinclude`", f"{query.MAX_INCLUDES}", "400"),
        ("Steps of `:iterate`", f"{include.MAX_STEPS}", "the answer says so"),
        ("Included resources on a page", f"{include.MAX_INCLUDED:,}", "the answer says so"),
        ("Resources that `_revinclude` brings to a page", f"{include.MAX_REFERRING:,}", "400"),
        ("Characters of a string", f"{index.KEY_LENGTH}", "400"),
        ("… with `:contains` or `:text`", f"{string.STEP}", "400"),
        ("Words of `_text` and `_content`", f"{words.MAX_WORDS}", "400"),
        ("Matches that `_sort=_score` ranks", f"{paging.CANDIDATES}", "the newest are ranked"),
        (
            "Resources that have the words it ranks by",
            f"{paging.RANKABLE:,}",
            "newest first, and the answer says so",
        ),
        ("Size of a document whose words are read", _megabytes(extractor.MAX_BYTES), _UNREAD),
        ("Time to read it", f"{reader['seconds'].default} s", _UNREAD),
        ("Memory to read it, on Linux", f"{reader['megabytes'].default} MB", _UNREAD),
        ("Characters of its text", f"{MAX_CHARACTERS:,}", "the rest is not found"),
        (
            "Pages of a document that are read by OCR",
            str(ocr.MAX_PAGES),
            "not found by their words",
        ),
        ("Time to read a page by OCR", f"{ocr.PAGE_SECONDS} s", "not found by its words"),
        ("… all pages of a document", f"{ocr.DOCUMENT_SECONDS} s", "not found by their words"),
        ("Memory to read a page by OCR", f"{ocr.MEGABYTES:,} MB", "not found by its words"),
        ("Address", f"{middleware.MAX_URL // 1024} KiB", "414: search by POST"),
        ("Headers", f"{middleware.MAX_HEADERS // 1024} KiB", "431"),
        ("Body", f"{middleware.MAX_BODY // 1024} KiB", "413"),
        ("Time for a request's head", f"{connections.HEAD_SECONDS} s", _CLOSED),
        (
            "Time for its body",
            f"{connections.BODY_SECONDS} s, and 1 s for each {body} kB",
            _CLOSED,
        ),
        ("Time between requests", f"{connections.IDLE_SECONDS} s", _CLOSED),
        (
            "Time to take an answer",
            f"{connections.ANSWER_SECONDS} s for each {answer} kB",
            _CLOSED,
        ),
        ("Connections", f"{Settings.connections:,}", "idle ones are closed, new ones wait"),
        (
            "Slow connections of one address",
            f"{Settings.connections_of_address} in each process",
            "the oldest of them is closed",
        ),
        ("Time to wait for a thread", f"{fair.WAIT_SECONDS:g} s", "503 with Retry-After"),
    ]
    return table(("What", "At most", "More of it"), rows)


def columns(kind: str) -> str:
    rows = []
    for column in COLUMNS[kind]:
        also = f" (also {', '.join(f'`{name}`' for name in column.also)})" if column.also else ""
        example = column.first or column.second
        shown = f"`{example}`" if example else ""
        rows.append((f"`{column.name}`{also}", column.doc, column.required, shown))
    return table(("column", "meaning", "required", "example"), rows)


def repairs() -> str:
    return "\n".join(f"- **{name}**: {meaning}" for name, meaning in RULES.items())


_UNREAD = "stored, not found by its words"


def _megabytes(size: int) -> str:
    return f"{size // 1_000_000} MB"


TABLES: Mapping[str, Callable[[], str]] = {
    "commands": commands,
    "settings": settings,
    "every type": lambda: parameters(COMMON),
    "words": lambda: parameters(WORDS),
    **{name: partial(own_parameters, SERVED[name]) for name in MAIN},
    "other types": other_types,
    "substance classes": substance_classes,
    "search page": search_page,
    "operations": operations,
    "limits": limits,
    "columns of allergies": partial(columns, "allergies"),
    "columns of documents": partial(columns, "documents"),
    "repairs": repairs,
}


_TABLE = re.compile(
    r"^<!-- table: (?P<name>[a-zA-Z ]+) -->\n(?P<table>.*?)\n<!-- /table -->$",
    re.DOTALL | re.MULTILINE,
)


def texts() -> dict[Path, str]:
    """Return the text of README and of each page of the manual."""
    paths = [README, *sorted(MANUAL.glob("*.md"))]
    return {path: path.read_text(encoding="utf-8") for path in paths}


def tables_in(text: str) -> dict[str, str]:
    """Return the tables of a page by name, as the page has them."""
    return {found["name"]: found["table"].strip() for found in _TABLE.finditer(text)}


def with_tables(text: str) -> str:
    """Return a page with its tables generated again."""
    return _TABLE.sub(
        lambda found: (
            f"<!-- table: {found['name']} -->\n\n{TABLES[found['name']]()}\n\n<!-- /table -->"
        ),
        text,
    )


if __name__ == "__main__":
    for page, text in texts().items():
        page.write_text(with_tables(text), encoding="utf-8")
