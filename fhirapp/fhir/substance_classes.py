"""Built-in classes of substances, which searches name like value sets.

A class has only substances whose codes this server knows (concepts.py): that a
substance is in none says nothing, and neither class nor hint says that patients who react to one
react to another. Each names the source of its members.

Codes and names of RxNorm: courtesy of the U.S. National Library of Medicine, in the public domain.
Those of SNOMED CT: copyright of SNOMED International; who uses them needs its licence, which costs
nothing in its member countries (https://www.snomed.org/get-snomed). The classes themselves are
fhirapp's, under its licence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fhirapp.fhir.terminology import SNOMED_CT
from fhirapp.fhir.words import worded

RXNORM = "http://www.nlm.nih.gov/research/umls/rxnorm"
# A class has the address of a value set: this and its name.
URL = "urn:fhirapp:substance-class:"
_FDA_LABELS = "class as in the drugs' FDA labels (established pharmacologic class)"
_FDA_FOOD = "major food allergens as the FDA names their kinds (21 U.S.C. 321(qq))"


class SubstanceClass(NamedTuple):
    """A class: its title, where its members are from, and their names by system and code."""

    title: str
    source: str
    codes: Mapping[tuple[str, str], str]


def _class(title: str, source: str, **codes: Mapping[str, str]) -> SubstanceClass:
    """Return a class of codes of rxnorm and snomed."""
    systems = {"snomed": SNOMED_CT, "rxnorm": RXNORM}
    listed = {
        (address, code): display
        for system, address in systems.items()
        for code, display in codes.get(system, {}).items()
    }
    return SubstanceClass(title, source, listed)


CLASSES: Mapping[str, SubstanceClass] = {
    "penicillins": _class(
        worded("Penicillins"),
        _FDA_LABELS,
        rxnorm={
            "723": worded("amoxicillin"),
            "733": worded("ampicillin"),
            "7980": worded("penicillin G"),
            "7984": worded("penicillin V"),
        },
        snomed={"764146007": worded("Penicillin"), "372687004": worded("Amoxicillin")},
    ),
    "cephalosporins": _class(
        worded("Cephalosporins"),
        _FDA_LABELS,
        rxnorm={
            "2176": worded("cefaclor"),
            "2180": worded("cefazolin"),
            "25037": worded("cefdinir"),
            "20481": worded("cefepime"),
            "25033": worded("cefixime"),
            "2189": worded("cefoxitin"),
            "2191": worded("ceftazidime"),
            "2193": worded("ceftriaxone"),
            "2194": worded("cefuroxime"),
            "2231": worded("cephalexin"),
        },
    ),
    "nsaids": _class(
        worded("Nonsteroidal anti-inflammatory drugs"),
        _FDA_LABELS,
        rxnorm={
            "1191": worded("aspirin"),
            "140587": worded("celecoxib"),
            "3355": worded("diclofenac"),
            "5640": worded("ibuprofen"),
            "7258": worded("naproxen"),
        },
    ),
    "sulfonamides": _class(
        worded("Sulfonamide antibacterials and sulfasalazine"),
        "FDA labels: sulfonamide antibacterials, and what is contraindicated after sulfonamides",
        rxnorm={
            "10171": worded("sulfadiazine"),
            "10831": worded("sulfamethoxazole / trimethoprim"),
            "9524": worded("sulfasalazine"),
        },
        snomed={"763875007": worded("Product containing sulfonamide")},
    ),
    "tree-nuts": _class(
        worded("Tree nuts"),
        _FDA_FOOD,
        snomed={
            "442571000124108": worded("Tree nut"),
            "256350002": worded("Almond"),
            "256351003": worded("Brazil nut"),
            "227493005": worded("Cashew nut"),
            "256353000": worded("Hazelnut"),
            "227501001": worded("Macadamia nut"),
            "260189007": worded("Pecan nut"),
            "227511008": worded("Pine nut"),
            "227512001": worded("Pistachio nut"),
            "256352005": worded("Walnut - nut"),
        },
    ),
    "shellfish": _class(
        worded("Shellfish"),
        f"{_FDA_FOOD}, crustaceans, and molluscs beside them",
        snomed={
            "735029006": worded("Shellfish"),
            "278840001": worded("Shrimp"),
            "227151004": worded("Prawns"),
            "736159005": worded("Crab"),
            "736162008": worded("Lobster"),
            "227150003": worded("Mussel"),
            "736031006": worded("Oyster"),
        },
    ),
    "latex": _class(
        worded("Latex"), "one code of SNOMED CT", snomed={"111088007": worded("Latex")}
    ),
}


# What names a class, and no substance in it.
_WHOLE = frozenset({"penicillin", "product containing sulfonamide", "tree nut", "shellfish"})


def same_class(substance: Mapping[str, Any]) -> list[str]:
    """Return each class of a CodeableConcept, and what else is in it: "Penicillins: ampicillin"."""
    codes = {(coding.get("system"), coding.get("code")) for coding in substance.get("coding", ())}
    lines = []
    for substance_class in CLASSES.values():
        if own := {name.lower() for code, name in substance_class.codes.items() if code in codes}:
            others = {name.lower(): name for name in substance_class.codes.values()}
            names = [worded(name) for plain, name in others.items() if plain not in own | _WHOLE]
            if names:
                lines.append(f"{worded(substance_class.title)}: {', '.join(names)}")
    return lines
