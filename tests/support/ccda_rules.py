"""C-CDA documents in the short notation of tests/ccda/rules, and the cases of those rules.

A rule is a table of a TOML file, named by what it says. It has an input, what is expected, and
values for its variables. The input is the content of an observation (`entry`, a list for several),
with `attributes`, `concern` and `text`, the narrative; or a `sample` in which `replace` has pairs
of texts. `cases` has a row for each case, `columns` the names of its values: variables, parts of
the input or of what is expected. `each` names values that all occur with all others.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from tests import TESTS
from tests.support.ccda_samples import sample

RULES = TESTS / "ccda" / "rules"
_INPUT = ("entry", "attributes", "concern", "text", "sample", "replace")
_ABBREVIATION = re.compile(r"\{(\w+)(?: ([^{}]*))?\}")
_NO_ARGUMENT = re.compile(r' \w+="\$\d"|\$\d')
_NOTATION = tomllib.loads((RULES / "notation.toml").read_text())


class Case(NamedTuple):
    """A case of a rule: what tells it from the others, its document, and all other values.

    used: the names that the input refers to; each other one is expected of the document.
    """

    label: str
    document: str
    values: dict[str, Any]
    used: frozenset[str]


def files() -> list[str]:
    return sorted(path.stem for path in RULES.glob("*.toml") if path.stem != "notation")


@cache
def rules(name: str) -> dict[str, dict[str, Any]]:
    """Return the rules of a file, by what each says."""
    return tomllib.loads((RULES / f"{name}.toml").read_text())


def cases(name: str, rule: str) -> Iterator[Case]:
    """Yield the cases of a rule."""
    given = dict(rules(name)[rule])
    used = frozenset(re.findall(r"\{(\w+)", str(given)))
    lists = rules(name).get("lists", {})
    columns, rows = given.pop("columns", []), given.pop("cases", [[]])
    each = given.pop("each", {})
    values = (lists[several] if isinstance(several, str) else several for several in each.values())
    for beside in product(*values):
        for row in rows:
            row = row if isinstance(row, list) else [row]
            own = {**dict(zip(each, beside, strict=True)), **dict(zip(columns, row, strict=True))}
            yield _case(", ".join(map(str, own.values())), {**given, **own}, used)


def _case(label: str, values: dict[str, Any], used: frozenset[str]) -> Case:
    names = {name: str(value) for name, value in values.items()}
    made = {name: _expanded(values[name], names) for name in _INPUT if name in values}
    others = {name: value for name, value in values.items() if name not in _INPUT}
    return Case(label, document(**made), _expanded(others, names), used)


def _expanded(value: Any, variables: dict[str, str]) -> Any:
    if isinstance(value, str):
        return expand(value, variables)
    if isinstance(value, list):
        return [_expanded(part, variables) for part in value]
    if isinstance(value, dict):
        return {name: _expanded(part, variables) for name, part in value.items()}
    return value


def expand(text: str, variables: dict[str, str] | None = None) -> str:
    """Return a text with the abbreviations of notation.toml, and variables, written out."""

    known = variables or {}

    def written(found: re.Match[str]) -> str:
        name, argument = found[1], found[2] or ""
        if name in ("table", "items"):
            return {"table": _table, "items": _items}[name](argument)
        is_variable = name in known and not (argument and name in _NOTATION)
        made = known[name] if is_variable else _NOTATION[name]
        for number, part in enumerate(argument.split("|"), 1):
            made = made.replace(f"${number}", part) if part else made
        return _NO_ARGUMENT.sub("", made)

    while _ABBREVIATION.search(text):
        text = _ABBREVIATION.sub(written, text)
    return text


def _table(argument: str) -> str:
    """Return a table: heads / row / row, cells between bars; no heads where they are -.

    The id of the first row is r.
    """
    heads, *rows = ([cell.strip() for cell in row.split("|")] for row in argument.split(" / "))
    head = "".join(f"<th>{cell}</th>" for cell in heads)
    body = ""
    for row in rows:
        cells = "".join(f"<td>{cell}</td>" for cell in row)
        body += f"<tr>{cells}</tr>" if body else f'<tr ID="r">{cells}</tr>'
    thead = "" if heads == ["-"] else f"<thead><tr>{head}</tr></thead>"
    return f"<table>{thead}<tbody>{body}</tbody></table>"


def _items(argument: str) -> str:
    return f"<list>{''.join(f'<item>{item}</item>' for item in argument.split(' / '))}</list>"


def document(
    entry: str | list[str] | None = None,
    attributes: str = "",
    concern: str = '<statusCode code="active"/>',
    text: str = "",
    sample: str = "",
    replace: list[list[str]] | None = None,
) -> str:
    """Return a document with entries and a narrative, or a changed sample.

    An entry that begins with an element of its own kind, such as <organizer>, is kept as it is.
    """
    made = _sample(sample) if sample else _document(entry, attributes, concern, text)
    for old, new in replace or ():
        assert old in made, old
        made = made.replace(old, new, 1)
    return made


def _sample(name: str) -> str:
    return sample(name).replace("ISO-8859-1", "UTF-8")


def _document(entry: str | list[str] | None, attributes: str, concern: str, text: str) -> str:
    observations = entry if isinstance(entry, list) else [] if entry is None else [entry]
    written = "".join(
        f'<entry><act classCode="ACT" moodCode="EVN">{expand(concern)}'
        f'<entryRelationship typeCode="SUBJ">{_observation(expand(content), attributes)}'
        "</entryRelationship></act></entry>"
        for content in observations
    )
    head = sample("progress-note").partition("<component>\n")[0].rpartition("<component>")[0]
    return (
        f"{head}<component><structuredBody><component><section>"
        f'<code code="48765-2"/><text>{expand(text)}</text>{written}</section></component>'
        "</structuredBody></component></ClinicalDocument>"
    )


def _observation(content: str, attributes: str) -> str:
    if content.startswith(("<organizer", "<observation", "<procedure")):
        return content
    return (
        f'<observation classCode="OBS" moodCode="EVN" {expand(attributes)}>'
        f'<templateId root="2.16.840.1.113883.10.20.22.4.7"/>{content}</observation>'
    )
