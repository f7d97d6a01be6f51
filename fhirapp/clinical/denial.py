"""Whether a text denies what it names: "no anaphylaxis", "anaphylaxis: ruled out"."""

from __future__ import annotations

import re

_CLAUSE = re.compile(r"[.;,:!?()\[\]\n/|]| - |\b(?:but|except|however|although|though|and|with)\b")
_DENIED_BEFORE = re.compile(
    r"\b(?:no|not|non|never|without|denie[sd]|denying|negative for)\b(?:[\s-]+\w+){0,4}[\s-]*$"
)
_DENIED_AFTER = re.compile(
    r"\s*(?:(?:was |were |is |has been )?(?:ruled out|excluded|denied)\b"
    r"|[:=-]\s*(?:no|none|n|negative|absent|denied)\b(?!\s+\w))"
)


def is_denied(folded: str, start: int, end: int) -> bool:
    """Say whether a folded text denies the passage from start to end."""
    before = _CLAUSE.split(folded[max(0, start - 200) : start])[-1]
    return bool(_DENIED_BEFORE.search(before) or _DENIED_AFTER.match(folded, end))
