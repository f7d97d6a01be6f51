"""When a lesson's check is met: by requests with given traits, a right answer, or a consent."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fhirapp.features.learn.expected import AnswerOf, Expected, no_answer
from fhirapp.features.learn.interaction import SHAPING, Interaction, named_by, parameters_of


class Question(NamedTuple):
    """A question; its right answer is read from the server when the learner answers.

    answer is a place in the answer of address: total, or entry.0.resource.recordedDate.
    """

    address: str
    answer: str


def shown_by(question: Question, who: tuple[str, ...], status: int) -> Sequence[Expected]:
    """Return which requests show what a question asks for: any of them, answered with status."""
    path, _mark, query = question.address.partition("?")
    named = named_by(path)
    patterns = tuple((param.text,) for param in parameters_of(query) if param.name not in SHAPING)
    expected = Expected(
        who=who,
        status=(status,),
        parameters=patterns,
        exactly=True,
        without=("_total=none",),
        # A count alone shows no entry.
        serves_at_least=int(question.answer.startswith("entry")),
        **named._asdict(),
    )
    if status == 200 and named.interaction == "search":
        return expected, Expected(who=who, type=named.type, same_as=(question.address,))
    if status == 200 and named.interaction in ("read", "vread"):
        # As a match of a search, say, or in the history.
        names = filter(None, (named.type, named.id, named.version))
        return (Expected(who=who, serves=("/".join(names),)),)
    return (expected,)


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing to do, as says describes it: by requests, a question, a consent or its end.

    A learner's progress is kept by says; shown is that in another language.
    """

    says: str
    shown: str = ""
    requests: tuple[Expected, ...] = ()
    question: Question | None = None
    # The client that the learner consents to, and a scope that must be among what it is allowed.
    consent: str = ""
    consent_scope: str = ""
    # The client whose access the learner ends.
    revocation: str = ""


class Nearest(NamedTuple):
    """The request that comes nearest to a check, and what it lacks."""

    request: Interaction
    missing: str


def last_of(
    expected: Sequence[Expected],
    requests: Sequence[Sequence[Interaction]],
    before: Interaction | None = None,
    answer_of: AnswerOf = no_answer,
) -> Interaction | None:
    """Return the last of the requests that meet what is expected, in this order; None if none do.

    requests has, for each of expected, the requests that count, the oldest first.
    """
    for request in requests[0]:
        if before is not None and request.entry.number <= before.entry.number:
            continue
        if all(condition.met for condition in expected[0].conditions(request, before, answer_of)):
            if len(expected) == 1:
                return request
            last = last_of(expected[1:], requests[1:], request, answer_of)
            if last is not None:
                return last
    return None


def numbers_meeting(
    expected: Expected, requests: Sequence[Interaction], answer_of: AnswerOf = no_answer
) -> set[int]:
    """Return the numbers of the requests that have all traits."""
    return {
        request.entry.number
        for request in requests
        if all(condition.met for condition in expected.conditions(request, answer_of=answer_of))
    }


def nearest(
    expected: Sequence[Expected],
    requests: Sequence[Sequence[Interaction]],
    spent: Collection[int] = frozenset(),
    answer_of: AnswerOf = no_answer,
) -> Nearest | None:
    """Return the request that lacks least for the first step that is not met; the newest of them.

    spent are requests that meet another check: they are near only if their status is wrong. None
    where no request was meant for it.
    """
    before: Interaction | None = None
    for count, step in enumerate(expected, 1):
        last = last_of(expected[:count], requests[:count], answer_of=answer_of)
        if last is None:
            return _nearest(step, requests[count - 1], before, spent, answer_of)
        before = last
    return None


def _nearest(
    step: Expected,
    counted: Sequence[Interaction],
    before: Interaction | None,
    spent: Collection[int],
    answer_of: AnswerOf,
) -> Nearest | None:
    best: Nearest | None = None
    fewest = 0
    for request in counted:
        if before is not None and request.entry.number <= before.entry.number:
            continue
        if not step.is_near(request):
            continue
        if request.entry.number in spent and request.entry.status in step.status:
            continue
        conditions = step.conditions(request, before, answer_of)
        lacking = [condition.missing for condition in conditions if not condition.met]
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
