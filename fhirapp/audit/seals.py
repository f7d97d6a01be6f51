"""Seals: the signed chain that makes changes of the trail show.

Every second the entries that came are sealed as a block, and whom they are about is listed, which
costs less than to do so for each. A seal's root is the SHA-256 of the root
before, and of each entry's number and the SHA-256 of its line; its signature (Ed25519, by a key
made of the server's) covers the whole seal. So nothing of a block can be changed, removed or added
without the key; and the newest seal, copied elsewhere (`fhirapp audit head`), proves all before it.

Retention removes the oldest blocks. Their last seal is named, with the setting, in a seal of an
empty block: without such a seal, missing blocks are a fault.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from threading import Event, Thread
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from flask import Flask

from fhirapp.audit import store_of
from fhirapp.audit.events import PACKED, SEAL_MISSING, record
from fhirapp.audit.store import Run, add_seen, for_seen, patients_of
from fhirapp.config import settings_of
from fhirapp.db.locks import lock
from fhirapp.fhir.temporal import instant
from fhirapp.keys import key_of

_log = logging.getLogger(__name__)
# Among an app's extensions: the newest seal that this process saw.
_NEWEST = "fhirapp.audit.newest"
_SECONDS = 1.0
# Entries of a block, and entries that retention removes in one transaction.
MOST, _MOST_REMOVED = 10_000, 2_000


class Seal(NamedTuple):
    """A row of audit_seal: seal k, of the entries with numbers from first to last, and how many.

    removed is JSON in a seal of retention's, else empty: the setting, and k, last and root of the
    last seal that was removed.
    """

    k: int
    first: int
    last: int
    entries: int
    root: bytes
    at: str
    removed: str = ""
    signature: bytes = b""

    @property
    def text(self) -> bytes:
        """The bytes that the signature covers."""
        numbers = f"{self.k} {self.first} {self.last} {self.entries}"
        return f"fhirapp audit seal {numbers} {self.root.hex()} {self.at} {self.removed}".encode()

    def as_json(self) -> dict[str, Any]:
        """Return the members of a copied head."""
        signature = base64.b64encode(self.signature).decode()
        return {**self._asdict(), "root": self.root.hex(), "signature": signature}

    @classmethod
    def of_json(cls, content: Mapping[str, Any]) -> Seal:
        """Read a copied head. Raises ValueError, LookupError, TypeError."""
        values = {name: content[name] for name in cls._fields}
        root = bytes.fromhex(values["root"])
        signature = base64.b64decode(values["signature"])
        return cls(**{**values, "root": root, "signature": signature})


# What the first seal follows.
BEGINNING = Seal(0, 1, 0, 0, bytes(32), "")
SEALS = f"SELECT {', '.join(Seal._fields)} FROM audit_seal"
_UNSEALED = "SELECT n, line, attachment FROM audit_entry WHERE n > ? AND n <= ? ORDER BY n LIMIT ?"
_INSERT = f"INSERT INTO audit_seal VALUES ({', '.join('?' * len(Seal._fields))})"


def root_of(before: bytes, lines: Iterable[tuple[int, Any]], removed: str = "") -> bytes:
    """Return the root of a block: lines are numbered, in the order of their numbers."""
    digest = hashlib.sha256(before + removed.encode())
    for n, line in lines:
        # A value that is not text was changed by another program.
        content = (line if isinstance(line, str) else repr(line)).encode("utf-8", "surrogateescape")
        digest.update(n.to_bytes(8, "big") + hashlib.sha256(content).digest())
    return digest.digest()


def public_key(key: bytes) -> str:
    """Return the public key of a server's seals, in base64."""
    return base64.b64encode(_private(key).public_key().public_bytes_raw()).decode()


def is_signed(seal: Seal, keys: Collection[str]) -> bool:
    """Say whether one of these keys signed a seal."""
    for key in keys:
        try:
            Ed25519PublicKey.from_public_bytes(base64.b64decode(key)).verify(
                seal.signature, seal.text
            )
        except (InvalidSignature, ValueError):
            continue
        return True
    return False


@cache
def _private(key: bytes) -> Ed25519PrivateKey:
    seed = hashlib.blake2b(key=key, person=b"audit", digest_size=32).digest()
    return Ed25519PrivateKey.from_private_bytes(seed)


def seal_all(app: Flask) -> Seal:
    """Seal every entry that is not sealed yet, and list whom it is about; return the newest seal.

    Raises OSError.
    """
    store = store_of(app)
    settled = store.settled()
    while True:
        # A block at a time: who appends waits for each.
        with store.sealing() as run:
            newest = _newest(app, run)
            rows = run(_UNSEALED, (newest.last, settled, MOST))
            if rows:
                add_seen(run, _seen(rows))
                root = root_of(newest.root, [row[:2] for row in rows])
                newest = _add(app, run, newest, last=rows[-1][0], entries=len(rows), root=root)
        app.extensions[_NEWEST] = newest
        if len(rows) < MOST:
            return newest


def _seen(rows: Iterable[tuple[Any, ...]]) -> list[tuple[str, int]]:
    return [(patient_id, n) for n, *entry in rows for patient_id in patients_of(*entry)]


def _newest(app: Flask, run: Run) -> Seal:
    """Return the seal that the next one follows: the newest that this process saw, or a later one.

    Were it the newest stored one, the server would itself seal entries that somebody changed after
    removing their seals. So the next seal does not fit what is stored, which verification finds.
    """
    seen: Seal | None = app.extensions.get(_NEWEST)
    if seen is None:
        rows = run(f"{SEALS} ORDER BY k DESC LIMIT 1")
        return Seal(*rows[0]) if rows else BEGINNING
    if _is_gone(run, seen):
        ((last,),) = run("SELECT coalesce(max(last), 0) FROM audit_seal WHERE k <= ?", (seen.k,))
        return seen._replace(last=min(last, seen.last))
    keys = {public_key(key_of(app))}
    for row in run(f"{SEALS} WHERE k > ? ORDER BY k", (seen.k,)):
        later = Seal(*row)
        if later.k != seen.k + 1 or not is_signed(later, keys):
            break
        seen = later
    return seen


def _is_gone(run: Run, seal: Seal) -> bool:
    return seal != BEGINNING and run(f"{SEALS} WHERE k = ?", (seal.k,)) != [tuple(seal)]


def _add(
    app: Flask, run: Run, before: Seal, *, last: int, entries: int, root: bytes, removed: str = ""
) -> Seal:
    at = instant(datetime.now(UTC))
    seal = Seal(before.k + 1, before.last + 1, last, entries, root, at, removed)
    seal = seal._replace(signature=_private(key_of(app)).sign(seal.text))
    # What stands there was not signed by a server.
    run("DELETE FROM audit_seal WHERE k >= ?", (seal.k,))
    run(_INSERT, seal)
    return seal


def remove_expired(app: Flask, now: datetime | None = None) -> None:
    """Remove the blocks whose entries are all older than the settings keep them."""
    settings, now = settings_of(app), now or datetime.now(UTC)
    if not settings.audit_keep or _last_expired(app, now) is None:
        return
    with lock(settings, "audit-retention", lambda: None):
        # Another process may have been first.
        last = _last_expired(app, now)
        if last is None:
            return
        with store_of(app).reading() as run:
            ((first,),) = run("SELECT at FROM audit_entry ORDER BY n LIMIT 1")
        record(PACKED, what=f"{first[:10]} to {last.at[:10]}")
        while _remove_some(app, last.k):
            pass


def _last_expired(app: Flask, now: datetime) -> Seal | None:
    """Return the newest seal of an expired block, with the time of its last expired entry.

    It lies before the first entry that is kept. An entry from the future, of a wrong clock, neither
    keeps what is before it nor is removed without an expired one after it.
    """
    day = f"{now - timedelta(days=settings_of(app).audit_keep):%Y-%m-%d}"
    with store_of(app).reading() as run:
        oldest = run(
            "SELECT n FROM audit_entry WHERE at >= ? AND at <= ? ORDER BY n LIMIT 1",
            (day, instant(now)),
        )
        if not oldest:
            return None
        expired = run(
            "SELECT n, at FROM audit_entry WHERE at < ? AND n < ? ORDER BY n DESC LIMIT 1",
            (day, oldest[0][0]),
        )
        if not expired:
            return None
        ((n, at),) = expired
        # Other processes may have seen the newest of a minute ago last, and look for it.
        seals = run(
            f"{SEALS} WHERE first <= ? AND last < ? AND k <"
            " (SELECT max(k) FROM audit_seal WHERE at < ?) ORDER BY k DESC LIMIT 1",
            (n, oldest[0][0], instant(now - timedelta(minutes=1))),
        )
    return Seal(*seals[0])._replace(at=at) if seals else None


def _remove_some(app: Flask, last: int) -> bool:
    """Remove blocks up to seal `last`, some in one transaction; return whether any were there."""
    with store_of(app).sealing() as run:
        rows = run(f"{SEALS} WHERE k <= ? ORDER BY k LIMIT ?", (last, _MOST_REMOVED))
        if not rows:
            return False
        seals = [Seal(*row) for row in rows]
        gone, count = seals[0], seals[0].entries
        for seal in seals[1:]:
            count += seal.entries
            if count > _MOST_REMOVED:
                break
            gone = seal
        setting = f"FHIRAPP_AUDIT_KEEP={settings_of(app).audit_keep}"
        content = {"setting": setting, "k": gone.k, "last": gone.last, "root": gone.root.hex()}
        removed, newest = json.dumps(content), _newest(app, run)
        root = root_of(newest.root, (), removed)
        added = _add(app, run, newest, last=newest.last, entries=0, root=root, removed=removed)
        rows = run("SELECT n, line, attachment FROM audit_entry WHERE n <= ?", (gone.last,))
        for_seen(run, "DELETE", _seen(rows))
        run("DELETE FROM audit_entry WHERE n <= ?", (gone.last,))
        run("DELETE FROM audit_seal WHERE k <= ?", (gone.k,))
    app.extensions[_NEWEST] = added
    return True


@contextmanager
def sealing(app: Flask) -> Iterator[None]:
    """Seal every second in the background, and once more in the end; then close the store."""
    stopping = Event()
    thread = Thread(target=_seal_until, args=(app, stopping), name="seals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
        # SQLite's log goes into the file.
        store_of(app).close()


def _seal_until(app: Flask, stopping: Event) -> None:
    is_failing = is_last = False
    while not is_last:
        is_last = stopping.wait(_SECONDS)
        try:
            with app.app_context():
                watch(app)
                if is_last or not _is_sealed_lately(app):
                    seal_all(app)
            is_failing = False
        except Exception as error:  # noqa: BLE001
            # Whatever it is, the next second may do without.
            if not is_failing:
                _log.error("the audit trail cannot be sealed: %s", error, exc_info=error)
            is_failing = True


def watch(app: Flask) -> None:
    """Record if the newest seal that this process saw was removed or replaced."""
    seen: Seal | None = app.extensions.get(_NEWEST)
    with store_of(app).reading() as run:
        if seen is None or not _is_gone(run, seen):
            app.extensions[_NEWEST] = _newest(app, run)
            return
    record(SEAL_MISSING, what=f"seal {seen.k} of {seen.at}, root {seen.root.hex()}")
    seal_all(app)


def _is_sealed_lately(app: Flask) -> bool:
    """Say whether some process sealed within the last second, as watch() saw."""
    now = datetime.now(UTC)
    seen: Seal = app.extensions[_NEWEST]
    return instant(now - timedelta(seconds=_SECONDS)) < seen.at <= instant(now)
