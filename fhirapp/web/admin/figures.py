"""Figures that take a while to make, kept by each process: the longer it took, the longer."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

from flask import current_app

_EXTENSION = "fhirapp.figures"
# What is made faster is made anew each time.
_FAST_SECONDS = 0.25
# Of a process's time, at most one part in so many goes to the making; kept an hour at the most.
_PART = 200
_KEPT_SECONDS = 3600
Figure = TypeVar("Figure")


class _Kept:
    """One figure, and until when it serves."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.figure: Any = None
        self.until = 0.0


def kept(name: str, make: Callable[[], Figure]) -> Figure:
    """Return a figure, made now unless the one that was made before still serves."""
    known: dict[str, _Kept] = current_app.extensions.setdefault(_EXTENSION, {})
    one = known.setdefault(name, _Kept())
    # Whoever comes meanwhile waits for it, and does not make it too.
    with one.lock:
        began = time.monotonic()
        if began >= one.until:
            one.figure = make()
            took = time.monotonic() - began
            one.until = began + took
            if took > _FAST_SECONDS:
                one.until += min(_KEPT_SECONDS, took * _PART)
            else:
                one.until = 0.0
        figure: Figure = one.figure
        return figure
