"""Settings that an administrator changes on a page while the server runs.

They are in a table. A variable or an option of the start wins over it, and it wins over the
default. Each process reads the table when the database's generation is another, twice a second and
beside the requests; commands of the shell read it when they make the database ready.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Thread
from typing import Any, NamedTuple, cast

from flask import Flask, current_app
from sqlalchemy import Connection, Integer, Table, delete, insert, select
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp import config
from fhirapp.audit.events import record
from fhirapp.db import Base, database_errors, db, writing
from fhirapp.db.generation import generation
from fhirapp.environment import check_together, parse_setting

_log = logging.getLogger(__name__)
_EXTENSION = "fhirapp.live_settings"
_LOOK_SECONDS = 0.5
LIVE: Mapping[str, Any] = {one.name: one for one in config.declared() if one.metadata["live"]}


class StoredSetting(Base):
    """A setting's value as an administrator chose it; the table's name is not this release's.

    A release may no longer know a name or take a value: such a row is shown and has no effect.
    """

    __tablename__ = "setting"

    name: Mapped[str] = mapped_column(primary_key=True)
    # As its environment variable would have it.
    value: Mapped[str]
    changed_at: Mapped[int] = mapped_column(Integer)
    # A user's id.
    changed_by: Mapped[str]


class SettingRow(NamedTuple):
    """A row of the table."""

    value: str
    changed_at: int
    changed_by: str


class StoredSettings(NamedTuple):
    """What the table says: its rows by name, and why one of them has no effect."""

    rows: Mapping[str, SettingRow]
    ignored: Mapping[str, str]


class _State(NamedTuple):
    """The settings with which the server was started, and what was read since."""

    started: config.Settings
    chosen: StoredSettings = StoredSettings({}, {})
    # The database's generation before it was read.
    since: bytes | None = None


def chosen() -> StoredSettings:
    """Return what administrators chose, as this process knows it."""
    return _state(current_app).chosen


def started_with(app: Flask) -> config.Settings:
    """Return the settings with which the server was started."""
    return _state(app).started


def _state(app: Flask) -> _State:
    found: _State | None = app.extensions.get(_EXTENSION)
    return found or _State(config.settings_of(app))


def refresh(app: Flask) -> None:
    """Put in force what the table says, if it may have changed; within the app's context.

    Where the database cannot be queried, or is empty, all stays as it is.
    """
    state, now = _state(app), generation().now()
    if now == state.since:
        return
    try:
        with db.engine.connect() as connection:
            rows = _rows(connection)
    except database_errors():
        return
    settings, ignored = _in_force(state.started, rows)
    for name, reason in ignored.items():
        if state.chosen.ignored.get(name) != reason:
            _log.warning("the setting %s of the admin page has no effect: %s", name, reason)
    app.extensions[_EXTENSION] = _State(state.started, StoredSettings(rows, ignored), now)
    before = config.settings_of(app)
    if (settings, settings.origins) != (before, before.origins):
        app.config["FHIRAPP"] = settings
    if settings.log_level != before.log_level:
        logging.getLogger().setLevel(settings.log_level)


def change(name: str, value: str | None, user_id: str) -> bool:
    """Store a live setting's value, or remove it with None, and put it in force.

    False where that changes nothing. Raises ConfigurationError where it cannot be used, or not
    with the others as they are.
    """
    app = current_app._get_current_object()  # type: ignore[attr-defined]
    state, table = _state(app), cast(Table, StoredSetting.__table__)
    with writing() as connection:
        rows = _rows(connection)
        before, ignored = _in_force(state.started, rows)
        wanted = {key: row for key, row in rows.items() if key != name}
        if value is not None:
            wanted[name] = SettingRow(value, int(time.time()), user_id)
        after, refused = _in_force(state.started, wanted)
        for key, reason in refused.items():
            if (key == name and value is not None) or key not in ignored:
                raise config.ConfigurationError(reason)
        if value is None:
            is_same = name not in rows
        else:
            has_effect = name not in ignored and name not in state.started.origins
            is_same = has_effect and getattr(before, name) == getattr(after, name)
        if is_same:
            return False
        connection.execute(delete(table).where(table.c.name == name))
        if value is not None:
            connection.execute(insert(table), [{"name": name, **wanted[name]._asdict()}])
        if value is None and name in rows and (name in ignored or name in state.started.origins):
            what = f"{name} {rows[name].value!r} removed, which had no effect"
        else:
            was, is_now = (str(getattr(one, name)) for one in (before, after))
            what = f"{name} {was!r} to {is_now!r}{' (the default)' if value is None else ''}"
        record("setting-changed", what=what)
    refresh(app)
    return True


def watch(app: Flask) -> None:
    """Have a thread of this process put in force what is changed in another."""
    Thread(target=_watch, args=(app, time.sleep), name="settings", daemon=True).start()


def _watch(app: Flask, pause: Callable[[float], None]) -> None:
    while True:
        with app.app_context():
            refresh(app)
        pause(_LOOK_SECONDS)


def _rows(connection: Connection) -> dict[str, SettingRow]:
    table = cast(Table, StoredSetting.__table__)
    columns = (table.c.name, table.c.value, table.c.changed_at, table.c.changed_by)
    found = connection.execute(select(*columns).order_by(table.c.name))
    return {name: SettingRow(value, at, by) for name, value, at, by in found}


def _in_force(
    started: config.Settings, rows: Mapping[str, SettingRow]
) -> tuple[config.Settings, Mapping[str, str]]:
    """Return the settings with what the rows say, and why a row of them cannot be used."""
    values: dict[str, Any] = {}
    ignored: dict[str, str] = {}
    for name, row in rows.items():
        if name in started.origins:
            continue
        if name not in LIVE:
            is_known = name in {one.name for one in config.declared()}
            where = "set where the server is started" if is_known else "no setting of this release"
            ignored[name] = f"{config.variable_of(name)} is {where}."
            continue
        try:
            values[name] = parse_setting(LIVE[name], row.value)
        except config.ConfigurationError as error:
            ignored[name] = str(error)
    # One that fits only together with another waits for that.
    settings, waits = started, values
    while waits:
        left: dict[str, Any] = {}
        for name, value in waits.items():
            origins = {**settings.origins, name: config.STORED}
            changed = replace(settings, **{name: value}, origins=origins)
            try:
                check_together(changed)
            except config.ConfigurationError as error:
                left[name], ignored[name] = value, str(error)
            else:
                settings = changed
                ignored.pop(name, None)
        if len(left) == len(waits):
            break
        waits = left
    return settings, ignored
