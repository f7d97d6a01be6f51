"""How severe a clinical document says that an allergy or a reaction is: by codes and by words.

Sources: C-CDA R2.1, Severity Observation and Criticality Observation; HL7 C-CDA on FHIR 2.0.0,
CF-Severity and CF-Criticality; HL7 v3 SeverityObservation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from fhirapp.allergies.assertion import is_placeholder
from fhirapp.allergies.severity import GRADES, grade
from fhirapp.exchange.ccda.statements import observed
from fhirapp.exchange.ccda.texts import Texts, plain, unique
from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import extended, has_code, original
from fhirapp.search.string import fold

_SEVERITY, _CRITICALITY = "2.16.840.1.113883.10.20.22.4.8", "2.16.840.1.113883.10.20.22.4.145"
# FHIR has three; of what lies between two, and of fatal, the graver.
_SEVERITIES = {
    "255604002": "mild",
    "371923003": "moderate",
    "6736007": "moderate",
    "371924009": "severe",
    "24484000": "severe",
    "399166001": "severe",
    "442452003": "severe",
}
_CRITICALITIES = {"CRITH": "high", "CRITL": "low", "CRITU": "unable-to-assess"}
_BY_GRADE = {"severe": "high", "mild": "low"}


class Severity(NamedTuple):
    """A severity: R4's code, "" for what none can be found, and the source's own words."""

    code: str
    words: str = ""

    @property
    def rank(self) -> int:
        return GRADES.index(self.code) + 1 if self.code else 0

    def put_into(self, reaction: dict[str, Any]) -> None:
        """Set severity; words that say more than the code stand beside it."""
        if self.code:
            reaction["severity"] = self.code
        if self.words and fold(self.words) != self.code:
            reaction["_severity"] = extended(original(self.words))


NOT_GRADED = Severity("")


def severity_in(statements: list[Element], texts: Texts) -> Severity:
    """Return the gravest severity that is observed in statements."""
    found = observed(statements, _SEVERITY, "SEV")
    return gravest(_severity(one, texts) for one in found)


def severity_named(words: str) -> Severity:
    """Return the severity that a cell of the narrative holds."""
    return Severity(grade(words), words) if _says(words) else NOT_GRADED


def gravest(severities: Iterable[Severity]) -> Severity:
    """Return the gravest; of those without a code, which may be any, all words."""
    found = list(severities)
    worst = max(found, key=lambda one: one.rank, default=NOT_GRADED)
    unclear = [one.words for one in found if not one.code and one.words]
    if not unclear:
        return worst
    return Severity(worst.code, "; ".join(unique([worst.words, *unclear])))


def criticality_in(statements: list[Element], texts: Texts, cell: str) -> tuple[str, str]:
    """Return the gravest criticality, and the nullFlavor of one that is not known."""
    found, null_flavor = [_by_words(cell)], ""
    for observation in observed(statements, _CRITICALITY, "82606-5"):
        value = observation.first("value")
        if value is None:
            continue
        coded = [known for code, known in _CRITICALITIES.items() if has_code(value, code)]
        found += coded or [_by_words(" ".join(words_of(value, texts)))]
        null_flavor = null_flavor or value.null_flavor
    known = [one for one in ("high", "low", "unable-to-assess") if one in found]
    return (known[0] if known else ""), null_flavor


def _by_words(words: str) -> str:
    return _BY_GRADE.get(grade(words), "") if words else ""


def words_of(value: Element | None, texts: Texts) -> list[str]:
    """Return the words of a coded value: original text, display names, what stands in it.

    A local code counts as a word.
    """
    if value is None:
        return []
    found = []
    for one in (value, *value.all("translation")):
        found += [texts.of(one.first("originalText")), one.get("displayName")]
        if not one.get("codeSystem") and any(letter.isalpha() for letter in one.get("code")):
            found.append(one.get("code"))
    if not value.all("originalText"):
        found.append(plain(value))
    return unique(found)


def _severity(observation: Element, texts: Texts) -> Severity:
    value = observation.first("value")
    codes = [found for code, found in _SEVERITIES.items() if has_code(value, code)]
    words = [one for one in words_of(value, texts) if _says(one)]
    local = value.get("code") if value is not None else ""
    graded = [grade(one) for one in words]
    # A local code, such as H, is read as a word where no other word is there.
    graded += [grade(local)] if not codes and any(letter.isalpha() for letter in local) else []
    if not any((*codes, *graded)):
        text = texts.of(observation.first("text"))
        words += [text] if _says(text) else []
        graded += [grade(text)]
    if not codes and not words and any(letter.isalpha() for letter in local):
        words = [local]
    worst = gravest(Severity(one) for one in (*codes, *graded))
    return Severity(worst.code, "; ".join(unique(words)))


def _says(words: str) -> bool:
    return bool(words) and not is_placeholder(words)
