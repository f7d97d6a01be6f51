"""Runs a job as `python -m fhirapp.server.work` does, and dies at the second batch of its import.

Each batch has one record; the first is committed by then.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from fhirapp.features.imports import batches
from fhirapp.features.imports.importer import Import
from fhirapp.server.work import main

_publish = Import._publish_batch
_batches: list[Any] = []


def _publish_first(run: Import, batch: Any, snapshot: Any) -> None:
    _batches.append(batch)
    if len(_batches) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    _publish(run, batch, snapshot)


batches.MAX_RECORDS = 1
Import._publish_batch = _publish_first  # type: ignore[method-assign]

if __name__ == "__main__":
    main(*sys.argv[1:])
