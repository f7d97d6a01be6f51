"""Verification of a backup: open a copy and compare every version with what it should be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, select
from sqlalchemy.exc import DatabaseError

from fhirapp.auth.models import User
from fhirapp.config import Settings
from fhirapp.db import checked_url, db
from fhirapp.db.sqlite_file import faults_of, schema_of
from fhirapp.definition import Definition, types
from fhirapp.disk import temporary_folder
from fhirapp.features.backups.archive import DATABASE, DUMP, KEYS, BackupManifest, InvalidBackup
from fhirapp.features.backups.backup import unpacked
from fhirapp.features.backups.restore import app_on_copy
from fhirapp.features.backups.schemas import read_dump, scratch_database
from fhirapp.fhir import json as fhir_json
from fhirapp.keys import opened as unsealed
from fhirapp.search.fulltext import words_table
from fhirapp.search.index import DateRow, IndexRow, ReferenceRow, StringRow, TokenRow
from fhirapp.server.check import Faults, check_database, one_snapshot
from fhirapp.store import write
from fhirapp.store.migrate import schema_version, upgrade
from fhirapp.store.prepare import sha1

_KINDS: tuple[type[IndexRow], ...] = (TokenRow, DateRow, ReferenceRow, StringRow)
_BATCH = 500
_OTHER_SCHEMA = "its database is not of the schema that the manifest says"
# What reading a row, or rendering it, comes to where a column holds what it cannot.
_UNREADABLE = (ValueError, TypeError, AttributeError, KeyError)


def read_everything(
    faults: Faults, engine: Engine, definitions: Mapping[str, Definition], wanted: write.Rendering
) -> None:
    """Render each version anew and compare; wanted is for a database without any yet.

    The database is a copy: to have its full text checked, SQLite must be let write.
    """
    with one_snapshot(engine) as connection:
        rendering = write.stored_rendering(connection) or wanted
        for definition in definitions.values():
            _Reading(faults, connection, definition, definitions["Binary"], rendering).run()


class _Expected(write.IndexBatch):
    """The index rows that versions should have."""

    def of(self, kind: type[IndexRow]) -> set[tuple[Any, ...]]:
        """Return rows of a kind, each (values…, pk)."""
        return {*self._rows[kind]}

    def single_words(self) -> Iterator[tuple[int, str]]:
        """Yield every word, with the row of its version."""
        for pk, *texts in self.words:
            for text in texts:
                for word in text.split():
                    yield pk, word


class _Reading:
    """The versions of one type, read again."""

    def __init__(
        self,
        faults: Faults,
        connection: Connection,
        definition: Definition,
        binary: Definition,
        rendering: write.Rendering,
    ) -> None:
        self._faults = faults
        self._connection = connection
        self._definition = definition
        self._table = definition.table
        self._binary = binary
        self._rendering = rendering
        # What an older release indexed is no fault: a start makes it anew.
        self._is_outdated = write.is_outdated(connection)
        # Of all words: how many, the sum of their versions' rows, the sum of their lengths.
        self._words = [0, 0, 0]
        self._all_rendered = True

    def run(self) -> None:
        """Read them all."""
        for rows in self._batches():
            self._compare(rows)
        is_fts5 = self._definition.has_words and self._connection.dialect.name == "sqlite"
        if is_fts5 and self._all_rendered and not self._is_outdated:
            self._check_words()

    def _batches(self) -> Iterator[list[dict[str, Any]]]:
        """Yield rows in the order of the table; report and skip what cannot be read."""
        pk = self._table.c.pk
        # Bytes may be many: then one row at a time.
        most = 1 if "data" in self._table.c else _BATCH
        last = 0
        while True:
            query = select(pk).where(pk > last).order_by(pk).limit(most)
            numbers = self._connection.execute(query).scalars().all()
            if not numbers:
                return
            last = numbers[-1]
            try:
                yield self._read(numbers)
            except _UNREADABLE:
                # A column that is no JSON: then each row for itself, to tell which.
                yield [row for number in numbers for row in self._read_one(number)]

    def _read(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        pk = self._table.c.pk
        query = select(self._table).where(pk.between(numbers[0], numbers[-1])).order_by(pk)
        return [dict(row) for row in self._connection.execute(query).mappings()]

    def _read_one(self, number: int) -> list[dict[str, Any]]:
        try:
            return self._read([number])
        except _UNREADABLE:
            where = f"{self._table.name}: row {number}"
            self._faults.add("has a column that is no JSON", where)
            self._all_rendered = False
            return []

    def _compare(self, rows: Sequence[dict[str, Any]]) -> None:
        """Render versions anew, and compare them with what is stored."""
        live = [row for row in rows if not row["deleted"]]
        wanted = {pk for row in live for pk in (row.get("attached") or {}).values()}
        which = self._binary.table.c.pk.in_(sorted(wanted))
        inline = self._rendering.inline_max
        read = write.read_documents(self._connection, self._binary, inline, which) if wanted else []
        documents = {document.pk: document for document in read}
        expected = _Expected(self._definition)
        rendered = set()
        for row in live:
            where = f"{self._definition.name}/{row['id']}, version {row['version_id']}"
            body = row["body"]
            try:
                write.render(self._definition, row, self._rendering, documents, expected)
            except _UNREADABLE as error:
                self._faults.add("cannot be rendered", f"{where} ({type(error).__name__})")
                self._all_rendered = False
                continue
            rendered.add(row["pk"])
            for kind in self._faults_of(row, body):
                self._faults.add(kind, where)
        if rows and not self._is_outdated:
            self._compare_index(expected, rows[0]["pk"], rows[-1]["pk"], rendered)
        for pk, word in expected.single_words():
            for place, figure in enumerate((1, pk, len(word))):
                self._words[place] += figure

    def _faults_of(self, row: Mapping[str, Any], body: bytes | None) -> Iterator[str]:
        """Yield what differs of a version that was rendered anew."""
        if self._definition.stores_body and row["body"] != body:
            yield "has another body than its columns make"
        if self._definition is self._binary:
            if row["hash"] != sha1(row["data"] or b""):
                yield "has bytes of another hash"
        elif row["digest"] != _digest(self._definition, row):
            yield "has another digest than its columns make"

    def _compare_index(
        self, expected: _Expected, first: int, last: int, rendered: set[int]
    ) -> None:
        """Compare index rows, of versions from one row to another, with those that are there."""
        for kind in _KINDS:
            table = self._definition.tables.of(kind)
            columns = (*(table.c[name] for name in kind._fields), table.c.pk)
            query = select(*columns).where(table.c.pk.between(first, last))
            there = {tuple(row) for row in self._connection.execute(query)}
            for pk in sorted({row[-1] for row in there ^ expected.of(kind)} & rendered):
                where = f"{table.name}: row {pk}"
                self._faults.add("has other index rows than its columns make", where)

    def _check_words(self) -> None:
        """Check the full text: that it is whole, and holds as many words as the versions have."""
        name = words_table(self._definition.tables)
        shown = name.strip('"')
        run = self._connection.exec_driver_sql
        try:
            run(f"INSERT INTO {name} ({name}) VALUES ('integrity-check')")
            run(f"CREATE VIRTUAL TABLE temp.{shown}_seen USING fts5vocab(main, {name}, instance)")
            figures = run(
                "SELECT count(*), coalesce(sum(doc), 0), coalesce(sum(length(term)), 0)"
                f" FROM temp.{shown}_seen"
            ).one()
            run(f"DROP TABLE temp.{shown}_seen")
        except DatabaseError:
            self._faults.add("is damaged; `fhirapp db reindex` rebuilds it", shown)
            return
        if list(figures) != self._words:
            self._faults.add("has other words than the records; see `fhirapp db reindex`", shown)


def _digest(definition: Definition, row: Mapping[str, Any]) -> bytes:
    """Return the digest of a row's content, as store/prepare.py makes it."""
    elements = dict(definition.schema.source(row).elements)
    del elements["id"]
    return blake2b(fhir_json.canonical(elements), digest_size=16).digest()


@dataclass(frozen=True)
class Verification:
    """Result of a verification: the manifest, how many versions, a sentence for each fault.

    versions is None where a dump of PostgreSQL's could only be read, and not be loaded.
    """

    manifest: BackupManifest
    versions: int | None
    faults: list[str]

    @property
    def done(self) -> str:
        """What was done with a backup without faults, to follow "is whole: "."""
        if self.versions is not None:
            return f"all of its {self.versions} versions were read"
        return (
            "its checksums are right and its dump was read to the end. It was not loaded, since "
            "the database's user may make no other database (CREATEDB)"
        )


def verify_backup(settings: Settings, path: Path, passphrase: str | None) -> Verification:
    """Open a copy of a backup and read everything in it. Raises InvalidBackup, ConfigurationError.

    The server and its database are not touched; on PostgreSQL the copy is another database.
    """
    with temporary_folder(settings.instance) as folder:
        manifest = unpacked(settings, path, passphrase, folder)
        if not manifest.is_dump:
            return verify_database_file(settings, path, folder, manifest)
        url, dump = checked_url(settings), folder / DUMP
        with scratch_database(url, dump, manifest.namespace) as loaded:
            if loaded is None:
                read_dump(url, dump)
                return Verification(manifest, None, [])
            return _read_copy(settings, path, folder, manifest, loaded)


def verify_database_file(
    settings: Settings, path: Path, folder: Path, manifest: BackupManifest
) -> Verification:
    """Read everything in a backup of SQLite that is unpacked. Raises InvalidBackup."""
    broken = faults_of(folder / DATABASE)
    if not broken and schema_of(folder / DATABASE) != manifest.schema:
        broken = [_OTHER_SCHEMA]
    if broken:
        raise InvalidBackup(f"{path} is damaged ({broken[0]}).")
    return _read_copy(settings, path, folder, manifest)


def _read_copy(
    settings: Settings, path: Path, folder: Path, manifest: BackupManifest, url: URL | None = None
) -> Verification:
    """Carry a copy forward, and read it."""
    has_key = manifest.is_dump or (folder / KEYS[0]).exists()
    with app_on_copy(settings, folder, url):
        if url and schema_version(db.engine) != manifest.schema:
            raise InvalidBackup(f"{path} is damaged ({_OTHER_SCHEMA}).")
        upgrade(db.engine)
        checked = check_database(db.engine, types(), quick=False)
        faults = Faults()
        faults.extend(checked.faults)
        read_everything(faults, db.engine, types(), write.Rendering.of(settings))
        if has_key:
            _open_sealed(faults, db.engine)
    return Verification(manifest, checked.versions, faults.lines())


def _open_sealed(faults: Faults, engine: Engine) -> None:
    """Open what the database holds sealed with the key of the backup."""
    with engine.connect() as connection:
        for username, sealed in connection.execute(select(User.username, User.totp_secret)):
            if sealed is None:
                continue
            try:
                unsealed(sealed)
            except ValueError:
                faults.add("has a second factor that the backup's key does not open", username)
