"""Random searches of the seed, compared with an independent evaluator.

tests/support/evaluator.py picks. The searches are the same each time; FHIRAPP_TEST_LONG=1 makes
more of them, FHIRAPP_TEST_SEARCHES=10000 as many of each kind. Explicit searches with their results
are in tests/search and tests/support/search_page.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise

import pytest
from flask import Flask
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fhirapp.rest import chains
from tests.support.contract import allergy, publish
from tests.support.effort import sample
from tests.support.evaluator import (
    KINDS,
    TARGETS,
    VALUE_SETS,
    Date,
    Reference,
    Resource,
    Terms,
    Token,
    fits,
    fits_chain,
    is_piecemeal,
    picked,
    references,
    sequences,
    sorted_by,
    tokens,
    told,
    values_of,
)
from tests.support.helpers import BASE_URL, Fhir, ids, token_for
from tests.support.noted import TEXTS_OF_NOTES, add, attached, note
from tests.support.search_semantics import (
    THOROUGH,
    all_pages,
    everything,
    terms_of,
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
    for at, (said, text) in enumerate(TEXTS_OF_NOTES.items()):
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
    _add_value_sets(app)
    return app


def _add_value_sets(app: Flask) -> None:
    """Make a value set of every other code of each parameter."""
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
def test_reverse_includes_are_the_resources_that_refer(app, name, own, target):
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


def leads(name: str, held: list[Resource]) -> set[str]:
    """Return the references of a type that lead to types which are searched, as they are named."""
    return {
        f"{own}:{target}"
        for own, kind in KINDS[name].items()
        if isinstance(kind, Reference)
        for one in held
        for value in values_of(kind, one)
        if (target := str(value.get("reference")).partition("/")[0]) in TARGETS
    }


@pytest.mark.parametrize("most", [1_000, 1], ids=["targets listed", "row by row"])
@pytest.mark.parametrize("name", KINDS)
def test_a_random_chain_finds_what_fits_in_order(app, monkeypatch, name, most):
    monkeypatch.setattr(chains, "MOST", most)
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    held = everything(fhir, name)
    targets = {target: everything(fhir, target) for target in TARGETS}
    here = {target: {one["id"]: one for one in some} for target, some in targets.items()}
    chained = [
        strategy.map(lambda term, lead=lead: (f"{lead}.{term[0]}", term[1]))
        for lead in sorted(leads(name, held))
        for own, kind in TARGETS[lead.partition(":")[2]].items()
        for strategy in terms_of(own, kind, targets[lead.partition(":")[2]])
    ]
    direct = [one for own, kind in KINDS[name].items() for one in terms_of(own, kind, held)]
    direct = [one.filter(lambda term: term[0] != "date") for one in direct]
    assert len({lead.partition(":")[2] for lead in leads(name, held)}) > 1

    @THOROUGH
    @given(
        st.lists(st.one_of(*chained), min_size=1, max_size=2),
        st.lists(st.one_of(*direct), max_size=1),
    )
    def check(asked: list[tuple[str, str]], beside: list[tuple[str, str]]) -> None:
        fitting = [
            one for one in held if all(fits_chain(own, one, value, here) for own, value in asked)
        ]
        found = all_pages(fhir, name, [*asked, *beside, ("_count", "4")])
        assert found == picked(fitting, beside)

    check()


@pytest.mark.parametrize("most", [1_000, 1], ids=["listed", "row by row"])
def test_random_has_finds_the_targets(app, monkeypatch, most):
    monkeypatch.setattr(chains, "MOST", most)
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    held = {name: everything(fhir, name) for name in (*KINDS, *TARGETS)}
    asked = [
        strategy.map(lambda term, step=(target, name, lead): (step, *term))
        for name in KINDS
        for lead in sorted(leads(name, held[name]))
        if (target := lead.partition(":")[2]) in TARGETS
        for own, kind in KINDS[name].items()
        for strategy in terms_of(own, kind, held[name])
    ]
    terms = st.one_of(*asked).filter(lambda term: term[1] != "date")

    @THOROUGH
    @given(terms)
    def check(term: tuple[tuple[str, str, str], str, str]) -> None:
        (target, name, lead), own, value = term
        lead = lead.partition(":")[0]
        kind = KINDS[name][lead]
        referred = {
            str(reference.get("reference")).partition("/_history/")[0]
            for one in held[name]
            if fits(own, one, value)
            for reference in values_of(kind, one)
        }
        fitting = [one for one in held[target] if f"{target}/{one['id']}" in referred]
        query = [(f"_has:{name}:{lead}:{own}", value), ("_count", "3")]
        assert all_pages(fhir, target, query) == picked(fitting, [])

    check()
