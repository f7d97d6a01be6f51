"""history-type: the versions of all resources of a type. decisions §5."""

from __future__ import annotations

from itertools import count

import pytest
from sqlalchemy import select

from fhirapp.db import db
from fhirapp.definition import types
from tests.support.contract import allergy, delete, publish
from tests.support.helpers import BASE_URL, Fhir, assert_outcome, link, token_for

ALLERGY = "AllergyIntolerance"
DOCUMENT = "DocumentReference"
EGG = "AllergyIntolerance/al-p3-egg"
# When the second version of a document was published.
SECOND = "2024-01-24T09:41:33.009Z"


def day(number):
    """Return the start of a day."""
    return f"2026-01-{number:02}T00:00:00.000+00:00"


def walk(fhir, address):
    """Return the entries of all pages from an address on."""
    entries = []
    while address is not None:
        page = fhir.read(address)
        entries += page.get("entry", ())
        address = link(page, "next")
    return entries


def named(entries):
    """Return the (path, version) of each entry."""
    return [
        (entry["fullUrl"].removeprefix(f"{BASE_URL}/fhir/"), entry["response"]["etag"])
        for entry in entries
    ]


def held(app, name):
    """Return the (path, etag) of all versions of a type, newest first."""
    with app.app_context(), db.engine.connect() as connection:
        table = types()[name].table
        order = (table.c.last_updated.desc(), table.c.pk.desc())
        found = connection.execute(select(table.c.id, table.c.version_id).order_by(*order))
        return [(f"{name}/{row_id}", f'W/"{version}"') for row_id, version in found]


def test_the_history_of_a_type_has_every_version_once_newest_first(fhir, app):
    for name in [ALLERGY, DOCUMENT]:
        for query in ("", "?_count=7", "?_count=1000"):
            entries = walk(fhir, f"{name}/_history{query}")
            assert named(entries) == held(app, name)
            times = [entry["response"]["lastModified"] for entry in entries]
            assert times == sorted(times, reverse=True)
        assert {entry["request"]["method"] for entry in entries} == {"PUT", "DELETE"}


@pytest.mark.parametrize("name", [ALLERGY, DOCUMENT])
@pytest.mark.parametrize(
    ("scope", "patient"),
    [
        ("system/*.rs", None),
        ("patient/*.r", "p5"),
        # what is entered in error has no clinical status, and its past is out of reach with it
        (f"system/{ALLERGY}.rs?clinical-status=active system/{DOCUMENT}.r?status=current", None),
        (f"user/{ALLERGY}.rs?clinical-status:not=active user/{DOCUMENT}.rs?status:not=x", None),
        (f"patient/{ALLERGY}.r?category=medication patient/{DOCUMENT}.r", "p1"),
        (f"patient/{ALLERGY}.r system/{ALLERGY}.rs?category=food system/{DOCUMENT}.r", "p5"),
    ],
)
@pytest.mark.parametrize("query", ["", "_since=2024", "_at=2024-01", f"_since=2023&_at={SECOND}"])
def test_the_history_of_a_type_is_those_of_its_resources(app, name, scope, patient, query):
    fhir = Fhir(app, token_for(app, scope, patient=patient))
    together = []
    for path in sorted({path for path, _ in held(app, name)}):
        response = fhir.get(f"{path}/_history?{query}")
        if response.status_code == 200:
            together += response.get_json(force=True).get("entry", ())
        else:
            assert_outcome(response, 404, "not-found", f"{path} is not known here.")
    order = {key: place for place, key in enumerate(held(app, name))}
    together.sort(key=lambda entry: order[named([entry])[0]])
    assert walk(fhir, f"{name}/_history?_count=5&{query}") == together
    whole = fhir.read(f"{name}/_history?_count=1000&{query}")
    assert whole.get("entry", []) == together
    assert whole["total"] == len(together)
    if "?" not in scope:
        counted = fhir.read(f"{name}/_history?_count=0&{query}")
        assert (counted["total"], "entry" in counted) == (len(together), False)


def test_a_page_of_many_has_no_total_and_links_that_keep_the_parameters(fhir):
    query = "_since=2020&_count=3&_pretty=false"
    bundle = fhir.read(f"{ALLERGY}/_history?{query}")
    assert bundle["type"] == "history"
    assert "total" not in bundle
    assert link(bundle, "self") == link(bundle, "first") == f"/fhir/{ALLERGY}/_history?{query}"
    following = fhir.read(link(bundle, "next"))
    assert len(following["entry"]) == 3
    assert link(following, "first") == link(bundle, "first")
    assert link(following, "self") == link(bundle, "next")


OTHERS = [
    f"{DOCUMENT}/_history?_since=2020",
    f"{ALLERGY}/_history?_since=2021",
    f"{ALLERGY}/_history?_since=2020&_at=2024",
    f"{ALLERGY}/_history?",
    f"{EGG}/_history?_since=2020",
]


def test_a_cursor_fits_its_own_history_alone(fhir):
    for other in OTHERS:
        path = f"{ALLERGY}/_history?_since=2020"
        cursor = link(fhir.read(f"{path}&_count=1"), "next").partition("_cursor=")[2]
        assert fhir.read(f"{path}&_count=2&_cursor={cursor}")["entry"]
        for address, reason in (
            (f"{other}&_cursor={cursor}", "belongs to another history"),
            (f"{path}&_cursor={cursor[:-1]}", "is not one of this server's"),
        ):
            diagnostics = f"_cursor: {reason}; start again from the first page"
            assert_outcome(fhir.get(address), 400, "value", diagnostics, "_cursor")


def test_the_history_of_a_type_is_a_read_of_it(app, http):
    for scope in [f"system/{ALLERGY}.s", f"system/{DOCUMENT}.rs"]:
        fhir = Fhir(app, token_for(app, scope))
        diagnostics = f"The token's scope does not cover read of {ALLERGY}."
        assert_outcome(fhir.get(f"{ALLERGY}/_history?_count=x"), 403, "forbidden", diagnostics)
        assert http.get(f"/fhir/{ALLERGY}/_history").status_code == 401


def test_moved_resource_leaves_no_version_with_the_former_patient(make_app):
    app = make_app(seed=False)
    publish(app, allergy("a", "p1"), now=day(1))
    publish(app, allergy("b", "p1"), now=day(2))
    first, second = (
        Fhir(app, token_for(app, "patient/*.rs", patient=patient)) for patient in ("p1", "p2")
    )
    before = first.get(f"{ALLERGY}/_history")
    assert named(before.get_json(force=True)["entry"]) == [
        (f"{ALLERGY}/b", 'W/"1"'),
        (f"{ALLERGY}/a", 'W/"1"'),
    ]
    publish(app, allergy("a", "p2"), now=day(3))
    after = first.get(f"{ALLERGY}/_history", headers={"If-None-Match": before.headers["ETag"]})
    assert named(after.get_json(force=True)["entry"]) == [(f"{ALLERGY}/b", 'W/"1"')]
    assert first.get(f"{ALLERGY}/a/_history").status_code == 404
    assert named(second.read(f"{ALLERGY}/_history")["entry"]) == [(f"{ALLERGY}/a", 'W/"2"')]
    system = Fhir(app, token_for(app, "system/*.rs"))
    assert len(system.read(f"{ALLERGY}/_history")["entry"]) == 3


@pytest.fixture(scope="module")
def busy(make_app):
    """An app with versions that share their time, and some whose time is before that of others."""
    app = make_app(seed=False)
    for turn, number in enumerate((2, 3, 3, 1)):
        entries = [allergy(name, code={"text": f"before, {turn}"}) for name in NAMES]
        publish(app, *entries, now=day(number))
    return app


NAMES = [f"a{number}" for number in range(10)]
TURNS = count()


def change(app):
    """Publish two versions and, each third time, a deletion; their time is any day's."""
    turn = next(TURNS)
    name, now = NAMES[turn % len(NAMES)], day(turn % 27 + 1)
    publish(app, allergy(name, code={"text": f"turn {turn}"}), now=now)
    publish(app, allergy(f"new{turn}"), now=now)
    if turn % 3 == 0:
        delete(app, ALLERGY, name, now=now)


@pytest.mark.parametrize("size", [5, 20])
@pytest.mark.parametrize("patient", [None, "p1"])
def test_history_pages_hold_each_version_once_while_others_are_published(busy, size, patient):
    scope = "system/*.rs" if patient is None else "patient/*.rs"
    fhir = Fhir(busy, token_for(busy, scope, patient=patient))
    there = held(busy, ALLERGY)
    met, address = [], f"{ALLERGY}/_history?_count={size}"
    while address is not None:
        page = fhir.read(address)
        met += named(page["entry"])
        change(busy)
        address = link(page, "next")
    assert [version for version in met if version in there] == there
    assert len(set(met)) == len(met)
