"""The page of one allergy: every element, and its origin from Provenance."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.clinical.assertion import substance
from fhirapp.clinical.narrative import STANDINGS
from fhirapp.clinical.summary import entries_of
from fhirapp.features.chart.allergies import VIA
from fhirapp.features.chart.elements import ELEMENTS, LONG, codings, notes
from fhirapp.features.notes.elements import add_names
from fhirapp.features.notes.note import encounter_in_words
from fhirapp.features.notes.origin import activity, agents, entity_role
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.words import (
    concept,
    reference,
    severity_in_words,
    severity_rank,
    severity_words,
    shortened,
    when,
)
from fhirapp.web.internal_client import read
from fhirapp.web.people import unknown
from fhirapp.web.texts import _

Json = Mapping[str, Any]
_ID = re.compile(ID_PATTERN)


class Fact(NamedTuple):
    """An element in words: what it is called, FHIR's name of it, what it says, its codes."""

    label: str
    element: str
    text: str
    codes: Sequence[str] = ()


class Details(NamedTuple):
    """An allergy; title is its substance.

    severe says why it is shown as severe, standing that it is not current or never was, look_twice
    what is contradictory or not understood: sentences, empty if there are none.
    """

    title: str
    severe: str
    standing: str
    look_twice: Sequence[str]
    facts: Sequence[Fact]
    reactions: Sequence[Sequence[Fact]]
    notes: Sequence[str]


def read_allergy(
    patient_id: str, allergy_id: str, token: OwnToken
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return an allergy of a patient, and its Provenances. Raises PageError."""
    if not _ID.fullmatch(allergy_id):
        raise unknown()
    parameters = {"patient": patient_id, "_id": allergy_id, "_revinclude": "Provenance:target"}
    bundle = read(f"/fhir/AllergyIntolerance?{urlencode(parameters)}", token, via=VIA)
    resources = [entry["resource"] for entry in bundle.get("entry", ())]
    add_names(resources, token, VIA)
    allergies = [record for record in resources if record["resourceType"] == "AllergyIntolerance"]
    if not allergies:
        raise unknown()
    allergy = allergies[0]
    if encounter := allergy.get("encounter"):
        encounter["display"] = encounter_in_words(encounter, token, via=VIA)
    return allergy, [record for record in resources if record["resourceType"] == "Provenance"]


def details_of(allergy: Json) -> Details:
    """Return an allergy in words, element by element; what is not recorded, too."""
    code = substance(allergy)
    reactions = allergy.get("reaction", ())
    (entry,) = entries_of([allergy])
    return Details(
        title=entry.substance or _("Substance not recorded"),
        severe=entry.why_severe,
        standing=_(STANDINGS.get(entry.group, "")),
        look_twice=[_("This entry %(fault)s.", fault=fault) for fault in entry.faults],
        facts=[
            Fact(_("Substance"), "code", entry.substance or _(_NOT_TOLD), codings(code)),
            *(
                Fact(_("Same class"), "code", f"{drug}. {_(_NOT_ALL_REACT)}")
                for drug in entry.same_class
            ),
            *(
                Fact(_(label), name, text_of(allergy) or _(_NOT_TOLD))
                for label, name, text_of in ELEMENTS
            ),
        ],
        reactions=[
            _reaction(reaction)
            for reaction in sorted(reactions, key=lambda r: severity_rank(r.get("severity") or ""))
        ],
        notes=notes(allergy.get("note")),
    )


_NOT_TOLD = _("not recorded")
_NOT_ALL_REACT = _("Whoever reacts to one need not react to the others.")


def _reaction(reaction: Json) -> list[Fact]:
    """Return a reaction; only what it tells, beside what happened and how severe it was."""
    names = [concept(symptom) for symptom in reaction.get("manifestation", ())]
    all_codes = [code for symptom in reaction.get("manifestation", ()) for code in codings(symptom)]
    text = ", ".join(filter(None, names)) or _(_NOT_TOLD)
    severity = severity_in_words(reaction.get("severity") or "", severity_words(reaction))
    facts = [
        Fact(_("Reaction"), "manifestation", shortened(text), all_codes),
        Fact(_("Severity"), "severity", severity or _(_NOT_TOLD)),
        Fact(_("Substance"), "substance", concept(reaction.get("substance") or {})),
        Fact(_("Onset"), "onset", when(reaction.get("onset"))),
        Fact(_("Exposure route"), "exposureRoute", concept(reaction.get("exposureRoute") or {})),
        Fact(_("Description"), "description", shortened(reaction.get("description") or "", LONG)),
        Fact(_("Notes"), "note", "; ".join(notes(reaction.get("note")))),
    ]
    return [fact for fact in facts if fact.text]


_NOTE = re.compile(f"DocumentReference/({ID_PATTERN})")


class ProvenanceReason(NamedTuple):
    """Why, or from what; address is that of a note of ours, else empty."""

    text: str
    address: str = ""


class AllergyProvenance(NamedTuple):
    """A Provenance: what was done and when, then who did what, then why and from what."""

    what: str
    deeds: Sequence[str]
    also: Sequence[ProvenanceReason]


def origins(provenances: Sequence[Json]) -> list[AllergyProvenance]:
    """Return where something comes from, the latest first."""
    ordered = sorted(provenances, key=lambda entry: str(entry.get("recorded", "")), reverse=True)
    return [
        AllergyProvenance(
            f"{activity(entry)}, {when(entry.get('recorded')) or _('date not recorded')}",
            list(agents(entry)),
            list(_reasons(entry)),
        )
        for entry in ordered
    ]


def _reasons(provenance: Json) -> Iterator[ProvenanceReason]:
    for reason in provenance.get("reason", ()):
        if text := concept(reason):
            yield ProvenanceReason(_("reason: %(reason)s", reason=text))
    for entity in provenance.get("entity", ()):
        source = entity.get("what") or {}
        what = reference(source, provenance)
        role = entity_role(entity)
        note = _NOTE.fullmatch(str(source.get("reference") or ""))
        if note:
            named = what if source.get("display") else _("a note")
            yield ProvenanceReason(f"{role} {named}", f"/notes/{note[1]}")
        elif what:
            yield ProvenanceReason(f"{role} {what}")
