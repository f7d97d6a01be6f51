"""What is asked of a server: for each row of the table the addresses, and the answers' lengths."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from tests.bench.bare import Answers
from tests.bench.records import Size, identity

ALLERGIES, DOCUMENTS = "AllergyIntolerance", "DocumentReference"
LABELS = {ALLERGIES: "allergies", DOCUMENTS: "documents"}
# So many different resources and patients are asked for, lest one page in memory answers all.
_SPREAD = 300

READ = "read"
BY_PATIENT = "search by patient"
UNFILTERED = "search without parameters"
REVINCLUDE = "search by patient, _revinclude"
PAGE = 100
DEEP_PAGE = 500
FIRST_PAGE = f"page 1, _count={PAGE}"


def label(type_name: str, question: str) -> str:
    """Return a row's name."""
    return f"{LABELS[type_name]}: {question}"


def by_patient(type_name: str, size: Size) -> list[str]:
    """Return searches by patient, each of another patient, as far as there are so many."""
    numbers = Random(1).sample(range(size.patients), min(_SPREAD, size.patients))
    return [f"/fhir/{type_name}?patient={identity('Patient', number)}" for number in numbers]


def questions(size: Size, deep_pages: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the addresses behind each row; deep_pages has the one of a page far back, by type."""
    asked: dict[str, list[str]] = {}
    for type_name, count in counts(size).items():
        numbers = Random(1).sample(range(count), min(_SPREAD, count))
        patients = by_patient(type_name, size)
        asked[label(type_name, READ)] = [
            f"/fhir/{type_name}/{identity(type_name, number)}" for number in numbers
        ]
        asked[label(type_name, BY_PATIENT)] = patients
        if type_name == ALLERGIES:
            asked[label(type_name, REVINCLUDE)] = [
                f"{path}&_revinclude=Provenance:target" for path in patients
            ]
        asked[label(type_name, UNFILTERED)] = [f"/fhir/{type_name}"]
        if type_name in deep_pages:
            asked[label(type_name, FIRST_PAGE)] = [f"/fhir/{type_name}?_count={PAGE}"]
            asked[label(type_name, deep_page(size, type_name))] = [deep_pages[type_name]]
    return asked


def counts(size: Size) -> dict[str, int]:
    """Return how many resources there are, by type."""
    return {ALLERGIES: size.allergies, DOCUMENTS: size.documents}


def deep_page_number(size: Size, type_name: str) -> int:
    """Return the number of the page far back: of the last full one where there are fewer."""
    return max(1, min(DEEP_PAGE, counts(size)[type_name] // PAGE))


def deep_page(size: Size, type_name: str) -> str:
    """Return the name of the page far back."""
    return f"page {deep_page_number(size, type_name)}"


def lengths(paths: list[str], answers: Answers) -> Mapping[str, int]:
    """Return the length of the body that each path is answered with."""
    return {
        path: len(answers[name, query][2])
        for path in paths
        for name, _, query in [path.partition("?")]
    }
