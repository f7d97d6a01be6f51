"""Whether an allergy is recorded as one that may kill, and whether anybody recorded that at all.

Anaphylaxis is severe by what the word means, and many record it without a severity; a list that
calls such an allergy "not severe" is read as if it were mild.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fhirapp.fhir import systems
from fhirapp.search.string import fold

Resource = Mapping[str, Any]

_ANAPHYLAXIS = (systems.SNOMED_CT, "39579001")
# As English, German, French, Spanish, Italian and Swedish begin it; anaphylactoid is another thing.
_WORD = re.compile(r"\bana(?:ph|f)[iy]la(?!c?toid)")
_DENIED = re.compile(r"\b(?:no|not|non|without|never|denie[sd])\b")
_LONGEST = 300


def is_severe(resource: Resource) -> bool:
    """Say whether it is recorded as severe, as anaphylaxis, or with high criticality."""
    if resource.get("criticality") == "high" or is_anaphylactic(resource):
        return True
    return any(one.get("severity") == "severe" for one in resource.get("reaction", ()))


def is_anaphylactic(resource: Resource) -> bool:
    """Say whether a reaction's manifestation is anaphylaxis."""
    return any(
        _is_anaphylaxis(manifestation)
        for reaction in resource.get("reaction", ())
        for manifestation in reaction.get("manifestation", ())
    )


def is_severity_told(resource: Resource) -> bool:
    """Say whether anybody recorded how severe it is, or how dangerous."""
    if is_severe(resource) or resource.get("criticality") == "low":
        return True
    return any(one.get("severity") for one in resource.get("reaction", ()))


def sentence(holding: int, *, severe: int, unsaid: int) -> str:
    """Return how many of those that may hold are severe, and of how many nobody recorded it."""
    one = holding == 1
    if severe:
        which = "it is" if one else "1 of them is" if severe == 1 else f"{severe} of them are"
    else:
        which = "it is not" if one else "none of them is"
    text = f"{which} recorded as severe, as anaphylaxis or with high criticality."
    if unsaid and one:
        return f"{text} Nobody recorded how severe it is."
    if unsaid:
        they_are = "it is" if unsaid == 1 else "they are"
        return f"{text} For {unsaid} of them nobody recorded how severe {they_are}."
    return text


def _is_anaphylaxis(manifestation: Mapping[str, Any]) -> bool:
    codings = manifestation.get("coding", ())
    if any((one.get("system"), one.get("code")) == _ANAPHYLAXIS for one in codings):
        return True
    texts = [manifestation.get("text"), *(one.get("display") for one in codings)]
    said = [fold(text[:_LONGEST]) for text in texts if text]
    return any(_WORD.search(one) and not _DENIED.search(one) for one in said)
