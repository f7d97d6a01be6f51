"""What a search costs the database: by its hits, and not by how many records there are.

The database's own plan of every SELECT is read, and SQLite counts what it does: the steps of its
virtual machine are the same each time. What may grow with the table is listed, with the reason.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from flask import Flask

from fhirapp.db import Reader, db, reader, writing
from fhirapp.definition import types
from fhirapp.search.date import PREFIXES
from fhirapp.search.fulltext import LATEST
from fhirapp.search.query import GATHERED_MOST
from fhirapp.store.prepare import prepare
from fhirapp.store.publish import Publisher
from fhirapp.store.write import Rendering
from tests.support import plenty
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import Fhir, ids, link, token_for
from tests.support.plenty import ALLERGY, DOCUMENT, FEW, OF_A_PATIENT, VALUES

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

KINDS = (ALLERGY, DOCUMENT)
# More than are gathered, so that what nearly all have is walked to in both.
SMALL, LARGE = 1_100, 4_400
# Steps are counted by tens; of a few hundred the number of levels of an index is seen.
STEP, SLACK = 10, 60
RATIO = 1.3

# What is tried of each kind of parameter: modifiers, or what stands before the value.
MODIFIERS = {
    "token": ("", ":not", ":text"),
    "reference": ("", ":identifier"),
    "string": ("", ":exact", ":contains"),
    "uri": ("", ":above", ":below"),
    "composite": ("",),
}
NEW = {
    ALLERGY: {"resourceType": ALLERGY, "id": "new", "patient": {"reference": "Patient/p1"}},
    DOCUMENT: {
        "resourceType": DOCUMENT,
        "id": "new",
        "status": "current",
        "content": [{"attachment": {"contentType": "text/plain", "data": "bm90ZQ=="}}],
    },
}
NOBODYS = {"date": "1950-01-01", "uri": "https://nobody.example/x", "composite": "signs$nobody"}
# In columns of the records themselves; tried below.
OWN = {"_id", "_lastUpdated", "patient", "subject"}


class Growth(NamedTuple):
    """Searches that may take longer where there are more records: so many steps for each."""

    query: str
    steps: int
    reason: str


GROWTHS = (
    Growth(r":not=", 25, "what nearly all have: to find a record without it looks at each"),
    Growth(r":not-in=", 70, "the same, and each choice of a system is looked at"),
    Growth(r"[?&][a-z-]+=ne", 15, "what nearly all have: to find another looks at each"),
    Growth(r"_lastUpdated=ne", 8, "the same"),
    Growth(r":missing=true", 25, "to find a record without a value looks at each"),
    Growth(r":text=", 45, "a word in the middle of a text: each text of the parameter is read"),
    Growth(r":contains=", 12, "the same"),
    Growth(r"_(text|content)=\w+(%2A|\*)&", 7, "the beginning of a word: all matches are listed"),
    Growth(r"patient\.(gender=female|.*=common)", 18, "up to 1,000 targets are listed first"),
    Growth(r"_tag=old&", 20, "more than are gathered, all of them old: each later one is passed"),
    Growth(
        r"[?&]_sort=-?(?!(patient|subject|_lastUpdated|_id)&)[a-z_-]+&",
        110,
        "what nearly all have: of equals the id decides, so they are sorted",
    ),
    Growth(r"\?_sort=-?status&", 140, "two parameters as one: every record is sorted"),
    Growth(r"\?_sort=[a-z]+,", 140, "two keys, nothing else asked: every record is sorted"),
)


def searches(kind: str) -> Iterator[str]:
    """Yield a query of each parameter with each modifier, for many, for ten and for nobody."""
    for parameter in types()[kind].params:
        name = parameter.name
        if parameter.sortable:
            yield f"_sort={name}"
            yield f"_sort=-{name}"
        if name in OWN:
            continue
        for value in (*VALUES[kind][name], NOBODYS.get(parameter.kind, "nobody")):
            yield from (f"{asked}={quote(one)}" for asked, one in _asked(parameter, value))
        if not name.startswith(("_text", "_content")):
            yield f"{name}:missing=true"
            yield f"{name}:missing=false"


def _asked(parameter: Any, value: str) -> Iterator[tuple[str, str]]:
    if parameter.kind == "date":
        yield from ((parameter.name, prefix + value) for prefix in ("", *PREFIXES))
    elif parameter.name in ("_text", "_content"):
        words = (value, f"{value} {value}", f'"{value} thing"', f"{value[:-1]}*")
        yield from ((parameter.name, word) for word in words)
    else:
        modifiers = ("", ":below") if parameter.name == "contenttype" else ()
        yield from (
            (parameter.name + modifier, value)
            for modifier in dict.fromkeys((*MODIFIERS[parameter.kind], *modifiers))
        )
        if parameter.kind == "token" and parameter.accepts("in") and value in plenty.CODES:
            of_set = f"urn:plenty:{value}"
            yield from ((f"{parameter.name}:{modifier}", of_set) for modifier in ("in", "not-in"))


OTHERS = (
    "",
    "_id=r00005",
    "_id=r00005,r00006,nobody",
    "_id:missing=true",
    *(
        f"_lastUpdated={prefix}{year}"
        for prefix in ("", *PREFIXES)
        for year in (2000, 2019, 2022, 2025)
    ),
    "_lastUpdated=gt2020&_lastUpdated=lt2024",
    "date=ge1990-05-01&date=lt1990-06-01",
    "date=gt2010-03-03&date=le2010-03-04",
    "identifier:of-type=https://plenty.example/codes|MR|rare",
    "identifier:of-type=https://plenty.example/codes|MR|common",
    "identifier=https://plenty.example/codes|",
    "patient=p7",
    "patient=Patient/p7",
    "patient=nobody",
    "patient:identifier=nobody",
    "patient:missing=true",
    "patient:missing=false",
    "patient=p7&_sort=date",
    "patient=p7&_sort=date,-_id",
    "patient=p7&identifier=common",
    "patient=p7&identifier:not=common",
    "patient=p7&date=ge2010-01-01&date=lt2011-01-01",
    "patient=p7&_content=common",
    "patient=p7&_content=comm*",
    "patient.identifier=n7",
    "patient.identifier=nobody",
    "patient.identifier=n7&identifier=common",
    "patient.gender=male",
    "patient.gender=female",
    "patient.gender:not=male",
    "patient.general-practitioner:Practitioner.identifier=rare",
    "patient.general-practitioner:Practitioner.identifier=common",
    "_sort=date,identifier",
    "identifier=rare&_sort=-date,_id",
    "identifier=common,rare",
    "_tag=old",
    "_content=common,rare",
    "_content=rare&_text=common",
    "identifier=common&date=2010-03-04",
    "identifier=common&_sort=-date",
)


@pytest.fixture(autouse=True)
def tokens_stay_known(monkeypatch):
    """A token is looked up again each second, whose steps are none of a search's."""
    monkeypatch.setattr("fhirapp.auth.protector.TOKEN_CACHE_SECONDS", 600.0)


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app with many records, more of them than are gathered."""
    app = make_app(seed=False)
    plenty.publish(app, SMALL)
    return app


@pytest.fixture(scope="module")
def larger(app: Flask, make_app: Callable[..., Flask]) -> Flask:
    """An app with four times as many."""
    app = make_app(seed=False)
    plenty.publish(app, LARGE)
    return app


@cache
def token(app: Flask) -> str:
    return token_for(app, "system/*.rs")


@contextmanager
def asking(app: Flask, path: str) -> Iterator[Reader]:
    """Open a request, and yield the snapshot that it will read."""
    headers = {"Authorization": f"Bearer {token(app)}"}
    with app.test_request_context(f"/fhir/{path}", headers=headers):
        yield reader()


def answer(app: Flask) -> dict[str, Any]:
    """Answer the open request."""
    response = app.dispatch_request()
    assert response.status_code == 200, response.text
    return response.get_json(force=True)


def plans(app: Flask, path: str, known: Mapping[str, Any], patch: Any) -> dict[str, list[str]]:
    """Return the plan of each SELECT of a search, save those that are known, by its SQL."""
    asked: dict[str, Sequence[Any]] = {}
    with asking(app, path) as snapshot:
        run = snapshot.all

        def recorded(sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
            asked.setdefault(sql, values)
            return run(sql, values)

        with patch.context() as recording:
            recording.setattr(snapshot, "all", recorded)
            answer(app)
        explain = "EXPLAIN QUERY PLAN"
        if db.engine.dialect.name == "postgresql":
            explain = "EXPLAIN (COSTS OFF)"
            run("SELECT set_config('enable_seqscan', 'off', true)", ())
        return {
            sql: [row[-1].strip() for row in run(f"{explain} {sql}", values)]
            for sql, values in asked.items()
            if sql not in known
        }


@contextmanager
def counting(driver: sqlite3.Connection) -> Iterator[list[int]]:
    """Count what SQLite does within; the one number in the list grows."""
    counted = [0]

    def step() -> int:
        counted[0] += STEP
        return 0

    driver.set_progress_handler(step, STEP)
    yield counted
    driver.set_progress_handler(None, 0)


def steps(app: Flask, path: str) -> int:
    """Return what SQLite does for a search."""
    with asking(app, path) as snapshot:
        driver = snapshot._driver
        # This connection may be new: its first statement reads the schema, which is work too.
        driver.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
        with counting(driver) as counted:
            answer(app)
    return counted[0]


# What SQLite may read from the beginning: what a SELECT within made, words by FTS5's own index, and
# records in the order of the results. That it does not go on to the end is counted.
ALLOWED = re.compile(
    r"SCAN ([cxy]|k VIRTUAL TABLE .*"
    r"|[rh] USING (COVERING )?INDEX ix_[a-z_]+_(newest|current|history))"
)


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_leads_to_what_is_searched(app, kind, monkeypatch):
    with app.app_context():
        queries = [*searches(kind), *OTHERS]
    paths = [f"{kind}?{query}&_count=10&_total=none" for query in queries]
    assert read_whole(app, paths, monkeypatch) == {}


# Of several types, and of what comes with the matches.
ACROSS = (
    "?_count=10&_total=none",
    f"?_type={ALLERGY},{DOCUMENT}&patient=p7&_count=10&_total=none",
    f"?_type={ALLERGY},{DOCUMENT}&identifier=rare&_count=10&_total=none",
    "Patient/p7/*?_count=10&_total=none",
    f"Patient/p7/{ALLERGY}?identifier=common&_count=10&_total=none",
    f"Patient?_id=p7&_revinclude={ALLERGY}:patient&_revinclude={DOCUMENT}:patient&_total=none",
    "Patient?_count=3&_revinclude=*&_include=*&_total=none",
    "_history?_count=10",
    "_history?_count=10&_since=2024-06",
    f"{ALLERGY}/_history?_count=10&_since=2024-06",
)


def test_an_index_leads_to_what_is_searched_of_several_types(app, monkeypatch):
    assert read_whole(app, ACROSS, monkeypatch) == {}


@pytest.mark.campaign
@pytest.mark.databases(SQLITE)
def test_several_types_take_no_longer_where_there_are_more_records(app, larger):
    found = {path: (steps(app, path), steps(larger, path)) for path in ACROSS}
    assert {path: two for path, two in found.items() if two[1] > two[0] * RATIO + SLACK} == {}


def read_whole(app: Flask, paths: Sequence[str], patch: Any) -> dict[str, str]:
    """Return the steps of the searches' plans that read a table whole, by their SQL."""
    known: dict[str, list[str]] = {}
    with app.app_context():
        tables = "|".join(definition.table.name for definition in types().values())
    for path in paths:
        known |= plans(app, path, known, patch)
    assert known
    return {
        sql: step
        for sql, plan in known.items()
        for step in plan
        if re.search(rf"Seq Scan on ({tables})\b", step)
        or (step.startswith("SCAN") and not ALLOWED.fullmatch(step))
    }


@pytest.mark.campaign
@pytest.mark.databases(SQLITE)
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_takes_no_longer_where_there_are_more_records(app, larger, kind):
    with app.app_context():
        queries = [f"{kind}?{query}&_count=10&_total=none" for query in (*searches(kind), *OTHERS)]
    wrong = {}
    for query in queries:
        few, many = steps(app, query), steps(larger, query)
        listed = [one.steps * LARGE for one in GROWTHS if re.search(one.query, query)]
        if many > max([few * RATIO + SLACK, *listed]):
            wrong[query] = (few, many)
    assert wrong == {}


@pytest.mark.databases(SQLITE)
@pytest.mark.parametrize("kind", KINDS)
def test_a_sort_of_few_matches_does_not_pass_all_other_records(app, kind):
    path = f"{kind}?_lastUpdated=gt2024&_sort=date&_count=10&_total=none"
    assert len(Fhir(app, token(app)).ids(path)) == FEW
    assert steps(app, path) < 10 * SMALL


class _Undone(Exception):
    pass


def steps_to_publish(app: Flask, kind: str) -> int:
    """Return what SQLite does to publish a resource, which is taken back."""
    with app.app_context(), suppress(_Undone), writing() as connection:
        publisher = Publisher(
            connection,
            now="2026-01-01T00:00:00.000+00:00",
            rendering=Rendering(inline_max=32_768, empty_content="omit"),
        )
        with counting(connection.connection.driver_connection) as counted:
            publisher.publish([prepare(types()[kind], NEW[kind])])
        raise _Undone
    return counted[0]


@pytest.mark.campaign
@pytest.mark.databases(SQLITE)
@pytest.mark.parametrize("kind", KINDS)
def test_publishing_takes_no_longer_where_there_are_more_records(app, larger, kind):
    few, many = steps_to_publish(app, kind), steps_to_publish(larger, kind)
    assert few
    assert many <= few + SLACK


@pytest.mark.campaign
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parameter", ["_text", "_content"])
def test_words_that_nearly_all_have_are_found_on_every_page(app, kind, parameter):
    """Those of the latest records are listed, and earlier ones asked one by one."""
    fhir = Fhir(app, token(app))
    rare = {f"r{number:05}" for number in range(0, SMALL, SMALL // FEW)}
    having = [row for row in pages(fhir, f"{kind}?_count=300") if row not in rare]
    assert len(having) == SMALL - FEW > max(GATHERED_MOST, LATEST)
    for value in ("common", "comm*", '"common thing"', "common,nobody"):
        query = f"{kind}?{parameter}={quote(value)}"
        assert pages(fhir, f"{query}&_count=300") == having
        assert fhir.read(f"{query}&_count=1")["total"] == len(having)
        assert fhir.ids(f"{query}&patient=p2") == [row for row in having if row in of_patient(2)]
        by_id = pages(fhir, f"{query}&_sort=_id&_count=300")
        assert by_id == sorted(having)


def pages(fhir: Fhir, path: str) -> list[str]:
    """Return the ids of a search's matches, those of all pages."""
    found = []
    following: str | None = path
    while following is not None:
        bundle = fhir.read(following)
        found += ids(bundle)
        following = link(bundle, "next")
    return found


def of_patient(number: int) -> list[str]:
    start = number * OF_A_PATIENT
    return [f"r{number:05}" for number in range(start, start + OF_A_PATIENT)]
