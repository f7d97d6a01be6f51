"""The measured requests: the paths of each row of the table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from urllib.parse import urlsplit

from tests.bench.bare import Responses
from tests.bench.load import Request
from tests.bench.records import Size, allergy_codes, allergy_day, identity, ward
from tests.bench.servers import Server, send

ALLERGIES, DOCUMENTS = "AllergyIntolerance", "DocumentReference"
LABELS = {ALLERGIES: "allergies", DOCUMENTS: "documents"}
# The number of different resources and patients in a row, so that no cached page serves all.
_SPREAD = 300

READ = "read"
BY_PATIENT = "search by patient"
UNFILTERED = "search without parameters"
REVINCLUDE = "search by patient, _revinclude"
NOT_MODIFIED = "search by patient, 304"
COMMON = "_content of a common word"
COMMON_RANKED = f"{COMMON}, _sort=_score"
PAGE, DEEP_PAGE = 100, 500
FIRST_PAGE = f"page 1, _count={PAGE}"
# Public and the same for every client.
PUBLIC = {
    "CapabilityStatement": ["/fhir/metadata"],
    "SMART configuration": ["/fhir/.well-known/smart-configuration"],
    "JSON Web Key Set": ["/oauth/jwks.json"],
}


def label(type_name: str, query: str) -> str:
    """Return the name of a row."""
    return f"{LABELS[type_name]}: {query}"


def by_patient(type_name: str, size: Size) -> list[str]:
    """Return searches by patient, each for another patient."""
    return [
        f"/fhir/{type_name}?patient={identity('Patient', number)}" for number in _patients(size)
    ]


def queries(size: Size, deep_pages: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the paths of each row; deep_pages has the path of a page far back, by type."""
    rows: dict[str, list[str]] = {}
    for type_name, count in counts(size).items():
        numbers = Random(1).sample(range(count), min(_SPREAD, count))
        searches = by_patient(type_name, size)
        rows[label(type_name, READ)] = [
            f"/fhir/{type_name}/{identity(type_name, number)}" for number in numbers
        ]
        rows[label(type_name, BY_PATIENT)] = searches
        if type_name == ALLERGIES:
            rows[label(type_name, REVINCLUDE)] = [
                f"{path}&_revinclude=Provenance:target" for path in searches
            ]
        rows[label(type_name, UNFILTERED)] = [f"/fhir/{type_name}"]
        if type_name in deep_pages:
            rows[label(type_name, FIRST_PAGE)] = [f"/fhir/{type_name}?_count={PAGE}"]
            rows[label(type_name, deep_page(size, type_name))] = [deep_pages[type_name]]
    return rows


def counts(size: Size) -> dict[str, int]:
    """Return the number of resources by type."""
    return {ALLERGIES: size.allergies, DOCUMENTS: size.documents}


def deep_page_number(size: Size, type_name: str) -> int:
    """Return the number of the page far back: the last full page if there are fewer."""
    return max(1, min(DEEP_PAGE, counts(size)[type_name] // PAGE))


def deep_page(size: Size, type_name: str) -> str:
    """Return the name of the page far back."""
    return f"page {deep_page_number(size, type_name)}"


def page_path(server: Server, token: str, type_name: str, number: int) -> str:
    """Return the path of page `number` of all resources of a type."""
    path = f"/fhir/{type_name}?_count={PAGE}"
    for _ in range(number - 1):
        links = json.loads(send(server.port, path, token).body)["link"]
        url = urlsplit(next(link["url"] for link in links if link["relation"] == "next"))
        path = f"{url.path}?{url.query}"
    return path


def search_kinds(size: Size) -> dict[str, list[str]]:
    """Return the paths of the rows that are compared with a search by patient.

    Each finds as many matches as that search, or requests a page of as many.
    """
    allergies, documents = (f"/fhir/{name}" for name in LABELS)
    few, few_notes = (f"_count={count // size.patients}" for count in counts(size).values())
    searches, patients = by_patient(ALLERGIES, size), _patients(size)
    suffixes = {
        "search by patient, _sort=-date": "&_sort=-date",
        "search by patient, _total=accurate": "&_total=accurate",
        "search by patient, _include": "&_include=AllergyIntolerance:patient",
        NOT_MODIFIED: "",
    }
    return {
        label(ALLERGIES, "token"): [f"{allergies}?code={code}&{few}" for code in allergy_codes()],
        label(ALLERGIES, "date"): [f"{allergies}?date={allergy_day(who)}" for who in patients],
        label(ALLERGIES, "_sort=-date"): [f"{allergies}?_sort=-date&{few}"],
        **{
            label(ALLERGIES, name): [f"{path}{suffix}" for path in searches]
            for name, suffix in suffixes.items()
        },
        label(DOCUMENTS, "_content"): [f"{documents}?_content={ward(who)}" for who in patients],
        label(DOCUMENTS, COMMON): [f"{documents}?_content=wound&{few_notes}"],
        label(DOCUMENTS, COMMON_RANKED): [f"{documents}?_content=wound&_sort=_score&{few_notes}"],
    }


def requests(name: str, paths: list[str], responses: Responses) -> list[Request]:
    """Return the requests of a row, with the lengths of these responses."""
    found = []
    for path in paths:
        address, _, query = path.partition("?")
        _, headers, body = responses[address, query]
        # Waitress capitalizes header names.
        etag = dict(headers)["Etag"] if name.endswith(NOT_MODIFIED) else ""
        found.append(Request(path, len(body), etag))
    return found


def _patients(size: Size) -> list[int]:
    return Random(1).sample(range(size.patients), min(_SPREAD, size.patients))
