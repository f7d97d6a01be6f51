"""Bundles put together from bytes: the same as if they were built and written whole."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.json import INCLUDE, MATCH, OUTCOME, Entry, beside, bundle, compact

REPEATABLE = settings(max_examples=30)
# What could be taken for the layout: line ends, quotes, braces, escapes, runs of spaces.
ODD = st.sampled_from(
    [
        "\n      ",
        '"',
        "\\",
        "\\n",
        "},\n    {",
        "  ",
        "\u2028",
        "é\U0001f600",
        "\x00\x1f",
        '"url": "',
    ]
)
TEXT = st.lists(ODD | st.text(st.characters(exclude_categories=["Cs"])), max_size=4).map("".join)
CONTENT = st.recursive(
    TEXT | st.booleans() | st.integers(-(2**31), 2**31),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
    ),
    max_leaves=8,
)  # fmt: skip
RESOURCES = st.dictionaries(TEXT, CONTENT, max_size=3).map(
    lambda members: {"resourceType": "Basic", **members}
)
MODES = {"match": MATCH, "include": INCLUDE, "outcome": OUTCOME}
SEARCHED = st.lists(st.tuples(TEXT, RESOURCES, st.sampled_from([*MODES])), max_size=3)
LINKS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=3)
TOTALS = st.none() | st.integers(0, 2**40)


def whole(
    kind: str, total: int | None, links: list[tuple[str, str]], entries: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return a Bundle as an object."""
    content: dict[str, Any] = {"resourceType": "Bundle", "id": "b", "type": kind}
    if total is not None:
        content["total"] = total
    content["link"] = [{"relation": relation, "url": url} for relation, url in links]
    return {**content, "entry": entries} if entries else content


def laid_out(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False)


@REPEATABLE
@given(TOTALS, LINKS, SEARCHED)
def test_searchset_is_what_the_whole_would_be(total, links, found):
    expected = []
    for url, resource, mode in found:
        # An outcome has no address.
        address = {"fullUrl": url} if url else {}
        expected.append({**address, "resource": resource, "search": {"mode": mode}})
    entries = [
        Entry(url, fhir_json.dumps_indented(resource), MODES[mode]) for url, resource, mode in found
    ]
    made = bundle("b", "searchset", total, links, entries)
    assert made.decode() == laid_out(whole("searchset", total, links, expected))


VERSIONS = st.lists(st.tuples(TEXT.filter(bool), st.none() | RESOURCES, TEXT, TEXT), max_size=3)


@REPEATABLE
@given(TOTALS, LINKS, VERSIONS)
def test_history_is_what_the_whole_would_be(total, links, versions):
    entries, expected = [], []
    for url, resource, first, second in versions:
        request, response = {"method": first, "url": second}, {"status": second, "etag": first}
        body = None if resource is None else fhir_json.dumps_indented(resource)
        entries.append(Entry(url, body, beside(request=request, response=response)))
        held = {} if resource is None else {"resource": resource}
        expected.append({"fullUrl": url, **held, "request": request, "response": response})
    made = bundle("b", "history", total, links, entries)
    assert made.decode() == laid_out(whole("history", total, links, expected))


@REPEATABLE
@given(LINKS, SEARCHED)
def test_compact_form_has_the_same_content_on_one_line(links, found):
    entries = [
        Entry(url, fhir_json.dumps_indented(resource), MODES[mode]) for url, resource, mode in found
    ]
    indented = bundle("b", "searchset", 1, links, entries)
    on_one_line = compact(indented)
    assert b"\n" not in on_one_line
    assert json.loads(on_one_line) == json.loads(indented)
    assert list(json.loads(on_one_line)) == list(json.loads(indented))


def test_bundle_without_entries_has_no_entry():
    assert json.loads(bundle("b", "searchset", 0, [("self", "urn:x")], [])) == {
        "resourceType": "Bundle",
        "id": "b",
        "type": "searchset",
        "total": 0,
        "link": [{"relation": "self", "url": "urn:x"}],
    }


def test_entries_are_taken_one_by_one():
    """So that an answer need not hold every resource twice."""
    entries = (Entry(f"urn:{place}", b"{}", MATCH) for place in range(2))
    made = json.loads(bundle("b", "searchset", None, [("self", "urn:x")], entries))
    assert [entry["fullUrl"] for entry in made["entry"]] == ["urn:0", "urn:1"]
    assert "total" not in made
