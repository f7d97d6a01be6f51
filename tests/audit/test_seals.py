"""Attacks on the trail by who may write the store, but does not have the server's key.

Each is verified without a copied head and with one. Undetected stay only changes of entries that
are not sealed yet and, without a copied head, of an end that was cut off while no server ran.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flask import Flask

from fhirapp.audit import append, seals, store_of
from fhirapp.audit.entries import entries
from fhirapp.audit.events import record, record_export
from fhirapp.audit.seals import BEGINNING, SEALS, Seal, public_key, root_of, seal_all, watch
from fhirapp.audit.store import TABLES, _values
from fhirapp.audit.verify import VerificationResult, verify
from fhirapp.config import settings_of
from fhirapp.keys import key_of
from tests.support.helpers import Fhir, token_for
from tests.support.trails import ON_BOTH, ON_POSTGRESQL, noted, number_from, sql


def verified(app: Flask, *heads: Seal) -> VerificationResult:
    with app.app_context():
        return verify(app, {public_key(key_of(app))}, heads)


def sealed(app: Flask) -> Seal:
    with app.app_context():
        return seal_all(app)


def restart(app: Flask) -> None:
    """Forget the seals that this process saw, as a new process does."""
    app.extensions.pop(seals._NEWEST, None)


def seal_of(app: Flask, k: int) -> Seal:
    return Seal(*sql(app, f"{SEALS} WHERE k = ?", k)[0])


class Trail(NamedTuple):
    """A trail of seals 1 (a token and 3 reads), 2 and 3 (3 reads each), 4 (an export); its head."""

    app: Flask
    head: Seal

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return sql(self.app, statement, *values)


@pytest.fixture(scope="module")
def made(make_app: Callable[..., Flask]) -> Trail:
    app = make_app()
    client = Fhir(app, token_for(app, "system/*.rs"))
    for _ in range(3):
        for patient in ("p1", "p2", "p3"):
            assert client.get(f"Patient/{patient}").status_code == 200
        sealed(app)
    with app.app_context():
        record_export({"p4", "p5"}, "a test")
    head = sealed(app)
    found = verified(app, head)
    assert (found.faults, found.entries, found.seals, found.unsealed) == ([], 11, 4, 0)
    for table in TABLES.tables:
        sql(app, f"CREATE TABLE saved_{table} AS SELECT * FROM {table}")
    return Trail(app, head)


@pytest.fixture
def trail(made: Trail) -> Iterator[Trail]:
    """The trail, which is put back after the test."""
    yield made
    for table in TABLES.tables:
        sql(made.app, f"DELETE FROM {table}")
        sql(made.app, f"INSERT INTO {table} SELECT * FROM saved_{table}")
    number_from(made.app, 12)
    restart(made.app)
    assert verified(made.app, made.head).faults == []


def changed(trail: Trail) -> None:
    trail.run("UPDATE audit_entry SET line = replace(line, 'Patient/p1', 'Patient/p9') WHERE n = 5")


def changed_with_columns(trail: Trail) -> None:
    trail.run(
        "UPDATE audit_entry SET line = replace(line, '\"operator\"', '\"other\"'),"
        " client_id = 'other' WHERE n = 5"
    )


def not_json(trail: Trail) -> None:
    trail.run("UPDATE audit_entry SET line = '{' WHERE n = 5")


def removed(trail: Trail) -> None:
    trail.run("DELETE FROM audit_seen WHERE n = 6")
    trail.run("DELETE FROM audit_entry WHERE n = 6")


def removed_and_renumbered(trail: Trail) -> None:
    removed(trail)
    for table in ("audit_entry", "audit_seen"):
        trail.run(f"UPDATE {table} SET n = n - 1000 WHERE n > 6")
        trail.run(f"UPDATE {table} SET n = n + 999 WHERE n < 0")


def copied_into(trail: Trail, n: int, source: int = 5) -> None:
    columns = "at, user_id, client_id, via, status, event, about, request_id, line, attachment"
    trail.run(
        f"INSERT INTO audit_entry (n, {columns}) SELECT ?, {columns} FROM audit_entry WHERE n = ?",
        n,
        source,
    )


def inserted(trail: Trail) -> None:
    """Insert a row where another one was, whose place is a gap now."""
    for table in ("audit_entry", "audit_seen"):
        trail.run(f"UPDATE {table} SET n = n + 1000 WHERE n > 6")
        trail.run(f"UPDATE {table} SET n = n - 999 WHERE n > 1000")
    copied_into(trail, 7)
    trail.run("DELETE FROM audit_seen WHERE n = 7")
    trail.run("INSERT INTO audit_seen VALUES ('p1', 7)")


def inserted_before(trail: Trail) -> None:
    copied_into(trail, 0)


def reordered(trail: Trail) -> None:
    for table in ("audit_entry", "audit_seen"):
        for before, after in ((5, 1000), (6, 5), (1000, 6)):
            trail.run(f"UPDATE {table} SET n = ? WHERE n = ?", after, before)


def moved_to_another_block(trail: Trail) -> None:
    for table in ("audit_entry", "audit_seen"):
        for before, after in ((4, 1000), (8, 4), (1000, 8)):
            trail.run(f"UPDATE {table} SET n = ? WHERE n = ?", after, before)


def hidden_from_queries(trail: Trail) -> None:
    trail.run("UPDATE audit_entry SET client_id = 'nobody' WHERE n = 5")


def hidden_from_the_patient(trail: Trail) -> None:
    trail.run("DELETE FROM audit_seen WHERE n = 5")


def shown_to_another_patient(trail: Trail) -> None:
    trail.run("INSERT INTO audit_seen VALUES ('p9', 5)")


def shown_without_an_entry(trail: Trail) -> None:
    trail.run("INSERT INTO audit_seen VALUES ('p9', 1000)")


def attachment_changed(trail: Trail) -> None:
    trail.run("UPDATE audit_entry SET attachment = '[\"p4\"]' WHERE n = 11")
    trail.run("DELETE FROM audit_seen WHERE patient_id = 'p5'")


def attachment_removed(trail: Trail) -> None:
    trail.run("UPDATE audit_entry SET attachment = NULL WHERE n = 11")
    trail.run("DELETE FROM audit_seen WHERE n = 11")


def block_removed(trail: Trail) -> None:
    trail.run("DELETE FROM audit_seen WHERE n BETWEEN 5 AND 7")
    trail.run("DELETE FROM audit_entry WHERE n BETWEEN 5 AND 7")
    trail.run("DELETE FROM audit_seal WHERE k = 2")


def block_removed_and_seals_renumbered(trail: Trail) -> None:
    block_removed(trail)
    trail.run("UPDATE audit_seal SET k = 2, first = 5 WHERE k = 3")
    trail.run("UPDATE audit_seal SET k = 3 WHERE k = 4")


def seal_removed(trail: Trail) -> None:
    trail.run("DELETE FROM audit_seal WHERE k = 2")


def oldest_removed(trail: Trail) -> None:
    trail.run("DELETE FROM audit_seen WHERE n <= 7")
    trail.run("DELETE FROM audit_entry WHERE n <= 7")
    trail.run("DELETE FROM audit_seal WHERE k <= 2")


def write_seal(trail: Trail, seal: Seal) -> None:
    trail.run("DELETE FROM audit_seal WHERE k = ?", seal.k)
    marks = ", ".join("?" * len(seal))
    trail.run(f"INSERT INTO audit_seal VALUES ({marks})", *seal)


def retention_seal(trail: Trail, **of: Any) -> Seal:
    """Return a seal, not signed, that says that blocks 1 and 2 were removed."""
    named = {"setting": "FHIRAPP_AUDIT_KEEP=1", "k": 2, "last": 7, **of}
    gone = json.dumps({**named, "root": seal_of(trail.app, 2).root.hex()})
    root = root_of(trail.head.root, (), gone)
    return Seal(5, trail.head.last + 1, trail.head.last, 0, root, trail.head.at, gone)


def oldest_removed_by_a_forged_seal(trail: Trail) -> None:
    forged = retention_seal(trail)
    signature = Ed25519PrivateKey.generate().sign(forged.text)
    oldest_removed(trail)
    write_seal(trail, forged._replace(signature=signature))


def oldest_removed_by_a_copied_signature(trail: Trail) -> None:
    forged = retention_seal(trail)._replace(signature=trail.head.signature)
    oldest_removed(trail)
    write_seal(trail, forged)


def changed_and_sealed_with_another_key(trail: Trail) -> None:
    changed(trail)
    key, before = Ed25519PrivateKey.generate(), BEGINNING
    for k in range(1, 5):
        seal = seal_of(trail.app, k)
        rows = trail.run(
            "SELECT n, line FROM audit_entry WHERE n BETWEEN ? AND ? ORDER BY n",
            seal.first,
            seal.last,
        )
        before = seal._replace(root=root_of(before.root, rows))
        write_seal(trail, before._replace(signature=key.sign(before.text)))


def changed_with_the_roots(trail: Trail) -> None:
    changed(trail)
    seal = seal_of(trail.app, 2)
    rows = trail.run("SELECT n, line FROM audit_entry WHERE n BETWEEN 5 AND 7 ORDER BY n")
    write_seal(trail, seal._replace(root=root_of(seal_of(trail.app, 1).root, rows)))


def dated_2099(trail: Trail) -> None:
    """Add an entry dated 2099 that says that all before it was removed, then remove the oldest."""
    with trail.app.app_context():
        append({"at": "2099-01-01T00:00:00.000+00:00", "event": "packed", "what": "2020 to 2099"})
    sealed(trail.app)
    oldest_removed(trail)


CHANGED_BLOCK = "seal 2, entries 5 to 7"
ATTACKS: list[tuple[Callable[[Trail], None], str]] = [
    (changed, CHANGED_BLOCK),
    (changed_with_columns, CHANGED_BLOCK),
    (not_json, "entry 5: its line cannot be read"),
    (removed, CHANGED_BLOCK),
    (removed_and_renumbered, CHANGED_BLOCK),
    (inserted, CHANGED_BLOCK),
    (inserted_before, "entry 0: no seal covers it"),
    (reordered, CHANGED_BLOCK),
    (moved_to_another_block, "seal 1, entries 1 to 4"),
    (hidden_from_queries, "entry 5: queries find something else than its line has"),
    (hidden_from_the_patient, "entry 5: queries do not find it for patient p1"),
    (shown_to_another_patient, "queries find 1 entries for patients they do not name"),
    (shown_without_an_entry, "queries find 1 entries for patients they do not name"),
    (attachment_changed, "entry 11: its attachment was changed or removed"),
    (attachment_removed, "entry 11: its attachment was changed or removed"),
    (block_removed, "seals 2 to 2 are missing before seal 3"),
    (block_removed_and_seals_renumbered, "seal 2: its signature is wrong"),
    (seal_removed, "seals 2 to 2 are missing before seal 3"),
    (oldest_removed, "seals 1 to 2 are missing before seal 3"),
    (oldest_removed_by_a_forged_seal, "seals 1 to 2 are missing before seal 3"),
    (oldest_removed_by_a_copied_signature, "seal 5: its signature is wrong"),
    (changed_and_sealed_with_another_key, "seal 1: its signature is wrong"),
    (changed_with_the_roots, "seal 2: its signature is wrong"),
    (dated_2099, "seals 1 to 2 are missing before seal 3"),
]


@ON_BOTH
@pytest.mark.parametrize(("attack", "fault"), ATTACKS, ids=lambda one: getattr(one, "__name__", ""))
def test_attack_on_sealed_entries_is_found_without_a_copied_head(trail, attack, fault):
    attack(trail)
    faults = verified(trail.app).faults
    assert any(found.startswith(fault) for found in faults), faults
    assert verified(trail.app, trail.head).faults[: len(faults)] == faults


@pytest.mark.parametrize("keep", [0, 1])
def test_removed_oldest_blocks_are_found_whether_or_not_retention_is_on(trail, keep, monkeypatch):
    monkeypatch.setitem(trail.app.config, "FHIRAPP", settings_of(trail.app))
    object.__setattr__(settings_of(trail.app), "audit_keep", keep)
    oldest_removed(trail)
    assert "seals 1 to 2 are missing before seal 3" in verified(trail.app).faults
    object.__setattr__(settings_of(trail.app), "audit_keep", 0)


def cut_off(trail: Trail) -> None:
    trail.run("DELETE FROM audit_seen WHERE n > 7")
    trail.run("DELETE FROM audit_entry WHERE n > 7")
    trail.run("DELETE FROM audit_seal WHERE k > 2")


def all_removed(trail: Trail) -> None:
    for table in TABLES.tables:
        trail.run(f"DELETE FROM {table}")


def changed_after_its_seals_were_removed(trail: Trail) -> None:
    trail.run("DELETE FROM audit_seal WHERE k > 1")
    changed_with_columns(trail)


# What only a copied head shows, if no server ran meanwhile.
AT_THE_END: list[tuple[Callable[[Trail], None], str]] = [
    (cut_off, "the trail ends with seal 2, and had 4: it was cut off"),
    (all_removed, "the trail ends with seal 0, and had 4: it was cut off"),
    (changed_after_its_seals_were_removed, "the trail ends with seal 1, and had 4: it was cut off"),
]


@ON_BOTH
@pytest.mark.parametrize(("attack", "fault"), AT_THE_END)
def test_changed_end_is_found_by_a_copied_head_alone(trail, attack, fault):
    attack(trail)
    assert verified(trail.app).faults == []
    assert verified(trail.app, trail.head).faults == [fault]


@ON_BOTH
@pytest.mark.parametrize(("attack", "_fault"), AT_THE_END)
def test_restarted_server_seals_a_changed_end_and_a_copied_head_shows_it(trail, attack, _fault):
    attack(trail)
    restart(trail.app)
    with trail.app.app_context():
        for _ in range(5):
            record("sign-in", about="user/x")
            seal_all(trail.app)
    assert verified(trail.app).faults == []
    assert verified(trail.app, trail.head).faults == [
        "seal 4 was another when the head was copied: it was replaced"
    ]


@ON_BOTH
@pytest.mark.parametrize(("attack", "_fault"), AT_THE_END)
def test_running_server_notices_a_changed_end_and_does_not_seal_over_it(trail, attack, _fault):
    with trail.app.app_context():
        # What the thread that seals does every second.
        watch(trail.app)
        attack(trail)
        watch(trail.app)
        (noticed,) = entries(kind=None, event="seal-missing")
        watch(trail.app)
        assert len(entries(kind=None, event="seal-missing")) == 1
    assert noticed.body.startswith("seal 4 of ")
    faults = verified(trail.app).faults
    assert any("are missing before seal 5" in fault for fault in faults), faults


def test_running_server_notices_that_its_newest_seal_was_replaced(trail):
    with trail.app.app_context():
        watch(trail.app)
        trail.run("DELETE FROM audit_seal WHERE k > 3")
        trail.run("UPDATE audit_entry SET line = replace(line, 'a test', 'b test') WHERE n = 11")
    seen = trail.app.extensions[seals._NEWEST]
    # A process that was started anew seals the changed entry, before the others look.
    restart(trail.app)
    assert sealed(trail.app).k == 4
    assert verified(trail.app).faults == []
    trail.app.extensions[seals._NEWEST] = seen
    with trail.app.app_context():
        watch(trail.app)
    assert any(fault.startswith("seal 5, entries 12") for fault in verified(trail.app).faults)


@ON_BOTH
def test_processes_go_on_from_the_seals_of_each_other(trail):
    newest: dict[str, Seal | None] = {"a": None, "b": None}
    for process in "abbaab":
        restart(trail.app)
        if newest[process] is not None:
            trail.app.extensions[seals._NEWEST] = newest[process]
        with trail.app.app_context():
            record("sign-in", what=process)
        newest[process] = sealed(trail.app)
    found = verified(trail.app, trail.head, *filter(None, newest.values()))
    assert (found.faults, found.seals, found.unsealed) == ([], 10, 0)


@ON_BOTH
def test_seal_that_no_server_signed_does_not_keep_entries_from_being_sealed(trail):
    with trail.app.app_context():
        watch(trail.app)
        write_seal(trail, Seal(5, 12, 10**9, 0, bytes(32), trail.head.at, "", bytes(64)))
        write_seal(trail, Seal(9, 12, 10**9, 0, bytes(32), trail.head.at, "", bytes(64)))
        assert verified(trail.app).faults[0].startswith("seal 5: its signature is wrong")
        watch(trail.app)
        record("sign-in", about="user/x")
        seal_all(trail.app)
    found = verified(trail.app, trail.head)
    assert (found.faults, found.seals, found.unsealed) == ([], 5, 0)


@ON_BOTH
def test_restored_older_state_is_found_by_a_copied_head_alone(trail):
    # The saved tables are what a backup of the database holds.
    with trail.app.app_context():
        record("sign-in", about="user/x")
    head = sealed(trail.app)
    with trail.app.app_context():
        record("sign-in", about="user/y")
    all_removed(trail)
    for table in TABLES.tables:
        trail.run(f"INSERT INTO {table} SELECT * FROM saved_{table}")
    assert verified(trail.app).faults == []
    assert verified(trail.app, head).faults == [
        "the trail ends with seal 4, and had 5: it was cut off"
    ]
    assert verified(trail.app, trail.head).faults == []


@ON_BOTH
def test_entries_are_changed_unnoticed_only_until_they_are_sealed(trail):
    with trail.app.app_context():
        record("sign-in", about="user/x")
    trail.run("UPDATE audit_entry SET line = replace(line, 'user/x', 'user/y') WHERE n = 12")
    trail.run("UPDATE audit_entry SET about = 'user/y' WHERE n = 12")
    found = verified(trail.app, trail.head)
    assert (found.faults, found.unsealed) == ([], 1)
    sealed(trail.app)
    trail.run("UPDATE audit_entry SET line = replace(line, 'user/y', 'user/x') WHERE n = 12")
    assert verified(trail.app).faults[-1].startswith("seal 5, entries 12 to 12")


def test_trail_is_verified_to_its_end_in_parts(trail, monkeypatch):
    monkeypatch.setattr("fhirapp.audit.verify._AT_ONCE", 2)
    found = verified(trail.app, trail.head)
    assert (found.faults, found.entries, found.seals) == ([], 11, 4)
    trail.run("UPDATE audit_entry SET line = replace(line, 'a test', 'b test') WHERE n = 11")
    assert verified(trail.app).faults[-1].startswith("seal 4, entries 11 to 11")


def test_copied_head_must_be_signed_and_a_seal_of_this_trail(trail):
    forged = trail.head._replace(k=2, root=bytes(32))
    assert verified(trail.app, forged).faults == [
        "the copied head 2: its signature is wrong, or of another key"
    ]
    with trail.app.app_context():
        strange = verify(trail.app, {"AAAA"}, [trail.head]).faults
    assert [fault.partition(":")[0] for fault in strange] == [
        *(f"seal {k}" for k in range(1, 5)),
        "the copied head 4",
    ]
    for k in range(1, 5):
        assert verified(trail.app, seal_of(trail.app, k)).faults == []


def test_head_is_read_as_it_was_printed(trail):
    assert Seal.of_json(json.loads(json.dumps(trail.head.as_json()))) == trail.head


BROKEN: list[Any] = [
    "{",
    "[]",
    '{"at":"2026-03-01","patients":5}',
    '{"at":"2026-03-01","patients":[{},"\\u0000","\\ud800"]}',
]


@ON_BOTH
def test_broken_lines_keep_no_other_from_being_sealed_and_shown(own_app, watched):
    store = settings_of(own_app)
    broken = BROKEN if store.is_postgresql else [*BROKEN, b"\xff", None]
    for content in broken:
        watched.get("Patient/p1")
        (n,) = sql(own_app, "SELECT max(n) FROM audit_entry")[0]
        if content is None:
            # As text that is not UTF-8.
            sql(own_app, "UPDATE audit_entry SET line = CAST(x'ff' AS TEXT) WHERE n = ?", n)
        else:
            sql(own_app, "UPDATE audit_entry SET line = ? WHERE n = ?", content, n)
        watched.get("Patient/p2")
    assert sealed(own_app).last == 1 + 2 * len(broken)
    with own_app.app_context():
        shown = [entry.path for entry in entries() if entry.path]
        assert len(entries(patient_id="p2")) == len(broken)
    assert shown == ["/fhir/Patient/p2"] * len(broken)
    found = verified(own_app)
    assert found.unsealed == 0
    assert not any(fault.startswith("seal") for fault in found.faults)
    # Whoever broke the lines cannot mend them either.
    sql(own_app, "UPDATE audit_entry SET line = '{}' WHERE n = 2")
    assert any(fault.startswith("seal 1") for fault in verified(own_app).faults)


@ON_BOTH
def test_blocks_are_of_limited_size_and_gaps_of_numbers_are_no_fault(own_app, monkeypatch):
    monkeypatch.setattr(seals, "MOST", 4)
    for count in range(10):
        with own_app.app_context():
            record("sign-in", what=str(count))
    # As a transaction leaves it on PostgreSQL that was rolled back.
    sql(own_app, "DELETE FROM audit_entry WHERE n IN (3, 4, 10)")
    assert sealed(own_app).k == 2
    rows = sql(own_app, "SELECT first, last, entries FROM audit_seal ORDER BY k")
    assert rows == [(1, 6, 4), (7, 9, 3)]
    assert verified(own_app).faults == []


@ON_POSTGRESQL
def test_entry_that_is_committed_late_is_sealed(own_app):
    line = {"at": "2026-03-01T00:00:00.000+00:00", "event": "sign-in", "what": "late"}
    with own_app.app_context():
        record("sign-in", what="before")
        store = store_of(own_app)
        with store._engine.execution_options(isolation_level="READ COMMITTED").connect() as slow:
            slow.exec_driver_sql(store.statement.replace("?", "%s"), _values(line, None))
            # Its number is taken, and this one's is higher.
            record("sign-in", what="after")
            with pytest.raises(OSError, match="lock timeout"):
                seal_all(own_app)
            slow.commit()
        seal_all(own_app)
    found = verified(own_app)
    assert (found.faults, found.unsealed, found.entries) == ([], 0, 3)
    assert [entry["what"] for entry in noted(own_app)] == ["before", "late", "after"]


@ON_POSTGRESQL
def test_removed_entries_of_a_second_server_are_found(make_app):
    first = make_app()
    second = make_app(database_url=settings_of(first).database_url, seed=False)
    token = token_for(first, "system/*.rs")
    for _ in range(3):
        Fhir(first, token).get("Patient/p1")
        Fhir(second, token).get("Patient/p2")
        sealed(second)
    assert verified(first).faults == verified(second).faults == []
    sql(first, "DELETE FROM audit_seen WHERE patient_id = 'p2'")
    sql(first, "DELETE FROM audit_entry WHERE line LIKE '%Patient/p2%'")
    faults = verified(first).faults
    assert [fault.partition(",")[0] for fault in faults] == ["seal 1", "seal 2", "seal 3"]


def wait_until_sealed(app: Flask) -> None:
    deadline = time.monotonic() + 30
    while verified(app).unsealed:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_thread_seals_while_a_server_runs_and_in_the_end(own_app, monkeypatch):
    with own_app.app_context():
        monkeypatch.setattr(seals, "_SECONDS", 0.01)
        with seals.sealing(own_app):
            for _ in range(2):
                record("sign-in")
                wait_until_sealed(own_app)
        monkeypatch.setattr(seals, "_SECONDS", 60)
        with seals.sealing(own_app):
            record("sign-in")
    assert [file.name for file in settings_of(own_app).instance.glob("audit.db*")] == ["audit.db"]
    found = verified(own_app)
    assert (found.faults, found.entries, found.seals, found.unsealed) == ([], 3, 3, 0)


def test_thread_that_cannot_seal_says_so_once_and_tries_again(own_app, monkeypatch, caplog):
    store, failures = store_of(own_app), iter(range(3))
    settled = store.settled

    def settle() -> int:
        if next(failures, None) is not None:
            raise OSError("the disk is away")
        return settled()

    monkeypatch.setattr(seals, "_SECONDS", 0.01)
    monkeypatch.setattr(store, "settled", settle)
    with own_app.app_context():
        record("sign-in")
        with seals.sealing(own_app):
            wait_until_sealed(own_app)
    assert caplog.text.count("the audit trail cannot be sealed: the disk is away") == 1
    assert next(failures, None) is None
