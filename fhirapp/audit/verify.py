"""Verification: recompute every root, and compare what queries see with the lines.

Without a copied head it proves that nothing of the sealed blocks was changed, removed or added,
except that the newest ones may have been cut off: only a head that was copied elsewhere shows that.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from flask import Flask

from fhirapp.audit import store_of
from fhirapp.audit.events import UNVERIFIED, sha256_of
from fhirapp.audit.seals import BEGINNING, SEALS, Seal, is_signed, root_of
from fhirapp.audit.store import COLUMNS, Run, columns_of, for_seen, patients_of

# Rows that are read at once, and faults that are listed.
_AT_ONCE, _MOST_FAULTS = 5_000, 100
_ENTRIES = f"SELECT n, {', '.join(COLUMNS)} FROM audit_entry WHERE n > ? ORDER BY n LIMIT ?"


@dataclass
class VerificationResult:
    """What a verification found; unsealed entries are those after the last seal."""

    entries: int = 0
    seals: int = 0
    unsealed: int = 0
    # What retention removed, as its newest seal says: empty where nothing.
    removed: str = ""
    faults: list[str] = field(default_factory=list)

    @property
    def fault(self) -> str:
        """The first, empty where there is none."""
        return self.faults[0] if self.faults else ""


@dataclass
class _Verification:
    run: Run
    keys: Collection[str]
    heads: Sequence[Seal]
    # The newest seal, and the number of the last entry that it covers.
    newest: int = 0
    sealed: int = 0
    result: VerificationResult = field(default_factory=VerificationResult)

    def fault(self, text: str) -> None:
        if len(self.result.faults) < _MOST_FAULTS:
            self.result.faults.append(text)


def verify(app: Flask, keys: Collection[str], heads: Sequence[Seal] = ()) -> VerificationResult:
    """Check the app's trail against public keys (base64) and heads that were copied."""
    with store_of(app).reading() as run:
        check = _Verification(run, keys, heads)
        for row in run(f"{SEALS} ORDER BY k DESC LIMIT 1"):
            check.newest, check.sealed = Seal(*row).k, Seal(*row).last
        _check_blocks(check)
        _check_heads(check)
    return check.result


def _check_blocks(check: _Verification) -> None:
    lines = _Lines(check)
    before = _begin(check)
    for n, _ in lines.until(before.last):
        check.fault(f"entry {n}: no seal covers it, so it was added")
    for seal in _seals(check.run):
        check.result.seals += 1
        if not is_signed(seal, check.keys):
            check.fault(f"seal {seal.k}: its signature is wrong, or of another key")
        if seal.k != before.k + 1 or seal.first != before.last + 1:
            check.fault(f"seals {before.k + 1} to {seal.k - 1} are missing before seal {seal.k}")
            for n, _ in lines.until(seal.first - 1):
                check.fault(f"entry {n}: no seal covers it")
        block = [*lines.until(seal.last)]
        if (root_of(before.root, block, seal.removed), len(block)) != (seal.root, seal.entries):
            change = len(block) - seal.entries
            how = f"{-change} removed" if change < 0 else f"{change} added" if change else "changed"
            check.fault(f"seal {seal.k}, entries {seal.first} to {seal.last} of {seal.at}: {how}")
        before = seal
    check.result.unsealed = sum(1 for _ in lines.until(None))


def _begin(check: _Verification) -> Seal:
    """Return what the first seal follows: after retention, the last that it removed."""
    rows = check.run(f"{SEALS} ORDER BY k LIMIT 1")
    if not rows or Seal(*rows[0]).k == 1:
        return BEGINNING
    for row in check.run(f"{SEALS} WHERE removed <> '' ORDER BY k DESC LIMIT 1"):
        seal = Seal(*row)
        if is_signed(seal, check.keys):
            removal = json.loads(seal.removed)
            check.result.removed = f"entries up to {removal['last']} by {removal['setting']}"
            root = bytes.fromhex(removal["root"])
            return Seal(removal["k"], 0, removal["last"], 0, root, seal.at)
    return BEGINNING


def _seals(run: Run) -> Iterator[Seal]:
    last = 0
    while rows := run(f"{SEALS} WHERE k > ? ORDER BY k LIMIT ?", (last, _AT_ONCE)):
        yield from (Seal(*row) for row in rows)
        last = rows[-1][0]


class _Lines:
    """The lines of all entries in the order of their numbers, each compared with its columns."""

    def __init__(self, check: _Verification) -> None:
        self._check = check
        self._lines = self._read()
        self._next = next(self._lines, None)

    def until(self, last: int | None) -> Iterator[tuple[int, str]]:
        """Yield the next lines up to a number, or all that are left."""
        while self._next is not None and (last is None or self._next[0] <= last):
            yield self._next
            self._next = next(self._lines, None)

    def _read(self) -> Iterator[tuple[int, str]]:
        check, last, count = self._check, 0, 0
        for (n,) in check.run("SELECT n FROM audit_entry WHERE n < 1 ORDER BY n"):
            check.fault(f"entry {n}: no seal covers it, so it was added")
        while rows := check.run(_ENTRIES, (last, _AT_ONCE)):
            pairs = {pair for row in rows for pair in self._compare(*row)}
            listed = for_seen(check.run, "SELECT patient_id, n", sorted(pairs))
            for patient_id, n in sorted(pairs.difference(listed)):
                if n <= check.sealed:
                    check.fault(f"entry {n}: queries do not find it for patient {patient_id}")
            count += len(listed)
            for n, *_columns, line, _attachment in rows:
                check.result.entries += 1
                yield n, line
            last = rows[-1][0]
        ((others,),) = check.run("SELECT count(*) FROM audit_seen")
        if others != count:
            check.fault(f"queries find {others - count} entries for patients they do not name")

    def _compare(self, n: int, *columns: Any) -> Iterator[tuple[str, int]]:
        """Yield whom a line is about; report if columns or attachment are not what it tells."""
        *copies, line, attachment = columns
        try:
            content = json.loads(line)
            if tuple(copies) != columns_of(content):
                self._check.fault(f"entry {n}: queries find something else than its line has")
            digest = sha256_of(attachment) if attachment is not None else None
            if content.get("attachment") != digest:
                self._check.fault(f"entry {n}: its attachment was changed or removed")
            elif content.get("event") == UNVERIFIED:
                self._check.fault(f"entry {n}: an earlier trail was not intact: {content['what']}")
            patients = patients_of(line, attachment)
        except (ValueError, LookupError, TypeError, AttributeError):
            self._check.fault(f"entry {n}: its line cannot be read, so it was changed")
        else:
            yield from ((patient_id, n) for patient_id in patients)


def _check_heads(check: _Verification) -> None:
    """Report if a copied head is not of this trail: what came after the copy proves nothing."""
    first, newest = _begin(check).k + 1, check.newest
    for head in check.heads:
        stored = check.run(f"{SEALS} WHERE k = ?", (head.k,))
        if not is_signed(head, check.keys):
            check.fault(f"the copied head {head.k}: its signature is wrong, or of another key")
        elif head.k > newest:
            check.fault(f"the trail ends with seal {newest}, and had {head.k}: it was cut off")
        elif stored and Seal(*stored[0]) != head:
            check.fault(f"seal {head.k} was another when the head was copied: it was replaced")
        elif not stored and head.k >= first:
            check.fault(f"seal {head.k}, of the copied head, is missing")
