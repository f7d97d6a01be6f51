"""Random searches of the seed agree with what a reader of the specification would pick by hand.

The evaluator looks at the resources as they are served, one by one, and knows no SQL, no index and
nothing of fhirapp. Source: FHIR R4 search §3.1.1.4; service.md 4; decisions §2, §3.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.conftest import token_for
from tests.helpers import BASE_URL, Fhir, ids, link

Resource = dict[str, Any]
Terms = list[tuple[str, str]]
HL7 = "http://hl7.org/fhir/"


class Token(NamedTuple):
    """A token parameter: element paths, and the system that a bare code is of."""

    paths: tuple[str, ...]
    system: str = ""


class Date(NamedTuple):
    """A date parameter: of these element paths the first that is there."""

    paths: tuple[str, ...]


class Reference(NamedTuple):
    """A reference parameter: its element path, and the one type it points to, if it is one."""

    path: str
    target: str = ""


KINDS: dict[str, dict[str, Token | Date | Reference]] = {
    "AllergyIntolerance": {
        "patient": Reference("patient", "Patient"),
        "date": Date(("recordedDate", "onsetDateTime", "onsetPeriod")),
        "_lastUpdated": Date(("meta.lastUpdated",)),
        "onset": Date(("reaction.onset",)),
        "last-date": Date(("lastOccurrence",)),
        "status": Token(("clinicalStatus", "verificationStatus")),
        "clinical-status": Token(("clinicalStatus",)),
        "verification-status": Token(("verificationStatus",)),
        "code": Token(("code", "reaction.substance")),
        "category": Token(("category",), HL7 + "allergy-intolerance-category"),
        "criticality": Token(("criticality",), HL7 + "allergy-intolerance-criticality"),
        "type": Token(("type",), HL7 + "allergy-intolerance-type"),
        "identifier": Token(("identifier",)),
        "manifestation": Token(("reaction.manifestation",)),
        "route": Token(("reaction.exposureRoute",)),
        "severity": Token(("reaction.severity",), HL7 + "reaction-event-severity"),
        "recorder": Reference("recorder"),
        "asserter": Reference("asserter"),
    },
    "DocumentReference": {
        "patient": Reference("subject", "Patient"),
        "subject": Reference("subject"),
        "date": Date(("date",)),
        "_lastUpdated": Date(("meta.lastUpdated",)),
        "period": Date(("context.period",)),
        "category": Token(("category",)),
        "type": Token(("type",)),
        "code": Token(("type",)),
        "status": Token(("status",), HL7 + "document-reference-status"),
        "identifier": Token(("masterIdentifier", "identifier")),
        "contenttype": Token(("content.attachment.contentType",), "urn:ietf:bcp:13"),
        "format": Token(("content.format",)),
        "language": Token(("content.attachment.language",), "urn:ietf:bcp:47"),
        "event": Token(("context.event",)),
        "facility": Token(("context.facilityType",)),
        "setting": Token(("context.practiceSetting",)),
        "security-label": Token(("securityLabel",)),
        "relation": Token(("relatesTo.code",), HL7 + "document-relationship-type"),
        "author": Reference("author"),
        "authenticator": Reference("authenticator"),
        "custodian": Reference("custodian", "Organization"),
        "encounter": Reference("context.encounter"),
        "relatesto": Reference("relatesTo.target", "DocumentReference"),
        "related": Reference("context.related"),
    },
}
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
PREFIXES = ("", "eq", "ne", "gt", "ge", "lt", "le", "sa", "eb")


def at(value: Any, path: str) -> list[Any]:
    """Return what stands at a path, through every list."""
    if isinstance(value, list):
        return [found for item in value for found in at(item, path)]
    if not path:
        return [value]
    step, _, rest = path.partition(".")
    return at(value[step], rest) if isinstance(value, dict) and step in value else []


def tokens(kind: Token, resource: Resource) -> list[tuple[str, str]]:
    """Return the (system, code) pairs that a token can find."""
    found = []
    for value in (one for path in kind.paths for one in at(resource, path)):
        if isinstance(value, str):
            found.append((kind.system, value))
            continue
        for coding in value.get("coding", [value]):
            code = coding.get("code", coding.get("value"))
            if code is not None:
                found.append((coding.get("system", ""), code))
    return found


def fits_token(kind: Token, resource: Resource, value: str) -> bool:
    system, bar, code = value.rpartition("|")
    return any(
        (not bar or system == held_system) and (code == held_code or (bar and not code))
        for held_system, held_code in tokens(kind, resource)
    )


def covered(text: str) -> tuple[datetime, datetime]:
    """Return the half-open stretch of time of a date as it is written."""
    if len(text) > 10:
        start = datetime.fromisoformat(text)
        return start, start + timedelta(milliseconds=1 if "." in text else 1_000)
    year, month, day = [*map(int, text.split("-")), 1, 1][:3]
    start = datetime(year, month, day, tzinfo=UTC)
    if len(text) == 10:
        return start, start + timedelta(days=1)
    if len(text) == 7:
        return start, datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    return start, datetime(year + 1, 1, 1, tzinfo=UTC)


def dates(kind: Date, resource: Resource) -> list[tuple[datetime, datetime]]:
    """Return the stretches of time that a date parameter can find."""
    values = next(filter(None, (at(resource, path) for path in kind.paths)), [])
    found = []
    for value in values:
        if isinstance(value, str):
            found.append(covered(value))
            continue
        start = covered(value["start"])[0] if "start" in value else FIRST
        end = covered(value["end"])[1] if "end" in value else LAST
        found.append((start, end))
    return found


def fits_date(kind: Date, resource: Resource, value: str) -> bool:
    prefix = value[:2] if value[:2] in PREFIXES else ""
    start, end = covered(value.removeprefix(prefix))

    def holds(low: datetime, high: datetime) -> bool:
        inside = start <= low and high <= end
        rules = {"eq": inside, "gt": end < high, "lt": low < start, "sa": end <= low}
        rules |= {"ge": rules["gt"] or inside, "le": rules["lt"] or inside, "ne": not inside}
        return {**rules, "eb": high <= start}[prefix or "eq"]

    return any(holds(*held) for held in dates(kind, resource))


def references(kind: Reference, resource: Resource) -> list[str]:
    return at(resource, f"{kind.path}.reference")


def fits_reference(kind: Reference, resource: Resource, value: str) -> bool:
    value = value.removeprefix(f"{BASE_URL}/fhir/")
    named = f"{kind.target}/{value}" if kind.target and "/" not in value else value
    return any(
        held == named or ("/" not in named and held.rpartition("/")[2] == named)
        for held in references(kind, resource)
        if not held.startswith("#")
    )


def fits(name: str, resource: Resource, value: str) -> bool:
    """Say whether a resource has one of the values that a comma separates."""
    name, _, modifier = name.partition(":")
    values = value.split(",")
    if name == "_id":
        return resource["id"] in values
    kind = KINDS[resource["resourceType"]][name]
    if isinstance(kind, Token):
        found = any(fits_token(kind, resource, one) for one in values)
        return found != (modifier == "not")
    if isinstance(kind, Date):
        return any(fits_date(kind, resource, one) for one in values)
    return any(fits_reference(kind, resource, one) for one in values)


def picked(resources: Iterable[Resource], terms: Terms) -> list[str]:
    """Return the ids of those that fit every term: newest first, then by id from the end."""
    found = [one for one in resources if all(fits(name, one, value) for name, value in terms)]
    found.sort(key=lambda one: (one["meta"]["lastUpdated"], one["id"]), reverse=True)
    return [one["id"] for one in found]


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


def values_of(name: str, kind: Token | Date | Reference, held: list[Resource]) -> Any:
    """Return a strategy of the terms of one parameter, of values that occur and others."""
    if isinstance(kind, Token):
        pairs = {pair for one in held for pair in tokens(kind, one) if "|" not in "".join(pair)}
        spelled = plain(code for _, code in pairs)
        spelled += plain(f"{system}|{code}" for system, code in pairs)
        spelled += plain(f"{system}|" for system, _ in pairs if system)
        named, choice = st.sampled_from([name, name, f"{name}:not"]), st.sampled_from(spelled)
    elif isinstance(kind, Reference):
        found = {value for one in held for value in references(kind, one) if value[0] != "#"}
        local = {value for value in found if "://" not in value and not value.startswith("urn:")}
        spelled = plain(found | {value.rpartition("/")[2] for value in local})
        spelled += plain(f"{BASE_URL}/fhir/{value}" for value in local)
        named, choice = st.just(name), st.sampled_from(spelled)
    else:
        spelled = [*spellings(dates_of(kind, held), [4, 7, 10, 19, 23]), "1800"]
        choice = st.builds(str.__add__, st.sampled_from(PREFIXES), st.sampled_from(spelled))
        named = st.just(name)
    return st.tuples(named, st.lists(choice, min_size=1, max_size=3).map(",".join))


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


@pytest.mark.parametrize("name", KINDS)
def test_a_random_search_finds_what_fits_in_order(app, name):
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    held = [entry["resource"] for entry in fhir.read(f"{name}?_count=1000")["entry"]]
    listed = st.sampled_from([*(one["id"] for one in held), "nobodys"])
    by_id = st.lists(listed, min_size=1, max_size=8).map(lambda several: ("_id", ",".join(several)))
    term = st.one_of(by_id, *(values_of(one, kind, held) for one, kind in KINDS[name].items()))

    @settings(deadline=None, derandomize=True, max_examples=200)
    @given(st.lists(term, min_size=1, max_size=3), st.sampled_from([4, 1000]))
    def check(terms: Terms, count: int) -> None:
        # Two dates must form a closed range (service.md 4, rule 4), which is the next test's.
        assume([name for name, _ in terms].count("date") < 2)
        assert all_pages(fhir, name, [*terms, ("_count", str(count))]) == picked(held, terms)

    check()


@pytest.mark.parametrize("name", KINDS)
def test_a_random_range_of_dates_finds_what_lies_in_it(app, name):
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    held = [entry["resource"] for entry in fhir.read(f"{name}?_count=1000")["entry"]]
    days = spellings(dates_of(KINDS[name]["date"], held), [4, 7, 10])
    bound = st.tuples(st.sampled_from(["gt", "ge", "sa"]), st.sampled_from(["lt", "le", "eb"]))

    @settings(deadline=None, derandomize=True, max_examples=80)
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
