"""Where a note came from, in sentences. FHIR R4 provenance §2.34."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.features.notes import elements
from fhirapp.features.notes.attachments import VIA
from fhirapp.features.notes.listing import every
from fhirapp.fhir import words
from fhirapp.web.pages import PageError
from fhirapp.web.texts import _

Json = Mapping[str, Any]
# v3 DataOperation.
_ACTIVITIES = {
    "CREATE": _("Created"),
    "UPDATE": _("Changed"),
    "APPEND": _("Added to"),
    "DELETE": _("Deleted"),
    "NULLIFY": _("Nullified"),
}
# FHIR R4 provenance-participant-type and US Core's.
_ROLES = {
    "author": _("written by"),
    "enterer": _("entered by"),
    "performer": _("performed by"),
    "verifier": _("verified by"),
    "legal": _("legally authenticated by"),
    "attester": _("attested by"),
    "informant": _("reported by"),
    "custodian": _("in the custody of"),
    "assembler": _("assembled by"),
    "composer": _("composed by"),
    "transmitter": _("sent by"),
}
_ENTITY_ROLES = {
    "derivation": _("derived from"),
    "revision": _("revision of"),
    "quotation": _("quoted from"),
    "source": _("from"),
    "removal": _("removes"),
}


def origins(note_id: str, token: OwnToken) -> list[tuple[str, list[str]]] | None:
    """Return a heading and sentences for each Provenance of a note; None without access to them."""
    document = f"DocumentReference/{note_id}"
    try:
        found = list(every("Provenance", [("target", document), ("_sort", "-recorded")], token, 50))
    except PageError:
        return None
    elements.add_names(found, token, VIA)
    return [_origin(provenance, document) for provenance in found]


def activity(provenance: Json) -> str:
    """Return what was done: Created."""
    concept = provenance.get("activity")
    return _known(concept, _ACTIVITIES) or words.concept(concept) or _("Recorded")


def agents(provenance: Json) -> Iterator[str]:
    """Yield the agents, each with its role: written by Dr. Ruiz, on behalf of Lakeside."""
    for agent in provenance.get("agent", ()):
        concept = agent.get("type")
        role = _known(concept, _ROLES) or f"{words.concept(concept) or _('role not recorded')}:"
        who = words.reference(agent.get("who"), provenance) or _("not named")
        behalf = words.reference(agent.get("onBehalfOf"), provenance)
        text = f"{role} {who}"
        is_other = bool(behalf) and behalf != who
        yield _("%(text)s, on behalf of %(whom)s", text=text, whom=behalf) if is_other else text


def entity_role(entity: Json) -> str:
    """Return how a Provenance comes of an entity: derived from."""
    return _(_ENTITY_ROLES.get(str(entity.get("role")), "from"))


def _known(concept: Json | None, labels: Mapping[str, str]) -> str:
    """Return the label of a CodeableConcept's first code that has one."""
    codes = (coding.get("code") for coding in (concept or {}).get("coding", ()))
    return next((_(labels[code]) for code in codes if code in labels), "")


def _origin(provenance: Json, document: str) -> tuple[str, list[str]]:
    heading = f"{activity(provenance)}, {elements.moment_of(provenance.get('recorded'))}"
    entities = (_entity(entity, provenance, document) for entity in provenance.get("entity", ()))
    signatures = (
        _(
            "Signed by %(who)s, %(when)s.",
            who=words.reference(signature.get("who"), provenance) or _("an unnamed person"),
            when=elements.moment_of(signature.get("when")),
        )
        for signature in provenance.get("signature", ())
    )
    reasons = words.concepts(provenance.get("reason"))
    parts = [
        *dict.fromkeys(islice(agents(provenance), 20)),
        *islice(entities, 20),
        *islice(signatures, 5),
        _("Reason: %(reasons)s.", reasons=reasons) if reasons else "",
        _happened(provenance),
    ]
    return heading, [_sentence(part) for part in parts if part]


def _happened(provenance: Json) -> str:
    if when := provenance.get("occurredDateTime"):
        return _("Occurred on %(day)s.", day=elements.day_of(when))
    period = provenance.get("occurredPeriod") or {}
    if period.get("start") and period.get("end"):
        first, last = elements.day_of(period["start"]), elements.day_of(period["end"])
        return _("Occurred from %(first)s to %(last)s.", first=first, last=last)
    return ""


def _entity(entity: Json, provenance: Json, document: str) -> str:
    source = entity.get("what") or {}
    is_document = source.get("reference") == document
    what = _("this document") if is_document else words.reference(source, provenance)
    return f"{entity_role(entity)} {what or _('not recorded')}"


def _sentence(text: str) -> str:
    text = words.shortened(f"{text[:1].upper()}{text[1:]}", 600)
    return text if text.endswith(".") else f"{text}."
