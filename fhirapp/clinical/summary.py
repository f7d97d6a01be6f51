"""A patient's allergies as a clinician wants them: what may hurt first.

Each entry is in exactly one group, and nothing is left out: what is not understood is shown.
Nothing is concluded that an entry does not say; contradictions.py finds what contradicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from fhirapp.clinical.assertion import (
    About,
    Assertion,
    AssertionKind,
    assertion_of,
    coded_as,
    is_denial,
    substance,
)
from fhirapp.clinical.identity import keys, other_names
from fhirapp.clinical.severity import Severity, is_grave, sentence, severity_of
from fhirapp.clinical.substances import two_substances
from fhirapp.fhir import terminology, words
from fhirapp.fhir.substance_classes import same_class
from fhirapp.fhir.words import ReactionWords, worded
from fhirapp.search.string import fold

Resource = Mapping[str, Any]


class SummaryGroup(Enum):
    """The groups of a summary, in its order: code and title."""

    ACTIVE_SEVERE = "active-severe", worded("Active; severe, anaphylaxis or high criticality")
    # It may be the one that kills: without a status it counts as not over.
    STATUS_NOT_KNOWN_SEVERE = (
        "status-not-known-severe",
        worded("Severe, anaphylaxis or high criticality; clinical status not recorded"),
    )
    WORDS_ONLY = "words-only", worded("In document text only")
    ACTIVE = "active", worded("Active")
    STATUS_NOT_KNOWN = "status-not-known", worded("Clinical status not recorded")
    UNCONFIRMED = "unconfirmed", worded("Active, unconfirmed")
    NONE_KNOWN = "none-known", worded("None known")
    NO_INFORMATION = "no-information", worded("No information")
    NOT_ASKED = "not-asked", worded("Not asked")
    PAST = "past", worded("Resolved or inactive")
    REFUTED = "refuted", worded("Refuted")
    IN_ERROR = "entered-in-error", worded("Entered in error")

    @property
    def code(self) -> str:
        return self.value[0]

    @property
    def title(self) -> str:
        return self.value[1]


# Of a name in a sentence, and of words that are quoted in one.
_NAME = 60
_QUOTED = 200
# Characters of the reactions that are not life-threatening.
_REACTIONS = 120
# Of a section's words, which are shown whole.
_WORDS = 4_000
# Of allergies: those that may hold.
HOLDING = (
    SummaryGroup.ACTIVE_SEVERE,
    SummaryGroup.STATUS_NOT_KNOWN_SEVERE,
    SummaryGroup.ACTIVE,
    SummaryGroup.STATUS_NOT_KNOWN,
    SummaryGroup.UNCONFIRMED,
)
# The most cautious first: it counts where an entry says several.
_CLINICAL = ("active", "inactive", "resolved")
_VERIFICATION = ("confirmed", "unconfirmed", "refuted", "entered-in-error")


class SummaryEntry(NamedTuple):
    """An AllergyIntolerance in a summary; codes and words are empty where nothing is recorded.

    coded_as are the names of its codes where they differ from its words, same_class what else is
    in the classes of one that may hold. recorded_date is a FHIR dateTime; recorder and asserter are
    References that need nothing of the entry. comments are its notes, faults what contradicts
    itself or is not understood, missing what is not recorded. keys are its codes and words: entries
    that share one are about the same. other_names are those of its names that two entries may
    share which are not.
    """

    reference: str
    assertion: Assertion
    group: SummaryGroup
    substance: str
    coded_as: Sequence[str]
    same_class: Sequence[str]
    severity: Severity
    type: str
    clinical_status: str
    verification_status: str
    criticality: str
    categories: Sequence[str]
    reactions: Sequence[ReactionWords]
    onset: str
    last_occurrence: str
    recorded_date: str
    recorder: Resource
    asserter: Resource
    comments: Sequence[str]
    faults: Sequence[str]
    missing: Sequence[str]
    keys: frozenset[str]
    other_names: frozenset[str]

    @property
    def name(self) -> str:
        """How it is called in a sentence."""
        return words.shortened(self.substance, _NAME) or worded(
            "an allergy (substance not recorded)"
        )

    @property
    def recorded(self) -> str:
        """When it was recorded, in words."""
        return words.when(self.recorded_date)

    @property
    def is_severe(self) -> bool:
        return self.severity.is_severe

    @property
    def why_severe(self) -> str:
        """Why it is shown as severe; empty where it is not."""
        if not self.is_severe:
            return ""
        if self.criticality == "high":
            return worded("high criticality")
        if self.severity.words:
            return worded("described as “%(words)s”", words=self.severity.words)
        is_graded = any(reaction.severity == "severe" for reaction in self.reactions)
        return worded("severe reaction") if is_graded else worded("anaphylaxis")

    @property
    def severe_by(self) -> str:
        """The reason for severity as a code: words, reaction, or criticality alone; else "".

        A code of the substance, such as food anaphylaxis, names a reaction.
        """
        if not self.is_severe:
            return ""
        if self.severity.words:
            return "words"
        is_reaction = any(
            reaction.grave or reaction.severity == "severe" for reaction in self.reactions
        )
        return "criticality" if self.criticality == "high" and not is_reaction else "reaction"

    @property
    def worst_reaction(self) -> str:
        """The worst reactions: life-threatening ones first, never shortened.

        If only words describe it as severe, these words.
        """
        if self.severity.words:
            return f"“{self.severity.words}”"
        worst = [r for r in self.reactions if r.grave or r.severity == "severe"] or self.reactions
        grave = dict.fromkeys(name for reaction in worst for name in reaction.grave)
        rest = dict.fromkeys(
            reaction.text.removeprefix(", ".join(reaction.grave)).removeprefix(", ")
            for reaction in worst
        )
        others = words.shortened("; ".join(filter(None, rest)), _REACTIONS)
        return ", ".join(filter(None, (*grave, others)))

    @property
    def is_allergy(self) -> bool:
        return self.assertion.kind is AssertionKind.ALLERGY

    @property
    def may_be_allergy(self) -> bool:
        """Whether it is an allergy that may hold, or words that may be about one."""
        return self.group in HOLDING or self.group is SummaryGroup.WORDS_ONLY


class Conclusion(NamedTuple):
    """What all entries together say, as a code and in a sentence, and which ones say it."""

    code: str
    text: str
    sources: Sequence[str] = ()


def entries_of(resources: Iterable[Resource]) -> Sequence[SummaryEntry]:
    """Return the entries in the order of a summary."""
    return sorted(map(_entry, resources), key=_order)


def conclusion_of(entries: Sequence[SummaryEntry], *, is_limited: bool = False) -> Conclusion:
    """Return what the entries say together; is_limited where there may be others that are not here.

    Nothing recorded, not asked, no information, words only and none known are five things.
    """
    conclusion = _conclusion(entries)
    if not is_limited:
        return conclusion
    part = worded("This token gives access to only some of the entries, so there may be others.")
    if not entries:
        return Conclusion("not-visible", part + " " + worded("It gives access to none of them."))
    return conclusion._replace(text=f"{conclusion.text} {part}")


def _conclusion(entries: Sequence[SummaryEntry]) -> Conclusion:
    holding = [entry for entry in entries if entry.is_allergy and entry.group in HOLDING]
    in_words = [entry for entry in entries if entry.group is SummaryGroup.WORDS_ONLY]
    none_known = [entry for entry in entries if entry.group is SummaryGroup.NONE_KNOWN]
    nothing = [
        entry
        for entry in entries
        if entry.group in (SummaryGroup.NO_INFORMATION, SummaryGroup.NOT_ASKED)
    ]
    if holding:
        text = f"{_counted(len(holding))}; " + sentence(
            len(holding),
            severe=sum(entry.is_severe and not entry.severity.words for entry in holding),
            described=sum(bool(entry.severity.words) for entry in holding),
            unrecorded=sum(not entry.severity.is_recorded for entry in holding),
            unclear=sum(entry.severity.is_unclear for entry in holding),
        )
        return Conclusion("allergies", text + _quoted(in_words), sources_of([*holding, *in_words]))
    if in_words:
        text = worded("No active or unresolved allergy is coded.") + _quoted(in_words)
        return Conclusion("words-only", text, sources_of(in_words))
    if any(entry.assertion.about is About.ANY for entry in none_known):
        sure = [entry for entry in none_known if entry.assertion.about is About.ANY]
        text = _recorded(worded("no known allergies"), sure)
        return Conclusion("none-known", text + _also(nothing), sources_of(none_known))
    if none_known:
        names = words.listed(list(dict.fromkeys(map(_denied, none_known))))
        text = _recorded(names, none_known)
        text += " " + worded("Nothing is recorded about other allergies.")
        return Conclusion("none-known-in-part", text + _also(nothing), sources_of(none_known))
    if nothing:
        return _nothing_known(nothing)
    if entries:
        text = worded("No active or unresolved allergy is recorded.") + " " + worded(_NO_PROOF)
        return Conclusion("none-holding", text, sources_of(entries))
    return Conclusion("nothing-recorded", worded(_NOTHING))


_NOTHING = worded(
    "No allergy entries are recorded. This does not mean that there are no allergies."
)
_NO_PROOF = worded("This does not mean that there are none.")


def _nothing_known(entries: Sequence[SummaryEntry]) -> Conclusion:
    """Return that it was not asked, or that no information is recorded: of both, the latter."""
    if all(entry.group is SummaryGroup.NOT_ASKED for entry in entries):
        text = worded("Recorded: patient not asked about allergies.")
        code = "not-asked"
    else:
        text = worded("Recorded: no information about allergies.")
        code = "no-information"
    return Conclusion(code, f"{text} {worded(_NO_PROOF)}", sources_of(entries))


def _quoted(in_words: Sequence[SummaryEntry]) -> str:
    """Return what documents say in words alone: the beginning, and that there is more."""
    if not in_words:
        return ""
    quotes = words.listed([f"“{words.shortened(entry.substance, _QUOTED)}”" for entry in in_words])
    return " " + worded("A document states: %(quotes)s", quotes=quotes)


_DENIED = {
    About.DRUG: worded("no known drug allergies"),
    About.FOOD: worded("no known food allergies"),
    About.ENVIRONMENT: worded("no known environmental allergies"),
}


def _denied(entry: SummaryEntry) -> str:
    about = entry.assertion.about
    return worded(_DENIED[about]) if about in _DENIED else f"“{entry.name}”"


def _counted(number: int) -> str:
    if number == 1:
        return worded("1 active or unresolved allergy or intolerance")
    return worded("%(count)s active or unresolved allergies or intolerances", count=number)


def _recorded(what: str, entries: Sequence[SummaryEntry]) -> str:
    if any(entry.verification_status == "confirmed" for entry in entries):
        return worded("Recorded: %(what)s.", what=what)
    return worded("Recorded, but not confirmed: %(what)s.", what=what)


def _also(nothing: Sequence[SummaryEntry]) -> str:
    return " " + worded("Another entry gives no information.") if nothing else ""


def sources_of(entries: Sequence[SummaryEntry]) -> list[str]:
    return [entry.reference for entry in entries]


def _entry(resource: Resource) -> SummaryEntry:
    assertion = assertion_of(resource)
    clinical = _codes(resource, "clinicalStatus", terminology.ALLERGY_CLINICAL, _CLINICAL)
    verified = _codes(
        resource, "verificationStatus", terminology.ALLERGY_VERIFICATION, _VERIFICATION
    )
    reactions = words.reactions(resource, is_grave)
    severity = severity_of(resource)
    status, verification = next(iter(clinical), ""), next(iter(verified), "")
    about = substance(resource)
    group = _group(assertion, status, verification, is_severe=severity.is_severe)
    return SummaryEntry(
        reference=f"AllergyIntolerance/{resource['id']}",
        assertion=assertion,
        group=group,
        substance=_substance(assertion, about),
        coded_as=coded_as(about),
        same_class=same_class(about) if group in HOLDING else (),
        severity=severity,
        type=resource.get("type") or "",
        clinical_status=status,
        verification_status=verification,
        criticality=resource.get("criticality") or "",
        categories=[code for code in resource.get("category", ()) if code],
        reactions=reactions,
        onset=words.onset(resource),
        last_occurrence=words.when(resource.get("lastOccurrence")),
        recorded_date=resource.get("recordedDate") or "",
        recorder=_reference(resource, "recorder"),
        asserter=_reference(resource, "asserter"),
        comments=[
            words.shortened(note["text"]) for note in resource.get("note", ()) if note.get("text")
        ],
        faults=list(_faults(resource, assertion, clinical, verified)),
        missing=list(_missing(clinical, verified)),
        keys=keys(about)
        if assertion.kind in (AssertionKind.ALLERGY, AssertionKind.NONE_KNOWN)
        else frozenset(),
        other_names=other_names(about) if assertion.kind is AssertionKind.ALLERGY else frozenset(),
    )


def _substance(assertion: Assertion, about: Mapping[str, Any]) -> str:
    if assertion.kind is AssertionKind.WORDS_ONLY:
        return words.shortened(str(about.get("text") or ""), _WORDS)
    return words.concept(about)


def _reference(resource: Resource, name: str) -> Resource:
    """Return a Reference; of one to what the entry contains, the name alone."""
    value: Resource = resource.get(name) or {}
    if not str(value.get("reference") or "").startswith("#"):
        return {key: value[key] for key in ("reference", "display") if value.get(key)} or (
            {"display": name} if (name := words.reference(value)) else {}
        )
    return {"display": words.reference(value, resource)}


def _codes(resource: Resource, name: str, system: str, known: Sequence[str]) -> Sequence[str]:
    """Return the codes of a status, the most cautious first."""
    codings = (resource.get(name) or {}).get("coding", ())
    codes = {coding.get("code") for coding in codings if coding.get("system") == system}
    return [code for code in known if code in codes]


def is_entered_in_error(resource: Resource) -> bool:
    """Say whether an AllergyIntolerance is entered in error, and has no other verification."""
    codes = _codes(resource, "verificationStatus", terminology.ALLERGY_VERIFICATION, _VERIFICATION)
    return codes == ["entered-in-error"]


def _group(
    assertion: Assertion, status: str, verification: str, *, is_severe: bool
) -> SummaryGroup:
    if verification == "entered-in-error":
        return SummaryGroup.IN_ERROR
    if verification == "refuted":
        return SummaryGroup.REFUTED
    if status in ("inactive", "resolved"):
        return SummaryGroup.PAST
    if assertion.kind is not AssertionKind.ALLERGY:
        return SummaryGroup[assertion.kind.name]
    if not status:
        return SummaryGroup.STATUS_NOT_KNOWN_SEVERE if is_severe else SummaryGroup.STATUS_NOT_KNOWN
    if is_severe:
        return SummaryGroup.ACTIVE_SEVERE
    return SummaryGroup.UNCONFIRMED if verification == "unconfirmed" else SummaryGroup.ACTIVE


def _faults(
    resource: Resource, assertion: Assertion, clinical: Sequence[str], verified: Sequence[str]
) -> Iterable[str]:
    if assertion.is_mixed:
        yield worded("is coded as “none known” and as something else")
    elif assertion.kind is AssertionKind.ALLERGY and is_denial(substance(resource)):
        yield worded(
            "may state that there is no allergy, but is listed as one: read the entry itself"
        )
    if assertion.kind is AssertionKind.ALLERGY and (names := two_substances(substance(resource))):
        first, other = (words.shortened(name, _NAME) for name in names)
        yield worded(
            "names two different substances, “%(first)s” and “%(other)s”: read the entry itself",
            first=first,
            other=other,
        )
    # FHIR R4 extensibility §2.4.1.1: without understanding it the rest cannot be relied on.
    if resource.get("modifierExtension"):
        yield worded("has a modifier extension that may change its meaning: read the entry itself")
    if len(clinical) > 1:
        yield worded("has several clinical statuses: %(codes)s", codes=", ".join(clinical))
    if len(verified) > 1:
        yield worded("has several verification statuses: %(codes)s", codes=", ".join(verified))


def _missing(clinical: Sequence[str], verified: Sequence[str]) -> Iterable[str]:
    # FHIR R4 AllergyIntolerance, ait-2: one that was entered in error has no clinical status.
    if not clinical and "entered-in-error" not in verified:
        yield worded("clinical status not recorded")
    if not verified:
        yield worded("verification status not recorded")


def _order(entry: SummaryEntry) -> tuple[int, bool, int, str, str]:
    ranks = [words.severity_rank(reaction.severity) for reaction in entry.reactions]
    worst = min(ranks, default=words.severity_rank(""))
    return (
        list(SummaryGroup).index(entry.group),
        not entry.is_severe,
        worst,
        fold(entry.substance),
        entry.reference,
    )
