"""Files that are skipped for their names: what systems add when files are copied or packed.

They lie beside records and hold none, or hold the same records as they were before.
"""

from __future__ import annotations

from pathlib import PurePosixPath

# Describes the files of an export beside it.
MANIFEST = "manifest.json"
_SYSTEM_FILES = frozenset({".ds_store", "thumbs.db", "desktop.ini", "_success"})
_SYSTEM_FOLDER, _APPLE_DOUBLE = "__macosx", "._"
# Of an XDM package: the list for people, and that for programs. IHE ITI-32.
_PACKAGE_LISTS = frozenset({"index.htm", "metadata.xml"})
_COPIES = (".bak", ".old", ".orig", "~")
_PARTS = (".part", ".partial", ".filepart", ".crdownload", ".tmp", ".swp")
OF_THE_SYSTEM = "is an operating-system file"
OF_THE_PACKAGE = "lists the files of its package"
OF_THE_EXPORT = "lists the files of its export"
COPY = "is a backup copy, as its name says"
INCOMPLETE = "is an incomplete file, as its name says"


class SkippedInput(Exception):
    """An input that holds no records; str() is the reason."""


def system_reason(name: str) -> str:
    """Return why a file is skipped wherever it lies, "" where its name is no reason."""
    parts = PurePosixPath(name.replace("\\", "/").lower()).parts
    is_system = bool(parts) and (parts[-1] in _SYSTEM_FILES or parts[-1].startswith(_APPLE_DOUBLE))
    return OF_THE_SYSTEM if is_system or _SYSTEM_FOLDER in parts else ""


def reason_within(name: str) -> str:
    """Return why a file of a folder or an archive is skipped, "" where its name is no reason."""
    if reason := system_reason(name):
        return reason
    if name.lower().endswith(_COPIES):
        return COPY
    return INCOMPLETE if name.lower().endswith(_PARTS) else ""


def lists_package(name: str) -> bool:
    """Say whether a file without records lists those of a package."""
    return PurePosixPath(name.replace("\\", "/").lower()).name in _PACKAGE_LISTS
