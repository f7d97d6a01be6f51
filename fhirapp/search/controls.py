"""What shapes an answer and does not select it: `_count`, `_pretty`, `_summary`, `_revinclude`.

Source: service.md 4, rules 3, 5; decisions 2.3, 2.5, 2.6, 2.16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fhirapp.fhir.outcome import (
    InvalidParameter,
    MissingParameter,
    RepeatedParameter,
    UnsupportedParameter,
)

Arguments = Sequence[tuple[str, str]]

REVINCLUDE = "Provenance:target"
MAX_IDS = 100
# So much of a value is repeated in an answer; of tokens and references nothing, they name people.
SHOWN = 40
# Named here so that they are known; `_format` and `_pretty` are read by rest/negotiation.py too.
_ONCE = ("_count", "_pretty", "_format", "_summary", "_revinclude", "_cursor")


@dataclass(frozen=True)
class Controls:
    """The answer that is wanted: count is None where every listed id goes on one page."""

    count: int | None
    only_total: bool = False
    revinclude: bool = False
    cursor: str | None = None
    # As they stand in the links of further pages.
    applied: tuple[tuple[str, str], ...] = ()
    # What is left of the arguments: the search parameters.
    rest: tuple[tuple[str, str], ...] = field(default=())


def parse_controls(arguments: Arguments, *, default: int, greatest: int) -> Controls:
    """Take the controls out of a request's arguments. Raises FhirError."""
    given: dict[str, str] = {}
    rest = []
    for name, value in arguments:
        if name.partition(":")[0] in _ONCE and ":" in name:
            raise UnsupportedParameter(name, "the modifier is not supported")
        if name not in _ONCE:
            rest.append((name, value))
        elif value == "":
            continue
        elif name in given:
            raise RepeatedParameter(name, "may be given once")
        else:
            given[name] = value
    # decisions 2.5: ignored, 0 too, when _id is given
    by_id = any(name == "_id" and value.strip() for name, value in rest)
    count = None if by_id else parse_count(given.get("_count"), default, greatest)
    only_total = count == 0 or _summary(given.get("_summary"))
    if (revinclude := given.get("_revinclude")) not in (None, REVINCLUDE):
        message = f"{revinclude[:SHOWN]!r} is not supported; use {REVINCLUDE}"
        raise InvalidParameter("_revinclude", message)
    kept = {name: value for name, value in given.items() if name not in ("_count", "_cursor")}
    if "_count" in given and count is not None:
        kept["_count"] = str(count)
    return Controls(
        count=count,
        only_total=only_total,
        revinclude=revinclude is not None,
        cursor=given.get("_cursor"),
        applied=tuple(kept.items()),
        rest=tuple(rest),
    )


def parse_boolean(name: str, value: str) -> bool:
    """Read true or false. Raises InvalidParameter."""
    if value not in ("true", "false"):
        raise InvalidParameter(name, f"{value[:SHOWN]!r} is not a boolean; use true or false")
    return value == "true"


def check_ids(ids: Sequence[str]) -> None:
    """Refuse more ids than one page takes (decisions 2.5). Raises InvalidParameter."""
    if len(ids) > MAX_IDS:
        raise InvalidParameter("_id", f"lists {len(ids)} ids; {MAX_IDS} is the most")


def require_patient_or_id(parameters: Sequence[str]) -> None:
    """Refuse a search that names no patient and no id (decisions 2.4). Raises MissingParameter."""
    if not {"_id", "patient", "subject"} & {name.partition(":")[0] for name in parameters}:
        raise MissingParameter("patient", "is required when _id is not given")


def parse_count(value: str | None, default: int, greatest: int) -> int:
    """Read `_count`: cut to the greatest, not refused (decisions 2.5). Raises InvalidParameter."""
    if value is None:
        return default
    if not (value.isascii() and value.isdecimal()):
        raise InvalidParameter("_count", f"{value[:SHOWN]!r} is not a whole number of 0 or more")
    # A number too long to matter is cut like any other that is too large.
    return min(int(value[:10]), greatest) if len(value) <= 10 else greatest


def _summary(value: str | None) -> bool:
    if value is None or value == "false":
        return False
    if value != "count":
        message = f"{value[:SHOWN]!r} is not supported; use count or false"
        raise UnsupportedParameter("_summary", message)
    return True
