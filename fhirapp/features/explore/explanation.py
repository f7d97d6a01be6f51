"""How the server reads a search, how many matches each parameter leaves, what was misspelled.

The values come from the issues of `_explain=true` (fhirapp/search/explain.py). They are sorted here
by what a reader wants to know: what each parameter finds, what is ignored, what the token limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote_plus, urlencode

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.definition import Definition, types
from fhirapp.features.explore.address import Address, NoAddressError, pair, piece, read_address
from fhirapp.fhir.outcome import InvalidParameter
from fhirapp.fhir.words import in_words_of
from fhirapp.rest.search import impossible_values
from fhirapp.search import explain
from fhirapp.search.query import CONTROLS, is_chained_name, similar_name
from fhirapp.search.values import split
from fhirapp.web.internal_client import ask
from fhirapp.web.texts import ENGLISH, _, language, translator

# The audit trail's name for requests that explain one of the person's own.
VIA = "explain"
# Requests that narrowing() makes at most.
MOST_REQUESTS = 6


class AppliedParameter(NamedTuple):
    """A parameter that selects: code:text, what it finds, where it looks."""

    name: str
    # What follows "finds what": refers to 'Patient/p1'
    sought: str
    # Element paths: recordedDate, or else at onsetDateTime
    place: str
    # FHIR's: token, date, reference
    kind: str
    links: Sequence[str] = ()


class Note(NamedTuple):
    """A sentence about the search, and the parameter that it is about, if any."""

    parameter: str
    sentence: str
    links: Sequence[str] = ()


class SqlStatement(NamedTuple):
    """SQL that was run, without its values, and the database's query plan."""

    sql: str
    plan: str


@dataclass
class SearchInterpretation:
    """How a search is read."""

    applied: list[AppliedParameter] = field(default_factory=list)
    # What is not followed, or only in part, and why.
    ignored: list[Note] = field(default_factory=list)
    # The order, page and total of the answer, what it includes.
    shaped: list[Note] = field(default_factory=list)
    # What the token gives access to.
    limits: list[str] = field(default_factory=list)
    # Why the search was refused.
    refused: list[Note] = field(default_factory=list)
    # In demo mode alone.
    statements: list[SqlStatement] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether the request had _explain=true: an explanation always names the token's limits."""
        return bool(self.limits)

    def __bool__(self) -> bool:
        return bool(self.limits or self.ignored or self.refused)


class Explanation(NamedTuple):
    """The values of an issue of an explanation, as its extension has them."""

    topic: str
    # By name, since some repeat: link, path, repetition
    parts: Mapping[str, Sequence[Any]]

    def text(self, name: str) -> str:
        """Return the value of a part, empty where there is none."""
        return str(next(iter(self.parts.get(name, ())), ""))

    @property
    def links(self) -> Sequence[str]:
        return self.parts.get("link", ())

    def parameter(self) -> explain.ParameterReading:
        """Return how a parameter is read; the topic is PARAMETER."""
        return explain.ParameterReading(
            name=self.text("name"),
            modifier=self.text("modifier"),
            kind=self.text("kind"),
            paths=self.parts.get("path", ()),
            is_first_of=True in self.parts.get("firstOf", ()),
            doc=self.text("doc"),
            repetitions=[
                [
                    explain.SoughtValue(**dict(_named_values(value)))
                    for _name, value in _named_values(part)
                ]
                for part in self.parts.get("repetition", ())
            ],
            links=self.links,
        )


def read_explanation(content: Mapping[str, Any]) -> Explanation | None:
    """Return the values of an issue; None if it has none."""
    url = explain.extension_url()
    for extension in content.get("extension", ()):
        if extension.get("url") == url:
            parts: dict[str, list[Any]] = {}
            for name, value in _named_values(extension):
                parts.setdefault(name, []).append(value)
            return Explanation(str(parts.pop("topic", [""])[0]), parts)
    return None


def _named_values(extension: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each part; a part with parts of its own is the value."""
    for part in extension.get("extension", ()):
        values = (value for key, value in part.items() if key.startswith("value"))
        yield part["url"], next(values, part)


def reading_of(issues: Sequence[Mapping[str, Any]]) -> SearchInterpretation:
    """Return how a search is read, from the issues of its answer's OperationOutcome."""
    reading = SearchInterpretation()
    for issue in issues:
        explanation = read_explanation(issue)
        if issue.get("severity") in ("error", "fatal"):
            reading.refused.append(note_of(issue))
        elif issue.get("severity") == "warning":
            reading.ignored.append(note_of(issue))
        elif explanation is None:
            reading.shaped.append(note_of(issue))
        elif explanation.topic == explain.PARAMETER:
            reading.applied.append(_applied(explanation.parameter()))
        elif explanation.topic == explain.TOKEN:
            reading.limits.append(_sentence(explanation.text("text")))
        elif explanation.topic == explain.STATEMENT:
            statement = SqlStatement(explanation.text("sql"), explanation.text("plan"))
            reading.statements.append(statement)
        else:
            sentence = str(issue.get("diagnostics", ""))
            reading.shaped.append(Note("", sentence, explanation.links))
    return reading


def note_of(issue: Mapping[str, Any]) -> Note:
    """Return an issue as a sentence, and the parameter of its expression apart."""
    parameter = str(next(iter(issue.get("expression", ())), "")).removeprefix("http.")
    text = str(issue.get("diagnostics") or issue.get("details", {}).get("text", ""))
    if not parameter:
        return Note("", _sentence(text))
    return Note(parameter, _ended(text.removeprefix(f"{parameter}: ")))


def ignored_filters(address: Address, issues: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """Return the parameters that were meant to filter a search, but were ignored."""
    search = search_of(str(address))
    selecting = search.selecting if search else ()
    names = (note_of(issue).parameter for issue in issues if issue.get("code") == "not-supported")
    return [
        name
        for name in dict.fromkeys(names)
        if name and name not in selecting and name.partition(":")[0] not in {*CONTROLS, "_type"}
    ]


def is_of_all_patients(address: Address, token: OwnToken) -> bool:
    """Return whether no parameter filters a search for records of patients, nor does the token."""
    search = search_of(str(address))
    return (
        search is not None
        and bool(search.definition.compartment)
        and not search.selecting
        and token.patient_id is None
    )


def _applied(parameter: explain.ParameterReading) -> AppliedParameter:
    return AppliedParameter(
        f"{parameter.name}:{parameter.modifier}" if parameter.modifier else parameter.name,
        parameter.sought(_phrase),
        parameter.place,
        parameter.kind,
        parameter.links,
    )


def _phrase(value: explain.SoughtValue) -> str:
    """Return what a value looks for; the half-open interval of a date in plain words."""
    interval = _(
        "the period from %(start)s up to, but not including, %(end)s (UTC)",
        start=value.low,
        end=value.high,
    )
    phrases = {
        "": _("is within %(interval)s", interval=interval),
        "eq": _("is within %(interval)s", interval=interval),
        "ne": _("is not within %(interval)s", interval=interval),
        "ge": _("is within %(interval)s or ends later", interval=interval),
        "le": _("is within %(interval)s or starts earlier", interval=interval),
        "ap": _(
            "overlaps %(interval)s, which is extended by a tenth of its distance to now",
            interval=interval,
        ),
    }
    return phrases.get(value.prefix, value.text) if value.low else value.text


def _sentence(text: str) -> str:
    return _ended(f"{text[:1].upper()}{text[1:]}")


def _ended(text: str) -> str:
    return text if not text or text.endswith((".", "?", "!", "…")) else f"{text}."


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
        values: dict[str, list[str]] = {}
        for name, value in self.parameters:
            is_own = name.partition(":")[0] in self.definition.params.by_name
            if (is_own or is_chained_name(name)) and value.strip():
                values.setdefault(name, []).append(value)
        return values


def search_of(address: str) -> Search | None:
    """Read the address of a search, /fhir/AllergyIntolerance?patient=p1; None of anything else."""
    try:
        parsed = read_address(address)
    except NoAddressError:
        return None
    if parsed.searched is None:
        return None
    return Search(parsed.searched, parse_qsl(parsed.query, keep_blank_values=True))


class Count(NamedTuple):
    """The number of matches, None where the search is refused, and how it is read."""

    total: int | None
    reading: SearchInterpretation


def count(definition: Definition, parameters: Sequence[tuple[str, str]], token: OwnToken) -> Count:
    """Count the matches of a search, and explain how it is read, in the language of the page."""
    query = urlencode([*parameters, ("_summary", "count"), ("_explain", "true")])
    with in_words_of(translator(), language()):
        answer = ask(f"/fhir/{definition.name}?{query}", token.secret, via=VIA)
        try:
            content = answer.json()
        except ValueError:
            return Count(None, SearchInterpretation())
        reading = reading_of(issues_of(content))
    total = content.get("total") if answer.status == 200 and isinstance(content, dict) else None
    return Count(total if isinstance(total, int) else None, reading)


def translated(reading: SearchInterpretation, address: Address, token: OwnToken) -> None:
    """Word the conditions of a search in the language of the page: its answer has them in English.

    One more request is sent where that is another language.
    """
    search = search_of(str(address))
    if search is None or not reading.applied or language() == ENGLISH:
        return
    filters = [(name, value) for name, values in search.selecting.items() for value in values]
    reading.applied = count(search.definition, filters, token).reading.applied or reading.applied


class NarrowingStep(NamedTuple):
    """How many matches a parameter and those before it leave; None if they are not counted.

    The name of the first step, which is without any parameter, is empty.
    """

    name: str
    sentence: str
    left: int | None


def narrowing(address: str, token: OwnToken) -> Sequence[NarrowingStep]:
    """Return the matches left after each parameter of a search, with up to MOST_REQUESTS requests.

    Empty if the address is no search. Repetitions of a parameter count together.
    """
    search = search_of(address)
    if search is None:
        return ()
    total = count(search.definition, (), token).total
    steps = [NarrowingStep("", _("Everything that the token gives access to"), total)]
    sent: list[tuple[str, str]] = []
    for name, values in [*search.selecting.items()][: MOST_REQUESTS - 1]:
        sent += [(name, value) for value in values]
        total, reading = count(search.definition, sent, token)
        sought = next((applied.sought for applied in reading.applied if applied.name == name), "")
        steps.append(NarrowingStep(name, sought, total))
    return steps


class Correction(NamedTuple):
    """What was perhaps meant: the parts that differ, the address with them, and in words."""

    parts: Sequence[str]
    address: Address
    words: str = ""


def correction_of(address: Address) -> Correction | None:
    """Return an address with the type, parameters and codes that its misspelled ones resemble.

    None where nothing is misspelled, or resembles nothing.
    """
    steps, parts = address.path.split("/"), []
    name = steps[2] if len(steps) > 2 else ""
    near = [] if name in types() else get_close_matches(name, types(), n=1)
    if near:
        address = address._replace(path="/".join([*steps[:2], *near, *steps[3:]]))
        parts.append(near[0])
    if definition := address.searched:
        pieces = [_corrected(text, definition) for text in address.pieces]
        differing = set(pieces).difference(address.pieces)
        parts += [unquote_plus(text) for text in dict.fromkeys(pieces) if text in differing]
        address = address._replace(pieces=tuple(pieces))
    return Correction(parts, address) if parts else None


def _corrected(text: str, definition: Definition) -> str:
    """Return a piece of an address with what its name and codes resemble; as it is if nothing."""
    name, value = pair(text) or ("", "")
    base, colon, modifier = name.partition(":")
    if is_chained_name(name):
        return text
    parameters = definition.params
    if base not in parameters.by_name and base not in CONTROLS:
        base = similar_name(base, parameters) if base else ""
    if not base:
        return text
    name, choices = f"{base}{colon}{modifier}", split(value, ",")
    if base in parameters.by_name:
        # What cannot be read at all is not misspelled.
        with suppress(InvalidParameter):
            for wrong in impossible_values(definition, [(name, value)]):
                code = wrong.value.rpartition("|")[2]
                right = wrong.value.removesuffix(code) + wrong.similar if wrong.similar else ""
                choices = [right or part if part == wrong.value else part for part in choices]
    corrected = name, ",".join(choices)
    return text if corrected == pair(text) else piece(*corrected)
