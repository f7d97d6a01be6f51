"""Keys that identify the substance of an allergy: codes and names that no other one shares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from fhirapp.clinical import assertion
from fhirapp.fhir.terminology import SNOMED_CT
from fhirapp.fhir.words import shortened
from fhirapp.search.string import fold

# Placeholder codes.
_PLACEHOLDER_CODE = re.compile(
    r"[0x]+|9{3,}|none|nk|no[ -]?code|oth|unc|uncoded|unspecified|free[ -]?text|text|local|custom"
)
# Codes of SNOMED CT that say of what kind an allergy is, or that it is to any substance.
_GENERAL_CODES = frozenset(
    {
        "106190000",  # Allergy
        "473011001",  # Allergic condition
        "609328004",  # Allergic disposition
        "419076005",  # Allergic reaction
        "281647001",  # Adverse reaction
        "282100009",  # Adverse reaction to substance
        "62014003",  # Adverse reaction caused by drug
        "420134006",  # Propensity to adverse reaction
        "418038007",  # Propensity to adverse reactions to substance
        "419511003",  # Propensity to adverse reactions to drug
        "418471000",  # Propensity to adverse reactions to food
        "419199007",  # Allergy to substance
        "416098002",  # Allergy to drug
        "414285001",  # Allergy to food
        "426232007",  # Environmental allergy
        "782197009",  # Intolerance to substance
        "59037007",  # Intolerance to drug
        "235719002",  # Intolerance to food
        "105590001",  # Substance
        "410942007",  # Drug or medicament
        "373873005",  # Pharmaceutical / biologic product
        "763158003",  # Medicinal product
        "255620007",  # Food
        "762766007",  # Edible substance
        "413477004",  # Allergen or pseudoallergen
        "261665006",  # Unknown
        "74964007",  # Other
    }
)
# Names that only say of what kind an allergy is, in English, German, French, Spanish, Italian and
# Swedish: "Allergy to substance", "Medikamentenallergie".
_KIND_WORDS = re.compile(
    # Atomic: a word that two languages share is read once.
    r"(?:(?>(?:(?:propensity|allergy|allergies|allergic|allergen|intolerances?|hypersensitivity"
    r"|sensitivity|adverse|reactions?|disposition|condition|to|by|caused|an?|the|of|or|and|any|all"
    r"|drugs?|medicaments?|foods?|edible|substances?|medications?|medicines?|medicinal|products?"
    r"|pharmaceutical|biologic|environment(?:al)?|miscellaneous|other|unknown|unspecified"
    r"|disorder|finding|substance|type|class)"
    r"|(?:allergien?|gegen|unvertraglichkeit(?:en)?|uberempfindlichkeit|medikamente?n?|arzneimitteln?"
    r"|nahrungsmitteln?|lebensmitteln?|substanz(?:en)?|stoffe?|sonstige|unbekannt"
    r"|(?:medikamenten|arzneimittel|nahrungsmittel|lebensmittel|umwelt)"
    r"(?:allergien?|unvertraglichkeit(?:en)?))"
    r"|(?:medicamenteuse|alimentaire|aux?|medicaments?|aliments?|inconnue?|autre)"
    r"|(?:alergias?|al|medicamentos?|farmacos?|alimentos?|alimentaria|sustancias?|intolerancias?"
    r"|desconocid[ao]|otr[ao]|los|las|del?)"
    r"|(?:allergia|allergie|ai|agli|farmac[oi]|aliment[oi]|alimentare|intolleranza|sostanz[ae])"
    r"|(?:allergi|mot|amnen?|overkanslighet"
    r"|(?:lakemedel|livsmedel)s?(?:allergi)?))\b)\W*)+"
)


def is_kind(name: str) -> bool:
    """Say whether a name only says of what kind an allergy is: "Allergy to substance"."""
    return len(name) <= assertion.LONGEST_NAME and _KIND_WORDS.fullmatch(fold(name)) is not None


def is_general(coding: Mapping[str, Any]) -> bool:
    """Say whether a code is shared by allergies to different substances."""
    code, name = fold(coding["code"]), coding.get("display") or ""
    if name and (is_kind(name) or assertion.is_placeholder(name)):
        return True
    if coding.get("system") == SNOMED_CT and code in _GENERAL_CODES:
        return True
    return (
        assertion.is_placeholder(code) or is_kind(code) or bool(_PLACEHOLDER_CODE.fullmatch(code))
    )


def keys(about: Mapping[str, Any]) -> frozenset[str]:
    """Return the codes and words of a substance: entries that share one are about the same.

    Codes and words that different substances share, such as "Drug allergy", are not among them.
    """
    codings = [coding for coding in about.get("coding", ()) if coding.get("code")]
    coded = {
        f"{coding.get('system', '')}|{coding['code']}"
        for coding in codings
        if coding.get("system") not in assertion.ABSENT_SYSTEMS
        and coding["code"] != assertion.SECTION["code"]
        and not is_general(coding)
    }
    texts = [about.get("text"), *(coding.get("display") for coding in codings)]
    return frozenset(coded | _named(texts))


def other_names(about: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of a substance that have no code, beside its own words.

    They may name a class: an entry with one of these words is about the same, but not two entries
    that both have it beside their own.
    """
    codings = about.get("coding", ())
    return _named(coding.get("display") for coding in codings if not coding.get("code"))


def _named(texts: Iterable[str | None]) -> frozenset[str]:
    """Return names for comparison, without those that name no substance."""
    names = (
        text for text in texts if text and not (assertion.is_placeholder(text) or is_kind(text))
    )
    return frozenset(map(assertion.plain_name, map(shortened, names))) - {""}
