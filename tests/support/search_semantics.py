"""Hypothesis strategies for searches, and what the evaluator expects of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from tests.support.effort import sample
from tests.support.evaluator import (
    FIRST,
    LAST,
    PREFIXES,
    VALUE_SETS,
    Date,
    Kind,
    MediaType,
    Pair,
    Reference,
    Resource,
    String,
    Terms,
    Token,
    Uri,
    dates,
    references,
    token_texts,
    tokens,
    types_of_identifiers,
    values_of,
)
from tests.support.helpers import BASE_URL, Fhir, ids, link

THOROUGH = settings(
    deadline=None,
    derandomize=True,
    max_examples=int(os.environ.get("FHIRAPP_TEST_SEARCHES", sample(60, 250))),
)


def dates_of(kind: Date, held: list[Resource]) -> set[datetime]:
    """Return every start and end of what a date parameter can find, save the open ones."""
    return {end for one in held for both in dates(kind, one) for end in both} - {FIRST, LAST}


def spellings(moments: set[datetime], lengths: list[int]) -> list[str]:
    """Return the moments as dates of several precisions: 4 is a year, 23 a millisecond."""
    return sorted(
        moment.isoformat(timespec="milliseconds")[:length] + ("+00:00" if length > 10 else "")
        for moment in moments
        for length in lengths
    )


def plain(values: Iterable[str]) -> list[str]:
    """Return the values that need no escape, and one that nobody has."""
    return sorted({value for value in values if not set(value) & set(",\\$")} | {"nobodys"})


def of_tokens(name: str, kind: Token, held: list[Resource]) -> dict[str, list[str]]:
    pairs = {pair for one in held for pair in tokens(kind, one) if "|" not in "".join(pair)}
    codes = plain(code for _, code in pairs)
    codes += plain(f"{system}|{code}" for system, code in pairs)
    codes += plain(f"{system}|{code.swapcase()}" for system, code in pairs)
    codes += plain(spelled for _, code in pairs for spelled in (code.upper(), code.lower()))
    codes += plain(f"{system}|" for system, _ in pairs if system)
    texts = {text[:100] for one in held for text in token_texts(kind, one)}
    later = {text.partition(" ")[2] for text in texts if " " in text}
    asked = {
        name: codes,
        f"{name}:not": codes,
        f"{name}:text": plain({*texts, *later, *(text.upper()[:4] for text in texts)} - {""}),
    }
    if not kind.of_identifier:
        sets = [one for one in VALUE_SETS if one.rpartition(":")[2] == name]
        asked |= {f"{name}:{one}": sets for one in ("in", "not-in")}
    if name == "identifier":
        typed = {"|".join(found) for one in held for found in types_of_identifiers(kind, one)}
        asked[f"{name}:of-type"] = [*plain(typed - {""})[:-1], "urn:x|MR|nobodys"]
    return asked


def of_media_types(name: str, kind: MediaType, held: list[Resource]) -> dict[str, list[str]]:
    found = {value for one in held for value in values_of(kind, one)}
    bases = {value.partition(";")[0] for value in found}
    whole = found | bases | {value.upper() for value in found} | {"text", "text/plain;x=y", "te"}
    spelled = plain(whole | {f"urn:ietf:bcp:13|{value}" for value in bases} | {"urn:x|text/html"})
    below = plain(whole | {base.partition("/")[0] for base in bases} | {"image/*", "TEXT"})
    return {name: spelled, f"{name}:not": spelled, f"{name}:below": below}


def of_references(name: str, kind: Reference, held: list[Resource]) -> dict[str, list[str]]:
    found = {value for one in held for value in references(kind, one)}
    local = {value for value in found if "://" not in value and not value.startswith("urn:")}
    spelled = plain(found | {value.rpartition("/")[2] for value in local})
    spelled += plain(f"{BASE_URL}/fhir/{value}" for value in local)
    away = {value.partition("/_history/")[0] for value in found - local if "://" in value}
    spelled += plain(one for value in away for one in (value, f"{value}/_history/99"))
    identifiers = [
        value["identifier"]
        for one in held
        for value in values_of(kind, one)
        if "identifier" in value
    ]
    named = plain(one["value"] for one in identifiers if "value" in one)
    named += plain(f"{one.get('system', '')}|{one.get('value', '')}" for one in identifiers)
    return {name: spelled, f"{name}:identifier": named}


def of_strings(name: str, kind: String, held: list[Resource]) -> dict[str, list[str]]:
    texts = {text for one in held for text in values_of(kind, one)}
    parts = {text[start : start + 8].strip() for text in texts for start in (0, 3, len(text) // 2)}
    whole = plain({text[:100] for text in texts} | parts | {text.upper() for text in texts})
    asked = [text for text in whole if text.strip()]
    return {name: asked, f"{name}:exact": asked, f"{name}:contains": asked}


def of_uris(name: str, kind: Uri, held: list[Resource]) -> dict[str, list[str]]:
    found = {value for one in held for value in values_of(kind, one)}
    urls = {value for value in found if "://" in value and len(value) <= 100}
    above = {value.rpartition("/")[0] for value in urls} | {f"{value}/x" for value in urls}
    beside = {value[:-1] for value in urls} | {value.rpartition("/")[0] + "/" for value in urls}
    spelled = plain(found | above | beside)
    # Above and below hold of URLs; those of the base address alone are another story.
    listed = sorted(value for value in spelled if value.count("/") > 2 and len(value) <= 100)
    listed.append("http://nobodys.example/x")
    return {name: spelled, f"{name}:below": listed, f"{name}:above": listed}


def of_pairs(name: str, kind: Pair, held: list[Resource]) -> dict[str, list[str]]:
    found = [value for one in held for value in values_of(kind, one)]
    codes = sorted({value["code"] for value in found} | {f"{kind.system}|replaces", "|replaces"})
    targets = sorted({value["target"].get("reference", "x") for value in found})
    spelled = [*targets, *(target.rpartition("/")[2] for target in targets)]
    return {name: [f"{code}${target}" for code in codes for target in spelled]}


_OF = {
    Token: of_tokens,
    MediaType: of_media_types,
    Reference: of_references,
    String: of_strings,
    Uri: of_uris,
    Pair: of_pairs,
}


def terms_of(name: str, kind: Kind, held: list[Resource]) -> list[st.SearchStrategy[Any]]:
    """Return strategies of the terms of one parameter, one for each of its modifiers."""
    missing = st.tuples(st.just(f"{name}:missing"), st.sampled_from(["true", "false"]))
    if isinstance(kind, Date):
        spelled = [*spellings(dates_of(kind, held), [4, 7, 10, 19, 23]), "1800"]
        choice = st.builds(str.__add__, st.sampled_from(PREFIXES), st.sampled_from(spelled))
        several = st.lists(choice, min_size=1, max_size=3).map(",".join)
        return [missing, st.tuples(st.just(name), several)]
    asked = _OF[type(kind)](name, kind, held)  # type: ignore[operator]
    return [
        missing,
        *(
            st.tuples(
                st.just(named),
                st.lists(st.sampled_from(values), min_size=1, max_size=3).map(",".join),
            )
            for named, values in asked.items()
            if values
        ),
    ]


def all_pages(fhir: Fhir, path: str, query: Terms) -> list[str]:
    """Return the ids of every page, in order."""
    bundle = fhir.get(path, query_string=query).get_json(force=True)
    assert bundle["resourceType"] == "Bundle", bundle
    found, total = ids(bundle), bundle["total"]
    while (further := link(bundle, "next")) is not None:
        bundle = fhir.read(further)
        assert bundle["total"] == total
        found += ids(bundle)
    assert len(found) == total
    return found


def everything(fhir: Fhir, name: str) -> list[Resource]:
    return [entry["resource"] for entry in fhir.read(f"{name}?_count=1000")["entry"]]
