"""How the server read a search, in words for people: the issues of `_explain=true`, taken apart.

fhirapp/search/explain.py and fhirapp/rest/explain.py write them; what they say is repeated here,
sorted by what a person asks: what does each parameter do, what was ignored, what may I see?
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.definition import Definition
from fhirapp.web.explore.address import NoAddressError, read_address
from fhirapp.web.internal_client import ask
from fhirapp.web.texts import _

# Which of our pages asks, for the audit trail: not what the person asked, but to explain it.
VIA = "explain"
# So often the server is asked to tell how many are left.
MOST_ASKED = 6

_APPLIED = re.compile(
    r"(?P<name>[^:\s]+): an? (?P<kind>\w+) parameter(?: with the modifier :(?P<modifier>\S+))?"
    r" that looks at (?P<place>.*?) and finds what (?P<sought>.*)\.",
    re.DOTALL,
)
_INTERVAL = re.compile(
    r"\[(\d[\d:TZ.+-]*), (\d[\d:TZ.+-]*)\) UTC(?: or (reaches further|begins before it)\b)?"
)
_LINK = re.compile(r"https?://[^\s<>\"]+")
_STATEMENT, _PLAN, _LIMIT = "SQL: ", " -- Plan: ", "Token: "


class Applied(NamedTuple):
    """A parameter that selects: code:text, what it finds, where it looks."""

    name: str
    # What goes on after "finds what": refers to 'Patient/p1'
    sought: str
    # Element paths: recordedDate, or else at onsetDateTime
    place: str
    # FHIR's: token, date, reference
    kind: str
    links: Sequence[str] = ()


class Told(NamedTuple):
    """What else is said, of a parameter or of none: what was ignored, how the answer is shaped."""

    name: str
    sentence: str
    links: Sequence[str] = ()


class Statement(NamedTuple):
    """SQL that was run, without its values, and the steps of the database's plan."""

    sql: str
    plan: Sequence[str]


class Step(NamedTuple):
    """How many are left once a parameter, and those before it, were applied; None if not told.

    The first step is before any parameter: its name is empty.
    """

    name: str
    sentence: str
    left: int | None


@dataclass(frozen=True)
class Explained:
    """How a search was read, sorted by what a person asks."""

    applied: Sequence[Applied] = ()
    # What was not followed, or not wholly, and why.
    ignored: Sequence[Told] = ()
    # How the answer is shaped: order, page, total.
    shaped: Sequence[Told] = ()
    # What the token lets see, and so what it leaves out.
    limits: Sequence[str] = ()
    # Why the search was refused.
    refused: Sequence[Told] = ()
    # In demo mode alone.
    statements: Sequence[Statement] = ()

    @property
    def is_whole(self) -> bool:
        """Whether an explanation was asked for: one always tells of the token's limits."""
        return bool(self.limits)

    def __bool__(self) -> bool:
        return bool(self.limits or self.ignored or self.refused)


def explained(issues: Sequence[Mapping[str, Any]]) -> Explained:
    """Return what the issues of an answer's OperationOutcome say."""
    applied, ignored, shaped, refused = [], [], [], []
    limits: list[str] = []
    statements = []
    for issue in issues:
        text = str(issue.get("diagnostics", ""))
        links = _LINK.findall(str(issue.get("details", {}).get("text", "")))
        found = _APPLIED.fullmatch(text)
        if issue.get("severity") in ("error", "fatal"):
            refused.append(_told(issue, text, links))
        elif issue.get("severity") == "warning":
            ignored.append(_told(issue, text, links))
        elif text.startswith(_STATEMENT):
            sql, _dashes, plan = text.removeprefix(_STATEMENT).partition(_PLAN)
            statements.append(Statement(sql, [*filter(None, plan.split("; "))]))
        elif text.startswith(_LIMIT):
            limits.append(_sentence(text.removeprefix(_LIMIT)))
        elif found:
            modifier = f":{found['modifier']}" if found["modifier"] else ""
            sought = (
                _INTERVAL.sub(_in_words, found["sought"]) if _is_date(found) else found["sought"]
            )
            name = f"{found['name']}{modifier}"
            applied.append(Applied(name, sought, found["place"], found["kind"], links))
        else:
            shaped.append(_told(issue, text, links))
    return Explained(applied, ignored, shaped, limits, refused, statements)


def _is_date(found: re.Match[str]) -> bool:
    return found["kind"] in ("date", "composite")


def _in_words(interval: re.Match[str]) -> str:
    """Return a half-open interval as people say it."""
    told = _(
        "the time from %(start)s until just before %(end)s (UTC)",
        start=interval[1],
        end=interval[2],
    )
    if interval[3] is None:
        return told
    return (
        f"{told}, {_('or ends later') if interval[3].startswith('r') else _('or begins earlier')}"
    )


def _told(issue: Mapping[str, Any], text: str, links: Sequence[str]) -> Told:
    """Return what an issue says; the parameter's name, which begins it, stands apart."""
    name = next(iter(issue.get("expression", ())), "").removeprefix("http.")
    if name and text.startswith(f"{name}: "):
        return Told(name, _ended(text.removeprefix(f"{name}: ")), links)
    return Told("", _sentence(text), links)


def _sentence(text: str) -> str:
    return _ended(f"{text[:1].upper()}{text[1:]}")


def _ended(text: str) -> str:
    return text if text.endswith((".", "?", "!", "…")) else f"{text}."


def issues_of(content: Any) -> Sequence[Mapping[str, Any]]:
    """Return the issues in an answer: those of its OperationOutcome, alone or within a Bundle."""
    if not isinstance(content, dict):
        return ()
    if content.get("resourceType") == "OperationOutcome":
        return list(content.get("issue", ()))
    return [
        issue
        for entry in content.get("entry", ())
        if entry.get("search", {}).get("mode") == "outcome"
        for issue in entry.get("resource", {}).get("issue", ())
    ]


class Search(NamedTuple):
    """A search of a type: its parameters as they stand in the address, in order."""

    definition: Definition
    parameters: Sequence[tuple[str, str]]

    @property
    def selecting(self) -> Mapping[str, Sequence[str]]:
        """The values of each parameter that selects; code:text is another than code."""
        known = self.definition.params.by_name
        found: dict[str, list[str]] = {}
        for name, value in self.parameters:
            if name.partition(":")[0] in known and value.strip():
                found.setdefault(name, []).append(value)
        return found


def search_of(address: str) -> Search | None:
    """Read the address of a search, /fhir/AllergyIntolerance?patient=p1; None of anything else."""
    try:
        found = read_address(address)
    except NoAddressError:
        return None
    if found.searched is None:
        return None
    return Search(found.searched, parse_qsl(found.query, keep_blank_values=True))


class Count(NamedTuple):
    """How many a search finds, None where it was refused, and how it was read."""

    total: int | None
    explained: Explained


def count(definition: Definition, parameters: Sequence[tuple[str, str]], token: OwnToken) -> Count:
    """Ask how many a search finds, and how it is read."""
    asked = [*parameters, ("_summary", "count"), ("_explain", "true")]
    answer = ask(f"/fhir/{definition.name}?{urlencode(asked)}", token.secret, via=VIA)
    try:
        content = answer.json()
    except ValueError:
        return Count(None, Explained())
    total = content.get("total") if answer.status == 200 and isinstance(content, dict) else None
    return Count(total if isinstance(total, int) else None, explained(issues_of(content)))


def narrowing(address: str, token: OwnToken) -> Sequence[Step]:
    """Return how many are left after each parameter of a search, asking MOST_ASKED times at most.

    Empty where the address is no search. A parameter's repetitions count together.
    """
    search = search_of(address)
    if search is None:
        return ()
    found = count(search.definition, (), token)
    steps = [Step("", _("All that the token may see"), found.total)]
    before: list[tuple[str, str]] = []
    for name, values in [*search.selecting.items()][: MOST_ASKED - 1]:
        before += [(name, value) for value in values]
        found = count(search.definition, before, token)
        sought = next((one.sought for one in found.explained.applied if one.name == name), "")
        steps.append(Step(name, sought, found.total))
    return steps
