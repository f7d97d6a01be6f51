"""Whatever is served is valid by FHIR R4 and by US Core 6.1.0 and 8.0.0.

Each version of each resource is read over HTTP, and each hit of each search page; what came as the
same JSON is asked once. tests/support/us_core.py asks, and test_us_core.py shows that it finds what
is wrong. On SQLite alone: that the bodies are those of the columns is shown on every database, in
tests/store/test_reindex.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from flask import Flask
from sqlalchemy import select

from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.features.imports.report import Report
from tests.support import r4
from tests.support.helpers import FHIR_JSON, every_page
from tests.support.importing import asking
from tests.support.us_core import PROFILES, UsCore, all_faults, packages_in


class Departure(NamedTuple):
    """Where service.md departs from the profiles: the faults, as Asked has them, and why."""

    faults: str
    section: str
    reason: str


DEPARTURES = (
    Departure(
        r"DocumentReference/\S+ \(claims nothing\) DocumentReference\.content: "
        r"(R4: Field required|US Core \S+: 0 of 1\.\.\*)",
        "service.md 2.2, decisions 2.12",
        "lab results may have no content: it is left out, and no profile is claimed",
    ),
)


class Asked(NamedTuple):
    """How many different resources of a type were asked, and all that is wrong with them."""

    resources: int
    faults: list[str]


@pytest.fixture(scope="module")
def packages(shared: Path) -> tuple[UsCore, ...]:
    """US Core 6.1.0 and 8.0.0."""
    return packages_in(shared)


@pytest.fixture(scope="module")
def seeded(app: Flask, packages: tuple[UsCore, ...]) -> dict[str, Asked]:
    """What is said of the seed, by type."""
    return ask(app, packages)


@pytest.fixture(scope="module")
def real(synthea_loaded: tuple[Flask, Report], packages: tuple[UsCore, ...]) -> dict[str, Asked]:
    """What is said of the records of ten synthetic patients, by type."""
    return ask(synthea_loaded[0], packages)


def ask(app: Flask, packages: tuple[UsCore, ...]) -> dict[str, Asked]:
    """Ask whatever an app serves."""
    asked: dict[str, Asked] = {}
    for resource in {json.dumps(resource): resource for resource in served(app)}.values():
        name = resource["resourceType"]
        resources, faults = asked.get(name, Asked(0, []))
        claims = "a profile" if "profile" in resource["meta"] else "nothing"
        of = f"{name}/{resource['id']} (claims {claims})"
        found = [f"{of} {fault}" for fault in all_faults(resource, packages)]
        asked[name] = Asked(resources + 1, faults + found)
    return asked


def served(app: Flask) -> Iterator[dict[str, Any]]:
    """Yield each version of each resource as a read answers it, and each hit of each search."""
    fhir = asking(app)
    with app.app_context():
        for name, definition in types().items():
            current = set()
            for row in rows(name):
                path = f"{name}/{row.id}"
                if row.is_current:
                    current.add(row.id)
                else:
                    path += f"/_history/{row.version_id}"
                answer = fhir.get(path, headers={"Accept": FHIR_JSON})
                assert answer.status_code == 200, path
                yield answer.get_json(force=True)
            if definition.searchable:
                hits = list(every_page(fhir, f"{name}?_count=500"))
                assert {resource["id"] for resource in hits} == current
                yield from hits


def rows(type_name: str) -> list[Any]:
    """Return the versions of a type that are no deletions."""
    table = types()[type_name].table
    return list(db.session.execute(select(table).where(~table.c.deleted)))


def undocumented(faults: list[str]) -> list[str]:
    """Return the faults that no departure explains."""
    return [
        fault
        for fault in faults
        if not any(re.fullmatch(departure.faults, fault) for departure in DEPARTURES)
    ]


@pytest.mark.parametrize("type_name", PROFILES)
def test_every_seeded_version_is_valid(app, seeded, type_name):
    assert undocumented(seeded[type_name].faults) == []
    with app.app_context():
        assert seeded[type_name].resources == len(rows(type_name))


@pytest.fixture(scope="module")
def saying_that_content_is_absent(make_app):
    return make_app(empty_content="dar")


def test_with_data_absent_reasons_no_document_departs(saying_that_content_is_absent, packages):
    """decisions 2.12: FHIRAPP_EMPTY_CONTENT=dar."""
    fhir = asking(saying_that_content_is_absent)
    documents = list(every_page(fhir, "DocumentReference?patient=p9,p10"))
    assert any("_url" in document["content"][0]["attachment"] for document in documents)
    assert [fault for document in documents for fault in all_faults(document, packages)] == []


# What the demo does not show, with the reason.
NOT_SHOWN = {
    "Encounter.reasonReference": "either this or reasonCode, as US Core says",
    "Encounter.reasonReference: Condition": "the same",
    "Organization.identifier:NAIC.system": "numbers of insurers: the demo has none",
    "Organization.identifier:NAIC.value": "the same",
    "Provenance.target: Resource": "any type",
}


def test_the_demo_shows_whatever_us_core_must_support(app, packages):
    """With every reference of a type that it must point to, as Inferno's kits ask."""
    fhir = asking(app)
    named = [name for name, own in PROFILES.items() if own]
    held = [resource for name in named for resource in every_page(fhir, f"{name}?_count=500")]
    missing: set[str] = set()
    asked = 0
    for package in packages:
        for url, type_name in package.profiles():
            claiming = [resource for resource in held if url in resource["meta"].get("profile", ())]
            if type_name in PROFILES:
                missing |= package.unsupported(url, claiming)
                asked += 1
    assert missing == NOT_SHOWN.keys()
    assert asked == 21


# Synthea's records have none.
NOT_OF_SYNTHEA = {"DiagnosticReport", "Group", "Provenance", "RelatedPerson", "ValueSet"}


@pytest.mark.campaign
@pytest.mark.parametrize("type_name", sorted(PROFILES.keys() - NOT_OF_SYNTHEA))
def test_every_real_resource_is_valid(real, synthea_loaded, type_name):
    assert real[type_name].faults == []
    imported = "DocumentReference" if type_name == "Binary" else type_name
    assert real[type_name].resources == synthea_loaded[1].changes[imported].total()


@pytest.mark.parametrize(
    "path",
    [
        "AllergyIntolerance?_revinclude=Provenance:target&nonsense=1",
        "DocumentReference?_count=2",
        "DocumentReference?patient=nobody",
        "DocumentReference?date=never",
        "AllergyIntolerance/al-p12-penicillin/_history",
        "metadata",
    ],
)
def test_bundles_and_outcomes_are_valid_r4(app, path):
    answer = asking(app).get(path).get_json(force=True)
    for entry in answer.get("entry", ()):
        if entry.get("search") != {"mode": "outcome"}:
            entry.pop("resource", None)
    assert list(r4.faults(answer)) == []
