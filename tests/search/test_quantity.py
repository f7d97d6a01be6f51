"""`Encounter?length=`: durations by number and unit. Source: FHIR R4 search §3.1.1.4.8."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from tests.support.helpers import Fhir, ids
from tests.support.importing import asking, load_lines

UCUM = "http://unitsofmeasure.org"
HELD: dict[str, dict[str, Any]] = {
    "second": {"value": 30, "unit": "s", "system": UCUM, "code": "s"},
    "half": {"value": 30, "unit": "minutes", "system": UCUM, "code": "min"},
    "nearly": {"value": 29.5, "unit": "min", "system": UCUM, "code": "min"},
    "over": {"value": 30.5, "unit": "min", "system": UCUM, "code": "min"},
    "hours": {"value": 0.5, "unit": "h", "system": UCUM, "code": "h"},
    "more": {"value": 1.5, "comparator": ">", "unit": "h", "system": UCUM, "code": "h"},
    "days": {"value": 3, "unit": "d", "system": UCUM, "code": "d"},
    "week": {"value": 1, "unit": "week", "system": UCUM, "code": "wk"},
    "year": {"value": 1, "unit": "a", "system": UCUM, "code": "a"},
}
# Seconds, told here anew.
DAY = 24 * 3600
SECONDS = {"s": 1, "min": 60, "h": 3600, "d": DAY, "wk": 7 * DAY, "a": Fraction(1461, 4) * DAY}


@pytest.fixture(scope="module")
def visits(make_app: Callable[..., Flask], tmp_path_factory: pytest.TempPathFactory) -> Fhir:
    """Ask of a server that has a visit of each length, and one of none."""
    app = make_app(seed=False)
    visit = {"resourceType": "Encounter", "status": "finished", "class": {"code": "AMB"}}
    held = [{**visit, "id": name, "length": value} for name, value in HELD.items()]
    load_lines(app, tmp_path_factory.mktemp("visits"), *held, {**visit, "id": "none"})
    return asking(app)


def found(visits: Fhir, value: str, name: str = "length") -> set[str]:
    bundle = visits.get("Encounter", query_string={name: value}).get_json(force=True)
    return set(ids(bundle))


FOUND = [
    # as precise as it is written
    ("30||min", {"half", "nearly", "hours"}), ("30.0||min", {"half", "hours"}),
    (f"30|{UCUM}|min", {"half", "nearly", "hours"}),
    ("eq0.5||h", {"half", "nearly", "hours", "over"}),
    ("3e1||min", {"half", "nearly", "hours", "over"}), ("30||s", {"second"}),
    # by the number alone, whatever the unit
    ("30", {"second", "half", "nearly"}), ("30||", {"second", "half", "nearly"}),
    ("1", {"week", "year", "hours"}),
    # "more than 1.5 h" is no day, and may be
    ("gt1||d", {"days", "week", "year", "more"}), ("sa2||h", {"days", "week", "year", "more"}),
    ("lt30||min", {"second", "nearly"}), ("eb30||min", {"second", "nearly"}),
    ("le30||min", {"second", "nearly", "half", "hours"}),
    ("ge30||min", {"half", "hours", "over", "more", "days", "week", "year"}),
    ("ne30||min", {"second", "over", "more", "days", "week", "year"}),
    ("ap33||min", {"half", "hours", "over"}), ("365.25||d", {"year"}),
    ("30||s,1||wk", {"second", "week"}), ("-1||min", set()),
]  # fmt: skip


def test_a_duration_is_found_by_how_long_it_is(visits):
    assert {case: found(visits, case) for case, _ in FOUND} == dict(FOUND)


COMPARISONS = {"gt": operator.gt, "lt": operator.lt, "ge": operator.ge, "le": operator.le}


def test_prefixes_compare_across_units(visits):
    """The numbers cover each unit once, and each stored length with another unit."""
    exact = {name: length for name, length in HELD.items() if "comparator" not in length}
    stored = {
        name: Fraction(str(length["value"])) * SECONDS[length["code"]]
        for name, length in exact.items()
    }
    wrong = {}
    for value in ("30||s", "1800||s", "0.5||min", "29.5||min", "30||min", "72||h", "3||d", "1||a"):
        number, unit = value.split("||")
        for prefix, compare in COMPARISONS.items():
            searched = Fraction(number) * SECONDS[unit]
            expected = {name for name, length in stored.items() if compare(length, searched)}
            result = found(visits, prefix + value) - {"more"}
            if result != expected:
                wrong[prefix + value] = result ^ expected
    assert wrong == {}


def test_encounter_without_length_is_missing_and_sorts_last(visits):
    assert found(visits, "true", "length:missing") == {"none"}
    assert found(visits, "false", "length:missing") == HELD.keys()
    ordered = ids(visits.read("Encounter?_sort=length&length=lt2||h"))
    assert ordered[0] == "second"
    assert ids(visits.read("Encounter?_sort=length"))[-1] == "none"
    assert ids(visits.read("Encounter?_sort=-length"))[0] == "year"


def odd_visit(make_app: Callable[..., Flask], folder: Path, **length: Any) -> Fhir:
    """Ask of a server whose one visit has an odd length."""
    app = make_app(seed=False)
    visit = {"resourceType": "Encounter", "id": "odd", "status": "finished"}
    held = {**visit, "class": {"code": "AMB"}, "length": {"system": UCUM, **length}}
    load_lines(app, folder, held)
    return asking(app)


@pytest.mark.parametrize(("value", "comparator"), [(10**30, ">"), (-(10**30), "<")])
def test_a_length_beyond_all_numbers_is_imported_and_found(make_app, tmp_path, value, comparator):
    fhir = odd_visit(make_app, tmp_path, value=value, comparator=comparator, code="a")
    assert found(fhir, "ne1||h") == {"odd"}
    assert found(fhir, "1||h") == set()


def test_a_unit_that_is_no_time_is_found_by_its_number_alone(make_app, tmp_path):
    fhir = odd_visit(make_app, tmp_path, value=5, unit="sessions", code="{session}")
    assert found(fhir, "5") == found(fhir, "false", "length:missing") == {"odd"}
    for prefix in ("", "eq", "ne", "gt", "ge", "lt", "le", "sa", "eb", "ap"):
        assert found(fhir, f"{prefix}5||min") == set(), prefix
