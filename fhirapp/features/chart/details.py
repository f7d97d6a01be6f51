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
from fhirapp.features.chart.elements import LONG, codings, elements_of, notes
from fhirapp.features.notes.elements import add_names
from fhirapp.features.notes.note import encounter_in_words
from fhirapp.features.notes.origin import activity, agents, entity_role
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.words import (
    concept,
    concepts,
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


def details_of(allergy: Json) -> dict[str, Any]:
    """Return the values of an allergy's page, element by element; what is not recorded, too.

    severe says why it is shown as severe, standing that it is not current or never was, look_twice
    what is contradictory or not understood: sentences, empty if there are none. Facts are tuples:
    label, FHIR's name, text, codes.
    """
    (entry,) = entries_of([allergy])
    nothing = _("not recorded")
    not_all = _("A reaction to one does not imply a reaction to the others.")
    reactions = sorted(
        allergy.get("reaction", ()),
        key=lambda reaction: severity_rank(reaction.get("severity") or ""),
    )
    return {
        "title": entry.substance or _("Substance not recorded"),
        "severe": entry.why_severe,
        "standing": _(STANDINGS.get(entry.group, "")),
        "look_twice": [_("This entry %(fault)s.", fault=fault) for fault in entry.faults],
        "facts": [
            (_("Substance"), "code", entry.substance or nothing, codings(substance(allergy))),
            *((_("Same class"), "code", f"{drug}. {not_all}") for drug in entry.same_class),
            *((label, name, text or nothing) for label, name, text in elements_of(allergy)),
        ],
        "reactions": [_reaction(reaction) for reaction in reactions],
        "notes": notes(allergy.get("note")),
    }


def _reaction(reaction: Json) -> list[tuple[str, str, str, Sequence[str]]]:
    """Return facts of a reaction: what happened, how severe it was, and what else is recorded."""
    symptoms, nothing = reaction.get("manifestation", ()), _("not recorded")
    severity = severity_in_words(reaction.get("severity") or "", severity_words(reaction))
    description = shortened(reaction.get("description") or "", LONG)
    codes = [code for symptom in symptoms for code in codings(symptom)]
    others = [
        (_("Substance"), "substance", concept(reaction.get("substance"))),
        (_("Onset"), "onset", when(reaction.get("onset"))),
        (_("Exposure route"), "exposureRoute", concept(reaction.get("exposureRoute"))),
        (_("Description"), "description", description),
        (_("Notes"), "note", "; ".join(notes(reaction.get("note")))),
    ]
    return [
        (_("Reaction"), "manifestation", shortened(concepts(symptoms)) or nothing, codes),
        (_("Severity"), "severity", severity or nothing, ()),
        *((label, name, text, ()) for label, name, text in others if text),
    ]


_NOTE = re.compile(f"DocumentReference/({ID_PATTERN})")


class AllergyProvenance(NamedTuple):
    """A Provenance: what was done and when, then who did what, then why and from what.

    also has pairs of a text and the address of a note of ours, "" of anything else.
    """

    what: str
    deeds: Sequence[str]
    also: Sequence[tuple[str, str]]


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


def _reasons(provenance: Json) -> Iterator[tuple[str, str]]:
    for reason in provenance.get("reason", ()):
        if text := concept(reason):
            yield _("reason: %(reason)s", reason=text), ""
    for entity in provenance.get("entity", ()):
        source = entity.get("what") or {}
        what = reference(source, provenance)
        role = entity_role(entity)
        note = _NOTE.fullmatch(str(source.get("reference") or ""))
        if note:
            named = what if source.get("display") else _("a note")
            yield f"{role} {named}", f"/notes/{note[1]}"
        elif what:
            yield f"{role} {what}", ""
