"""The chains of an audit trail in PostgreSQL: tampering with rows is found, and where."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text

from fhirapp.db import db
from fhirapp.keys import key_of
from fhirapp.trail import public_key, trail_of
from fhirapp.trail.chain import following, split
from fhirapp.trail.joins import verify_trail
from fhirapp.trail.table import beginning
from fhirapp.trail.verify import VerificationResult
from tests.support.helpers import Fhir
from tests.support.trails import IN_TABLE

pytestmark = IN_TABLE


READ = "AllergyIntolerance/al-p1-penicillin"


def run(app: Flask, sql: str, **values: Any) -> Sequence[Any]:
    """Run a statement on the trail's tables, as who may write the database can."""
    wanted = {name: value for name, value in values.items() if f":{name}" in sql}
    with app.app_context(), db.engine.begin() as connection:
        done = connection.execute(text(sql), wanted)
        return done.all() if done.returns_rows else ()


def verified(app: Flask, *copied: dict[str, Any]) -> VerificationResult:
    with app.app_context():
        return verify_trail(app, {public_key(key_of(app))}, copied)


def chains(app: Flask) -> list[str]:
    """Return the chains, in the order in which they were begun."""
    found = run(app, "SELECT chain FROM audit_line GROUP BY chain ORDER BY min(pk)")
    return [row.chain for row in found]


@pytest.fixture
def joined(own_app: Flask, watched: Fhir) -> Flask:
    """Return an app with a chain of the token that was issued, and three of a head and 5 lines."""
    for _ in range(3):
        trail_of(own_app).close()
        for _ in range(5):
            watched.get(READ)
    found = verified(own_app)
    assert (found.faults, found.chains, found.lines, found.heads) == ([], 4, 20, 4)
    return own_app


def line_of(app: Flask, chain: str, n: int) -> bytes:
    ((line,),) = run(app, "SELECT line FROM audit_line WHERE chain = :c AND n = :n", c=chain, n=n)
    return line


def replace(app: Flask, chain: str, n: int, line: bytes) -> None:
    """Put a line in the place of another, its digest with it."""
    run(
        app,
        "UPDATE audit_line SET line = :line, hash = :hash WHERE chain = :chain AND n = :n",
        line=line,
        hash=split(line)[1].digest,
        chain=chain,
        n=n,
    )


def changed(app: Flask, b: str, _c: str) -> None:
    line = line_of(app, b, 4)
    assert b'"status":200' in line
    replace(app, b, 4, line.replace(b'"status":200', b'"status":404'))


def changed_with_its_digest(app: Flask, b: str, _c: str) -> None:
    body = split(line_of(app, b, 4))[0].replace(b'"status":200', b'"status":404')
    replace(app, b, 4, following(split(line_of(app, b, 3))[1], body)[1])


def swapped_within(app: Flask, b: str, _c: str) -> None:
    third, fourth = line_of(app, b, 3), line_of(app, b, 4)
    replace(app, b, 3, fourth)
    replace(app, b, 4, third)


def swapped_between(app: Flask, b: str, c: str) -> None:
    of_b, of_c = line_of(app, b, 4), line_of(app, c, 4)
    replace(app, b, 4, of_c)
    replace(app, c, 4, of_b)


def moved(app: Flask, b: str, c: str) -> None:
    run(app, "UPDATE audit_line SET chain = :c, n = 7 WHERE chain = :b AND n = 6", b=b, c=c)


def put_in(app: Flask, b: str, _c: str) -> None:
    run(app, "UPDATE audit_line SET n = n + 100 WHERE chain = :b AND n > 3", b=b)
    run(app, "UPDATE audit_line SET n = n - 99 WHERE chain = :b AND n > 100", b=b)
    run(
        app,
        "INSERT INTO audit_line (chain, n, hash, is_head, line)"
        " SELECT chain, 4, hash, is_head, line FROM audit_line WHERE chain = :b AND n = 3",
        b=b,
    )


def forged_head(app: Flask, b: str, c: str) -> None:
    """Have a head forget a chain, and make all that follows anew, as who has no key can."""
    last = beginning(c)
    for n in range(1, 7):
        body = json.loads(split(line_of(app, c, n))[0])
        if n == 1:
            assert body["others"].pop(b) == [6, split(line_of(app, b, 6))[1].digest]
        last, line = following(last, json.dumps(body, separators=(",", ":")).encode())
        replace(app, c, n, line)


def sql(*statements: str) -> Callable[[Flask, str, str], None]:
    def do(app: Flask, b: str, _c: str) -> None:
        for statement in statements:
            run(app, statement, b=b)

    return do


ANEW = "or the one before, was changed"


ROW = "its row has another number or digest: it was changed or moved"


GONE = ("DELETE FROM audit_line WHERE chain = :b", "DELETE FROM audit_chain WHERE name = :b")


RENAMED = (
    "UPDATE audit_line SET chain = '2026-01-01-x' WHERE chain = :b",
    "UPDATE audit_chain SET name = '2026-01-01-x' WHERE name = :b",
)


SHOWN_AND_GONE = ("UPDATE audit_chain SET done = 9", "DELETE FROM audit_line")


TAMPERED: list[tuple[Callable[[Flask, str, str], None], list[str]]] = [
    (changed, ["chain {b}, line 4: line 4 of the trail, {anew}"]),
    (changed_with_its_digest, ["chain {b}, line 5: line 5 of the trail, {anew}"]),
    (
        sql("DELETE FROM audit_line WHERE chain = :b AND n = 4"),
        ["chain {b}, line 5: 1 of the trail's lines missing before it, from number 4 on"],
    ),
    (
        sql("DELETE FROM audit_line WHERE chain = :b AND n < 4"),
        ["chain {b}, line 4: 3 of the trail's lines missing before it, from number 1 on"],
    ),
    (
        sql("DELETE FROM audit_line WHERE chain = :b AND n > 4"),
        ["chain {b}: it ends with line 4, and chain "],
    ),
    (sql(*GONE), ["chain {b}: it is missing, and chain "]),
    (put_in, ["chain {b}, line 4: {row}"]),
    (swapped_within, ["chain {b}, line 3: {row}"]),
    (
        swapped_between,
        [
            "chain {b}, line 4: line 4 of the trail, {anew}; it belongs to chain {c}",
            "chain {c}, line 4: line 4 of the trail, {anew}; it belongs to chain {b}",
        ],
    ),
    (
        moved,
        [
            "chain {c}, line 7: {row}; it belongs to chain {b}",
            "chain {b}: it ends with line 5, and chain ",
        ],
    ),
    (forged_head, ["chain {c}, line 1: the signature of this head is wrong"]),
    (
        sql(*RENAMED),
        ["chain 2026-01-01-x, line 1: line 1 of the trail, {anew}", "chain {b}: it is missing"],
    ),
    (sql("DELETE FROM audit_chain WHERE name = :b"), ["chain {b}: no page shows it"]),
    (sql(*SHOWN_AND_GONE), ["chain {b}: it was shown, and is missing"]),
]


def test_tampering_with_a_row_is_found(joined):
    _, b, c, _ = chains(joined)
    tables = ("audit_chain", "audit_line")
    for table in tables:
        run(joined, f"CREATE TABLE saved_{table} AS SELECT * FROM {table}")
    for tampered, expected in TAMPERED:
        tampered(joined, b, c)
        found = verified(joined).faults
        for fault in expected:
            start = fault.format(b=b, c=c, anew=ANEW, row=ROW)
            assert any(line.startswith(start) for line in found), (start, found)
        run(joined, "DELETE FROM audit_line")
        run(joined, "DELETE FROM audit_chain")
        for table in tables:
            run(joined, f"INSERT INTO {table} SELECT * FROM saved_{table}")
    assert verified(joined).faults == []


def test_truncated_end_of_a_chain_is_found_by_a_copied_head(joined):
    with joined.app_context():
        trail_of(joined).close()
        head = trail_of(joined).head()
    *_, d, _ = chains(joined)
    assert head["others"][d][0] == 6
    assert verified(joined, head).faults == []
    # The head that names it in the trail goes too.
    run(joined, "DELETE FROM audit_line WHERE pk > (SELECT max(pk) - 3 FROM audit_line)")
    run(joined, "DELETE FROM audit_chain WHERE name NOT IN (SELECT chain FROM audit_line)")
    assert verified(joined).faults == []
    (fault,) = verified(joined, head).faults
    assert fault == (
        f"chain {d}: it ends with line 4, and a copied head names line 6: it was cut off"
    )
    run(joined, "DELETE FROM audit_line WHERE chain = :d", d=d)
    run(joined, "DELETE FROM audit_chain WHERE name = :d", d=d)
    (fault,) = verified(joined, head).faults
    assert fault == f"chain {d}: it is missing, and a copied head names its line 6"
    forged = {**head, "others": {}}
    assert verified(joined, forged).faults == ["a copied head: the signature of this head is wrong"]


def test_rewritten_chain_differs_from_what_later_heads_name(joined):
    _, b, _, _ = chains(joined)
    body = split(line_of(joined, b, 6))[0].replace(b'"status":200', b'"status":404')
    replace(joined, b, 6, following(split(line_of(joined, b, 5))[1], body)[1])
    found = verified(joined).faults
    assert len(found) == 2
    for fault in found:
        assert f"names line 6 of chain {b}, which was different then: it was rewritten" in fault
