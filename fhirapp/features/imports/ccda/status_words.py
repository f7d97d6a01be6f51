"""The clinical status that words name, in the languages of the documents that come.

Only whole phrases are read: "Aktiv", "still active", "no longer active", but not "active against
staphylococci". What is not understood names no status.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from fhirapp.features.imports.ccda.values import MAPS
from fhirapp.search.string import fold

_WORD = re.compile(r"\w+")
_APART = re.compile(r"[,;|()/\[\]]|\s[-\u2013\u2014]\s|\.(?:\s|$)")
# Longer texts are about something else.
_LONGEST = 100


def _words(text: str) -> list[str]:
    return _WORD.findall(fold(text))


def _each_word(name: str) -> frozenset[str]:
    return frozenset(word for phrase in MAPS["status_words"][name] for word in _words(phrase))


_STATUSES: Mapping[str, str] = {
    " ".join(_words(phrase)): status
    for status in ("active", "inactive", "resolved")
    for phrase in MAPS["status_words"][status]
}
_NOT, _LASTING, _BESIDE, _HEADS, _NOW, _SILENT = map(
    _each_word, ("not", "lasting", "beside", "heads", "now", "silent")
)


def status_named(text: str) -> str:
    """Return the status that a whole text names: active, inactive or resolved; else "".

    A question counts only where it makes the allergy graver: "Active?", not "Resolved?".
    """
    if len(text) > _LONGEST:
        return ""
    words = _words(text)
    is_denied = bool(_NOT.intersection(words))
    # In "Current status: inactive" the first word is no status.
    dropped = _NOT | _HEADS | _NOW if _HEADS.intersection(words) else _NOT
    words = [word for word in words if word not in dropped]
    status = _status_of(words) or _status_of([word for word in words if word not in _BESIDE])
    if status and is_denied:
        # What is not chronic may still be active.
        if _LASTING.intersection(words):
            return ""
        status = "inactive" if status == "active" else "active"
    return "" if status != "active" and _is_question(text) else status


def _status_of(words: list[str]) -> str:
    """Return the status of a phrase, or of words that all name the same."""
    named = {_STATUSES.get(word, "") for word in words}
    return _STATUSES.get(" ".join(words), "") or (named.pop() if len(named) == 1 else "")


def statuses_in(text: str) -> Iterator[str]:
    """Yield the statuses that the parts of a text name: "Penicillin: hives, still active".

    Beside a question none but active is sure: "Resolved (?)", "hives?, still active".
    """
    is_doubtful = _is_question(text)
    for part in _APART.split(text):
        status = status_named(part) or status_named(part.rpartition(":")[2])
        if status and not (is_doubtful and status != "active"):
            yield status


def _is_question(text: str) -> bool:
    return "?" in fold(text)


def is_silent(text: str) -> bool:
    """Say whether a status is that of a record, such as "completed": it says nothing of the end."""
    return len(text) <= _LONGEST and _SILENT.issuperset(_words(text))
