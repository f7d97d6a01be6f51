"""Where uploaded files lie while they are imported: under their own names, if those are harmless.

Tables name documents that lie beside them, and reports name files, so names must stay. A browser
sends whatever it likes as one.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from fhirapp.exchange.importing.inputs import SUFFIXES

# Files of an upload by their number, their names beside them, and where they are laid out.
NAME, LAID = ".name", "laid"
_DEEPEST, _LONGEST_PART, _LONGEST = 32, 200, 1_000
# Control characters, halves of characters, and what turns the rest of a line around.
_NEVER = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
_UNKNOWN = "\ufffd"
# A folder above, and what an import takes for standard input.
_NO_PARTS = ("..", "-")


def safe_name(name: str, number: int) -> PurePosixPath:
    """Return the relative path that a name means; where it might harm, one made of its number."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if (
        not parts
        or len(parts) > _DEEPEST
        or _NEVER.search(name)
        or any(part in _NO_PARTS or len(part.encode()) > _LONGEST_PART for part in parts)
        or len(name.encode()) > _LONGEST
    ):
        return numbered(name, number)
    return PurePosixPath(*parts)


def numbered(name: str, number: int) -> PurePosixPath:
    """Return a path made of a file's number, that ends as its name does where that is known."""
    end = _NEVER.sub("", name).lower()
    suffix = next((one for one in SUFFIXES if end.endswith(one)), "")
    return PurePosixPath(f"file-{number}{suffix}")


def lay_out(given: Path) -> tuple[list[Path], list[str]]:
    """Move uploaded files to where their names say, below the folder LAID.

    Return what to import, relative to that, and what is to be said of the other names.
    """
    laid, said = given / LAID, []
    laid.mkdir(mode=0o700, exist_ok=True)
    uploaded = sorted(int(one.name) for one in given.iterdir() if one.name.isdecimal())
    for number in uploaded:
        name = (given / f"{number}{NAME}").read_text(errors="replace").partition("\n")[2]
        place = _placed(given / str(number), laid, name, number)
        if str(place) != name.strip("/"):
            said.append(f"{_NEVER.sub(_UNKNOWN, name)} was taken as {place}.")
    found = sorted(Path(one.name) for one in laid.iterdir())
    records = [one for one in found if (laid / one).is_dir() or _is_record(one.name)]
    if not records:
        return found, said
    others = (one for one in found if one not in records)
    said += [f"{one} is read only where a table names it." for one in others]
    return records, said


def _placed(file: Path, laid: Path, name: str, number: int) -> PurePosixPath:
    for place in (safe_name(name, number), numbered(name, number)):
        target = laid / place
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            # Another file has the name of the folder.
            continue
        if not target.exists():
            file.rename(target)
            return place
    # Somebody gave another file the name that is made of this number.
    (laid / f"again-{number}").mkdir(mode=0o700)
    place = PurePosixPath(f"again-{number}", *numbered(name, number).parts)
    file.rename(laid / place)
    return place


def _is_record(name: str) -> bool:
    """Say whether a file's name is one that records have."""
    return name.lower().endswith(SUFFIXES)
