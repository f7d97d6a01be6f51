"""The traits of a request that a check expects, and which of them a request lacks.

Each trait is one condition with a sentence for when it is not met, so that the page can say what
the nearest request still lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

from fhirapp.features.learn.interaction import (
    SHAPING,
    Interaction,
    QueryParameter,
    fits,
    matches,
    parameters_of,
)
from fhirapp.web.texts import _

# The senders whose requests count.
YOU, PATIENT, APP, BACKEND, NOBODY = "you", "patient", "app", "backend", "nobody"
WHO = (YOU, PATIENT, APP, BACKEND, NOBODY)
# Which resources an address answers to the learner now; None where it answers no records.
AnswerOf = Callable[[str], frozenset[str] | None]
# Ids that are as much alike differ by a slip of the keys.
_ALIKE = 0.85
_IS_NOT = {
    "read": _("it is not a read"),
    "vread": _("it is not a vread of one version"),
    "search": _("it is not a search"),
    "history-instance": _("it is not the history of one resource"),
    "history-type": _("it is not the history of a type"),
    "operation": _("it is not an operation"),
    "export-status": _("it is not the status of an export"),
    "export-file": _("it is not a file of an export"),
}


class RequestCondition(NamedTuple):
    """Whether a request meets a condition, and the sentence for when it does not."""

    met: bool
    missing: str


def no_answer(_address: str) -> frozenset[str] | None:
    return None


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
    # Addresses: the same resources as one of them answers, on all pages that were followed.
    same_as: tuple[str, ...] = ()
    # The next page of the request before.
    continues: bool = False

    def is_near(self, request: Interaction) -> bool:
        """Return whether a request was meant for this: the type is right, and more than that.

        That is the id, or one that is nearly the same; a parameter, or the names of all of them. A
        step that names none of these takes any request of its kind.
        """
        named = request.named
        if self.type not in ("", named.type):
            return False
        signs: list[bool] = []
        if self.id:
            is_alike = SequenceMatcher(None, self.id, named.id).ratio() >= _ALIKE
            is_served = any(_is_served(f"{self.type}/{self.id}", name) for name in request.gathered)
            signs.append(is_alike or is_served)
        if patterns := self._patterns:
            sent = {parameter.name for parameter in request.parameters}
            signs += [
                any(matches(option, p) for option in group for p in request.parameters)
                for group in patterns
            ]
            signs.append(all(any(_name(option) in sent for option in group) for group in patterns))
        return any(signs) if signs else self._is_of_kind(request)

    def _is_of_kind(self, request: Interaction) -> bool:
        return all(condition.met for condition in self._of_kind(request))

    @property
    def _patterns(self) -> tuple[tuple[str, ...], ...]:
        """The parameters that are expected, with their values in the first address of same_as."""
        query = self.same_as[0].partition("?")[2] if self.same_as else ""
        left = [parameter for parameter in parameters_of(query) if parameter.name not in SHAPING]
        patterns: list[tuple[str, ...]] = []
        for group in self.parameters:
            names = [_name(option) for option in group]
            found = next((parameter for parameter in left if parameter.name in names), None)
            if found is not None:
                left.remove(found)
            is_any = found is not None and not any("=" in option for option in group)
            patterns.append(
                tuple(f"{n}={found.value}" for n in names) if found and is_any else group
            )
        return (*patterns, *((parameter.text,) for parameter in left))

    def conditions(
        self,
        request: Interaction,
        before: Interaction | None = None,
        answer_of: AnswerOf = no_answer,
    ) -> Iterator[RequestCondition]:
        """Yield the conditions of a request; before is the request before it."""
        yield from self._of_kind(request)
        named = request.named
        if self.id:
            yield RequestCondition(named.id == self.id, _("it has a different id"))
        if self.version:
            yield RequestCondition(named.version == self.version, _("it has a different version"))
        if self.continues:
            yield RequestCondition(
                before is not None and request.is_next_of(before),
                _("it is not the next page of the search before it"),
            )
        yield from self._of_parameters(request)
        status = request.entry.status
        yield RequestCondition(status in self.status, _("the status was %(status)s", status=status))
        yield from self._of_answer(request, answer_of)

    def _of_kind(self, request: Interaction) -> Iterator[RequestCondition]:
        named, method = request.named, request.entry.method
        if self.type:
            yield RequestCondition(named.type == self.type, _("it is for another resource type"))
        if self.interaction:
            is_one = named.interaction == self.interaction
            yield RequestCondition(
                is_one, _(_IS_NOT.get(self.interaction, _("it is another request")))
            )
        if self.operation:
            name = self.operation
            is_one = named.operation == name
            yield RequestCondition(is_one, _("it is not the operation %(name)s", name=name))
        if self.method:
            is_one = method == self.method
            yield RequestCondition(is_one, _("it was sent with %(method)s", method=method))
            if is_one and method == "POST" and named.interaction == "search":
                query = parameters_of(request.entry.path.partition("?")[2])
                is_empty = all(parameter.name in SHAPING for parameter in query)
                yield RequestCondition(
                    is_empty, _("the search parameters are in the address instead of the body")
                )

    def _of_answer(self, request: Interaction, answer_of: AnswerOf) -> Iterator[RequestCondition]:
        served = request.entry.served
        for pattern in self.serves:
            yield RequestCondition(
                any(_is_served(pattern, name) for name in served),
                _("an expected resource is missing in the response"),
            )
        if self.serves_only:
            only = self.serves_only
            yield RequestCondition(
                all(any(_is_served(pattern, name) for pattern in only) for name in served)
                and all(any(_is_served(pattern, name) for name in served) for pattern in only),
                _("the response has other resources than expected"),
            )
        if self.serves_at_least:
            yield RequestCondition(
                len(served) >= self.serves_at_least,
                _("the response has fewer resources than expected"),
            )
        if self.same_as:
            yield from self._of_same(request, answer_of)

    def _of_same(self, request: Interaction, answer_of: AnswerOf) -> Iterator[RequestCondition]:
        """Yield nothing for the same records, else by which parameter they differ."""
        gathered = _records(request.named.type, request.gathered)
        answers = [_records(request.named.type, answer_of(url) or ()) for url in self.same_as]
        if request.entry.status != 200 or gathered in answers:
            return
        likely = Expected(parameters=self._patterns, exactly=True)
        differing = [condition for condition in likely._of_parameters(request) if not condition.met]
        own = {condition.missing for condition in self._of_parameters(request) if not condition.met}
        yield from (condition for condition in differing if condition.missing not in own)
        if not differing:
            fewer = any(gathered < answer for answer in answers)
            yield RequestCondition(
                False,
                _("the response has fewer resources than expected")
                if fewer
                else _("the response has other resources than expected"),
            )

    def _of_parameters(self, request: Interaction) -> Iterator[RequestCondition]:
        left = [parameter for parameter in request.parameters if parameter.value]
        unmet: set[str] = set()
        for patterns in self.parameters:
            match = next((p for p in left if any(matches(option, p) for option in patterns)), None)
            names = [option.partition("=")[0].rstrip("*") for option in patterns]
            if match is not None:
                left.remove(match)
            else:
                unmet |= {_name(name) for name in names}
            sent = {parameter.name for parameter in request.parameters}
            name = next((name for name in names if _name(name) in sent), names[0])
            yield RequestCondition(match is not None, _lacking(name, request.parameters))
        if self.exactly:
            others = [parameter for parameter in left if parameter.name not in SHAPING | unmet]
            yield RequestCondition(
                not others, _too_much(others[0].name_and_modifier if others else "")
            )
        for pattern in self.without:
            yield RequestCondition(
                not any(matches(pattern, parameter) for parameter in request.parameters),
                _too_much(pattern.partition("=")[0]),
            )


def _lacking(name: str, sent: Sequence[QueryParameter]) -> str:
    """Return why none of the parameters that were sent is the expected one."""
    if any(parameter.name_and_modifier == name for parameter in sent):
        return _("its parameter %(name)s has a different value than expected", name=name)
    if any(parameter.name == name.partition(":")[0] for parameter in sent):
        return _("it has %(name)s with a different modifier, or without one", name=name)
    return _("the parameter %(name)s is missing", name=name)


def _too_much(name: str) -> str:
    return _("the parameter %(name)s should not be there", name=name)


def _name(pattern: str) -> str:
    return pattern.partition("=")[0].partition(":")[0].rstrip("*")


def _records(type_name: str, names: Collection[str]) -> frozenset[str]:
    """Return the records of a type without versions: what was included makes no difference."""
    return frozenset(name.rpartition("/")[0] for name in names if name.startswith(f"{type_name}/"))


def _is_served(pattern: str, name: str) -> bool:
    """Return whether a pattern names Type/id/version; a pattern without a version names each."""
    if fits(pattern, name):
        return True
    return pattern.count("/") == 1 and fits(pattern, name.rpartition("/")[0])
