"""A restore that was prepared on a page: how long it waits, and what it never mixes."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from fhirapp.config import Settings
from fhirapp.environment import load_settings
from fhirapp.features.backups import prepared as prepared_module
from fhirapp.features.backups.archive import InvalidBackup
from fhirapp.features.backups.backup import back_up
from fhirapp.features.backups.prepared import (
    CONFIRMED,
    KEPT_SECONDS,
    PREPARED,
    PreparedRestore,
    prepare_restore,
    prepared,
    remove_prepared,
)
from tests.support.backups import NOW, app_in, settings_in


@pytest.mark.parametrize(("of_demo", "into_demo"), [(True, False), (False, True), (True, True)])
def test_backup_of_the_demo_is_not_restored_into_a_clinic_nor_the_reverse(
    tmp_path, of_demo, into_demo
):
    """Passwords that everybody knows would open a clinic's records."""
    for demo in {of_demo, into_demo}:
        with app_in(tmp_path, demo=demo):
            pass
    path = tmp_path / "x.backup"
    back_up(settings_in(tmp_path, demo=of_demo), path, NOW, None)
    settings = settings_in(tmp_path, demo=into_demo)
    refused = nullcontext() if of_demo == into_demo else pytest.raises(InvalidBackup, match="demo")
    with refused:
        prepare_restore(settings, path, path.name, "1", None)
    assert (prepared(settings) is None) == (of_demo != into_demo)


def prepared_settings(folder: Path, state: str) -> Settings:
    """Put a prepared restore beside a database; return the settings of that."""
    settings = load_settings({}, instance_path=str(folder))
    found = PreparedRestore("j", "b", "t", "v", 1, {}, [], 1, state=state)
    target = prepared_module._folder(settings)
    target.mkdir()
    (target / "database.sqlite").touch()
    prepared_module._note(settings, found)
    return settings


@pytest.mark.parametrize("state", [PREPARED, CONFIRMED])
def test_old_prepared_restore_is_removed_unless_confirmed(tmp_path, state):
    settings = prepared_settings(tmp_path, state)
    remove_prepared(settings, time.time() + KEPT_SECONDS + 10)
    assert (prepared(settings) is not None) == (state == CONFIRMED)
    remove_prepared(settings, time.time() + KEPT_SECONDS + 10)


def test_prepared_restore_confirmed_during_its_removal_stays(tmp_path, monkeypatch):
    settings = prepared_settings(tmp_path, PREPARED)

    def confirms(*_arguments: object) -> bool:
        found = prepared(settings)
        assert found is not None
        prepared_module._note(settings, replace(found, state=CONFIRMED))
        return True

    monkeypatch.setattr(prepared_module, "is_older", confirms)
    remove_prepared(settings, time.time())
    found = prepared(settings)
    assert found is not None
    assert found.state == CONFIRMED
    assert (prepared_module._folder(settings) / "database.sqlite").exists()
    assert [path.name for path in tmp_path.iterdir() if "prepared" not in path.name] == []
