"""Which backups are of one naming, which of them is oldest, and which are removed."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fhirapp.config import ConfigurationError
from fhirapp.ops.backups.archive import BEGIN, GZIP
from fhirapp.ops.backups.rotation import Naming, prune

NOW = datetime(2026, 1, 5, 9, 5, 7, tzinfo=UTC)


def put(folder: Path, *names: str, content: bytes = GZIP) -> None:
    """Write files that begin as backups do, each an hour newer than the one before."""
    for hour, name in enumerate(names):
        (folder / name).write_bytes(content)
        os.utime(folder / name, (hour * 3600, hour * 3600))


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("clinic.backup", "clinic.backup"),
        ("clinic-%Y%m%d.backup", "clinic-20260105.backup"),
        ("clinic-%F_%H.backup", "clinic-2026-01-05_09.backup"),
        ("100%%.backup", "100%.backup"),
        ("", "fhirapp-20260105T090507Z.backup"),
    ],
)
def test_a_backup_is_named_by_the_time_it_is_taken(tmp_path, given, name):
    assert Naming.of(tmp_path / given, "fhirapp").path(NOW) == tmp_path / name


@pytest.mark.parametrize("pattern", ["clinic-%s.backup", "clinic-%Q.backup", "100%.backup", "%Y%Y"])
def test_a_name_whose_time_cannot_be_read_again_is_refused(tmp_path, pattern):
    with pytest.raises(ConfigurationError, match="is no name with a time that can be read again"):
        Naming.of(tmp_path / pattern, "fhirapp").path(NOW)


def test_the_oldest_by_their_names_are_removed_and_nothing_else_is(tmp_path):
    # As if they had been copied back in any order.
    put(tmp_path, "c-2026-01-05.b", "c-2024-01-01.b", "c-2025-12-31.b", "c-2023-07-07.b")
    put(tmp_path, "c-2020-01-01.bak", "d-2020-01-01.b", "c-monday.b")
    put(tmp_path, "c-2019-01-01.b", content=b"notes of mine")
    put(tmp_path, "c-2024-06-01.b", content=BEGIN)
    (tmp_path / "c-2018-01-01.b").mkdir()
    (tmp_path / "c-2017-01-01.b").symlink_to(tmp_path / "c-2024-01-01.b")
    naming = Naming.of(tmp_path / "c-%Y-%m-%d.b", "fhirapp")
    before = left(tmp_path)
    removed, stuck = prune(naming, 2, tmp_path / "c-2026-01-05.b")
    gone = ["c-2023-07-07.b", "c-2024-01-01.b", "c-2024-06-01.b"]
    assert ([path.name for path in removed], stuck) == (gone, [])
    assert left(tmp_path) == sorted({*before} - {*gone})


def test_names_without_a_year_are_ordered_by_when_they_were_written(tmp_path):
    put(tmp_path, "Tue.b", "Wed.b", "Thu.b", "Mon.b")
    naming = Naming.of(tmp_path / "%a.b", "fhirapp")
    assert [path.name for path in naming.backups()] == ["Tue.b", "Wed.b", "Thu.b", "Mon.b"]
    prune(naming, 3, tmp_path / "Mon.b")
    assert left(tmp_path) == ["Mon.b", "Thu.b", "Wed.b"]


def test_the_newest_stays_even_where_the_clock_was_ahead(tmp_path):
    put(tmp_path, "c-2031-01-01.b", "c-2032-01-01.b", "c-2026-01-05.b")
    prune(Naming.of(tmp_path / "c-%F.b", "fhirapp"), 1, tmp_path / "c-2026-01-05.b")
    assert left(tmp_path) == ["c-2026-01-05.b"]


def test_fewer_than_are_kept_all_stay(tmp_path):
    put(tmp_path, "c-2025-01-01.b", "c-2026-01-05.b")
    assert prune(Naming.of(tmp_path / "c-%F.b", "x"), 5, tmp_path / "c-2026-01-05.b") == ([], [])
