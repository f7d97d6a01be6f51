"""What counts as done in a lesson: requests with these traits, a right answer, a consent.

Each trait of a request is one condition with a sentence for whoever does not meet it, so that the
page can say of the nearest request what it still lacks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fhirapp.web.learn.interaction import Asked, Parameter
from fhirapp.web.texts import _

# Whose requests count.
YOU, PATIENT, APP, BACKEND, NOBODY = "you", "patient", "app", "backend", "nobody"
WHO = (YOU, PATIENT, APP, BACKEND, NOBODY)
INTERACTIONS = ("read", "vread", "search", "history-instance", "history-type", "operation")
# Of a request that went well.
_OK = (200,)
# These shape an answer, and leave out nothing that was found.
_SHAPING = frozenset(
    {
        *("_count", "_cursor", "_elements", "_explain", "_format", "_include", "_pretty"),
        *("_revinclude", "_sort", "_summary", "_total"),
    }
)


class Condition(NamedTuple):
    """Whether a request meets a condition, and what is to be said where it does not."""

    met: bool
    missing: str


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The traits of a request that a check asks for; empty for any.

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
    # Nothing beside parameters that could leave out what is looked for.
    exactly: bool = False
    status: tuple[int, ...] = _OK
    serves: tuple[str, ...] = ()
    # These, and nothing else.
    serves_only: tuple[str, ...] = ()
    serves_at_least: int = 0
    # It is the next page of the one before.
    continues: bool = False

    def is_kind_of(self, one: Asked) -> bool:
        """Say whether a request is of the kind: what it lacks is worth telling."""
        return (
            self.method in ("", one.noted.method)
            and self.interaction in ("", one.interaction)
            and self.type in ("", one.type)
            and self.operation in ("", one.operation)
        )

    def conditions(self, one: Asked, before: Asked | None = None) -> Iterator[Condition]:
        """Yield what a request of the kind must meet beside; before is the one before it."""
        if self.id:
            yield Condition(one.id == self.id, _("it asked for another id"))
        if self.version:
            yield Condition(one.version == self.version, _("it asked for another version"))
        if self.continues:
            yield Condition(
                one.continues and before is not None and _is_next(before, one),
                _("it is not the next page of the search before it"),
            )
        yield from self._of_parameters(one)
        status = one.noted.status
        yield Condition(
            status in self.status,
            _("the answer was %(status)s", status=status),
        )
        served = one.noted.served
        for pattern in self.serves:
            yield Condition(
                any(_is_served(pattern, name) for name in served),
                _("something that is looked for was not in the answer"),
            )
        if self.serves_only:
            yield Condition(
                all(any(_is_served(one, name) for one in self.serves_only) for name in served)
                and all(any(_is_served(one, name) for name in served) for one in self.serves_only),
                _("the answer had more or less in it than what is looked for"),
            )
        if self.serves_at_least:
            yield Condition(
                len(served) >= self.serves_at_least,
                _("the answer had fewer records in it than are looked for"),
            )

    def _of_parameters(self, one: Asked) -> Iterator[Condition]:
        left = [each for each in one.parameters if each.value]
        unmet: set[str] = set()
        for patterns in self.parameters:
            found = next((each for each in left if any(_matches(p, each) for p in patterns)), None)
            name = _named(patterns[0])
            if found is not None:
                left.remove(found)
            else:
                unmet.add(name.partition(":")[0])
            yield Condition(found is not None, _lacking(name, one.parameters))
        if self.exactly:
            others = (each for each in left if each.name not in _SHAPING | unmet)
            other = next(others, None)
            yield Condition(other is None, _too_much(other.text.partition("=")[0] if other else ""))
        for pattern in self.without:
            yield Condition(
                not any(_matches(pattern, each) for each in one.parameters),
                _too_much(_named(pattern)),
            )


class Question(NamedTuple):
    """A question whose right answer is asked of the server when it is answered.

    answer is the place in what the server answers: total, or entry.0.resource.recordedDate.
    """

    address: str
    answer: str


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing to do; says tells what. One of the others is there."""

    says: str
    requests: tuple[Wanted, ...] = ()
    question: Question | None = None
    # The client that the learner is to consent to.
    consent: str = ""


class Nearest(NamedTuple):
    """The request that comes nearest to a check, and what it lacks."""

    asked: Asked
    missing: str


def last_of(
    wanted: Sequence[Wanted], requests: Sequence[Sequence[Asked]], before: Asked | None = None
) -> Asked | None:
    """Return the last of the requests that came with the wanted traits, in this order.

    requests has for each of wanted those that count, the oldest first. None where they did not.
    """
    for one in requests[0]:
        if before is not None and one.noted.number <= before.noted.number:
            continue
        if not wanted[0].is_kind_of(one):
            continue
        if all(condition.met for condition in wanted[0].conditions(one, before)):
            last = one if len(wanted) == 1 else last_of(wanted[1:], requests[1:], one)
            if last is not None:
                return last
    return None


def meeting(wanted: Wanted, requests: Sequence[Asked]) -> set[int]:
    """Return the numbers of the requests that have all traits."""
    return {
        one.noted.number
        for one in requests
        if wanted.is_kind_of(one) and all(each.met for each in wanted.conditions(one))
    }


def nearest(
    wanted: Sequence[Wanted],
    requests: Sequence[Sequence[Asked]],
    spent: Collection[int] = frozenset(),
) -> Nearest | None:
    """Return the request that lacks least for the first step that is not met; the newest of them.

    spent are those that another check asked for: they are near only where the answer should have
    been another. None where no request of that kind came.
    """
    before: Asked | None = None
    for count, step in enumerate(wanted, 1):
        last = last_of(wanted[:count], requests[:count])
        if last is None:
            return _nearest(step, requests[count - 1], before, spent)
        before = last
    return None


def _nearest(
    step: Wanted, counted: Sequence[Asked], before: Asked | None, spent: Collection[int]
) -> Nearest | None:
    best: Nearest | None = None
    fewest = 0
    for one in counted:
        if before is not None and one.noted.number <= before.noted.number:
            continue
        if not step.is_kind_of(one):
            continue
        if one.noted.number in spent and one.noted.status in step.status:
            continue
        lacking = [each.missing for each in step.conditions(one, before) if not each.met]
        if lacking and (best is None or len(lacking) <= fewest):
            best, fewest = Nearest(one, lacking[0]), len(lacking)
    return best


def right_answer(content: Any, place: str) -> str | None:
    """Return what stands at a place in an answer, as text; None where nothing does.

    In a list a number is a place, from 0 on, and anything else the name of a part of Parameters.
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
    named = (one for one in parts if isinstance(one, dict) and one.get("name") == step)
    return next(named, None)


def is_right(typed: str, right: str | None) -> bool:
    """Say whether an answer is right; case, spaces and the quotes of JSON make no difference."""
    said = " ".join(typed.strip(" \t\"'").split())
    return right is not None and said.casefold() == right.strip().casefold()


def _is_next(before: Asked, one: Asked) -> bool:
    """Say whether a request is a further page of the search before it."""
    # The server's own link leaves out what it ignored.
    same = before.type == one.type and set(one.selecting) <= set(before.selecting)
    return same and bool(one.noted.served) and not set(before.noted.served) & set(one.noted.served)


def _named(pattern: str) -> str:
    return pattern.partition("=")[0]


def _lacking(name: str, sent: Sequence[Parameter]) -> str:
    """Return how a parameter that is looked for is not among those that were sent."""
    if any(_has_name(name, each) for each in sent):
        return _("its parameter %(name)s has another value than what is looked for", name=name)
    if any(each.name == name.partition(":")[0] for each in sent):
        return _("it has %(name)s with another modifier, or without one", name=name)
    return _("it has no parameter %(name)s", name=name)


def _too_much(name: str) -> str:
    return _("it has the parameter %(name)s, and should do without", name=name)


def _has_name(name: str, one: Parameter) -> bool:
    return one.text.partition("=")[0] == name


def _matches(pattern: str, one: Parameter) -> bool:
    """Say whether a parameter is as a pattern says; without = it has any value."""
    if "=" not in pattern:
        return _has_name(pattern, one) and one.value != ""
    return _fits(pattern, one.text)


def _is_served(pattern: str, name: str) -> bool:
    """Say whether Type/id/version is what a pattern names, in any version unless it says which."""
    if _fits(pattern, name):
        return True
    return pattern.count("/") == 1 and _fits(pattern, name.rpartition("/")[0])


def _fits(pattern: str, text: str) -> bool:
    parts = (re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(".*".join(parts), text, re.DOTALL) is not None
