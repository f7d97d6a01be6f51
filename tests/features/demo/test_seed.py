"""seed.sql: loaded whole or not at all; every case that one would look for occurs in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.features.demo.seed import InvalidSeed, load_seed, seed_path
from fhirapp.search.values import values_at
from fhirapp.store.write import IndexBatch, Rendering, documents_of, render
from tests.support.contract import TYPES, versions_held
from tests.support.reindexing import contents
from tests.support.shell import fhirapp

RENDERING = Rendering(inline_max=32_768, empty_content="omit")
NOW = "2026-01-01T00:00:00.000+00:00"
BOTH = ["AllergyIntolerance", "DocumentReference"]
SNOMED = "http://snomed.info/sct"
TERMINOLOGY = "http://terminology.hl7.org/CodeSystem"
CLINICAL = f"{TERMINOLOGY}/allergyintolerance-clinical"


@pytest.fixture(scope="module")
def held(app: Flask) -> dict[str, dict[str, list[dict[str, Any] | None]]]:
    """Every version of the seed, by type and id."""
    return versions_held(app)


@pytest.fixture(scope="module")
def live(held: Any) -> dict[str, list[dict[str, Any]]]:
    """Every version of the seed that is no deletion, by type."""
    return {
        name: [resource for versions in resources.values() for resource in versions if resource]
        for name, resources in held.items()
    }


@pytest.fixture(scope="module")
def empty(make_app: Any) -> Flask:
    """An app without data; a seed that is refused leaves it so."""
    return make_app(seed=False)


@pytest.mark.parametrize(
    "definition", [definition for definition in TYPES if definition.values[0].stores_body]
)
def test_stored_bodies_are_rendered_from_their_rows(app, definition):
    with app.app_context(), db.engine.connect() as connection:
        table = definition.table
        found = connection.execute(select(table).where(~table.c.deleted)).mappings()
        rows = [dict(row) for row in found]
        documents = documents_of(connection, RENDERING, rows)
        assert rows
        for row in rows:
            stored = row["body"]
            render(definition, row, RENDERING, documents, IndexBatch(definition))
            assert row["body"] == stored


@pytest.mark.campaign
def test_seed_is_the_same_whenever_it_is_loaded(make_app):
    first, second = make_app(), make_app(seed=False)
    with second.app_context():
        load_seed(seed_path(), types(), RENDERING, "2027-05-06T07:08:09.000+00:00")
    assert contents(first) == contents(second)


def test_seed_holds_only_inserts():
    text = seed_path().read_text(encoding="utf-8")
    bare = re.sub(r"'(?:[^']|'')*'|--[^\n]*", "", text)
    statements = [statement.strip() for statement in bare.split(";")]
    assert statements.pop() == ""
    assert len(statements) > 20
    assert [statement for statement in statements if not statement.startswith("INSERT INTO ")] == []


FINE = """INSERT INTO organization (id, version_id, last_updated, name)
VALUES ('org', 1, '2024-01-01T00:00:00.000+00:00', 'Fine');
"""


def insert(table: str, **columns: str) -> str:
    """Return the INSERT of a row whose id is `bad`."""
    row = {"id": "bad", "version_id": "1", "last_updated": NOW, **columns}
    values = ", ".join(f"'{value}'" for value in row.values())
    return f"INSERT INTO {table} ({', '.join(row)}) VALUES ({values});"


PATIENT = '{"reference": "Patient/p1"}'


def status(system: str, code: str) -> str:
    """Return a status as a row holds it."""
    return f'{{"coding": [{{"system": "{system}", "code": "{code}"}}]}}'


# Each rule is tested with the schema of its type; these are one of each kind.
FAULTS: list[tuple[str, dict[str, str], str]] = [
    ("allergy_intolerance", {}, "AllergyIntolerance.patient: is required"),
    ("document_reference", {}, "DocumentReference.status: is required"),
    (
        "allergy_intolerance",
        {"patient": PATIENT, "reaction": '[{"severity": "mild"}]'},
        "AllergyIntolerance.reaction[0].manifestation: is required",
    ),
    (
        "allergy_intolerance",
        {"patient": PATIENT, "clinical_status": status(CLINICAL, "gone")},
        (
            "AllergyIntolerance.clinicalStatus.coding: "
            f"must have a coding of {CLINICAL}: active, inactive, resolved"
        ),
    ),
    (
        "organization",
        {"extra": '{"nmae": "x"}'},
        "Organization.nmae: is not an element of FHIR R4 here",
    ),
]


@pytest.mark.parametrize(("table", "columns", "fault"), FAULTS)
def test_row_that_breaks_fhir_is_refused_and_nothing_is_stored(
    empty, tmp_path, table, columns, fault
):
    message = refusal(empty, tmp_path, FINE + insert(table, **columns))
    name = fault.partition(".")[0]
    assert message == f"small.sql: {name}/bad, version 1: {fault}"


def test_invalid_sql_is_refused_and_nothing_is_stored(empty, tmp_path):
    for sql, reason in (
        ("INSRT INTO organization", 'near "INSRT": syntax error'),
        (
            "INSERT INTO organization (id, nme) VALUES ('x', 'y');",
            "table organization has no column named nme",
        ),
        (FINE, "UNIQUE constraint failed: organization.id, organization.version_id"),
    ):
        message = refusal(empty, tmp_path, FINE + sql)
        assert message == f"The seed {tmp_path / 'small.sql'} is not SQL that SQLite runs: {reason}"


def test_missing_seed_is_refused(empty, tmp_path):
    with empty.app_context(), pytest.raises(InvalidSeed, match="cannot be read"):
        load_seed(tmp_path / "none.sql", types(), RENDERING, NOW)


def refusal(app: Flask, folder: Path, sql: str) -> str:
    """Return why a seed is refused, once nothing of it is in the database."""
    path = folder / "small.sql"
    path.write_text(sql, encoding="utf-8")
    before = contents(app)
    with app.app_context(), pytest.raises(InvalidSeed) as refused:
        load_seed(path, types(), RENDERING, NOW)
    assert contents(app) == before
    return str(refused.value)


CASES = (
    f"AllergyIntolerance?code={SNOMED}|409137002&criticality=unable-to-assess",
    f"AllergyIntolerance?code={TERMINOLOGY}/v3-NullFlavor|NI",
    f"AllergyIntolerance?manifestation={SNOMED}|261665006",
    f"AllergyIntolerance?code={TERMINOLOGY}/data-absent-reason|unknown",
    "AllergyIntolerance?clinical-status=active",
    "AllergyIntolerance?clinical-status=inactive",
    "AllergyIntolerance?clinical-status=resolved",
    "AllergyIntolerance?verification-status=refuted",
    "AllergyIntolerance?verification-status=entered-in-error",
    "AllergyIntolerance?criticality=high",
    "AllergyIntolerance?criticality=low",
    "DocumentReference?status=current",
    "DocumentReference?status=superseded",
    "DocumentReference?status=entered-in-error",
    "DocumentReference?contenttype=application/pdf",
)


def test_seed_has_each_clinical_case(fhir):
    assert [query for query in CASES if not fhir.read(query)["total"]] == []


@pytest.mark.parametrize("name", BOTH)
def test_seed_has_resources_with_three_versions_and_deleted_ones(held, name):
    histories = held[name].values()
    assert any(len(versions) == 3 and versions[-1] for versions in histories)
    assert any(versions[-1] is None for versions in histories)


def test_references_of_the_seed_resolve(held, live):
    there = {f"{name}/{row_id}" for name, resources in held.items() for row_id in resources}
    for resources in live.values():
        for resource in resources:
            contained = {f"#{inner['id']}" for inner in resource.get("contained", ())}
            leading = set(references(resource))
            leading |= set(values_at(resource, "content.attachment.url"))
            assert leading <= there | contained, resource["id"]


def references(value: Any) -> Iterator[str]:
    """Yield every Reference.reference below a value."""
    if isinstance(value, dict):
        if isinstance(value.get("reference"), str):
            yield value["reference"]
        for below in value.values():
            yield from references(below)
    elif isinstance(value, list):
        for below in value:
            yield from references(below)


@pytest.mark.process
def test_one_of_several_first_starts_loads_the_seed(tmp_path):
    with ThreadPoolExecutor(4) as threads:
        upgrade = partial(fhirapp, tmp_path, "db", "upgrade", "--demo")
        starts = [*threads.map(lambda _number: upgrade(), range(4))]
    assert [start.returncode for start in starts] == [0] * 4, starts
    output = "".join(start.stdout + start.stderr for start in starts)
    assert output.count("The demo database was filled") == 1
