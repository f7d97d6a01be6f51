"""Random searches of the seed agree with what a reader of the specification would pick by hand.

tests/evaluator.py picks; here the questions are made up, of values that occur and of others.
FHIRAPP_TEST_SEARCHES=10000 asks as many of each kind; without it 100, 250 with FHIRAPP_TEST_LONG=1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest
from flask import Flask
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.conftest import token_for
from tests.search.test_search_words import SAID
from tests.support.contract import allergy, publish
from tests.support.effort import sample
from tests.support.evaluator import (
    BROADER,
    FIRST,
    KINDS,
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
    covered,
    dates,
    fits,
    is_piecemeal,
    picked,
    references,
    sequences,
    sorted_by,
    token_texts,
    tokens,
    told,
    types_of_identifiers,
    values_of,
)
from tests.support.helpers import BASE_URL, Fhir, ids, link
from tests.support.noted import add, attached, note

THOROUGH = settings(
    deadline=None,
    derandomize=True,
    max_examples=int(os.environ.get("FHIRAPP_TEST_SEARCHES", sample(60, 250))),
)
WORDS = settings(
    THOROUGH,
    max_examples=int(os.environ.get("FHIRAPP_TEST_SEARCHES", sample(15, 250))),
)
QUICK = settings(deadline=None, derandomize=True, max_examples=80)


ELSEWHERE = "https://other.example/fhir/Practitioner/x"
# What the seed has little of: fractions, open periods, media types with parameters, other cases.
TIMES = (
    *("2024-01-30T11:05:00Z", "2024-01-30T11:05:00.500Z", "2024-01-30T11:05:00.0009Z"),
    *("2024-01-30T11:05:01.999999Z", "2024-01-30", "2024-01"),
)
CODINGS = (
    *(("urn:local", code) for code in ("abc", "ABC", "Straße")),
    ("http://unitsofmeasure.org", "mG"),
    ("http://terminology.hl7.org/CodeSystem/v2-0074", "LAB"),
    ("", "Abc"),
)
MEDIA_TYPES = (
    *("text/plain; charset=utf-8", 'Text/Plain;CHARSET="UTF-8"', "text/html", "text/plain"),
    *("image/PNG", "application/json;v=1"),
)


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask], tmp_path_factory: pytest.TempPathFactory) -> Flask:
    """An app with the seed, and what that has little of."""
    app = make_app()
    resources: list[Resource] = []
    for at, (said, text) in enumerate(SAID.items()):
        time = TIMES[at % len(TIMES)]
        system, code = CODINGS[at % len(CODINGS)]
        coding = {"code": code} | ({"system": system} if system else {})
        of_note = {
            "type": {"coding": [coding]},
            "date": time if len(time) > 10 else None,
            "context": {
                "period": [{"end": time}, {"start": time}, {"start": time, "end": time}][at % 3],
                "related": [{"reference": f"{ELSEWHERE}/_history/{at}"}],
            },
            "identifier": [{"system": "urn:local", "value": code}],
        }
        kind, language = MEDIA_TYPES[at % len(MEDIA_TYPES)], ("de-CH", "DE-ch", "en")[at % 3]
        kind = kind if kind.casefold().startswith("text/plain") else "text/plain"
        resources.append(note(f"n-{said}", attached(text, kind, language=language), **of_note))
        onset = {"onsetPeriod": {"end": time}} if at % 2 else {"recordedDate": time}
        resources.append(allergy(f"n-{said}", code={"coding": [coding]},
                                 recorder={"reference": f"{ELSEWHERE}/_history/2"},
                                 note=[{"text": text}], **onset))  # fmt: skip
    for at, media_type in enumerate(MEDIA_TYPES):
        resources.append(note(f"m-{at}", {"contentType": media_type, "url": f"urn:m:{at}"}))
    add(app, tmp_path_factory.mktemp("varied"), *resources)
    _add_terminology(app)
    return app


LOCAL = "urn:local"
# A code system that nobody's codes are of but some: kinds, each with what it is a kind of.
KINDS_OF_LOCAL = {"abc": "letters", "Straße": "words", "letters": "all", "words": "all"}


def _add_terminology(app: Flask) -> None:
    """Make a value set of every other code of each parameter, and a code system with an order."""
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    sets = []
    for name, kinds in KINDS.items():
        held = everything(fhir, name)
        for own, kind in kinds.items():
            if not isinstance(kind, Token) or kind.of_identifier:
                continue
            pairs = sorted({pair for one in held for pair in tokens(kind, one) if all(pair)})
            swapped = [(system, code.swapcase()) for system, code in pairs[1::3]]
            chosen = VALUE_SETS[f"urn:set:{name}:{own}"] = [*pairs[::2], *swapped, ("urn:x", "y")]
            systems = {system for system, _ in chosen}
            include = [
                {"system": one, "concept": [{"code": code} for of, code in chosen if of == one]}
                for one in sorted(systems)
            ]
            sets.append(
                {
                    "resourceType": "ValueSet",
                    "id": f"{name}-{own}".strip("_").replace("_", ""),
                    "url": f"urn:set:{name}:{own}",
                    "status": "active",
                    "compose": {"include": include},
                }
            )
    publish(app, *sets, now="2026-01-01T00:00:00.000+00:00")
    BROADER.update({(LOCAL, code): above for code, above in KINDS_OF_LOCAL.items()})
    concepts = [
        {"code": code, "property": [{"code": "parent", "valueCode": above}]}
        for code, above in KINDS_OF_LOCAL.items()
    ]
    local = {
        "resourceType": "CodeSystem",
        "id": "local",
        "url": LOCAL,
        "status": "active",
        "content": "complete",
        "concept": [*concepts, {"code": "all"}],
    }
    publish(app, local, now="2026-01-01T00:00:00.000+00:00")


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
        related = [f"{LOCAL}|{code}" for code in {*KINDS_OF_LOCAL, "all"}]
        asked |= {f"{name}:{one}": sets for one in ("in", "not-in")}
        asked |= {f"{name}:{one}": sorted(related) for one in ("above", "below")}
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


@pytest.mark.parametrize("name", KINDS)
def test_a_random_search_finds_what_fits_in_order(app, name):
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    held = everything(fhir, name)
    listed = st.sampled_from([*(one["id"] for one in held), "nobodys"])
    by_id = st.lists(listed, min_size=1, max_size=8).map(lambda several: ("_id", ",".join(several)))
    of_all = [one for own, kind in KINDS[name].items() for one in terms_of(own, kind, held)]
    term = st.one_of(by_id, *of_all)

    @THOROUGH
    @given(st.lists(term, min_size=1, max_size=3), st.sampled_from([4, 1000]))
    def check(terms: Terms, count: int) -> None:
        # Two dates must form a closed range (service.md 4, rule 4), which is another test's.
        assume([name for name, _ in terms].count("date") < 2)
        assert all_pages(fhir, name, [*terms, ("_count", str(count))]) == picked(held, terms)

    check()


PATIENTS = ("p1", "p2", "p5", "p8", "p13", "nobody")


@pytest.mark.parametrize("name", KINDS)
def test_a_random_search_of_a_record_finds_what_is_about_the_patient(app, name):
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    held = everything(fhir, name)
    of_all = [one for own, kind in KINDS[name].items() for one in terms_of(own, kind, held)]

    @THOROUGH
    @given(st.sampled_from(PATIENTS), st.lists(st.one_of(of_all), max_size=2))
    def check(patient: str, terms: Terms) -> None:
        assume([name for name, _ in terms].count("date") < 2)
        expected = picked(held, [*terms, ("patient", patient)])
        assert all_pages(fhir, f"Patient/{patient}/{name}", [*terms, ("_count", "4")]) == expected
        beside = [("_type", name), ("_count", "4")]
        assert all_pages(fhir, f"Patient/{patient}/*", [*terms, *beside]) == expected

    check()


def test_a_random_search_of_both_types_finds_what_fits_of_each(app):
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    held = {name: everything(fhir, name) for name in sorted(KINDS)}
    shared = set.intersection(*(set(kinds) for kinds in KINDS.values()))
    terms_of_both = [
        one
        for name, kinds in KINDS.items()
        for own in sorted(shared)
        for one in terms_of(own, kinds[own], held[name])
    ]

    @THOROUGH
    @given(st.lists(st.one_of(terms_of_both), min_size=1, max_size=2))
    def check(terms: Terms) -> None:
        assume([name for name, _ in terms].count("date") < 2)
        expected = [one for name in sorted(held) for one in picked(held[name], terms)]
        beside = [("_type", ",".join(KINDS)), ("_count", "4")]
        assert all_pages(fhir, "/fhir", [*terms, *beside]) == expected

    check()


@pytest.mark.parametrize("target", ["Patient", "Practitioner", "Organization", "Encounter"])
@pytest.mark.parametrize(
    ("name", "own"),
    [
        (name, own)
        for name, kinds in KINDS.items()
        for own, kind in kinds.items()
        if isinstance(kind, Reference)
    ],
)
def test_what_refers_to_all_of_a_type_is_what_the_references_name(app, name, own, target):
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    response = fhir.get(f"{target}?_count=1000&_revinclude={name}:{own}")
    kind = KINDS[name][own]
    here = {f"{target}/{one['id']}" for one in everything(fhir, target)}
    expected = {
        one["id"]
        for one in everything(fhir, name)
        if here & {value.partition("/_history/")[0] for value in references(kind, one)}
    }
    if response.status_code == 400:
        assert not expected
    else:
        assert set(ids(response.get_json(force=True), "include")) == expected


@pytest.mark.parametrize(
    ("name", "own"), [(name, own) for name, kinds in KINDS.items() for own in kinds]
)
def test_each_modifier_of_a_parameter_finds_what_fits(app, name, own):
    """One parameter at a time, so that none is left to chance."""
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    held = everything(fhir, name)
    for strategy in terms_of(own, KINDS[name][own], held):

        @settings(QUICK, max_examples=sample(10, 20))
        @given(strategy)
        def check(term: tuple[str, str]) -> None:
            assert all_pages(fhir, name, [term, ("_count", "1000")]) == picked(held, [term])

        check()


@pytest.mark.parametrize("name", KINDS)
def test_a_random_range_of_dates_finds_what_lies_in_it(app, name):
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    held = everything(fhir, name)
    days = spellings(dates_of(KINDS[name]["date"], held), [4, 7, 10])
    bound = st.tuples(st.sampled_from(["gt", "ge", "sa"]), st.sampled_from(["lt", "le", "eb"]))

    @QUICK
    @given(bound, st.tuples(st.sampled_from(days), st.sampled_from(days)))
    def check(prefixes: tuple[str, str], both: tuple[str, str]) -> None:
        first, last = sorted(both, key=covered)
        terms = [("date", prefixes[0] + first), ("date", prefixes[1] + last)]
        response = fhir.get(name, query_string=[*terms, ("_count", "1000")])
        if response.status_code == 400:
            # Refused only where nothing can lie between them.
            low, high = covered(first), covered(last)
            start = low[0] if prefixes[0] == "ge" else low[1]
            assert start >= (high[1] if prefixes[1] == "le" else high[0])
        else:
            assert ids(response.get_json(force=True)) == picked(held, terms)

    check()


def with_notes(fhir: Fhir, held: list[Resource]) -> list[Resource]:
    """Return the resources whose documents are plain text, the text beside them as `notes`."""
    found = []
    for one in held:
        attached = [content["attachment"] for content in one.get("content", ())]
        kinds = {each.get("contentType", "").partition(";")[0].casefold() for each in attached}
        if kinds - {"text/plain"} or any(each["url"].startswith("urn:") for each in attached):
            continue
        addresses = [each["url"].removeprefix(BASE_URL) for each in attached]
        found.append(one | {"notes": [fhir.get(each).text for each in addresses]})
    return found


def sought_words(held: list[Resource]) -> st.SearchStrategy[str]:
    """Return what is looked for: words, their beginnings, pieces, numbers with their units."""
    said = [found for one in held for text in told("_content", one) for found in sequences(text)]
    there = sorted({word for found in said for word in found})
    doses = sorted(
        {(number, unit) for found in said for number, unit in pairwise(found)
         if number[0].isdecimal() and unit in ("mg", "ml", "g")}
    )  # fmt: skip
    runs = [word for word in there if is_piecemeal(word[0])]
    word = st.sampled_from([*there, "nobodys"])
    beginning = word.map(lambda one: one[: max(1, len(one) // 2)] + "*")
    choices = [word, beginning]
    if runs:
        places = st.integers(0, 9), st.integers(1, 4)
        choices.append(
            st.builds(
                lambda run, at, most: run[at % len(run) :][:most], st.sampled_from(runs), *places
            )
        )
    if doses:
        forms = st.sampled_from(["{} {}", "{}{}", '"{} {}"', '"{}{}"'])
        fractions = st.sampled_from(["", "", "1.", "12."])
        choices.append(
            st.builds(
                lambda dose, form, more: (
                    form.format(f"{more}{dose[0]}", dose[1])
                    if "." not in dose[0]
                    else form.format(dose[0].replace(".", "," if '"' in form else "."), dose[1])
                ),
                st.sampled_from(doses),
                forms,
                fractions,
            )
        )
    # Numbers last, or what follows might be read as their unit.
    return st.lists(st.one_of(*choices), min_size=1, max_size=3).map(
        lambda asked: " ".join(sorted(asked, key=lambda one: one[0].isdecimal() and " " not in one))
    )


@pytest.mark.parametrize("parameter", ["_text", "_content"])
@pytest.mark.parametrize("name", KINDS)
def test_random_words_find_what_has_them(app, name, parameter):
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    held = with_notes(fhir, everything(fhir, name))
    choice = sought_words(held)

    @WORDS
    @given(st.lists(choice, min_size=1, max_size=2).map(",".join))
    def check(value: str) -> None:
        known = {one["id"] for one in held}
        found = all_pages(fhir, name, [(parameter, value), ("_count", "1000")])
        assert [row for row in found if row in known] == picked(held, [(parameter, value)])

    check()


@pytest.mark.parametrize("name", KINDS)
def test_words_that_stand_together_are_found_in_quotes(app, name):
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    held = with_notes(fhir, everything(fhir, name))
    texts = [(one, text) for one in held for text in told("_text", one)]

    @QUICK
    @given(st.sampled_from(texts), st.integers(0, 500), st.integers(2, 6))
    def check(one: tuple[Resource, str], start: int, length: int) -> None:
        resource, text = one
        there = max(sequences(text), key=len)
        phrase = there[start % max(1, len(there)) :][:length]
        assume(phrase)
        for parameter in ("_text", "_content"):
            value = f'"{" ".join(phrase)}"'
            found = fhir.ids(f"{name}?{parameter}={value}&_count=1000")
            assert resource["id"] in found
            # What has not even the words has not the phrase.
            known = [other for other in held if other["id"] in found]
            assert all(fits(parameter, other, one) for other in known for one in phrase)

    check()


@pytest.mark.parametrize(
    ("name", "own"),
    [(name, own) for name in KINDS for own, kind in KINDS[name].items() if isinstance(kind, Date)],
)
def test_a_random_search_is_sorted_by_a_date(app, name, own):
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    held = everything(fhir, name)
    kind = KINDS[name][own]
    of_all = [one for other, kind in KINDS[name].items() for one in terms_of(other, kind, held)]

    @settings(THOROUGH, max_examples=max(25, THOROUGH.max_examples // 10))
    @given(st.lists(st.one_of(of_all), max_size=1), st.sampled_from([4, 1000]), st.booleans())
    def check(terms: Terms, count: int, down: bool) -> None:
        shape = [("_sort", f"{'-' if down else ''}{own}"), ("_count", str(count))]
        fitting = [one for one in held if all(fits(asked, one, value) for asked, value in terms)]
        assert all_pages(fhir, name, [*terms, *shape]) == sorted_by(kind, fitting, down=down)

    check()
