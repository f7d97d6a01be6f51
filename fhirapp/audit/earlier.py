"""Import of an earlier release's trail, once: chains of lines in files, or in PostgreSQL's tables.

There each line has its number and the SHA-256 of the one before and itself; signed heads are among
them. On PostgreSQL there is a chain for each process and day, and heads name the other chains' last
lines. A trail that does not verify is imported too, but kept beside, and that is recorded.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from gzip import BadGzipFile
from itertools import islice
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from flask import Flask
from sqlalchemy import inspect

from fhirapp.audit import store_of
from fhirapp.audit.events import IMPORTED, PACKED, UNVERIFIED, sha256_of
from fhirapp.audit.seals import public_key, seal_all
from fhirapp.audit.store import Run
from fhirapp.config import SECRET_KEY, ConfigurationError, Settings, settings_of
from fhirapp.db import db
from fhirapp.db.locks import lock
from fhirapp.disk import reason_of
from fhirapp.fhir.temporal import instant
from fhirapp.keys import key_of

_FOLDER = "audit"
Line = Mapping[str, Any]
# Finds whose records lines are about, one after the other.
PatientsOf = Callable[[Sequence[Line]], Sequence[Collection[str]]]
_FILE = re.compile(r"\d{4}-\d\d-\d\d\.ndjson(?:\.gz)?")
_ENDS = re.compile(rb',"n":([0-9]{1,15}),"hash":"([0-9a-f]{64})"\}\n\Z')
_HASH = len(f',"hash":"{"0" * 64}"}}\n')
# Another process may have written a whole line behind one that a full disk cut off.
_BEGINS = b'{"at":"'
_HEAD, _HEAD_LINES = "head", 1_000
_AT_ONCE = 2_000


class _Broken(Exception):
    """A line that does not fit; str() says what."""


class _Chain:
    """What the lines of a chain must follow. Without a name it is of files, whose days go on.

    is_cut says whether retention may have removed its beginning.
    """

    def __init__(self, name: str, keys: Collection[str], *, is_cut: bool) -> None:
        self._name, self._keys, self._is_cut = name, keys, is_cut
        self._n, self._digest, self._torn = 0, hashlib.sha256(name.encode()).hexdigest(), b""

    def take(self, line: bytes) -> Line:
        """Return what the next line holds, nothing of one that was cut off. Raises _Broken."""
        match, content = _ENDS.search(line), _parsed(line)
        if match is None:
            # The first edition's lines have no digests; later ones cover what was cut off.
            if self._n and content:
                raise _Broken("it has no digest: it was added, or its digest was removed")
            self._torn += line if self._n else b""
            return content
        n, digest = int(match[1]), match[2].decode()
        is_head = content.get("event") == _HEAD
        if not (self._n or self._name):
            if not is_head or (n > 1 and not self._is_cut):
                raise _Broken("it begins the trail, but should not")
            self._n, self._digest = n - 1, str(content["head"]["hash"])
        if self._torn:
            self._digest, self._torn = _digest(self._digest, self._torn), b""
        if n != self._n + 1:
            raise _Broken(f"it has number {n}, but should have {self._n + 1}")
        if _digest(self._digest, line[:-_HASH]) != digest:
            raise _Broken("it or the one before was changed")
        if is_head:
            self._check_head(content)
        elif n == 1 or n % _HEAD_LINES == 0:
            raise _Broken("it should be a signed head")
        self._n, self._digest = n, digest
        return content

    def _check_head(self, head: Line) -> None:
        others = head.get("others", {}).items()
        text = f"fhirapp audit head {self._n} {self._digest} {head['at']}"
        text += f" {self._name}" if self._name else ""
        names = [f"{name} {n} {digest}" for name, (n, digest) in sorted(others)]
        try:
            if head["key"] not in self._keys:
                raise _Broken("this head is signed with another key")
            key = Ed25519PublicKey.from_public_bytes(base64.b64decode(head["key"]))
            key.verify(base64.b64decode(head["signature"]), "\n".join([text, *names]).encode())
        except (InvalidSignature, ValueError, LookupError, TypeError):
            raise _Broken("the signature of this head is wrong") from None


def _digest(before: str, content: bytes) -> str:
    return hashlib.sha256(before.encode() + content).hexdigest()


def _parsed(line: bytes) -> dict[str, Any]:
    """Return the object that a line is, nothing where it is none."""
    try:
        content = json.loads(line)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


class _Files:
    """The files of the instance folder's audit/, one for each day, older ones compressed."""

    def __init__(self, settings: Settings, keys: Collection[str]) -> None:
        self.folder = settings.instance / _FOLDER
        self._keys, self._is_cut = keys, settings.audit_keep > 0

    def days(self) -> list[Path]:
        """Return the files, the oldest first; of a day that was being compressed, one."""
        files = {file.name: file for file in self.folder.glob("*")}
        return [
            file
            for name, file in sorted(files.items())
            if _FILE.fullmatch(name) and f"{name}.gz" not in files
        ]

    def lines(self) -> Iterator[bytes]:
        """Yield all lines, the oldest first."""
        for file in self.days():
            opened = gzip.open if file.suffix == ".gz" else open
            # What is missing of a damaged file, the next one's numbers show.
            with opened(file, "rb") as lines, suppress(EOFError, zlib.error, BadGzipFile):
                yield from lines

    def fault(self) -> str:
        """Return the first place that does not verify, empty where all do."""
        chain = _Chain("", self._keys, is_cut=self._is_cut)
        return _first_fault((chain, f"line {n}", line) for n, line in enumerate(self.lines(), 1))

    def file(self, name: str) -> str | None:
        """Return what was kept beside the trail under a name."""
        path = self.folder / Path(name).name
        return path.read_text("utf-8") if path.is_file() else None

    def put_aside(self, *, is_verified: bool) -> str:
        """Have the trail not be imported again; return where it is kept."""
        name, number = f"{_FOLDER}.{'imported' if is_verified else 'unverified'}", 1
        while (target := self.folder.with_name(f"{name}-{number}")).exists():
            number += 1
        self.folder.rename(target)
        return f"in {target}"


class _Tables:
    """The tables audit_line and audit_file of PostgreSQL, with the methods of _Files."""

    def __init__(self, settings: Settings, keys: Collection[str], run: Run) -> None:
        self._run, self._is_cut = run, settings.audit_keep > 0
        path = settings.instance / SECRET_KEY
        # Files that were imported into the tables are signed with the key that their server had.
        self._keys = {*keys, *([public_key(path.read_bytes())] if path.exists() else [])}

    def lines(self) -> Iterator[bytes]:
        last = -1
        sql = f"SELECT pk, line FROM audit_line WHERE pk > ? ORDER BY pk LIMIT {_AT_ONCE}"
        while rows := self._run(sql, (last,)):
            yield from (line for _, line in rows)
            last = rows[-1][0]

    def fault(self) -> str:
        # By the chain, the furthest of its lines that a head names: so its end cannot be missing.
        digests: dict[str, tuple[int, str]] = {}
        removed = [""]

        def note(content: Line) -> None:
            for name, (n, digest) in content.get("others", {}).items():
                digests[name] = max(digests.get(name, (0, "")), (n, digest))
            if content.get("event") == PACKED:
                removed.append(str(content["what"])[-10:])

        if fault := _first_fault(self._in_chains(), note):
            return fault
        for name, (n, digest) in digests.items():
            rows = self._run("SELECT hash FROM audit_line WHERE chain = ? AND n = ?", (name, n))
            if rows != [(digest,)] and (rows or name[:10] > max(removed)):
                return f"chain {name}: its line {n} is missing, or another than heads name"
        return ""

    def _in_chains(self) -> Iterator[tuple[_Chain, str, bytes]]:
        chains: dict[str, _Chain] = {}
        last: tuple[str, int] = ("", 0)
        sql = (
            "SELECT chain, n, line FROM audit_line WHERE (chain, n) > (?, ?)"
            f" ORDER BY chain, n LIMIT {_AT_ONCE}"
        )
        while rows := self._run(sql, last):
            for name, n, line in rows:
                # Days of files: the name is the day and what the files of one folder share.
                is_of_files = name[10:].startswith(".ndjson-")
                key = name[10:] if is_of_files else name
                if key not in chains:
                    of = "" if is_of_files else name
                    chains[key] = _Chain(of, self._keys, is_cut=self._is_cut)
                yield chains[key], f"chain {name}, line {n}", line
            last = rows[-1][:2]

    def file(self, name: str) -> str | None:
        rows = self._run("SELECT content FROM audit_file WHERE name = ?", (name,))
        return rows[0][0].decode() if rows else None

    def put_aside(self, *, is_verified: bool) -> str:
        for table in ("audit_line", "audit_file"):
            if is_verified:
                self._run(f"DROP TABLE {table}")
            else:
                self._run(f"ALTER TABLE {table} RENAME TO {table}_unverified")
        return "in the table audit_line_unverified"


def _first_fault(
    lines: Iterator[tuple[_Chain, str, bytes]], note: Callable[[Line], None] = lambda _line: None
) -> str:
    for chain, place, line in lines:
        try:
            note(chain.take(line))
        except _Broken as broken:
            return f"{place}: {broken}"
        except (ValueError, LookupError, TypeError, AttributeError):
            return f"{place}: it cannot be read"
    return ""


def import_earlier(app: Flask, patients_of: PatientsOf) -> Sequence[str]:
    """Import what an earlier release left; return a sentence for each trail.

    The app is current. Raises ConfigurationError.
    """
    settings, keys = settings_of(app), {public_key(key_of(app))}
    files, sentences = _Files(settings, keys), []
    is_postgresql = settings.is_postgresql
    if not (files.days() or (is_postgresql and _has_tables())):
        return ()
    try:
        with lock(settings, "audit-import", lambda: None):
            if is_postgresql and _has_tables():
                with store_of(app).sealing() as run:
                    tables = _Tables(settings, keys, run)
                    sentences.append(_import(app, tables, run, patients_of))
            if files.days():
                with store_of(app).sealing() as run:
                    sentences.append(_import(app, files, run, patients_of))
        seal_all(app)
    except OSError as error:
        raise ConfigurationError(
            f"The audit trail of an earlier release cannot be imported ({reason_of(error)}); give "
            f"this user the right to write {files.folder} and the database."
        ) from None
    return sentences


def _has_tables() -> bool:
    return inspect(db.engine).has_table("audit_line")


def _import(app: Flask, source: _Files | _Tables, run: Run, patients_of: PatientsOf) -> str:
    """Import a trail in one transaction, and put it aside; return a sentence."""
    store, fault, count = store_of(app), source.fault(), 0
    # If a process ended before the trail was put aside, its entry is there already.
    marker = f"trail-{hashlib.sha256(next(source.lines(), b'')).hexdigest()[:16]}"
    if not run("SELECT 1 FROM audit_entry WHERE request_id = ?", (marker,)):
        contents = filter(None, map(_entry, source.lines()))
        while batch := [*islice(contents, _AT_ONCE)]:
            for content, patients in zip(batch, patients_of(batch), strict=True):
                attachment = None
                if listed := content.pop("listed", ""):
                    attachment = json.dumps((source.file(listed) or "").split())
                    content["attachment"] = sha256_of(attachment)
                content.pop("named", None)
                store.insert(run, {**content, "patients": [*patients]}, attachment)
            count += len(batch)
        settings = source.file("settings.json")
        event = {
            "at": instant(datetime.now(UTC)),
            "event": UNVERIFIED if fault else IMPORTED,
            "what": f"{count} entries{fault and f'; {fault}'}",
            "request": marker,
        }
        if settings is not None:
            event["attachment"] = sha256_of(settings)
        store.insert(run, event, settings)
    place = source.put_aside(is_verified=not fault)
    if fault:
        return f"The earlier audit trail is not intact ({fault}): imported, and kept {place}."
    return f"The earlier audit trail was verified and imported: {count} entries."


def _entry(line: bytes) -> dict[str, Any]:
    """Return what an entry's line holds; nothing of a head, or of no entry."""
    content = _parsed(line) or _parsed(line[max(0, line.rfind(_BEGINS)) :])
    is_entry = isinstance(content.get("at"), str) and ("event" in content or "path" in content)
    if not is_entry or content.get("event") == _HEAD:
        return {}
    return {
        # PostgreSQL takes no NUL in a text.
        name: value.replace("\0", "\ufffd") if isinstance(value, str) else value
        for name, value in content.items()
        if name not in ("n", "hash")
    }
