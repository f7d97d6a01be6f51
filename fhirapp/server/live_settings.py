"""Settings that an administrator changes on a page while the server runs.

They are stored in a table. A variable or an option of the start overrides the table, and the table
overrides the default. A thread of each process reads the table within half a second of a change of
the database's generation; commands of the shell read it when they prepare the database.
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
LIVE = {setting.name: setting for setting in config.declared() if setting.metadata["live"]}


class StoredSetting(Base):
    """The value that an administrator chose for a setting.

    Another release may have stored a name or a value that this one does not know. Pages show such
    a row; it has no effect.
    """

    __tablename__ = "setting"

    name: Mapped[str] = mapped_column(primary_key=True)
    # As the text of the environment variable.
    value: Mapped[str]
    changed_at: Mapped[int] = mapped_column(Integer)
    # Id of a user.
    changed_by: Mapped[str]


class SettingRow(NamedTuple):
    """A row of the table, without its name."""

    value: str
    changed_at: int
    changed_by: str


class StoredSettings(NamedTuple):
    """The rows of the table by name; ignored has the reason for each row without effect."""

    rows: Mapping[str, SettingRow]
    ignored: Mapping[str, str]


class _State(NamedTuple):
    """The settings with which the server was started, and the table as it was read last."""

    started: config.Settings
    chosen: StoredSettings = StoredSettings({}, {})
    # The database's generation before the table was read.
    generation: bytes | None = None


def chosen() -> StoredSettings:
    """Return the stored settings as this process read them last."""
    return _state(current_app).chosen


def started_with(app: Flask) -> config.Settings:
    """Return the settings with which the server was started."""
    return _state(app).started


def _state(app: Flask) -> _State:
    found: _State | None = app.extensions.get(_EXTENSION)
    return found or _State(config.settings_of(app))


def refresh(app: Flask) -> None:
    """Apply the stored settings if they may have changed. Needs the app's context.

    If the database cannot be queried, or is empty, the settings stay as they are.
    """
    state, now = _state(app), generation().now()
    if now == state.generation:
        return
    try:
        with db.engine.connect() as connection:
            rows = _rows(connection)
    except database_errors():
        return
    settings, ignored = _apply(state.started, rows)
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
    """Store the value of a live setting, or remove it with None, and apply it.

    Return False if that changes nothing. Raises ConfigurationError if the value cannot be used, or
    if another stored value would have no effect any more.
    """
    app = current_app._get_current_object()  # type: ignore[attr-defined]
    state, table = _state(app), cast(Table, StoredSetting.__table__)
    with writing() as connection:
        rows = _rows(connection)
        before, ignored = _apply(state.started, rows)
        new_rows = {key: row for key, row in rows.items() if key != name}
        if value is not None:
            new_rows[name] = SettingRow(value, int(time.time()), user_id)
        after, refused = _apply(state.started, new_rows)
        for key, reason in refused.items():
            if key == name or key not in ignored:
                raise config.ConfigurationError(reason)
        has_effect = name not in ignored and name not in state.started.origins
        if value is None:
            is_same = name not in rows
        else:
            is_same = has_effect and getattr(before, name) == getattr(after, name)
        if is_same:
            return False
        connection.execute(delete(table).where(table.c.name == name))
        if value is not None:
            connection.execute(insert(table), [{"name": name, **new_rows[name]._asdict()}])
        if value is None and not has_effect:
            what = f"{name} {rows[name].value!r} removed, which had no effect"
        else:
            old, new = str(getattr(before, name)), str(getattr(after, name))
            what = f"{name} {old!r} to {new!r}{' (the default)' if value is None else ''}"
        record("setting-changed", what=what)
    refresh(app)
    return True


def watch(app: Flask) -> None:
    """Start a thread that applies the settings that other processes store."""
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


def _apply(
    started: config.Settings, rows: Mapping[str, SettingRow]
) -> tuple[config.Settings, Mapping[str, str]]:
    """Return the settings with the stored values, and the reason for each row without effect."""
    values: dict[str, Any] = {}
    ignored: dict[str, str] = {}
    for name, row in rows.items():
        if name in started.origins:
            continue
        if name not in LIVE:
            is_known = any(setting.name == name for setting in config.declared())
            where = "set where the server is started" if is_known else "no setting of this release"
            ignored[name] = f"{config.variable_of(name)} is {where}."
            continue
        try:
            values[name] = parse_setting(LIVE[name], row.value)
        except config.ConfigurationError as error:
            ignored[name] = str(error)
    try:
        return _with_stored(started, values), ignored
    except config.ConfigurationError:
        # The values do not fit together: each is left out that does not fit with those before it.
        settings = started
        for name, value in values.items():
            try:
                settings = _with_stored(settings, {name: value})
            except config.ConfigurationError as error:
                ignored[name] = str(error)
        return settings, ignored


def _with_stored(settings: config.Settings, values: Mapping[str, Any]) -> config.Settings:
    """Return settings with stored values. Raises ConfigurationError if they do not fit together."""
    origins = {**settings.origins, **dict.fromkeys(values, config.STORED)}
    changed = replace(settings, **values, origins=origins)
    check_together(changed)
    return changed
