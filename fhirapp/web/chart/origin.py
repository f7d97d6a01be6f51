"""Where an allergy comes from, in words: what its Provenance says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.words import concept, when
from fhirapp.web.chart.words import reference
from fhirapp.web.texts import _

Json = Mapping[str, Any]
_NOTE = re.compile(f"DocumentReference/({ID_PATTERN})")
_ACTIVITIES = {
    "CREATE": _("Written down"),
    "UPDATE": _("Changed"),
    "APPEND": _("Added to"),
    "DELETE": _("Deleted"),
    "NULLIFY": _("Declared void"),
}
# FHIR R4 provenance-participant-type and US Core's: what somebody did.
_DEEDS = {
    "author": _("written by"),
    "enterer": _("entered by"),
    "performer": _("done by"),
    "verifier": _("verified by"),
    "legal": _("answered for by"),
    "attester": _("attested by"),
    "informant": _("told by"),
    "custodian": _("kept by"),
    "assembler": _("put together by"),
    "composer": _("composed by"),
    "transmitter": _("sent by"),
}
_ROLES = {
    "derivation": _("derived from"),
    "revision": _("a revision of"),
    "quotation": _("quoted from"),
    "source": _("from"),
    "removal": _("in place of"),
}


class Also(NamedTuple):
    """Why, or from what; address is that of a note of ours, else empty."""

    text: str
    address: str = ""


class Origin(NamedTuple):
    """A Provenance: what was done and when, then who did what, then why and from what."""

    what: str
    deeds: Sequence[str]
    also: Sequence[Also]


def origins(provenances: Sequence[Json]) -> list[Origin]:
    """Return where something comes from, the latest first."""
    ordered = sorted(provenances, key=lambda one: str(one.get("recorded", "")), reverse=True)
    return [Origin(_what(one), list(_deeds(one)), list(_also(one))) for one in ordered]


def _what(provenance: Json) -> str:
    activity = provenance.get("activity") or {}
    codes = [one.get("code") for one in activity.get("coding", ())]
    known = next((_(_ACTIVITIES[code]) for code in codes if code in _ACTIVITIES), "")
    what = known or concept(activity) or _("Recorded")
    day = when(str(provenance.get("recorded") or "")) or _("day not told")
    return f"{what}, {day}"


def _deeds(provenance: Json) -> Iterator[str]:
    for agent in provenance.get("agent", ()):
        kind = agent.get("type") or {}
        codes = [one.get("code") for one in kind.get("coding", ())]
        deed = next((_(_DEEDS[code]) for code in codes if code in _DEEDS), "")
        deed = deed or f"{concept(kind) or _('somebody whose part is not told')}:"
        who = reference(agent.get("who"), provenance) or _("somebody who is not named")
        behalf = reference(agent.get("onBehalfOf"), provenance)
        also = f", {_('on behalf of')} {behalf}" if behalf and behalf != who else ""
        yield f"{deed} {who}{also}"


def _also(provenance: Json) -> Iterator[Also]:
    for reason in provenance.get("reason", ()):
        if said := concept(reason):
            yield Also(_("reason: %(reason)s", reason=said))
    for entity in provenance.get("entity", ()):
        source = entity.get("what") or {}
        what = reference(source, provenance)
        role = _(_ROLES.get(str(entity.get("role")), "from"))
        note = _NOTE.fullmatch(str(source.get("reference") or ""))
        if note:
            named = what if source.get("display") else _("a note")
            yield Also(f"{role} {named}", f"/notes/{note[1]}")
        elif what:
            yield Also(f"{role} {what}")
