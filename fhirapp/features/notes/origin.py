"""Where a note came from, in sentences. FHIR R4 provenance §2.34."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.features.notes import elements
from fhirapp.features.notes.attachments import VIA
from fhirapp.features.notes.listing import every
from fhirapp.fhir import words
from fhirapp.web.pages import PageError
from fhirapp.web.texts import _

_MOST = 50
# v3 DataOperation, and what people say.
_DONE = {
    "CREATE": _("Created"),
    "UPDATE": _("Changed"),
    "APPEND": _("Added to"),
    "DELETE": _("Deleted"),
}
_ROLES = {
    "author": _("written by"),
    "transmitter": _("sent by"),
    "assembler": _("assembled by"),
    "custodian": _("in the custody of"),
    "enterer": _("entered by"),
    "verifier": _("verified by"),
    "legal": _("legally authenticated by"),
    "attester": _("attested by"),
    "informant": _("reported by"),
    "performer": _("performed by"),
}
_FROM = {
    "source": _("derived from"),
    "derivation": _("derived from"),
    "revision": _("revision of"),
    "quotation": _("quotes"),
    "removal": _("removes"),
}


class NoteProvenance(NamedTuple):
    """A Provenance: its heading and what else it tells."""

    heading: str
    sentences: tuple[str, ...]


def origins(note_id: str, token: OwnToken) -> list[NoteProvenance] | None:
    """Return where a note came from, None where the token may not see it."""
    parameters = [("target", f"DocumentReference/{note_id}"), ("_sort", "-recorded")]
    try:
        found = list(every("Provenance", parameters, token, _MOST))
    except PageError:
        return None
    elements.add_names(found, token, VIA)
    return [_origin(provenance, f"DocumentReference/{note_id}") for provenance in found]


def _origin(provenance: Mapping[str, Any], document: str) -> NoteProvenance:
    codings = (provenance.get("activity") or {}).get("coding") or []
    codes = [str(coding.get("code", "")) for coding in codings]
    named = words.concept(provenance.get("activity"))
    done = next((_(_DONE[code]) for code in codes if code in _DONE), named) or _("Recorded")
    heading = f"{done}, {elements.moment_of(provenance.get('recorded'))}"
    agents = [_agent(agent) for agent in provenance.get("agent", ())[:20]]
    entities = [_entity(entity, document) for entity in provenance.get("entity", ())[:20]]
    signatures = [
        _(
            "Signed by %(who)s, %(when)s.",
            who=words.reference(signature.get("who")) or _("an unnamed person"),
            when=elements.moment_of(signature.get("when")),
        )
        for signature in provenance.get("signature", ())[:5]
    ]
    reasons = words.concepts(provenance.get("reason"))
    others = [
        _("Reason: %(reasons)s.", reasons=reasons) if reasons else "",
        _happened(provenance),
    ]
    parts = (*dict.fromkeys(agents), *entities, *signatures, *filter(None, others))
    return NoteProvenance(heading, tuple(_sentence(part) for part in parts))


def _happened(provenance: Mapping[str, Any]) -> str:
    if when := provenance.get("occurredDateTime"):
        return _("Occurred on %(day)s.", day=elements.day_of(when))
    period = provenance.get("occurredPeriod") or {}
    if period.get("start") and period.get("end"):
        first, last = elements.day_of(period["start"]), elements.day_of(period["end"])
        return _("Occurred from %(first)s to %(last)s.", first=first, last=last)
    return ""


def _agent(agent: Mapping[str, Any]) -> str:
    codings = (agent.get("type") or {}).get("coding") or []
    codes = [str(coding.get("code", "")) for coding in codings]
    role = next((_(_ROLES[code]) for code in codes if code in _ROLES), "") or words.concept(
        agent.get("type")
    )
    who = words.references([agent.get("who") or {}]) or _("not recorded")
    behalf = words.reference(agent.get("onBehalfOf"))
    role = role or _("involved:")
    text = f"{role} {who}"
    return (
        _("%(text)s, on behalf of %(whom)s", text=text, whom=behalf)
        if behalf and behalf != who
        else text
    )


def _entity(entity: Mapping[str, Any], document: str) -> str:
    source = entity.get("what") or {}
    what = _("this document") if source.get("reference") == document else words.reference(source)
    what = what or _("not recorded")
    return f"{_(_FROM.get(str(entity.get('role')), 'made from'))} {what}"


def _sentence(text: str) -> str:
    text = words.shortened(f"{text[:1].upper()}{text[1:]}", 600)
    return text if text.endswith(".") else f"{text}."
