"""A search that the home page of the demo shows with its answer: this server has just made it.

It is asked as the demo's backend client asks, in a token's scope, and so it is in the audit trail.
Asked once for each state of the records, and not for each visitor.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.auth.tokens import new_token, save_backend_token
from fhirapp.clinical.summary import entries_of
from fhirapp.features.demo.accounts import BACKEND
from fhirapp.features.explore import explanation
from fhirapp.features.explore.tables import names_of_patients
from fhirapp.web.internal_client import ask, kept_for_state
from fhirapp.web.texts import language

ADDRESS = "/fhir/AllergyIntolerance?patient=p1&criticality=high"
_SCOPE, _SECONDS = "system/*.rs", 60
# Matches that are shown; all are counted.
_MOST = 3


class AllergyHit(NamedTuple):
    """An allergy that matches: what it is to, whose it is, whether it is severe."""

    substance: str
    patient: str
    is_severe: bool


class LiveSearch(NamedTuple):
    """A search and its answer: how each parameter was read, and how many matches it left."""

    address: str
    hits: Sequence[AllergyHit]
    total: int
    milliseconds: int
    # The matches without any parameter, then those after each.
    all: int | None
    steps: Sequence[tuple[explanation.NarrowingStep, int | None]]
    ignored: Sequence[explanation.Note]


def live_search() -> LiveSearch | None:
    """Return the search as the records are now; None where it is refused, or the server busy."""
    return kept_for_state(("live", language()), _search, is_whole=lambda found: found is not None)


def _search() -> LiveSearch | None:
    token = _token()
    answer = ask(ADDRESS, token.secret, via="home")
    if answer.status != 200:
        return None
    content = answer.json()
    first, *others = explanation.narrowing(ADDRESS, token)
    before = [first.left, *(step.left for step in others)]
    return LiveSearch(
        address=ADDRESS,
        hits=_hits(content, token),
        total=content["total"],
        milliseconds=max(1, round(answer.seconds * 1000)),
        all=first.left,
        steps=[*zip(others, before, strict=False)],
        ignored=explanation.reading_of(explanation.issues_of(content)).ignored,
    )


def _hits(content: Any, token: OwnToken) -> Sequence[AllergyHit]:
    resources = [
        entry["resource"]
        for entry in content.get("entry", ())
        if entry.get("search", {}).get("mode") == "match"
    ][:_MOST]
    patients = {each["id"]: each["patient"]["reference"] for each in resources}
    ids = [reference.removeprefix("Patient/") for reference in dict.fromkeys(patients.values())]
    names = names_of_patients(ids, token.secret)
    return [
        AllergyHit(entry.name, names.get(patient, patient), entry.is_severe)
        for entry in entries_of(resources)
        if (patient := patients[entry.reference.removeprefix("AllergyIntolerance/")])
    ]


def _token() -> OwnToken:
    """Return a token of the demo's backend client for as long as it takes."""
    secret = new_token()
    row = {"access_token": secret, "scope": _SCOPE, "expires_in": _SECONDS}
    save_backend_token(row, BACKEND)
    return OwnToken(secret, _SCOPE, None, int(time.time()) + _SECONDS)
