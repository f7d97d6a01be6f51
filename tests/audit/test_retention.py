"""Retention removes the oldest blocks, and signs what it removed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from flask import Flask

from fhirapp.audit import append, seals
from fhirapp.audit.entries import entries
from fhirapp.audit.seals import SEALS, Seal, public_key, remove_expired, seal_all
from fhirapp.audit.verify import VerificationResult, verify
from fhirapp.keys import key_of
from tests.support.trails import ON_BOTH, sql

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)


def verified(app: Flask, *heads: Seal) -> VerificationResult:
    with app.app_context():
        return verify(app, {public_key(key_of(app))}, heads)


def entry(day: str, **more: Any) -> dict[str, Any]:
    return {"at": f"{day}T09:00:00.000+00:00", "event": "sign-in", "what": day, **more}


@pytest.fixture
def dated(make_app: Callable[..., Flask], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Flask]:
    """Return a maker of an app with a block of three entries, about a patient, for each day."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):  # noqa: ARG003
            return NOW

    def make(*days: str, keep: int = 3) -> Flask:
        app = make_app(audit_keep=keep, seed=False)
        with app.app_context(), monkeypatch.context() as patch:
            for day in days:
                sealed_at = datetime.fromisoformat(f"{day}T09:00:01+00:00")
                patch.setattr(seals, "instant", lambda _at, at=sealed_at: at.isoformat())
                for _ in range(3):
                    append(entry(day, patients=["p1"]))
                seal_all(app)
        monkeypatch.setattr("fhirapp.audit.events.datetime", Clock)
        return app

    return make


DAYS = ("2026-01-01", "2026-01-02", "2026-01-06", "2026-01-07", "2026-01-09", "2026-01-10")


def days_of(app: Flask) -> list[str]:
    rows = sql(app, "SELECT at FROM audit_entry WHERE event = 'sign-in' ORDER BY n")
    return [*dict.fromkeys(at[:10] for (at,) in rows)]


@ON_BOTH
def test_expired_blocks_are_removed_and_a_signed_seal_names_them(dated):
    app = dated(*DAYS)
    old, head = (Seal(*sql(app, f"{SEALS} WHERE k = ?", k)[0]) for k in (2, 5))
    with app.app_context():
        remove_expired(app, NOW)
        remove_expired(app, NOW)
        (removed,) = entries(kind=None, event="packed")
        assert removed.body == "2026-01-01 to 2026-01-06"
        assert len(entries(kind=None, patient_id="p1")) == 9
    assert days_of(app) == [*DAYS[3:]]
    ((stated,),) = sql(app, "SELECT removed FROM audit_seal WHERE removed <> ''")
    named = {"setting": "FHIRAPP_AUDIT_KEEP=3", "k": 3, "last": 9}
    assert json.loads(stated).items() >= named.items()
    found = verified(app, old, head)
    assert (found.faults, found.removed) == ([], "entries up to 9 by FHIRAPP_AUDIT_KEEP=3")
    with app.app_context():
        seal_all(app)
    assert verified(app, old, head).faults == []
    # What no such seal names may not be missing.
    sql(app, "DELETE FROM audit_seen WHERE n <= 12")
    sql(app, "DELETE FROM audit_entry WHERE n <= 12")
    sql(app, "DELETE FROM audit_seal WHERE k = 4")
    assert "seals 4 to 4 are missing before seal 5" in verified(app).faults


@ON_BOTH
def test_many_blocks_are_removed_in_several_transactions(dated, monkeypatch):
    monkeypatch.setattr(seals, "_MOST_REMOVED", 4)
    app = dated(*DAYS)
    with app.app_context():
        remove_expired(app, NOW)
        assert len(entries(kind=None, event="packed")) == 1
        seal_all(app)
    assert len(sql(app, "SELECT k FROM audit_seal WHERE removed <> ''")) == 3
    assert days_of(app) == [*DAYS[3:]]
    assert verified(app).faults == []


def test_removed_entries_that_are_inserted_again_are_found(dated):
    app = dated(*DAYS)
    with app.app_context():
        remove_expired(app, NOW)
    columns = "at, via, status, event, about, request_id, line"
    for n in (1, 9):
        sql(
            app,
            f"INSERT INTO audit_entry (n, {columns}) SELECT ?, {columns} FROM audit_entry"
            " WHERE n = 10",
            n,
        )
    added = {f"entry {n}: no seal covers it, so it was added" for n in (1, 9)}
    assert added <= {*verified(app).faults}


def test_seal_of_retention_is_not_believed_when_it_was_changed(dated):
    app = dated(*DAYS)
    with app.app_context():
        remove_expired(app, NOW)
    sql(app, "UPDATE audit_seal SET removed = replace(removed, '=3', '=9') WHERE removed <> ''")
    faults = verified(app).faults
    assert "seals 1 to 3 are missing before seal 4" in faults
    assert any("its signature is wrong" in fault for fault in faults)


@pytest.mark.parametrize(
    ("days", "left"),
    [
        # A wrong clock keeps nothing for ever, and removes nothing that is recent.
        (("2026-01-01", "2099-01-01", "2026-01-02", "2026-01-09", "2026-01-10"), 2),
        (("2026-01-01", "2026-01-09", "1970-01-01", "2026-01-10"), 3),
        (("2026-01-01", "2099-01-01", "2026-01-10"), 2),
        (("2026-01-01", "2099-01-01"), 2),
        # Nothing is expired; or all is, and is kept until something new is recorded.
        (("2026-01-08", "2026-01-10"), 2),
        (("2025-01-01", "2025-01-02"), 2),
    ],
)
def test_entries_of_a_wrong_clock_neither_stop_nor_hasten_retention(dated, days, left):
    app = dated(*days)
    with app.app_context():
        remove_expired(app, NOW)
        seal_all(app)
    assert days_of(app) == [*days[len(days) - left :]]
    assert verified(app).faults == []


def test_nothing_is_removed_unless_the_setting_says_so(dated):
    app = dated(*DAYS, keep=0)
    with app.app_context():
        remove_expired(app, NOW)
    assert days_of(app) == [*DAYS]
