"""How a process that imports collects garbage."""

from __future__ import annotations

import gc


def collect_young() -> None:
    """Look for garbage cycles among what is made from now on alone, and in all of that.

    What the start made stays: to look through it again and again costs an import a fifth. But
    SQLAlchemy's statements are cycles, each with the thousand ids of a batch: seldom looked for,
    they take half a megabyte for a thousand documents.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 3, 3)
