"""Full text in the database: SQLite's FTS5, PostgreSQL's tsvector, behind the same functions.

Words come as fhirapp/search/words.py makes them, a space between two; a row for each version.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import ClassVar, NamedTuple

from sqlalchemy import DDL, Connection, event

from fhirapp.db import db, quoted
from fhirapp.search.index import IndexTables

# PostgreSQL: a tsvector tells places up to this one, and 256 of a word, and is at most 1 MB.
_LAST_PLACE = 16_383
_MOST_PLACES = 256
_MOST_BYTES = 900_000


class Phrase(NamedTuple):
    """Words that stand together; with prefix the last is the beginning of one."""

    words: tuple[str, ...]
    prefix: bool = False


class FullText(ABC):
    """A database's way to index and find words."""

    # The column of the row's number.
    number: ClassVar[str]
    create: ClassVar[tuple[str, ...]]

    @abstractmethod
    def query(self, choices: Sequence[Sequence[Phrase]], column: str) -> str:
        """Return what finds rows with all phrases of a choice in a column, without one in any."""

    @abstractmethod
    def match(self, table: str, column: str) -> str:
        """Return the SQL that a row `k` matches the query that is its one value."""

    @abstractmethod
    def score(self, table: str, column: str) -> str:
        """Return the SELECT of (pk, score), greater is better, up to WHERE; its value the query."""

    @abstractmethod
    def write(
        self, connection: Connection, table: str, rows: Sequence[tuple[int, str, str]]
    ) -> None:
        """Insert rows of (pk, words of narrative and notes, all other words)."""

    @abstractmethod
    def clear(self, connection: Connection, table: str) -> None:
        """Forget every row."""


class Fts5(FullText):
    """SQLite: a table without content of its own; what it found is read from the resource."""

    number = "rowid"
    create = (
        """CREATE VIRTUAL TABLE IF NOT EXISTS "{table}" USING
        fts5(narrative, content, content='', tokenize='unicode61 remove_diacritics 0')""",
    )

    def query(self, choices: Sequence[Sequence[Phrase]], column: str) -> str:
        asked = " OR ".join(f"({' AND '.join(map(self._phrase, one))})" for one in choices)
        return f"{column} : ({asked})" if column else asked

    @staticmethod
    def _phrase(phrase: Phrase) -> str:
        return f'"{" ".join(phrase.words)}"' + ("*" if phrase.prefix else "")

    def match(self, table: str, column: str) -> str:  # noqa: ARG002
        return f"k.{table} MATCH ?"

    def score(self, table: str, column: str) -> str:  # noqa: ARG002
        return f"SELECT k.rowid, -bm25({table}) FROM {table} k WHERE k.{table} MATCH ?"

    def write(
        self, connection: Connection, table: str, rows: Sequence[tuple[int, str, str]]
    ) -> None:
        connection.exec_driver_sql(
            f"INSERT INTO {table} (rowid, narrative, content) VALUES (?, ?, ?)", list(rows)
        )

    def clear(self, connection: Connection, table: str) -> None:
        connection.exec_driver_sql(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")


class TsVector(FullText):
    """PostgreSQL: the content's column has the narrative's words too."""

    number = "pk"
    create = (
        """CREATE TABLE IF NOT EXISTS "{table}"
        (pk BIGINT PRIMARY KEY, narrative TSVECTOR NOT NULL, content TSVECTOR NOT NULL)""",
        'CREATE INDEX IF NOT EXISTS "ix_{table}_narrative" ON "{table}" USING gin (narrative)',
        'CREATE INDEX IF NOT EXISTS "ix_{table}_content" ON "{table}" USING gin (content)',
    )

    def query(self, choices: Sequence[Sequence[Phrase]], column: str) -> str:  # noqa: ARG002
        return " | ".join(f"({' & '.join(map(self._phrase, one))})" for one in choices)

    @staticmethod
    def _phrase(phrase: Phrase) -> str:
        words = " <-> ".join(f"'{word}'" for word in phrase.words)
        return f"({words}:*)" if phrase.prefix else f"({words})"

    def match(self, table: str, column: str) -> str:  # noqa: ARG002
        return f"k.{column or 'content'} @@ ?::tsquery"

    def score(self, table: str, column: str) -> str:
        ranked = f"ts_rank(k.{column or 'content'}, q.asked)"
        return (
            f"SELECT k.pk, {ranked} FROM {table} k, (SELECT ?::tsquery AS asked) q"
            f" WHERE k.{column or 'content'} @@ q.asked"
        )

    def write(
        self, connection: Connection, table: str, rows: Sequence[tuple[int, str, str]]
    ) -> None:
        connection.exec_driver_sql(
            f"INSERT INTO {table} (pk, narrative, content) VALUES (%s, %s::tsvector, %s::tsvector)",
            [
                (pk, _vector(narrative), _vector(f"{narrative} {content}"))
                for pk, narrative, content in rows
            ],
        )

    def clear(self, connection: Connection, table: str) -> None:
        connection.exec_driver_sql(f"DELETE FROM {table}")


def _vector(text: str) -> str:
    """Return a tsvector's text: 'pain':2 'chest':1. Words have neither quotes nor backslashes."""
    placed = sorted((word, min(place, _LAST_PLACE)) for place, word in enumerate(text.split(), 1))
    parts: list[str] = []
    length = 0
    for word, places in groupby(placed, key=lambda one: one[0]):
        listed = ",".join(str(place) for _, place in [*places][:_MOST_PLACES])
        length += len(word.encode()) + len(listed)
        if length > _MOST_BYTES:
            break
        parts.append(f"'{word}':{listed}")
    return " ".join(parts)


_ENGINES: Mapping[str, FullText] = {"sqlite": Fts5(), "postgresql": TsVector()}


def full_text() -> FullText:
    """Return the way of the database in use."""
    return _ENGINES[db.engine.dialect.name]


def words_table(tables: IndexTables) -> str:
    """Return the table of a type's words, as SQL writes it."""
    return quoted(_name(tables))


def declare_words(tables: IndexTables) -> None:
    """Have the table of words created with the type's index tables."""
    for dialect, statement in _statements(_name(tables)):
        create: DDL = DDL(statement)  # type: ignore[no-untyped-call]
        event.listen(tables.string, "after_create", create.execute_if(dialect=dialect))


def _statements(table: str) -> Iterator[tuple[str, str]]:
    for dialect, engine in _ENGINES.items():
        for statement in engine.create:
            yield dialect, statement.format(table=table).replace("%", "%%")


def _name(tables: IndexTables) -> str:
    return str(tables.string.name).removesuffix("_string") + "_words"
