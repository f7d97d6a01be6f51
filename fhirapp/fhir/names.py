"""Human names: which of several is a person's current one, and a name in words. R4 HumanName."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from fhirapp.fhir import temporal

HumanName = Mapping[str, Any]
Name = TypeVar("Name", bound=HumanName)

# FHIR R4 name-use, the name to show first; None is a name without a use.
_USES = ("official", "usual", None, "nickname", "temp", "anonymous", "maiden", "old")
_RANKS: Mapping[str | None, int] = {use: rank for rank, use in enumerate(_USES)}
_FORMER = frozenset({"maiden", "old"})
_CURRENT, _PAST, _FUTURE = range(3)


def in_order(names: Iterable[Name]) -> list[Name]:
    """Return the names that have words, the current one first.

    A name that is valid today precedes a former one, and that one a name of the future. Then
    the use decides, the later start, and the order of the resource.
    """
    now = temporal.to_milliseconds(temporal.now())
    return sorted(filter(in_words, names), key=lambda name: _rank(name, now))


def _rank(name: HumanName, now: int) -> tuple[int, int, int]:
    use = name.get("use")
    valid = temporal.period_interval(name.get("period", {}))
    if now < valid.low:
        time = _FUTURE
    else:
        time = _PAST if use in _FORMER or valid.high <= now else _CURRENT
    return time, _RANKS.get(use, len(_RANKS)), -valid.low


def current(names: Iterable[Name]) -> Name | None:
    """Return a person's current name; None where no name has words."""
    return next(iter(in_order(names)), None)


def in_words(name: HumanName, *, prefix: bool = True) -> str:
    """Return a name as people write it: its text, or prefix, given names, family name, suffix."""
    prefixes = name.get("prefix", ()) if prefix else ()
    parts = [*prefixes, *name.get("given", ()), name.get("family"), *name.get("suffix", ())]
    # A primitive that has only an extension is null in its list.
    return str(name.get("text") or " ".join(filter(None, parts)))


def name_of(resource: Mapping[str, Any], *, prefix: bool = True) -> str:
    """Return the current name of a Patient, Practitioner or RelatedPerson; "" without one."""
    return in_words(current(resource.get("name", ())) or {}, prefix=prefix)
