"""Where a document and its allergies come from: who wrote them, and which document says so.

Each allergy has a Provenance of its own: only who may see all of its targets sees it (decisions
§6), and a token for allergies sees no document. Source: US Core Provenance; FHIR R4 provenance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fhirapp.exchange.ccda import times
from fhirapp.exchange.ccda.ids import identity
from fhirapp.exchange.ccda.people import Actor
from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import absent, extended
from fhirapp.fhir.systems import CT

_PARTICIPANT_TYPE = f"{CT}provenance-participant-type"
_CREATE = {"coding": [{"system": f"{CT}v3-DataOperation", "code": "CREATE", "display": "create"}]}


def provenance(
    target: str,
    document: str,
    authors: Sequence[Actor],
    recorded: Element | None,
    occurred: Element | None,
    custodian: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the Provenance of a target, Type/id, that a document, Type/id, is the source of.

    recorded is when the document was made, occurred when the target was written.
    """
    agents = [_agent("author", "Author", one.reference, _on_behalf_of(one)) for one in authors]
    if custodian:
        agents.append(_agent("custodian", "Custodian", custodian, None))
    contained = {one["id"]: one for actor in authors for one in actor.contained}
    found: dict[str, Any] = {
        "resourceType": "Provenance",
        "id": identity("Provenance", target, document),
        "contained": list(contained.values()),
        "target": [{"reference": target}],
        "activity": _CREATE,
        "agent": agents or [_agent("author", "Author", extended(absent()), None)],
        "entity": [{"role": "source", "what": {"reference": document}}],
    }
    times.put(found, "occurredDateTime", occurred)
    # An instant is never made of a date.
    if instant := times.instant(recorded):
        found["recorded"] = instant
    else:
        found["_recorded"] = extended(absent())
    return {name: value for name, value in found.items() if value}


def _on_behalf_of(actor: Actor) -> dict[str, Any] | None:
    """Return for whom somebody acts; US Core asks it of some (provenance-1)."""
    if actor.on_behalf_of is None and actor.type_name in ("Practitioner", "Device"):
        return extended(absent())
    return actor.on_behalf_of


def _agent(
    code: str, display: str, who: dict[str, Any], on_behalf_of: dict[str, Any] | None
) -> dict[str, Any]:
    type_ = {"coding": [{"system": _PARTICIPANT_TYPE, "code": code, "display": display}]}
    agent = {"type": type_, "who": who, "onBehalfOf": on_behalf_of}
    return {name: value for name, value in agent.items() if value}
