"""Inputs that are not read: the reasons, their remedies, and the names of files that are skipped.

Such files lie beside records and hold none, or hold the same records as they were before: systems
add them when files are copied or packed.
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
_NOTHING = "nothing to do: it holds no records"
_WITHOUT_ATTACHMENTS = "import it without its largest attachments"
# Remedies by the beginning of the reason, where the reason is given without one.
_REMEDIES = {
    OF_THE_SYSTEM: _NOTHING,
    OF_THE_PACKAGE: _NOTHING,
    OF_THE_EXPORT: _NOTHING,
    COPY: "if it holds records that are missing here, rename it and import it",
    INCOMPLETE: "import it when it is complete, under its final name",
    "is a link": "import the file or folder that it leads to, if there is one",
    "is no file": "import regular files instead",
    "is in none of the formats": "if it holds records, save them in one of these formats",
    "is XML, but neither": "if it holds records, export them as FHIR or C-CDA",
    "is JSON without a resource": "if it holds records, add the resourceType of each",
    "holds HL7 version 2": "export the records as FHIR or C-CDA",
    "is empty": "export it again, or leave it out",
    "is an empty archive": "pack it again, or leave it out",
    "is longer than": _WITHOUT_ATTACHMENTS,
    "holds a piece of more than": _WITHOUT_ATTACHMENTS,
    "cannot be read": "check that the file is complete, readable and not encrypted",
    "cannot be unpacked": "get the file again, or pack it again",
    "ends too early": "get the file again: its end is missing",
    "grows to more than": "unpack it, if you trust its source, and import its files",
}
_CORRECTION = "correct the file, and import it again"


class UnreadInput(Exception):
    """An input that is not read to its end; str() is the reason, with the remedy if given."""

    state = "rejected"

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason, remedy)

    def __str__(self) -> str:
        return ": ".join(filter(None, self.args))

    @property
    def reason(self) -> str:
        """Why it is not read."""
        return str(self.args[0])

    @property
    def remedy(self) -> str:
        """The remedy that was given, else the usual one."""
        usual = (remedy for start, remedy in _REMEDIES.items() if self.args[0].startswith(start))
        return self.args[1] or next(usual, _CORRECTION)


class SkippedInput(UnreadInput):
    """An input that holds no records."""

    state = "skipped"


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
