"""Full text in the database: SQLite's FTS5, PostgreSQL's tsvector, behind the same functions.

Words come as fhirapp/search/tokenizer.py makes them, a space between two; a row for each version.

A page of results for a common word does not read every record. FTS5 lists 1,000 matches in 0.1 ms,
the last ones first if asked to, but needs 0.04 ms to tell whether one record matches. So the LATEST
matches are listed, and a page of the newest is found among them; earlier records, such as those of
one patient, are asked one by one. A total, which is cached until the data changes, and a sort list
all matches, in 0.1 µs each. So does a search for the beginning of a word, for which FTS5 merges the
lists of all such words first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar, NamedTuple

from sqlalchemy import DDL, Connection, event

from fhirapp.db import db, quoted
from fhirapp.search.index import IndexTables
from fhirapp.search.values import Condition, IndexCondition, Run

# An import publishes as many at one time.
LATEST = 1_000
# SQLite: pages that a step merges before others may write.
_MERGED_PAGES = 2_000
# PostgreSQL: a tsvector has places up to this one, 256 of a word, and is at most 1 MB.
_LAST_PLACE = 16_383
_MOST_PLACES = 256
_MOST_BYTES = 900_000


class Phrase(NamedTuple):
    """Words that stand together; with prefix the last is the beginning of one."""

    words: tuple[str, ...]
    prefix: bool = False


# Of a row: pk, words of narrative and notes, all other words.
WordsRow = tuple[int, str, str]
# All phrases of one of them must be found.
Choices = Sequence[Sequence[Phrase]]


@dataclass(frozen=True)
class WordsCondition(IndexCondition):
    """A piece of WHERE on a table of FTS5.

    From the row `since` on a list has the matches; earlier rows are asked one by one. is_listed
    says that the list has all matches. matches is their number, LATEST for more.
    """

    is_listed: bool = False
    since: int = 0
    matches: int = LATEST

    def prepared(self, run: Run) -> WordsCondition:
        ((matches, since),) = run(
            f"SELECT count(*), min(c.pk) FROM (SELECT k.{self.number} AS pk FROM {self.table} k"
            f" WHERE {self.sql} ORDER BY k.{self.number} DESC LIMIT {LATEST}) c",
            self.values,
        )
        is_listed = self.is_listed or matches < LATEST
        return replace(self, is_listed=is_listed, since=since or 0, matches=matches)

    def where(self) -> Condition:
        if self.is_listed:
            return self.where_all()
        per_row = super().where()
        if not self.since:
            return per_row
        return Condition(
            f"CASE WHEN r.pk < {self.since} THEN {per_row.sql} ELSE r.pk IN"
            f" (SELECT k.{self.number} FROM {self.table} k"
            f" WHERE {self.sql} AND k.{self.number} >= {self.since}) END",
            (*per_row.values, *self.values),
        )

    def where_all(self) -> Condition:
        """Return the condition that a row is in the list of all matches."""
        # The plus keeps SQLite from walking the list instead of the result's order.
        return Condition(f"+{self.gathered().sql}", self.values)

    def count(self, most: int, run: Run) -> int:  # noqa: ARG002
        return self.matches


class FullText(ABC):
    """A database's way to index and find words."""

    # The column of the row's number.
    number: ClassVar[str]
    create: ClassVar[tuple[str, ...]]

    @abstractmethod
    def query(self, choices: Choices, column: str) -> str:
        """Return the query for all phrases of one of the choices, in a column or, if empty, any."""

    @abstractmethod
    def condition(self, table: str, choices: Choices, column: str) -> IndexCondition:
        """Return the condition that a row matches the query."""

    @abstractmethod
    def score(self, table: str, column: str) -> str:
        """Return the SELECT of (pk, score) of a query's matches; a greater score is better."""

    @abstractmethod
    def write(self, connection: Connection, table: str, rows: Sequence[WordsRow]) -> None:
        """Insert rows."""

    @abstractmethod
    def remove(self, connection: Connection, table: str, rows: Sequence[WordsRow]) -> None:
        """Delete rows; their words must be those that were written."""

    def purge(self, connection: Connection, table: str, *, begins: bool) -> bool:  # noqa: ARG002
        """Take a part of the deleted words out of the file; return whether there are more.

        begins says that it is the first step. PostgreSQL's VACUUM does it by itself.
        """
        return False

    @abstractmethod
    def clear(self, connection: Connection, table: str) -> None:
        """Delete all rows."""


class Fts5(FullText):
    """SQLite: a table without content; the resource has the text of a match."""

    number = "rowid"
    create = (
        # The text is split into words already: no letter beyond ASCII separates words.
        """CREATE VIRTUAL TABLE IF NOT EXISTS "{table}" USING
        fts5(narrative, content, content='', tokenize='ascii')""",
        # Bytes of a page, of which FTS5 reads up to four to find a row in a list.
        """INSERT INTO "{table}" ("{table}", rank) VALUES ('pgsz', 1000)""",
    )

    def query(self, choices: Choices, column: str) -> str:
        query = " OR ".join(f"({' AND '.join(map(self._phrase, choice))})" for choice in choices)
        return f"{column} : ({query})" if column else query

    @staticmethod
    def _phrase(phrase: Phrase) -> str:
        return f'"{" ".join(phrase.words)}"' + ("*" if phrase.prefix else "")

    def condition(self, table: str, choices: Choices, column: str) -> IndexCondition:
        return WordsCondition(
            table,
            f"k.{table} MATCH ?",
            (self.query(choices, column),),
            number=self.number,
            is_listed=any(phrase.prefix for phrases in choices for phrase in phrases),
        )

    def score(self, table: str, column: str) -> str:  # noqa: ARG002
        return f"SELECT k.rowid, -bm25({table}) FROM {table} k WHERE k.{table} MATCH ?"

    def write(self, connection: Connection, table: str, rows: Sequence[WordsRow]) -> None:
        connection.exec_driver_sql(
            f"INSERT INTO {table} (rowid, narrative, content) VALUES (?, ?, ?)", list(rows)
        )

    def remove(self, connection: Connection, table: str, rows: Sequence[WordsRow]) -> None:
        # A table without content must be told which words to delete.
        connection.exec_driver_sql(
            f"INSERT INTO {table} ({table}, rowid, narrative, content) VALUES ('delete', ?, ?, ?)",
            list(rows),
        )

    def purge(self, connection: Connection, table: str, *, begins: bool) -> bool:
        # A negative number merges all parts of the index, not those of one size alone.
        before = connection.exec_driver_sql("SELECT total_changes()").scalar_one()
        pages = -_MERGED_PAGES if begins else _MERGED_PAGES
        connection.exec_driver_sql(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', {pages})")
        after = connection.exec_driver_sql("SELECT total_changes()").scalar_one()
        # As FTS5's documentation has it: fewer than two changes did nothing.
        return int(after) - int(before) >= 2

    def clear(self, connection: Connection, table: str) -> None:
        connection.exec_driver_sql(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")


class TsVector(FullText):
    """PostgreSQL: the column `content` has the narrative's words too."""

    number = "pk"
    create = (
        """CREATE TABLE IF NOT EXISTS "{table}"
        (pk BIGINT PRIMARY KEY, narrative TSVECTOR NOT NULL, content TSVECTOR NOT NULL)""",
        'CREATE INDEX IF NOT EXISTS "ix_{table}_narrative" ON "{table}" USING gin (narrative)',
        'CREATE INDEX IF NOT EXISTS "ix_{table}_content" ON "{table}" USING gin (content)',
    )

    def query(self, choices: Choices, column: str) -> str:  # noqa: ARG002
        return " | ".join(f"({' & '.join(map(self._phrase, choice))})" for choice in choices)

    @staticmethod
    def _phrase(phrase: Phrase) -> str:
        words = " <-> ".join(f"'{word}'" for word in phrase.words)
        return f"({words}:*)" if phrase.prefix else f"({words})"

    def condition(self, table: str, choices: Choices, column: str) -> IndexCondition:
        sql = f"k.{column or 'content'} @@ ?::tsquery"
        return IndexCondition(table, sql, (self.query(choices, column),), number=self.number)

    def score(self, table: str, column: str) -> str:
        ranked = f"ts_rank(k.{column or 'content'}, q.query)"
        return (
            f"SELECT k.pk, {ranked} FROM {table} k, (SELECT ?::tsquery AS query) q"
            f" WHERE k.{column or 'content'} @@ q.query"
        )

    def write(self, connection: Connection, table: str, rows: Sequence[WordsRow]) -> None:
        connection.exec_driver_sql(
            f"INSERT INTO {table} (pk, narrative, content) VALUES (%s, %s::tsvector, %s::tsvector)",
            [
                (pk, _vector(narrative), _vector(f"{narrative} {content}"))
                for pk, narrative, content in rows
            ],
        )

    def remove(self, connection: Connection, table: str, rows: Sequence[WordsRow]) -> None:
        connection.exec_driver_sql(
            f"DELETE FROM {table} WHERE pk = %s", [(pk,) for pk, *_words in rows]
        )

    def clear(self, connection: Connection, table: str) -> None:
        connection.exec_driver_sql(f"DELETE FROM {table}")


def _vector(text: str) -> str:
    """Return a tsvector's text: 'pain':2 'chest':1. Words have neither quotes nor backslashes."""
    placed = sorted((word, min(place, _LAST_PLACE)) for place, word in enumerate(text.split(), 1))
    parts: list[str] = []
    length = 0
    for word, places in groupby(placed, key=lambda pair: pair[0]):
        listed = ",".join(str(place) for _, place in [*places][:_MOST_PLACES])
        length += len(word.encode()) + len(listed)
        if length > _MOST_BYTES:
            break
        parts.append(f"'{word}':{listed}")
    return " ".join(parts)


_ENGINES: Mapping[str, FullText] = {"sqlite": Fts5(), "postgresql": TsVector()}


def full_text() -> FullText:
    """Return the full text of the database in use."""
    return _ENGINES[db.engine.dialect.name]


def words_table(tables: IndexTables) -> str:
    """Return the table of a type's words, as SQL writes it."""
    return quoted(_name(tables))


def declare_words(tables: IndexTables) -> None:
    """Create the table of words with the type's index tables."""
    for dialect, engine in _ENGINES.items():
        for statement in engine.create:
            sql = statement.format(table=_name(tables)).replace("%", "%%")
            create: DDL = DDL(sql)  # type: ignore[no-untyped-call]
            event.listen(tables.string, "after_create", create.execute_if(dialect=dialect))


def _name(tables: IndexTables) -> str:
    return str(tables.string.name).removesuffix("_string") + "_words"
