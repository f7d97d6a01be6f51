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
