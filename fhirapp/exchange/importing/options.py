"""What may be chosen of an import."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# What may be put before every id: with it, most ids stay within 64 characters.
PREFIX = re.compile(r"[A-Za-z0-9.-]{0,20}")


@dataclass(frozen=True)
class Options:
    """How to import.

    source names where the records come from; delete_missing deletes what that source holds no
    more, force even where that is most of it. prefix is put before every id. bases are addresses
    of FHIR servers, each with its last slash, whose absolute references mean records here. who
    gave the command.
    """

    source: str = ""
    delete_missing: bool = False
    force: bool = False
    repair: bool = False
    prefix: str = ""
    bases: Sequence[str] = ()
    provenance: bool = True
    rejected: Path | None = None
    who: str = ""
