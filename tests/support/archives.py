"""Zip files with given members."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any


def zipped(path: Path, members: dict[str, bytes], **options: Any) -> Path:
    """Write an archive of these members."""
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


# Where the files of an import may be.
PLACES = ("folder", "archive", "archive in a folder")


def laid_out(folder: Path, place: str, members: dict[str, bytes]) -> Path:
    """Write files into a folder or an archive, and return what to import."""
    if place == "archive":
        return zipped(folder / "given.zip", members)
    home = folder / "given"
    home.mkdir()
    if place == "archive in a folder":
        zipped(home / "inner.zip", members)
        return home
    for name, content in members.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return home
