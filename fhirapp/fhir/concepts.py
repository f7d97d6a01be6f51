"""Names of substances, reactions and documents, and their codes: concepts.csv.

A wrong code can hurt a patient, so the file has only codes that have their names in these sources:
SNOMED CT: MyHealth@EU's value sets of allergens and reactions, HL7's US Core examples and Synthea.
RxNorm, by ingredient: CPIC's table of drugs, and Synthea.
LOINC: FHIR R4's value set c80-doc-typecodes.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fhirapp.fhir.terminology import LOINC, SNOMED_CT

_SYSTEMS = {
    "snomed ct": SNOMED_CT,
    "snomed": SNOMED_CT,
    "snomedct": SNOMED_CT,
    "sct": SNOMED_CT,
    "rxnorm": "http://www.nlm.nih.gov/research/umls/rxnorm",
    "unii": "http://fdasis.nlm.nih.gov",
    "cvx": "http://hl7.org/fhir/sid/cvx",
    "loinc": LOINC,
}


class Concept(NamedTuple):
    """A code of a system, and how it is displayed."""

    system: str
    code: str
    display: str

    def coding(self) -> dict[str, Any]:
        return self._asdict()


Concepts = Mapping[str, Concept]


def name_key(name: str) -> str:
    """Return a name for comparison, whatever its case, spaces and apostrophes."""
    return " ".join(name.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").casefold().split())


def system_of(name: str) -> str:
    """Return the address of a code system; a name that is not known here is returned as it is."""
    return _SYSTEMS.get(name_key(name), name)


def _concepts() -> dict[str, dict[str, Concept]]:
    """Return the concepts by kind, then by each of their names."""
    kinds: dict[str, dict[str, Concept]] = {}
    with Path(__file__).with_name("concepts.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            concept = Concept(system_of(row["system"]), row["code"], row["display"])
            names = (concept.display, *filter(None, row["also"].split("; ")))
            kinds.setdefault(row["kind"], {}).update({name_key(name): concept for name in names})
    return kinds


CONCEPTS: Mapping[str, Concepts] = _concepts()
