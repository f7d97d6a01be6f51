"""Range requests and the conditions that guard them. RFC 9110 §13.1, §14.

A client that fetches a file in parts puts them together blindly: a part of another version would
make a document that nobody wrote. So each condition that it sends is kept.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple

from flask import request
from werkzeug.http import http_date, parse_etags

from fhirapp.fhir.outcome import PreconditionFailed, RangeNotSatisfiable
from fhirapp.fhir.temporal import moment_of

# Below the least limit that Python can be told to put on int().
_NUMBER = "([0-9]{0,600})"
_RANGE = re.compile(f"{_NUMBER}-{_NUMBER}")


class Span(NamedTuple):
    """The bytes [start, stop)."""

    start: int
    stop: int

    def content_range(self, length: int) -> str:
        """Return the Content-Range of this part of so many bytes."""
        return f"bytes {self.start}-{self.stop - 1}/{length}"


def check_preconditions(version_id: int, last_modified: str) -> None:
    """Keep If-Match, or else If-Unmodified-Since. Raises PreconditionFailed. RFC 9110 §13.2.2.

    last_modified is an instant. If-Match may name our weak entity tag, as it does everywhere in
    FHIR (R4 http §3.1.0.5): it stands for a version, and a version never changes.
    """
    held = request.headers.get("If-Match", "").strip()
    if held:
        holds = parse_etags(held).contains_weak(str(version_id))
    else:
        since = _unmodified_since()
        holds = since is None or moment_of(last_modified).replace(microsecond=0) <= since
    if not holds:
        raise PreconditionFailed("The version that the request names is not the current one.")


def _unmodified_since() -> datetime | None:
    try:
        return request.if_unmodified_since
    except OverflowError:
        # RFC 9110 §13.1.4: what is no date is ignored.
        return None


def wanted_span(length: int, last_modified: str | None) -> Span | None:
    """Return the part of so many bytes that the request asks for; None where it gets the whole.

    last_modified is an instant, None where it does not tell the version from all others. Raises
    RangeNotSatisfiable.
    """
    wanted = request.headers.get("Range")
    # RFC 9110 §14.2: of GET only.
    if wanted is None or request.method != "GET" or not _if_range_holds(last_modified):
        return None
    return parse_range(wanted, length)


def _if_range_holds(last_modified: str | None) -> bool:
    """Say whether there is no If-Range, or one that names the current version. RFC 9110 §13.1.5.

    By date only: entity tags are compared strongly here, and service.md 9 makes ours weak.
    """
    held = request.headers.get("If-Range")
    if held is None:
        return True
    return last_modified is not None and held == http_date(moment_of(last_modified))


def parse_range(header: str, length: int) -> Span | None:
    """Return the span that a Range header names, None where it is ignored. RFC 9110 §14.1, §14.2.

    Ignored are other units, what cannot be read, several ranges, and any of nothing: the answer is
    the whole. Raises RangeNotSatisfiable. (Werkzeug's parser takes a suffix that is longer than the
    whole for unsatisfiable.)
    """
    unit, _, ranges = header.partition("=")
    asked = [one for part in ranges.split(",") if (one := part.strip(" \t"))]
    found = _RANGE.fullmatch(asked[0]) if len(asked) == 1 else None
    if unit.lower() != "bytes" or found is None or not length:
        return None
    first, last = (int(number) if number else None for number in found.groups())
    if first is None:
        if last is None:
            return None
        span = Span(max(length - last, 0), length)
    elif last is not None and last < first:
        return None
    else:
        span = Span(first, length if last is None else min(last + 1, length))
    if span.start >= span.stop:
        raise RangeNotSatisfiable(
            f"There are {length} bytes; ask for a range of those.",
            headers={"Content-Range": f"bytes */{length}"},
        )
    return span
