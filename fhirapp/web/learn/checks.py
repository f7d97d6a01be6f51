"""When a lesson's check is met: by requests with given traits, a right answer, or a consent.

A request of the audit trail is read as a FHIR interaction. Each trait of it is one condition with a
sentence for when it is not met, so that the page can say what the nearest request still lacks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

from fhirapp.audit.read import Entry
from fhirapp.web.texts import _

# Whose requests count.
YOU, PATIENT, APP, BACKEND, NOBODY = "you", "patient", "app", "backend", "nobody"
WHO = (YOU, PATIENT, APP, BACKEND, NOBODY)
INTERACTIONS = ("read", "vread", "search", "history-instance", "history-type", "operation")
_CURSOR = "_cursor"
# Parameters that shape an answer and exclude no match.
_SHAPING = frozenset(
    {
        *("_count", _CURSOR, "_elements", "_explain", "_format", "_include", "_pretty"),
        *("_revinclude", "_sort", "_summary", "_total"),
    }
)


class Parameter(NamedTuple):
    """A parameter as it was sent: code:text=penicillin."""

    name: str
    modifier: str
    value: str

    @property
    def name_and_modifier(self) -> str:
        return f"{self.name}:{self.modifier}" if self.modifier else self.name

    @property
    def text(self) -> str:
        """The parameter without encoding, as a lesson writes it."""
        return f"{self.name_and_modifier}={self.value}"


@dataclass(frozen=True, kw_only=True)
class Interaction:
    """A request as an interaction; entry has its answer's status and resources."""

    entry: Entry
    # One of INTERACTIONS, or other.
    interaction: str = "other"
    type: str = ""
    id: str = ""
    version: str = ""
    # $everything
    operation: str = ""
    parameters: tuple[Parameter, ...] = ()

    def is_next_of(self, before: Interaction) -> bool:
        """Return whether this is a further page of the search before, by a next link."""
        names = {parameter.name for parameter in self.parameters}
        # The server's own link leaves out what it ignored.
        selecting = {each for each in self.parameters if each.name != _CURSOR}
        served, served_before = set(self.entry.served), set(before.entry.served)
        return (
            _CURSOR in names
            and before.type == self.type
            and selecting <= set(before.parameters)
            and bool(served)
            and not served & served_before
        )


def interaction_of(entry: Entry) -> Interaction:
    """Return the interaction of a request."""
    path, _mark, query = entry.path.partition("?")
    steps = [unquote(step) for step in path.split("/")[2:] if step]
    form = entry.body if entry.method == "POST" else ""
    parameters = []
    for text in (query, form):
        try:
            pairs = parse_qsl(text, keep_blank_values=True)
        except ValueError:
            continue
        for name, value in pairs:
            name, _colon, modifier = name.partition(":")
            parameters.append(Parameter(name, modifier, value))
    interaction, names = _interaction(steps)
    return Interaction(entry=entry, interaction=interaction, parameters=tuple(parameters), **names)


def _interaction(steps: list[str]) -> tuple[str, dict[str, str]]:
    """Return which interaction an address below /fhir is, and what it names."""
    if not steps or not steps[0][:1].isupper():
        return "other", {}
    match steps:
        case [kind] | [kind, "_search"]:
            return "search", {"type": kind}
        case [kind, "_history"]:
            return "history-type", {"type": kind}
        case [kind, name] if name.startswith("$"):
            return "operation", {"type": kind, "operation": name}
        case [kind, resource_id]:
            return "read", {"type": kind, "id": resource_id}
        case [kind, resource_id, "_history"]:
            return "history-instance", {"type": kind, "id": resource_id}
        case [kind, resource_id, name] if name.startswith("$"):
            return "operation", {"type": kind, "id": resource_id, "operation": name}
        case [kind, resource_id, "_history", version]:
            return "vread", {"type": kind, "id": resource_id, "version": version}
    return "other", {}


class Condition(NamedTuple):
    """Whether a request meets a condition, and the sentence for when it does not."""

    met: bool
    missing: str


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The traits of a request that a check expects; empty for any.

    A pattern of parameters is `status=active`, `date=ge*`, `code:text`; one in a list of several
    is enough. A pattern of what is served is `Type/id`, `Type/id/version` or `Type/*`.
    """

    who: tuple[str, ...] = (YOU,)
    method: str = ""
    interaction: str = ""
    type: str = ""
    id: str = ""
    version: str = ""
    operation: str = ""
    parameters: tuple[tuple[str, ...], ...] = ()
    without: tuple[str, ...] = ()
    # No other parameter that could exclude a result.
    exactly: bool = False
    status: tuple[int, ...] = (200,)
    serves: tuple[str, ...] = ()
    # Exactly these.
    serves_only: tuple[str, ...] = ()
    serves_at_least: int = 0
    # The next page of the request before.
    continues: bool = False

    def is_kind_of(self, request: Interaction) -> bool:
        """Return whether a request is of the kind, so that what it lacks is worth a sentence."""
        return (
            self.method in ("", request.entry.method)
            and self.interaction in ("", request.interaction)
            and self.type in ("", request.type)
            and self.operation in ("", request.operation)
        )

    def conditions(
        self, request: Interaction, before: Interaction | None = None
    ) -> Iterator[Condition]:
        """Yield the other conditions of a request; before is the request before it."""
        if self.id:
            yield Condition(request.id == self.id, _("it names another id"))
        if self.version:
            yield Condition(request.version == self.version, _("it names another version"))
        if self.continues:
            yield Condition(
                before is not None and request.is_next_of(before),
                _("it is not the next page of the search before it"),
            )
        yield from self._of_parameters(request)
        status, served = request.entry.status, request.entry.served
        yield Condition(status in self.status, _("the answer was %(status)s", status=status))
        for pattern in self.serves:
            yield Condition(
                any(_is_served(pattern, name) for name in served),
                _("the answer lacks an expected record"),
            )
        if self.serves_only:
            only = self.serves_only
            yield Condition(
                all(any(_is_served(pattern, name) for pattern in only) for name in served)
                and all(any(_is_served(pattern, name) for name in served) for pattern in only),
                _("the answer has other records than expected"),
            )
        if self.serves_at_least:
            yield Condition(
                len(served) >= self.serves_at_least,
                _("the answer has fewer records than expected"),
            )

    def _of_parameters(self, request: Interaction) -> Iterator[Condition]:
        left = [parameter for parameter in request.parameters if parameter.value]
        unmet: set[str] = set()
        for patterns in self.parameters:
            match = next((each for each in left if any(_matches(p, each) for p in patterns)), None)
            name = patterns[0].partition("=")[0]
            if match is not None:
                left.remove(match)
            else:
                unmet.add(name.partition(":")[0])
            yield Condition(match is not None, _lacking(name, request.parameters))
        if self.exactly:
            others = [each for each in left if each.name not in _SHAPING | unmet]
            yield Condition(not others, _too_much(others[0].name_and_modifier if others else ""))
        for pattern in self.without:
            yield Condition(
                not any(_matches(pattern, each) for each in request.parameters),
                _too_much(pattern.partition("=")[0]),
            )


class Question(NamedTuple):
    """A question; its right answer is read from the server when the learner answers.

    answer is a place in the answer of address: total, or entry.0.resource.recordedDate.
    """

    address: str
    answer: str


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing to do, as says describes it: by requests, a question or a consent."""

    says: str
    requests: tuple[Expected, ...] = ()
    question: Question | None = None
    # The client that the learner consents to.
    consent: str = ""


class Nearest(NamedTuple):
    """The request that comes nearest to a check, and what it lacks."""

    request: Interaction
    missing: str


def last_of(
    expected: Sequence[Expected],
    requests: Sequence[Sequence[Interaction]],
    before: Interaction | None = None,
) -> Interaction | None:
    """Return the last of the requests that meet what is expected, in this order; None if none do.

    requests has, for each of expected, the requests that count, the oldest first.
    """
    for request in requests[0]:
        if before is not None and request.entry.number <= before.entry.number:
            continue
        if not expected[0].is_kind_of(request):
            continue
        if all(condition.met for condition in expected[0].conditions(request, before)):
            last = request if len(expected) == 1 else last_of(expected[1:], requests[1:], request)
            if last is not None:
                return last
    return None


def meeting(expected: Expected, requests: Sequence[Interaction]) -> set[int]:
    """Return the numbers of the requests that have all traits."""
    return {
        request.entry.number
        for request in requests
        if expected.is_kind_of(request) and all(each.met for each in expected.conditions(request))
    }


def nearest(
    expected: Sequence[Expected],
    requests: Sequence[Sequence[Interaction]],
    spent: Collection[int] = frozenset(),
) -> Nearest | None:
    """Return the request that lacks least for the first step that is not met; the newest of them.

    spent are requests that meet another check: they are near only if their status is wrong. None
    where there is no request of the kind.
    """
    before: Interaction | None = None
    for count, step in enumerate(expected, 1):
        last = last_of(expected[:count], requests[:count])
        if last is None:
            return _nearest(step, requests[count - 1], before, spent)
        before = last
    return None


def _nearest(
    step: Expected,
    counted: Sequence[Interaction],
    before: Interaction | None,
    spent: Collection[int],
) -> Nearest | None:
    best: Nearest | None = None
    fewest = 0
    for request in counted:
        if before is not None and request.entry.number <= before.entry.number:
            continue
        if not step.is_kind_of(request):
            continue
        if request.entry.number in spent and request.entry.status in step.status:
            continue
        lacking = [each.missing for each in step.conditions(request, before) if not each.met]
        if lacking and (best is None or len(lacking) <= fewest):
            best, fewest = Nearest(request, lacking[0]), len(lacking)
    return best


def right_answer(content: Any, place: str) -> str | None:
    """Return the value at a place in an answer, as text; None where there is none.

    In a list a number is an index, anything else the name of a parameter of Parameters.
    """
    for step in place.split("."):
        try:
            content = _part(content, step) if isinstance(content, list) else content[step]
        except (LookupError, TypeError):
            return None
    return None if isinstance(content, dict | list) or content is None else str(content)


def _part(parts: list[Any], step: str) -> Any:
    if step.isdecimal():
        return parts[int(step)]
    named = (part for part in parts if isinstance(part, dict) and part.get("name") == step)
    return next(named, None)


def is_right(typed: str, right: str | None) -> bool:
    """Return whether an answer is right; case, spaces and the quotes of JSON make no difference."""
    answer = " ".join(typed.strip(" \t\"'").split())
    return right is not None and answer.casefold() == right.strip().casefold()


def _lacking(name: str, sent: Sequence[Parameter]) -> str:
    """Return why none of the parameters that were sent is the expected one."""
    if any(each.name_and_modifier == name for each in sent):
        return _("its parameter %(name)s has another value than expected", name=name)
    if any(each.name == name.partition(":")[0] for each in sent):
        return _("it has %(name)s with another modifier, or without one", name=name)
    return _("it has no parameter %(name)s", name=name)


def _too_much(name: str) -> str:
    return _("it has the parameter %(name)s, which it should not have", name=name)


def _matches(pattern: str, parameter: Parameter) -> bool:
    """Return whether a parameter fits a pattern; a pattern without = fits any value."""
    if "=" not in pattern:
        return parameter.name_and_modifier == pattern and parameter.value != ""
    return _fits(pattern, parameter.text)


def _is_served(pattern: str, name: str) -> bool:
    """Return whether a pattern names Type/id/version; a pattern without a version names each."""
    if _fits(pattern, name):
        return True
    return pattern.count("/") == 1 and _fits(pattern, name.rpartition("/")[0])


def _fits(pattern: str, text: str) -> bool:
    parts = (re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(".*".join(parts), text, re.DOTALL) is not None
