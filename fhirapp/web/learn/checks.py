"""When a lesson's check is met: by requests with given traits, a right answer, or a consent.

Each trait of a request is one condition with a sentence for when it is not met, so that the page
can say what the nearest request still lacks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fhirapp.web.learn.interaction import Interaction, Parameter
from fhirapp.web.texts import _

# Whose requests count.
YOU, PATIENT, APP, BACKEND, NOBODY = "you", "patient", "app", "backend", "nobody"
WHO = (YOU, PATIENT, APP, BACKEND, NOBODY)
INTERACTIONS = ("read", "vread", "search", "history-instance", "history-type", "operation")
# The status of a request that succeeds.
_OK = (200,)
# Parameters that shape an answer and exclude no match.
_SHAPING = frozenset(
    {
        *("_count", "_cursor", "_elements", "_explain", "_format", "_include", "_pretty"),
        *("_revinclude", "_sort", "_summary", "_total"),
    }
)


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
    status: tuple[int, ...] = _OK
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
                request.continues and before is not None and _is_next(before, request),
                _("it is not the next page of the search before it"),
            )
        yield from self._of_parameters(request)
        status = request.entry.status
        yield Condition(
            status in self.status,
            _("the answer was %(status)s", status=status),
        )
        served = request.entry.served
        for pattern in self.serves:
            yield Condition(
                any(_is_served(pattern, name) for name in served),
                _("the answer lacks an expected record"),
            )
        if self.serves_only:
            yield Condition(
                all(any(_is_served(each, name) for each in self.serves_only) for name in served)
                and all(
                    any(_is_served(each, name) for name in served) for each in self.serves_only
                ),
                _("the answer has other records than expected"),
            )
        if self.serves_at_least:
            yield Condition(
                len(served) >= self.serves_at_least,
                _("the answer has fewer records than expected"),
            )

    def _of_parameters(self, request: Interaction) -> Iterator[Condition]:
        left = [each for each in request.parameters if each.value]
        unmet: set[str] = set()
        for patterns in self.parameters:
            found = next((each for each in left if any(_matches(p, each) for p in patterns)), None)
            name = _named(patterns[0])
            if found is not None:
                left.remove(found)
            else:
                unmet.add(name.partition(":")[0])
            yield Condition(found is not None, _lacking(name, request.parameters))
        if self.exactly:
            others = (each for each in left if each.name not in _SHAPING | unmet)
            other = next(others, None)
            yield Condition(other is None, _too_much(other.text.partition("=")[0] if other else ""))
        for pattern in self.without:
            yield Condition(
                not any(_matches(pattern, each) for each in request.parameters),
                _too_much(_named(pattern)),
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


def _is_next(before: Interaction, request: Interaction) -> bool:
    """Return whether a request is a further page of the search before it."""
    # The server's own link leaves out what it ignored.
    same = before.type == request.type and set(request.selecting) <= set(before.selecting)
    return (
        same
        and bool(request.entry.served)
        and not set(before.entry.served) & set(request.entry.served)
    )


def _named(pattern: str) -> str:
    return pattern.partition("=")[0]


def _lacking(name: str, sent: Sequence[Parameter]) -> str:
    """Return why none of the parameters that were sent is the expected one."""
    if any(_has_name(name, each) for each in sent):
        return _("its parameter %(name)s has another value than expected", name=name)
    if any(each.name == name.partition(":")[0] for each in sent):
        return _("it has %(name)s with another modifier, or without one", name=name)
    return _("it has no parameter %(name)s", name=name)


def _too_much(name: str) -> str:
    return _("it has the parameter %(name)s, which it should not have", name=name)


def _has_name(name: str, parameter: Parameter) -> bool:
    return parameter.text.partition("=")[0] == name


def _matches(pattern: str, parameter: Parameter) -> bool:
    """Return whether a parameter fits a pattern; a pattern without = fits any value."""
    if "=" not in pattern:
        return _has_name(pattern, parameter) and parameter.value != ""
    return _fits(pattern, parameter.text)


def _is_served(pattern: str, name: str) -> bool:
    """Return whether a pattern names Type/id/version; a pattern without a version names each."""
    if _fits(pattern, name):
        return True
    return pattern.count("/") == 1 and _fits(pattern, name.rpartition("/")[0])


def _fits(pattern: str, text: str) -> bool:
    parts = (re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(".*".join(parts), text, re.DOTALL) is not None
