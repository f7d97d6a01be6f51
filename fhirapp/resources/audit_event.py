"""AuditEvent: the audit trail as FHIR has it, for administrators with a scope that names it.

It is no record of a patient and has no table: each is made of a line of the trail when it is asked
for. `user/*.rs` does not reach it: who lets an app see records does not mean the trail of them all.

Source: FHIR R4 auditevent; DICOM PS3.16 CID 400 and 401 for types and subtypes.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from flask import Blueprint, Response

from fhirapp import urls
from fhirapp.audit.entries import AuditEntry, entries, entry_with, patients_named_by
from fhirapp.audit.events import EVENTS, FAILED
from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.auth.protector import current_token, insufficient_scope, require_oauth
from fhirapp.auth.scopes import clinical_scopes
from fhirapp.definition import OperationParameter
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.json import MATCH, Entry
from fhirapp.fhir.outcome import InvalidParameter, NotFound
from fhirapp.fhir.temporal import instant_of, interval
from fhirapp.rest import openapi_parts as parts
from fhirapp.rest.bundle_answer import bundle_id
from fhirapp.rest.endpoints import Declaration, Endpoint, declare, interactions_of
from fhirapp.rest.operation import SHAPING, RequestParameters, read_parameters
from fhirapp.rest.paging import cursors, fingerprint, page_link
from fhirapp.rest.response import FORM_PARAMETERS, arguments, document_etag, negotiate, respond

NAME = "AuditEvent"
SCOPE = f"user/{NAME}.rs"
_DCM = "http://dicom.nema.org/resources/ontology/DCM"
_TYPES = "http://terminology.hl7.org/CodeSystem/audit-event-type"
_INTERACTIONS = "http://hl7.org/fhir/restful-interaction"
_ROLES = "http://terminology.hl7.org/CodeSystem/object-role"
_ENTITIES = "http://terminology.hl7.org/CodeSystem/audit-entity-type"
_ID = re.compile(r"[A-Za-z0-9\-.]{1,64}")
_MOST_ENTITIES = 1_000


class _EventCode(NamedTuple):
    """DICOM's type and subtype of an event, with their names, and FHIR's action."""

    type: tuple[str, str]
    subtype: tuple[str, str]
    action: str = "E"


_AUTHENTICATION = ("110114", "User Authentication")
_SECURITY = ("110113", "Security Alert")
_LOGIN = _EventCode(_AUTHENTICATION, ("110122", "Login"))
_ATTRIBUTES = _EventCode(_SECURITY, ("110137", "User Security Attributes Changed"), "U")
_ROLES_CHANGED = _EventCode(_SECURITY, ("110136", "Security Roles Changed"), "U")
_CONFIGURATION = _EventCode(_SECURITY, ("110131", "Software Configuration"), "U")
_OTHER = _EventCode(("110100", "Application Activity"), ("110120", "Application Start"))
_CODED: Mapping[str, _EventCode] = {
    **dict.fromkeys(("sign-in", "sign-in-failed", "code-failed"), _LOGIN),
    "sign-out": _EventCode(_AUTHENTICATION, ("110123", "Logout")),
    "sessions-ended": _EventCode(_AUTHENTICATION, ("110123", "Logout")),
    **dict.fromkeys(("administrator-made", "role-changed"), _ROLES_CHANGED),
    **dict.fromkeys(
        (
            *(
                "user-added",
                "user-removed",
                "class-joined",
                "learner-reset",
                "user-disabled",
                "user-enabled",
                "password-changed",
            ),
            *("password-address", "factor-on", "factor-off", "record-linked", "record-unlinked"),
            *("practitioner-changed", "provider-linked", "provider-unlinked"),
            *("app-allowed", "app-ended", "token-issued"),
        ),
        _ATTRIBUTES,
    ),
    **dict.fromkeys(
        (
            *("app-registered", "app-approved", "app-rejected", "app-changed", "app-disabled"),
            *("app-expired", "app-enabled", "app-secret", "keys-changed", "settings-changed"),
            *("setting-changed", "class-made", "class-changed", "class-ended"),
        ),
        _CONFIGURATION,
    ),
    "patients-found": _EventCode(("110112", "Query"), ("110112", "Query")),
    "export": _EventCode(("110106", "Export"), ("110106", "Export"), "R"),
    "import": _EventCode(("110107", "Import"), ("110107", "Import"), "C"),
    "packed": _EventCode(("110101", "Audit Log Used"), ("110101", "Audit Log Used"), "D"),
    "missing": _EventCode(("110101", "Audit Log Used"), ("110101", "Audit Log Used")),
}


def resource_of(entry: AuditEntry, patients: Sequence[str]) -> dict[str, Any]:
    """Return the AuditEvent of an entry; patients are the ids of those whom it is about."""
    coded = _interaction(entry) if not entry.event else _event(entry)
    outcome = "0" if entry.status < 400 else "4" if entry.status < 500 else "8"
    if entry.event:
        outcome = "4" if entry.event in FAILED else "0"
    content: dict[str, Any] = {
        "resourceType": NAME,
        "id": _event_id(entry),
        "meta": {"lastUpdated": entry.at},
        **coded,
        "recorded": entry.at,
        "outcome": outcome,
    }
    if entry.event:
        content["outcomeDesc"] = ": ".join(filter(None, (EVENTS.get(entry.event), entry.body)))
    elif entry.status >= 400:
        content["outcomeDesc"] = f"HTTP {entry.status}"
    content["agent"] = _agents(entry)
    content["source"] = {"site": urls.fhir_url(), "observer": {"display": "fhirapp"}}
    if entities := _entities(entry, patients):
        content["entity"] = entities
    return content


def _event_id(entry: AuditEntry) -> str:
    """Return the id of the AuditEvent of an entry: letters, digits, - and . (FHIR R4 datatypes).

    An entry of the first edition may have a request id of a proxy, with other characters.
    """
    return entry.id.replace("_", "-")


def _interaction(entry: AuditEntry) -> dict[str, Any]:
    """Return what a request was, by its address."""
    path = entry.path.partition("?")[0]
    steps = [step for step in path.split("/") if step][1:]
    if any(step.startswith("$") for step in steps) or not path.startswith(("/fhir", "/api")):
        code, action = "operation", "E"
    elif steps[:1] == ["metadata"]:
        code, action = "capabilities", "R"
    elif "_history" in steps:
        after = steps[steps.index("_history") + 1 :]
        place = {1: "system", 2: "type"}.get(len(steps), "instance")
        code = "vread" if after else f"history-{place}"
        action = "R"
    elif len(steps) == 2 and steps[1] != "_search":
        code, action = "read", "R"
    elif not steps and entry.method == "POST":
        code, action = "batch", "E"
    elif not steps or steps == ["_search"] or (len(steps) == 3 and steps[2] in ("*", "_search")):
        code, action = "search-system", "E"
    else:
        code, action = "search-type", "E"
    return {
        "type": {"system": _TYPES, "code": "rest", "display": "RESTful Operation"},
        "subtype": [{"system": _INTERACTIONS, "code": code, "display": code}],
        "action": action,
    }


def _event(entry: AuditEntry) -> dict[str, Any]:
    coded = _CODED.get(entry.event, _OTHER)
    (type_code, type_name), (code, name) = coded.type, coded.subtype
    return {
        "type": {"system": _DCM, "code": type_code, "display": type_name},
        "subtype": [{"system": _DCM, "code": code, "display": name}],
        "action": coded.action,
    }


def _agents(entry: AuditEntry) -> list[dict[str, Any]]:
    """Return who it was, and through which client; where neither is known, from where alone."""
    agents: list[dict[str, Any]] = []
    if entry.user_id:
        agents.append({"who": _identified(entry.user_id, "user"), "requestor": True})
    if entry.client_id:
        who = _identified(entry.client_id, "client")
        agents.append({"who": who, "requestor": not entry.user_id})
    if not agents:
        agents.append({"who": {"display": entry.address or "not known"}, "requestor": True})
    if entry.address and not entry.address.startswith("shell:"):
        agents[0]["network"] = {"address": entry.address, "type": "2"}
    return agents


def _identified(value: str, kind: str) -> dict[str, Any]:
    return {"identifier": {"system": f"{urls.fhir_url()}/{kind}", "value": value}}


def _entities(entry: AuditEntry, patients: Sequence[str]) -> list[dict[str, Any]]:
    patient_role = {"system": _ROLES, "code": "1", "display": "Patient"}
    person = {"system": _ENTITIES, "code": "1", "display": "Person"}
    entities: list[dict[str, Any]] = [
        {"what": {"reference": f"Patient/{patient_id}"}, "type": person, "role": patient_role}
        for patient_id in patients[:_MOST_ENTITIES]
        if _ID.fullmatch(patient_id)
    ]
    system_object = {"system": _ENTITIES, "code": "2", "display": "System Object"}
    for name in entry.served[:_MOST_ENTITIES]:
        type_name, resource_id, version_id = name.split("/")
        reference = f"{type_name}/{resource_id}/_history/{version_id}"
        role = {"system": _ROLES, "code": "4", "display": "Domain Resource"}
        entities.append({"what": {"reference": reference}, "type": system_object, "role": role})
    if entry.about:
        kind, _, value = entry.about.partition("/")
        role = {"system": _ROLES, "code": "11", "display": "Security User Entity"}
        who = _identified(value, "client" if kind == "app" else kind)
        entities.append({"what": who, "type": system_object, "role": role})
    if not entry.event:
        # The query as it came: FHIR has bytes here.
        query = f"{entry.method} {entry.path}" + (f"\n{entry.body}" if entry.body else "")
        role = {"system": _ROLES, "code": "24", "display": "Query"}
        encoded = base64.b64encode(query.encode()).decode()
        entities.append({"type": system_object, "role": role, "query": encoded})
    return entities


def _check_access(permission: str) -> None:
    """Raise Forbidden where the token is no administrator's with such a scope."""
    # In what was allowed, not only in what is left of it: user/*.rs does not name it.
    named = all(
        any(scope.resource_type == NAME and permission in scope.permissions for scope in part)
        for part in (clinical_scopes(current_token.scope), current_token.access().scopes)
    )
    if current_token.role != ADMINISTRATOR or not named:
        raise insufficient_scope(
            "The audit trail is for administrators, with a scope that names it.",
            SCOPE,
        )


blueprint = Blueprint(NAME, __name__)
# The parameters of a search.
_DOCUMENTED: Mapping[str, tuple[str, str, str]] = {
    "date": ("date", "AuditEvent-date", "When it was, with the prefixes eq, ge, gt, le, lt"),
    "patient": ("reference", "AuditEvent-patient", "Of whose record it is"),
}

_PARAMETERS = (OperationParameter("patient", "reference", _DOCUMENTED["patient"][2]),)


_SCHEMAS: Mapping[str, parts.Node] = {"date": parts.DATE, "reference": parts.STRING}
_SHAPING = parts.FORM_PARAMETERS | parts.CONDITIONS
_SEARCH = parts.group(
    NAME,
    "query",
    *((name, doc, _SCHEMAS[kind]) for name, (kind, _, doc) in _DOCUMENTED.items()),
)
_ENDPOINTS = (
    Endpoint(
        f"GET /fhir/{NAME}/{{id}}",
        NAME,
        f"Read an {NAME}",
        NAME,
        parts.ID | _SHAPING,
        (404,),
        ("read",),
    ),
    Endpoint(
        f"GET /fhir/{NAME}",
        NAME,
        f"Search {NAME}",
        parameters=_SEARCH | parts.PAGES | _SHAPING,
        interactions=("search-type",),
    ),
)
_RESOURCE = {
    "type": NAME,
    "documentation": "The audit trail: for administrators, with the scope "
    f"{SCOPE}, which user/*.rs does not include.",
    "interaction": interactions_of(_ENDPOINTS),
    "versioning": "no-version",
    "searchParam": [
        {
            "name": name,
            "type": kind,
            "definition": f"http://hl7.org/fhir/SearchParameter/{definition}",
            "documentation": doc,
        }
        for name, (kind, definition, doc) in _DOCUMENTED.items()
    ],
}
blueprint.record_once(
    lambda state: declare(state.app, Declaration(endpoints=_ENDPOINTS, resources=[_RESOURCE]))
)


@blueprint.get(f"/fhir/{NAME}/<event_id>")
@require_oauth()
def read(event_id: str) -> Response:
    """Return one AuditEvent."""
    _check_access("r")
    layout = negotiate(arguments())
    found = entry_with(event_id) if _ID.fullmatch(event_id) else None
    if found is None:
        raise NotFound(f"{NAME}/{event_id[:64]} is not known here.")
    (content,) = resources_of([found])
    body = fhir_json.dumps_indented(content)
    return respond(body, layout, etag=document_etag(body))


@blueprint.get(f"/fhir/{NAME}")
@blueprint.get(f"/fhir/{NAME}/")
@require_oauth()
def search() -> Response:
    """Return a page of AuditEvents, the newest first. Raises a ParameterError."""
    _check_access("s")
    sent = arguments()
    for name, value in sent:
        if not value and name not in FORM_PARAMETERS:
            # To ignore it would make the answer the trail of others.
            raise InvalidParameter(name, "cannot be read")
    # Several dates all hold.
    dates = [pair for pair in sent if pair[0] == "date"]
    parameters = read_parameters(
        _PARAMETERS, [pair for pair in sent if pair[0] != "date"], NAME, is_paged=True
    )
    layout = negotiate(parameters.parameters)
    applied = [*dates, *parameters.applied]
    query_fingerprint = fingerprint(NAME, [pair for pair in applied if pair[0] not in SHAPING])
    filters = _filters(parameters, [value for _, value in dates])
    if parameters.cursor is not None:
        (filters["before"],) = cursors().read(parameters.cursor, query_fingerprint)
    count = max(1, parameters.count)
    found = entries(**filters, kind=None, limit=count + 1)
    shown = found[:count]
    links = [("self", page_link(NAME, [*dates, *parameters.parameters]))]
    if len(found) > count:
        cursor = cursors().write((shown[-1].number,), query_fingerprint)
        links.append(("next", page_link(NAME, [*applied, ("_cursor", cursor)])))
    shown_ids = repr([entry.id for entry in found]).encode()
    name = bundle_id(hashlib.blake2b(shown_ids, digest_size=16).hexdigest())
    listed = [
        Entry(f"{urls.fhir_url()}/{NAME}/{content['id']}", fhir_json.dumps_indented(content), MATCH)
        for content in resources_of(shown)
    ]
    body = fhir_json.bundle(name, "searchset", None, links, listed)
    return respond(body, layout, etag=document_etag(body))


def resources_of(found: Sequence[AuditEntry]) -> list[dict[str, Any]]:
    """Return the AuditEvents of entries, in their order."""
    patients = patients_named_by([entry.number for entry in found])
    return [resource_of(entry, patients.get(entry.number, ())) for entry in found]


def _filters(parameters: RequestParameters, dates: Iterable[str]) -> dict[str, Any]:
    """Return what entries() is asked for. Raises InvalidParameter."""
    filters: dict[str, Any] = {}
    if (patient := parameters.value("patient")) is not None:
        match = _ID.fullmatch(patient.removeprefix("Patient/"))
        if match is None:
            raise InvalidParameter("patient", "cannot be read")
        filters["patient_id"] = match[0]
    for value in dates:
        _add_date(filters, value)
    return filters


def _add_date(filters: dict[str, Any], value: str) -> None:
    prefix, text = (value[:2], value[2:]) if value[:2].isalpha() else ("eq", value)
    try:
        covered = interval(text)
    except ValueError:
        raise InvalidParameter("date", "is no date") from None
    bounds = {
        "eq": (covered.low, covered.high),
        "ge": (covered.low, None),
        "gt": (covered.high, None),
        "le": (None, covered.high),
        "lt": (None, covered.low),
    }
    if prefix not in bounds:
        raise InvalidParameter("date", f"does not take the prefix {prefix} here")
    low, high = bounds[prefix]
    if low is not None:
        filters["since"] = max(filters.get("since", ""), instant_of(low))
    if high is not None:
        filters["until"] = min(filters.get("until", "9"), instant_of(high))
