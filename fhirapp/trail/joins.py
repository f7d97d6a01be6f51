"""Check the trail in PostgreSQL: each chain by itself, and what their heads say of each other.

A chain's first line follows the digest of its name, so a line of another does not follow. What is
missing at the end of a chain, or a whole one, other chains' heads have named, or a head that was
copied. Only chains of days that the trail itself says were removed may be missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from flask import Flask

from fhirapp.config import SECRET_KEY, settings_of
from fhirapp.db import Reader, db
from fhirapp.trail import FOLDER, public_key
from fhirapp.trail.chain import HEAD, Head, following, split
from fhirapp.trail.events import PACKED
from fhirapp.trail.moving import is_of_files, stream_of
from fhirapp.trail.table import beginning, day_of
from fhirapp.trail.verify import (
    MEANINGLESS,
    Misfit,
    VerificationResult,
    check_signature,
    note,
    others,
    take,
    verify,
)

# Lines that are read at once, and names that are looked up at once.
_AT_ONCE = 5_000
# A fault of which more are searched for where a line came from.
_MOST_SEARCHED = 20


class _Name(NamedTuple):
    """A line that a head names, and where that head is."""

    chain: str
    last: Head
    place: str


class _Row(NamedTuple):
    chain: str
    n: int
    hash: str
    line: bytes


@dataclass
class _Check:
    """What was found until now."""

    keys: Collection[str]
    # The key that a server had before its trail was in PostgreSQL signed files, and no more.
    keys_of_files: Collection[str]
    kept: bool
    snapshot: Reader
    total: VerificationResult
    names: list[_Name] = field(default_factory=list)
    # By the chain: the furthest line that a head names, and that is not there.
    missing: dict[str, _Name] = field(default_factory=dict)
    # By their first line: the trails of files that were brought in.
    streams: dict[str, VerificationResult] = field(default_factory=dict)
    # The last day whose lines were removed since nothing asks for them to be kept.
    removed: str = ""


def verify_trail(
    app: Flask, keys: Collection[str], copied: Sequence[Mapping[str, Any]] = ()
) -> VerificationResult:
    """Check the app's trail against public keys (base64) and heads that were copied."""
    settings = settings_of(app)
    kept = settings.audit_keep > 0
    if not settings.is_postgresql:
        return verify(settings.instance / FOLDER, keys, copied, kept=kept)
    path = settings.instance / SECRET_KEY
    of_files = {*keys, *([public_key(path.read_bytes())] if path.exists() else [])}
    with closing(Reader(db.engine)) as snapshot:
        check = _Check(keys, of_files, kept, snapshot, VerificationResult())
        for chain, rows in groupby(_rows(snapshot), itemgetter(0)):
            check.total.chains += 1
            _check_chain(check, chain, rows)
        for head in copied:
            _take_copied(check, head)
        _look_up(check)
        _end(check, copied)
    return check.total


def _rows(snapshot: Reader) -> Iterator[_Row]:
    """Yield all lines, chain by chain."""
    last: tuple[str, int] = ("", 0)
    while True:
        rows = snapshot.all(
            "SELECT chain, n, hash, line FROM audit_line WHERE (chain, n) > (?, ?)"
            f" ORDER BY chain, n LIMIT {_AT_ONCE}",
            last,
        )
        yield from map(_Row._make, rows)
        if len(rows) < _AT_ONCE:
            return
        last = rows[-1][0], rows[-1][1]


def _check_chain(check: _Check, chain: str, rows: Iterator[_Row]) -> None:
    """Take the lines of a chain, until one does not follow."""
    if is_of_files(chain):
        found = check.streams.setdefault(stream_of(chain), VerificationResult())
    else:
        found = VerificationResult(last=beginning(chain))
    if found.faults:
        # The files of the days before did not end as this one goes on.
        return
    place = f"chain {chain}"
    try:
        for row in rows:
            place = f"chain {chain}, line {row.n}"
            _take_row(check, found, row, place)
    except Misfit as misfit:
        found.faults.append(f"{place}: {misfit}")
    except MEANINGLESS:
        found.faults.append(f"{place}: a head that cannot be read")
    check.total.faults += found.faults
    if not is_of_files(chain):
        _add(check.total, found)


def _take_row(check: _Check, found: VerificationResult, row: _Row, place: str) -> None:
    """Take a line. Raises Misfit where it does not follow, or its row says other things of it."""
    is_file = is_of_files(row.chain)
    parts = split(row.line)
    of_line = parts[1] if parts else Head(row.n, "")
    try:
        if row.hash != of_line.digest or (not is_file and row.n != of_line.number):
            raise Misfit("its row has another number or digest: it was changed or moved")
        keys = check.keys_of_files if is_file else check.keys
        content = take(found, row.line, keys, kept=check.kept) or {}
    except Misfit as misfit:
        raise Misfit(f"{misfit}{_whence(check, row)}") from None
    if content.get("event") == HEAD:
        if content.get("chain", "") != ("" if is_file else row.chain):
            raise Misfit("this head is of another chain")
        check.names += [_Name(name, last, place) for name, last in others(content).items()]
        if len(check.names) >= _AT_ONCE:
            _look_up(check)
    elif row.n == 1 and not is_file:
        raise Misfit("the chain begins with what is not a head")
    elif content.get("event") == PACKED:
        check.removed = max(check.removed, str(content["what"])[-10:])


def _whence(check: _Check, row: _Row) -> str:
    """Say which other chain a line belongs to, where one has the line before it."""
    parts = split(row.line)
    if parts is None or len(check.total.faults) >= _MOST_SEARCHED:
        return ""
    body, head = parts
    if head.number == 1:
        names = check.snapshot.all("SELECT DISTINCT chain FROM audit_line")
        before = [(chain, beginning(chain).digest) for (chain,) in names]
    else:
        before = check.snapshot.all(
            "SELECT chain, hash FROM audit_line WHERE n = ?", (head.number - 1,)
        )
    for chain, digest in before:
        if chain != row.chain and following(Head(head.number - 1, digest), body)[0] == head:
            return f"; it belongs to chain {chain}"
    return ""


def _add(total: VerificationResult, found: VerificationResult) -> None:
    total.lines += found.lines
    total.heads += found.heads
    total.older += found.older
    total.torn += found.torn


def _take_copied(check: _Check, head: Mapping[str, Any]) -> None:
    """Have looked up what a copied head names."""
    place = "a copied head"
    try:
        check_signature(head, check.keys if head.get("chain") else check.keys_of_files)
        if head.get("chain") and head["head"]["n"]:
            own = Head(head["head"]["n"], head["head"]["hash"])
            check.names.append(_Name(head["chain"], own, place))
        check.names += [_Name(name, last, place) for name, last in others(head).items()]
    except Misfit as misfit:
        check.total.faults.append(f"{place}: {misfit}")
    except MEANINGLESS:
        check.total.faults.append(f"{place}: a head that cannot be read")


def _look_up(check: _Check) -> None:
    """Compare the lines that heads name with those that are there."""
    wanted = {(one.chain, one.last.number) for one in check.names}
    there = {
        (chain, number): digest
        for chain, number, digest in check.snapshot.all(
            "SELECT l.chain, l.n, l.hash FROM unnest(?::text[], ?::bigint[]) AS w(chain, n)"
            " JOIN audit_line l ON l.chain = w.chain AND l.n = w.n",
            ([chain for chain, _ in wanted], [number for _, number in wanted]),
        )
    }
    for one in check.names:
        digest = there.get((one.chain, one.last.number))
        if digest is None:
            furthest = check.missing.get(one.chain)
            if furthest is None or furthest.last.number < one.last.number:
                check.missing[one.chain] = one
        elif digest != one.last.digest:
            check.total.faults.append(
                f"{one.place}: it names line {one.last.number} of chain {one.chain}, "
                "which was different then: it was rewritten"
            )
    check.names = []


def _end(check: _Check, copied: Sequence[Mapping[str, Any]]) -> None:
    """Say what is missing, by what was named."""
    for found in check.streams.values():
        note(found)
        _add(check.total, found)
    faults = check.total.faults
    for chain, name in sorted(check.missing.items()):
        ((last,),) = check.snapshot.all("SELECT max(n) FROM audit_line WHERE chain = ?", (chain,))
        if last is not None and last < name.last.number:
            faults.append(
                f"chain {chain}: it ends with line {last}, and {name.place} names line "
                f"{name.last.number}: it was cut off"
            )
        elif last is None and day_of(chain) > check.removed:
            faults.append(
                f"chain {chain}: it is missing, and {name.place} names its line {name.last.number}"
            )
    for head in copied:
        number = head["head"]["n"]
        if not head.get("chain") and not _is_in_files(check, number, head["head"]["hash"]):
            faults.append(f"a copied head: no files that were brought in have its line {number}")
    unlisted = check.snapshot.all(
        "SELECT DISTINCT chain FROM audit_line"
        " WHERE chain NOT IN (SELECT name FROM audit_chain) ORDER BY chain"
    )
    faults += [f"chain {chain}: no page shows it, as audit_chain lacks it" for (chain,) in unlisted]
    gone = check.snapshot.all(
        "SELECT name FROM audit_chain c WHERE done > 0 AND NOT EXISTS"
        " (SELECT 1 FROM audit_line l WHERE l.chain = c.name) ORDER BY name"
    )
    faults += [
        f"chain {chain}: it was shown, and is missing"
        for (chain,) in gone
        if chain not in check.missing
    ]


def _is_in_files(check: _Check, number: int, digest: str) -> bool:
    """Say whether files that were brought in have a line, or had it before days were removed."""
    rows = check.snapshot.all("SELECT chain FROM audit_line WHERE hash = ?", (digest,))
    return any(is_of_files(chain) for (chain,) in rows) or any(
        number < found.first for found in check.streams.values()
    )
