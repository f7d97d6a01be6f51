"""What an import keeps aside while it runs."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator

import pytest

from fhirapp.exchange.imports.scratch import Aside, Scratch


@pytest.fixture
def scratch() -> Iterator[Scratch]:
    """Return tables of one run."""
    with Scratch() as made:
        yield made


def aside(name: str, content: bytes = b"{}") -> Aside:
    """Return what is put aside of a resource."""
    return Aside(name, "x.ndjson:1", content, 3, "", "", False)


def names(taken: Iterator[Aside]) -> list[str]:
    """Return the names of what was put aside, in the order in which it is taken up."""
    return [one.name for one in taken]


def test_what_is_put_aside_comes_back_once_in_its_order(scratch):
    for name in ("Patient/b", "Patient/a", "Patient/b"):
        scratch.put_aside("reference", aside(name))
    scratch.put_aside("older", aside("Patient/c"))
    assert scratch.waiting("reference") == 3
    assert names(scratch.take_aside("reference")) == ["Patient/b", "Patient/a", "Patient/b"]
    assert scratch.waiting("reference") == 0
    assert names(scratch.take_aside("reference")) == []
    assert names(scratch.take_aside("older")) == ["Patient/c"]


def test_by_name_what_belongs_together_comes_together(scratch):
    for place, name in enumerate(("b", "a", "b", "c", "a")):
        scratch.put_aside("older", aside(name, b"%d" % place))
    taken = [(one.name, one.content) for one in scratch.take_aside("older", by_name=True)]
    assert taken == [("a", b"1"), ("a", b"4"), ("b", b"0"), ("b", b"2"), ("c", b"3")]


def test_what_is_put_aside_meanwhile_waits_for_the_next_round(scratch):
    for number in range(200):
        scratch.put_aside("reference", aside(f"Patient/{number}"))
    for one in scratch.take_aside("reference"):
        scratch.put_aside("reference", one)
    assert scratch.waiting("reference") == 200
    assert len(names(scratch.take_aside("reference"))) == 200


def test_it_says_why_something_of_a_name_waits(scratch):
    assert scratch.waits("Patient/a") is None
    scratch.put_aside("reference", aside("Patient/a"))
    assert scratch.waits("Patient/a") == "reference"
    assert scratch.waits("Patient/b") is None
    scratch.put_aside("older", aside("Patient/a"))
    assert scratch.waits("Patient/a") == "older"
    names(scratch.take_aside("older"))
    assert scratch.waits("Patient/a") == "reference"
    names(scratch.take_aside("reference"))
    assert scratch.waits("Patient/a") is None


@pytest.mark.parametrize("name", ["Patient/a\0b", "Patient/" + "x" * 100_000])
def test_any_name_can_be_asked_for(scratch, name):
    scratch.put_aside("reference", aside("Patient/a"))
    assert scratch.waits(name) is None
    assert scratch.target(scratch.new_bundle(), name) is None


def test_an_address_leads_where_its_first_entry_says_in_its_own_bundle(scratch):
    first, second = scratch.new_bundle(), scratch.new_bundle()
    scratch.add_address(first, "urn:a", "Patient/1", "")
    scratch.add_address(first, "urn:a", "Patient/2", "")
    scratch.add_address(second, "urn:a", "Patient/3", "Patient?_id=3")
    assert scratch.target(first, "urn:a") == ("Patient/1", "")
    assert scratch.target(second, "urn:a") == ("Patient/3", "Patient?_id=3")
    assert scratch.target(first, "urn:b") is None


def test_what_did_not_come_is_told_in_its_order(scratch):
    scratch.saw([("Patient", "a"), ("Patient", "c"), ("Binary", "b"), ("Patient", "a")])
    assert scratch.unseen("Patient", ["d", "c", "b", "a"]) == ["d", "b"]
    assert scratch.unseen("Binary", []) == []


def test_what_is_kept_lies_on_disk(scratch):
    """A hundred megabytes of it take a few of memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    content = b"x" * 1_000_000
    for number in range(100):
        scratch.put_aside("reference", aside(f"Patient/{number}", content))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * (1 if sys.platform == "darwin" else 1024) < 40_000_000
    assert sum(len(one.content) for one in scratch.take_aside("reference")) == 100_000_000
