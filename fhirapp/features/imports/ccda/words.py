"""Words that are no codes: headings, names of columns, remarks on the record, and statuses.

A text is a heading only if all of its words are ones of headings: in English, German, French,
Spanish, Italian, Portuguese and Dutch. Of statuses only whole phrases are read: "Aktiv", "still
active", "no longer active", but not "active against staphylococci". words.toml has the words.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from fhirapp.clinical.assertion import denies
from fhirapp.clinical.severity import described_severely
from fhirapp.search.string import fold

# Words for allergies, as they end; in German and Dutch they end longer words too.
_ENDS = (
    r"(?:allerg(?:y|ies|ie|ien|ia|ias|ieen|ic|ique|iques|iche|ische|en|ens|ene|enes|eni)"
    r"|alerg(?:ia|ias|eno|enos|ica|icas|enio|enios)"
    r"|intoll?eran(?:ces?|tien|ties?|tie|ze|za|cias?)|unvertraglichkeit(?:en)?"
    r"|uberempfindlichkeit(?:en)?|(?:hyper|iper|hiper)sensi\w+|sensitivit(?:y|ies)"
    r"|sensibilites?|overgevoelighe\w+|nebenwirkung(?:en)?|bijwerking(?:en)?)"
)
_MENTIONED = re.compile(
    r"\w*(?:allerg|alerg|intoll?eran|unvertraglich|uberempfindlich|hypersensi|overgevoelig)\w*"
)
# "Penicillinallergie" is an allergy, "Arzneimittelallergien" is a title.
_ALLERGIES = re.compile(
    r"(?:(?:arzneimittel|medikamenten?|nahrungsmittel|lebensmittel|umwelt|geneesmiddel(?:en)?|medicatie"
    rf"|medicijn|voedsel|voedings)?{_ENDS})"
)
_ADVERSE = re.compile(r"advers\w{0,2}|avvers[aei]|indesirables?|unerwunschte")
# "Allergy medication" is about what is taken for it.
_FOR_ALLERGIES = re.compile(
    r"\ballergy (?:medic\w+|drugs?|treatments?)\b|\b(?:anti\w*allerg\w*|antialerg\w*)"
)
_LISTS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))
_HEADINGS: Mapping[str, str] = _LISTS["headings"]
_STATUS_WORDS: Mapping[str, list[str]] = _LISTS["status_words"]
_WORDS = frozenset(word for words in _HEADINGS.values() for word in words.split())
_KINDS, _BETWEEN = (frozenset(_HEADINGS[name].split()) for name in ("of_what", "between"))
_KIND_OF_ALLERGY = re.compile(r"\w*al+ergi(?:es?|as?|en|een)")
_WORD = re.compile(r"[^\W\d_]+")
# Longer texts are no status, but about something else.
_SHORT = 100
# Who has written or read it: "reviewed on 3 May 2020 by Nora Quill, RN".
_BY = re.compile(
    r"\b((?i:reviewed|recorded|documented|verified|updated|modified|reconciled|entered|signed"
    r"|confirmed)\b[\W\d]*(?:(?i:on|at)\b[\W\d]*(?:[A-Za-z]{3,9}\b[\W\d]*)?)?(?i:by))\b"
    r"(?:[\s,.]+[A-Z][\w.'-]*){1,6}"
)
# What one of the largest sources of documents has above its list.
_NOTICES = re.compile(
    r"this section includes allergies on record with va for the patient"
    r"|the data comes from all va treatment facilities"
    r"|it does not list allergies that were removed or entered in error"
    r"|some allergies may be reported in the immunization section"
)
_SENTENCE = re.compile(r"[.!?](?:\s|$)")
# Behind these a heading says more than what is below it.
_APART = re.compile(r":|\s[-\N{EN DASH}\N{EM DASH}]\s")
_COMPOUND = re.compile(r"\w{3,}allergien?")
_TO = re.compile(r"\b(?:allerg|alerg)\w* (?:to|gegen|auf|a|à|al|aux?|contra|voor)\b")


def is_heading(text: str) -> bool:
    """Say whether a text only has words of headings, of columns, and of remarks on the record."""
    # Short ones come again, and are remembered.
    is_short = len(text) <= _SHORT
    return _has_headings(text) if is_short else _has_headings.__wrapped__(text)


@lru_cache(maxsize=1_000)
def _has_headings(text: str) -> bool:
    if described_severely(text):
        return False
    text = _BY.sub(r"\1", text)
    return all(_is_heading(sentence) for sentence in _SENTENCE.split(text))


def _is_heading(sentence: str) -> bool:
    folded = fold(sentence)
    return _NOTICES.fullmatch(folded.strip()) is not None or all(
        map(_is_heading_word, _WORD.findall(folded))
    )


def _is_heading_word(word: str) -> bool:
    return word in _WORDS or bool(_ALLERGIES.fullmatch(word) or _ADVERSE.fullmatch(word))


def names_kind(text: str) -> bool:
    """Whether a text only names a kind of substance: "Medications", "Food allergies"."""
    words = [word for word in _WORD.findall(fold(text)) if word not in _BETWEEN]
    return bool(words) and all(word in _KINDS or _KIND_OF_ALLERGY.fullmatch(word) for word in words)


def says_more(title: str) -> bool:
    """Say whether a title states something: "Allergies: latex", "Allergic to latex".

    What it is called in a language that is not known here is a title.
    """
    if is_heading(title) or is_title_of_allergies(title):
        return False
    folded = fold(title)
    parts = [part for part in _APART.split(title) if any(map(str.isalnum, part))]
    return bool(
        len(parts) > 1
        or described_severely(title)
        or denies(title)
        or _TO.search(folded)
        or any(map(_COMPOUND.fullmatch, _WORD.findall(folded)))
    )


def mentions_allergies(title: str) -> bool:
    """Say whether a title has a word for allergies."""
    return any(map(_MENTIONED.fullmatch, _WORD.findall(fold(title))))


def is_title_of_allergies(title: str) -> bool:
    """Say whether a title is that of allergies and of nothing else: "Allergies to drugs"."""
    folded = fold(title)
    words = _WORD.findall(folded)
    is_named = any(map(_ALLERGIES.fullmatch, words)) or (
        any(map(_ADVERSE.fullmatch, words)) and len(words) > 1
    )
    return (
        is_named
        and not _FOR_ALLERGIES.search(folded)
        and not described_severely(title)
        and all(word == "to" or _is_heading_word(word) for word in words)
    )


def begins_as_title_of_allergies(title: str) -> bool:
    """Say whether a title, or what is before its colon, is that of allergies."""
    return is_title_of_allergies(title) or is_title_of_allergies(_APART.split(title)[0])


# Statuses.

_STATUS_WORD = re.compile(r"\w+")
_PARTS = re.compile(r"[,;|()/\[\]]|\s[-\u2013\u2014]\s|\.(?:\s|$)")


def _words(text: str) -> list[str]:
    return _STATUS_WORD.findall(fold(text))


def _each_word(name: str) -> frozenset[str]:
    return frozenset(word for phrase in _STATUS_WORDS[name] for word in _words(phrase))


_STATUSES: Mapping[str, str] = {
    " ".join(_words(phrase)): status
    for status in ("active", "inactive", "resolved")
    for phrase in _STATUS_WORDS[status]
}
_NOT, _LASTING, _BESIDE, _HEADS, _NOW, _SILENT = map(
    _each_word, ("not", "lasting", "beside", "heads", "now", "silent")
)


def status_named(text: str) -> str:
    """Return the status that a whole text names: active, inactive or resolved; else "".

    A question counts only where it makes the allergy graver: "Active?", not "Resolved?".
    """
    return _status_named(text) if len(text) <= _SHORT else ""


@lru_cache(maxsize=1_000)
def _status_named(text: str) -> str:
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
    for part in _PARTS.split(text):
        status = status_named(part) or status_named(part.rpartition(":")[2])
        if status and not (is_doubtful and status != "active"):
            yield status


def _is_question(text: str) -> bool:
    return "?" in fold(text)


def is_silent(text: str) -> bool:
    """Say whether a status is that of a record, such as "completed": it says nothing of the end."""
    return len(text) <= _SHORT and _SILENT.issuperset(_words(text))
