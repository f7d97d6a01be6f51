"""What is asked of a server: for each row of the table the addresses, and what answers them."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from tests.bench.bare import Answers
from tests.bench.load import Question
from tests.bench.records import Size, allergy_codes, allergy_day, identity, ward

ALLERGIES, DOCUMENTS = "AllergyIntolerance", "DocumentReference"
LABELS = {ALLERGIES: "allergies", DOCUMENTS: "documents"}
# So many different resources and patients are asked for, lest one page in memory answers all.
_SPREAD = 300

READ = "read"
BY_PATIENT = "search by patient"
UNFILTERED = "search without parameters"
REVINCLUDE = "search by patient, _revinclude"
UNCHANGED = "search by patient, 304"
COMMON = "_content of a common word"
COMMON_RANKED = f"{COMMON}, _sort=_score"
PAGE = 100
DEEP_PAGE = 500
FIRST_PAGE = f"page 1, _count={PAGE}"
# What needs no token, and is the same for everybody.
PUBLIC = {
    "CapabilityStatement": ["/fhir/metadata"],
    "SMART configuration": ["/fhir/.well-known/smart-configuration"],
    "JSON Web Key Set": ["/oauth/jwks.json"],
}


def label(type_name: str, question: str) -> str:
    """Return a row's name."""
    return f"{LABELS[type_name]}: {question}"


def by_patient(type_name: str, size: Size) -> list[str]:
    """Return searches by patient, each of another patient, as far as there are so many."""
    return [
        f"/fhir/{type_name}?patient={identity('Patient', number)}" for number in _patients(size)
    ]


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


def kinds_of_search(size: Size) -> dict[str, list[str]]:
    """Return the addresses behind the rows that are held against a search by patient.

    Each of them finds as many as that one does, or asks for a page of as many.
    """
    allergies, documents = (f"/fhir/{name}" for name in LABELS)
    few, few_notes = (f"_count={count // size.patients}" for count in counts(size).values())
    by = by_patient(ALLERGIES, size)
    return {
        label(ALLERGIES, "token"): [f"{allergies}?code={code}&{few}" for code in allergy_codes()],
        label(ALLERGIES, "date"): [
            f"{allergies}?date={allergy_day(number)}" for number in _patients(size)
        ],
        label(ALLERGIES, "_sort=-date"): [f"{allergies}?_sort=-date&{few}"],
        label(ALLERGIES, "search by patient, _sort=-date"): [f"{path}&_sort=-date" for path in by],
        label(ALLERGIES, "search by patient, _total=accurate"): [
            f"{path}&_total=accurate" for path in by
        ],
        label(ALLERGIES, "search by patient, _include"): [
            f"{path}&_include=AllergyIntolerance:patient" for path in by
        ],
        label(ALLERGIES, UNCHANGED): by,
        label(DOCUMENTS, "_content"): [
            f"{documents}?_content={ward(number)}" for number in _patients(size)
        ],
        label(DOCUMENTS, COMMON): [f"{documents}?_content=wound&{few_notes}"],
        label(DOCUMENTS, COMMON_RANKED): [f"{documents}?_content=wound&_sort=_score&{few_notes}"],
    }


def asked(name: str, paths: list[str], answers: Answers) -> list[Question]:
    """Return what is asked for a row, with the lengths of these answers."""
    questions = []
    for path in paths:
        place, _, query = path.partition("?")
        _, headers, body = answers[place, query]
        # As waitress writes names of headers.
        etag = dict(headers)["Etag"] if name.endswith(UNCHANGED) else ""
        questions.append(Question(path, len(body), etag))
    return questions


def _patients(size: Size) -> list[int]:
    return Random(1).sample(range(size.patients), min(_SPREAD, size.patients))
