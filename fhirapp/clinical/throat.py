"""Finds throat symptoms that count as severe."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fhirapp.clinical.denial import is_denied

# Itching, and products such as throat lozenges, do not count as severe.
_THROAT = re.compile(r"\bthroats?\b")
_THROAT_GRAVE = re.compile(
    r"\b(?:swell|swoll|tight|clos|clench|o?edem|constrict|obstruct|narrow|spasm|block|chok|lump"
    r"|breath|swallow|shut|thick|strangl|numb|full|seiz|asphyxi|suffocat|stridor|hoarse|dyspn|wheez"
    r"|compress)\w*"
)
# Words that make a mild throat severe, wherever the text has them.
_GRAVE_ANYWHERE = re.compile(
    r"\b(?:breath|swell|swoll|swallow|wheez|dyspn|stridor|chok|asphyxi|suffocat|intubat|ventilat"
    r"|tracheo|epinephrin|adrenalin|epi[\s-]?pen|collaps|faint|unconscious|syncop|hypotens|resuscit"
    r"|emergency)\w*"
)
_CANNOT_BREATHE = re.compile(
    r"(?:\b(?:not|unable to|cannot|stop(?:s|ped)?)|\b(?:ca|could|did|does|was|is)n['\u2019]?t)"
    r"\s+(?:(?:be )?able to\s+|\w+ly\s+)?(?:breathe|breathing|swallow|swallowing)\b"
    r"(?!\s+(?:the\s+)?(?:pills?|tablets?|capsules?)\b)"
)
_THROAT_PRODUCT = re.compile(
    r"[\s-]+(?:\w+[\s-]+)?(?:lozenges?|sprays?|cultures?|swabs?|drops?|pastilles?|cand(?:y|ies))\b"
)
_MILD_OF_THROAT = (
    r"(?:itch|scratch|sore|dry|tickl|irritat|cough|clear|pain|hurt|ach(?:e|ing)|infect|strep|burn"
    r"|mucus|discomfort|redness)\w*"
)
_MILD_BEFORE_THROAT = re.compile(rf"\b{_MILD_OF_THROAT}(?:[\s(-]+\w+){{0,3}}[\s(-]+$")
_MILD_AFTER_THROAT = re.compile(rf"[\s:(-]+(?:\w+[\s:(-]+){{0,3}}{_MILD_OF_THROAT}")
# In German, French, Spanish, Italian and Swedish a throat is severe only with what it does.
_THROAT_ABROAD = re.compile(
    r"\b(?:hals(?:es|en)?|rachens?|kehle|kehlkopf\w{0,2}|glott?i[sd]\w*|gorge|garganta|gola"
    r"|svalget|strupen|larynx|pharynx)\b"
)
_THROAT_GRAVE_ABROAD = re.compile(
    r"\b(?:\w*schwell|\w*schwoll|schwill|zuschwill|odem|oedem|œdem|edem|enge|zugeschn|verschl"
    r"|gonfl|serre|resserr|ferme|oppress|hinch|inflam|cierr|cerr|estrech|gonfi|chius|chiud|svull"
    r"|trang|constri|obstru)\w*"
)
_THROAT_COMPOUND = re.compile(
    r"\b(?:hals|rachen|kehlkopf|glottis|larynx|svalg|strup)(?:schwell|odem|enge|svull)\w*"
)
_DENIED_ABROAD = re.compile(
    r"\b(?:kein\w{0,2}|ohne|sans|pas d(?:e|')|aucune?|sin|senza|nessuna?|utan|inge[nt]|inga)"
    r"\s*(?:\w+\s+)?$"
)
# How far from a throat a word counts, within a sentence.
_BESIDE = 200
_SENTENCE = re.compile(r"[.;!?\n|/]")


def throats_in(folded: str) -> Iterator[tuple[int, int]]:
    """Yield where a folded text has a severe symptom of the throat, from start to end."""
    for match in _CANNOT_BREATHE.finditer(folded):
        yield match.span()
    for match in _THROAT.finditer(folded):
        start, end = match.span()
        if _THROAT_PRODUCT.match(folded, end):
            continue
        is_mild = _MILD_BEFORE_THROAT.search(
            folded, max(0, start - 80), start
        ) or _MILD_AFTER_THROAT.match(folded, end)
        if (
            not is_mild
            or _has(folded, *_sentence_around(folded, start, end), _THROAT_GRAVE)
            or _has(folded, 0, len(folded), _GRAVE_ANYWHERE)
        ):
            yield start, end
    for match in _THROAT_ABROAD.finditer(folded):
        if _has(folded, *_sentence_around(folded, *match.span()), _THROAT_GRAVE_ABROAD):
            yield match.span()
    for match in _THROAT_COMPOUND.finditer(folded):
        if not _DENIED_ABROAD.search(folded, 0, match.start()):
            yield match.span()


def _sentence_around(folded: str, start: int, end: int) -> tuple[int, int]:
    """Return where the sentence around a passage begins and ends."""
    first, last = max(0, start - _BESIDE), min(len(folded), end + _BESIDE)
    begin = max((match.end() for match in _SENTENCE.finditer(folded, first, start)), default=first)
    after = _SENTENCE.search(folded, end, last)
    return begin, after.start() if after else last


def _has(folded: str, begin: int, stop: int, words: re.Pattern[str]) -> bool:
    """Say whether a part of a text has one of these words, and does not deny it."""
    return any(
        not (
            is_denied(folded, match.start(), match.end())
            or _DENIED_ABROAD.search(folded, begin, match.start())
        )
        for match in words.finditer(folded, begin, stop)
    )
