"""How a process that imports collects garbage.

SQLAlchemy's statements are cycles, each with the thousand ids of a batch: seldom looked for, they
take half a megabyte for a thousand documents. Looked for while a batch is in the making, they cost
a twentieth of an import, with all that the start made a fifth.
"""

from __future__ import annotations

import gc


def collect_young() -> None:
    """Look for cycles from now on among what is made from now on, and hardly within a batch."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 2, 2)


def collect() -> None:
    """Free the cycles of the batch that ended, in a process that collects what is young."""
    if gc.get_freeze_count():
        gc.collect()
