"""Fill PostgreSQL with copies of the rows of a real import.

One block of patients and allergies is imported; all its ids begin with BLOCK. A copy has other
first digits in its columns, bodies and index rows, higher row numbers and an earlier time. The rows
are those that an import of the copy would store (tests/test_bench.py), except for the digests,
which only imports read.
"""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
from psycopg import sql

from tests.bench import records
from tests.bench.records import Size, identity

PATIENTS, ALLERGIES = 100, 1_000
BLOCK = "00000000"
_UUID = re.compile(r"[0-9a-f]{8}(?=-[0-9a-f]{4}-4[0-9a-f]{3}-)[-0-9a-f]{28}")
_TABLES = ("patient", "allergy_intolerance", "provenance")
_INDEXES = ("date", "reference", "string", "token", "words")
# Coprime to 10, so that the digits of each block are unique, and scattered like those of UUIDs.
# Decimal digits only: full text separates digits from letters.
_SCATTER, _DIGITS = 61_803_399, 8


def digits(block: int) -> str:
    """Return the first digits of the ids in a block."""
    return f"{block * _SCATTER % 10**_DIGITS:0{_DIGITS}}"


def patient_id(block: int, number: int) -> str:
    return digits(block) + identity("Patient", number)[8:]


def allergy_id(block: int, number: int) -> str:
    return digits(block) + identity("AllergyIntolerance", number)[8:]


def write_block(folder: Path, block: int = 0) -> list[Path]:
    """Write the files of a block; return them in the order of their import."""
    files = records.write(folder, Size(PATIENTS, ALLERGIES, 1))
    counts = {"Patient": PATIENTS, "AllergyIntolerance": ALLERGIES, "Encounter": ALLERGIES}
    counts["Provenance"] = ALLERGIES // 10
    own = {identity(name, number) for name, count in counts.items() for number in range(count)}

    def own_digits(match: re.Match[str]) -> str:
        return digits(block) + match[0][8:] if match[0] in own else match[0]

    paths = [files["others"], files["allergies"]]
    for path in paths:
        path.write_text(_UUID.sub(own_digits, path.read_text()))
    return paths


def multiply(connection: psycopg.Connection, first: int, last: int) -> None:
    """Add the blocks first to last: copies of block 0, which was imported."""
    # Dropping and creating the indexes takes a third of the time.
    indexes = connection.execute(
        "SELECT indexname, indexdef FROM pg_indexes LEFT JOIN pg_constraint ON conname = indexname"
        " WHERE schemaname = 'fhirapp' AND conname IS NULL AND tablename ~ %s",
        (f"^({'|'.join(_TABLES)})",),
    ).fetchall()
    for name, _ in indexes:
        connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
    for name in _TABLES:
        found = connection.execute(
            sql.SQL("SELECT max(pk) - min(pk) + 1 FROM {} WHERE id LIKE %s").format(
                sql.Identifier(name)
            ),
            (f"{BLOCK}-%",),
        ).fetchone()
        assert found is not None
        _copy(connection, name, f"b.id LIKE '{BLOCK}-%'", int(found[0]), first, last)
        for index in _INDEXES:
            condition = f"b.pk IN (SELECT pk FROM {name} WHERE id LIKE '{BLOCK}-%')"
            _copy(connection, f"{name}_{index}", condition, int(found[0]), first, last)
        connection.execute(
            f"SELECT setval(pg_get_serial_sequence('{name}', 'pk'), max(pk)) FROM {name}"  # type: ignore[arg-type]
        )
    for _, definition in indexes:
        connection.execute(definition)
    connection.execute("VACUUM (ANALYZE)")


def _copy(
    connection: psycopg.Connection, table: str, condition: str, stride: int, first: int, last: int
) -> None:
    """Copy a table's rows of block 0, if the table exists."""
    columns = connection.execute(
        "SELECT column_name, data_type FROM information_schema.columns"
        " WHERE table_schema = 'fhirapp' AND table_name = %s ORDER BY ordinal_position",
        (table,),
    ).fetchall()
    if not columns:
        return
    own = f"lpad((k * {_SCATTER} % {10**_DIGITS})::text, {_DIGITS}, '0')"
    # Block 0 is the newest.
    earlier = (
        "to_char((b.last_updated::timestamptz - k * interval '1 second') AT TIME ZONE 'UTC',"
        " 'YYYY-MM-DD\"T\"HH24:MI:SS.MS+00:00')"
    )

    def copied(name: str, kind: str) -> str:
        text = f"replace(b.{name}::text, '{BLOCK}-', {own} || '-')"
        if name in ("pk", "replaced_pk"):
            return f"b.{name} + k * {stride}"
        if name == "last_updated":
            return earlier
        if name == "body":
            body = f"replace(convert_from(b.body, 'UTF8'), '{BLOCK}-', {own} || '-')"
            return f"convert_to(replace({body}, b.last_updated, {earlier}), 'UTF8')"
        if kind == "tsvector":
            return f"replace(b.{name}::text, '''{BLOCK}''', '''' || {own} || '''')::tsvector"
        return f"{text}::{kind}" if kind in ("character varying", "json") else f"b.{name}"

    names = ", ".join(f'"{name}"' for name, _ in columns)
    values = ", ".join(copied(name, kind) for name, kind in columns)
    connection.execute(
        f"INSERT INTO {table} ({names}) SELECT {values}"  # type: ignore[arg-type]
        f" FROM generate_series({first}::bigint, {last}::bigint) AS k, {table} AS b"
        f" WHERE {condition}"
    )
