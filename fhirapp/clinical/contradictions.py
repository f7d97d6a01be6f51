"""What contradicts among a patient's allergies, for a person to check.

Two entries are about the same where they share a code, system and all, or their words, but for
case and accents. Codes and words that different substances share do not count. Nothing here decides
which of them is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from fhirapp.clinical.assertion import About
from fhirapp.clinical.summary import HOLDING, SummaryEntry, SummaryGroup, sources_of
from fhirapp.fhir.words import listed, worded
from fhirapp.store.merge import merged_here

# R4's categories of medicines.
_AS_MEDICINE = frozenset({"medication", "biologic"})
_CATEGORIES: Mapping[About, frozenset[str]] = {
    About.DRUG: _AS_MEDICINE,
    About.FOOD: frozenset({"food"}),
    About.ENVIRONMENT: frozenset({"environment"}),
}


class Discrepancy(NamedTuple):
    """A contradiction or a doubt: its code, a sentence, and the entries that it names."""

    code: str
    text: str
    sources: Sequence[str]


def other_records(patient: Mapping[str, Any]) -> Sequence[Discrepancy]:
    """Return that a patient has other records, whose allergies are not among these.

    Those of a record that was merged into this one here are.
    """
    findings = []
    merged = merged_here(patient)
    for link in patient.get("link", ()):
        name = (link.get("other") or {}).get("reference") or ""
        if name.startswith("Patient/") and name.removeprefix("Patient/") not in merged:
            is_over = link.get("type") == "replaced-by"
            text = _REPLACED if is_over else _ANOTHER
            findings.append(Discrepancy("other-record", worded(text), [name]))
    return findings


_REPLACED = worded(
    "This record was replaced by another record of the same patient. Allergies in "
    "that record are not listed here."
)
_ANOTHER = worded(
    "There is another record of the same patient. Allergies in that record are not listed here."
)


def findings_of(entries: Sequence[SummaryEntry]) -> Sequence[Discrepancy]:
    """Return the findings: what may hurt first."""
    allergies = [entry for entry in entries if entry.is_allergy]
    holding = [entry for entry in entries if entry.may_be_allergy]
    return [*_none_known(entries, holding), *_unclear(entries), *_about_the_same(allergies)]


def _none_known(
    entries: Iterable[SummaryEntry], holding: Sequence[SummaryEntry]
) -> Iterator[Discrepancy]:
    """Yield each statement that none is known with the allergies that may hold beside it."""
    for entry in entries:
        if entry.group is not SummaryGroup.NONE_KNOWN:
            continue
        against = [allergy for allergy in holding if _contradicts(entry, allergy)]
        if not against:
            continue
        names = listed([_with_category(allergy, entry.assertion.about) for allergy in against])
        recorded = ""
        if entry.recorded_date:
            is_day = len(entry.recorded_date) >= len("YYYY-MM-DD")
            text = worded(", recorded on %(day)s,") if is_day else worded(", recorded in %(day)s,")
            recorded = text % {"day": entry.recorded}
        text = _STILL_ACTIVE if entry.clinical_status else _NOT_RESOLVED
        text = worded(text, name=entry.name, recorded=recorded, names=names)
        yield Discrepancy("none-known-beside-allergy", text, sources_of([entry, *against]))


_STILL_ACTIVE = worded("“%(name)s”%(recorded)s is still active alongside %(names)s.")
_NOT_RESOLVED = worded("“%(name)s”%(recorded)s is not recorded as resolved alongside %(names)s.")


def _contradicts(none_known: SummaryEntry, allergy: SummaryEntry) -> bool:
    about = none_known.assertion.about
    if about is About.ANY:
        return True
    if about is About.OTHER:
        # Several kinds at once, or one substance.
        return none_known.assertion.is_mixed or bool(none_known.keys & allergy.keys)
    return not allergy.categories or bool(_CATEGORIES[about] & set(allergy.categories))


def _with_category(allergy: SummaryEntry, about: About) -> str:
    """Return an allergy's name; where it may be of another category than is denied, that too."""
    if about in _CATEGORIES and not allergy.categories:
        return worded("%(name)s (category not recorded)", name=allergy.name)
    return allergy.name


def _unclear(entries: Iterable[SummaryEntry]) -> Iterator[Discrepancy]:
    """Yield the entries that contradict themselves, or cannot be understood whole."""
    for entry in entries:
        for fault in entry.faults:
            yield Discrepancy(
                "entry-unclear",
                worded("“%(name)s” %(fault)s.", name=entry.name, fault=fault),
                [entry.reference],
            )


def _about_the_same(allergies: Sequence[SummaryEntry]) -> Iterator[Discrepancy]:
    """Yield what is recorded more than once, or once as holding and once as not."""
    by_key: dict[str, list[SummaryEntry]] = {}
    for allergy in allergies:
        for key in allergy.keys:
            by_key.setdefault(key, []).append(allergy)
    groups = list(by_key.items())
    groups += [
        (name, [*by_key.get(name, ()), allergy])
        for allergy in allergies
        for name in allergy.other_names - allergy.keys
    ]
    shared = [same for _, same in sorted(groups, key=itemgetter(0)) if len(same) > 1]
    refuted, past, twice = [], [], []
    for same in shared:
        holds = [allergy for allergy in same if allergy.group in HOLDING]
        over = [allergy for allergy in same if allergy.group is SummaryGroup.PAST]
        denied = [allergy for allergy in same if allergy.group is SummaryGroup.REFUTED]
        if holds and denied:
            refuted.append([*holds, *denied])
        if holds and over:
            past.append([*holds, *over])
        twice += [entries for entries in (holds, over) if len(entries) > 1]
    for code, sets, text in (
        ("refuted-beside-active", refuted, _AS_REFUTED),
        ("past-beside-active", past, _AS_OVER),
        ("duplicate", twice, _TWICE),
    ):
        for entries in _largest(sets):
            names = listed([f"{entry.name} ({_status(entry)})" for entry in entries])
            yield Discrepancy(code, worded(text, names=names), sources_of(entries))


_AS_REFUTED = worded("Recorded both as refuted and as active or unresolved: %(names)s.")
_AS_OVER = worded("Recorded both as resolved or inactive and as active or unresolved: %(names)s.")
_TWICE = worded("Recorded more than once: %(names)s.")


def _largest(sets: Sequence[Sequence[SummaryEntry]]) -> Iterator[Sequence[SummaryEntry]]:
    """Yield the sets that are part of no other, each once."""
    larger: dict[str, list[frozenset[str]]] = {}
    for entries in sorted(sets, key=len, reverse=True):
        names = frozenset(sources_of(entries))
        first = entries[0].reference
        if any(names <= other for other in larger.get(first, ())):
            continue
        for name in names:
            larger.setdefault(name, []).append(names)
        yield entries


def _status(entry: SummaryEntry) -> str:
    """Return the status of an entry, and when it was recorded."""
    status = entry.clinical_status
    status = worded(status) if status else worded("status not recorded")
    if entry.group is SummaryGroup.REFUTED:
        status = worded("refuted")
    elif entry.verification_status == "unconfirmed":
        status = ", ".join((status, worded("unconfirmed")))
    if not entry.recorded:
        return status
    return ", ".join((status, worded("recorded %(day)s", day=entry.recorded)))
