"""Requests as a good client writes them, of every kind that the app serves.

They are found in the declarations, in /openapi.json and in the data, so that a type, a parameter or
an operation that is new is asked too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.definition import Definition
from fhirapp.rest.definitions import modifiers_of
from fhirapp.rest.include_parameters import includable, referring
from tests.support.authorizing import Flow, add_person, add_program
from tests.support.bulk import Exports
from tests.support.contract import SERVED, Held, addresses, example, shown, spellings, versions_held
from tests.support.fuzz import Request, asking
from tests.support.helpers import FHIR_JSON, Fhir, link, token_for
from tests.support.openapi import Described
from tests.support.operations import FORM, parameters

PATIENT = "p1"


TRAIL, USERINFO = "/fhir/AuditEvent", "/oauth/userinfo"
# What a batch asks for.
_BATCH = (
    *("Patient/p1", "AllergyIntolerance?patient=p1&_count=1", "metadata"),
    "AllergyIntolerance/al-p1-penicillin/_history",
)


def valid_requests(app: Flask, described: Described) -> list[Request]:
    """Return requests of every kind that the app serves."""
    held, fhir = versions_held(app), Fhir(app, token_for(app, "system/*.rs"))
    requests = [
        *(_get(one) for one in _plain(described) if one not in (TRAIL, USERINFO)),
        _get("/fhir/SearchParameter/AllergyIntolerance-status"),
        _get("/fhir/OperationDefinition/AllergyIntolerance-summary"),
        *(
            asking("POST", f"/oauth/{name}", body=body, media=FORM).with_headers(
                Authorization="Basic ZGVtby1iYWNrZW5kOmRlbW8="
            )
            for name, body in (
                ("token", "grant_type=client_credentials&scope=system/*.rs"),
                ("introspect", "token=unknown&token_type_hint=access_token"),
                ("revoke", "token=unknown&token_type_hint=refresh_token"),
            )
        ),
    ]
    requests += [
        asking("GET", path, query)
        for path, query in (
            ("/fhir", "_type=AllergyIntolerance,DocumentReference&patient=p1&_count=2"),
            ("/fhir/_search", "_lastUpdated=gt2024&_summary=true&_explain=true"),
            ("/fhir/_history", "_since=2024&_count=3"),
            ("/fhir/Patient/p1/*", "_count=2&_total=none"),
            ("/fhir/Patient/p1/_search", "_type=Encounter"),
            ("/fhir/Patient/p1/AllergyIntolerance", "_revinclude=Provenance:target"),
        )
    ]
    of_a_record = [one for one in described.paths if one.startswith("/fhir/Patient/{id}/")]
    for path in ("/fhir/_search", *of_a_record):
        for method in described.paths[path]:
            own = path.replace("{id}", "p1")
            if path.endswith("_search") and method == "post":
                requests.append(asking("POST", own, body="_count=1", media=FORM))
            elif path.partition("{id}/")[2][:1].isalpha():
                requests.append(_get(f"{own}?_count=1"))
    for kind in ("batch", "transaction"):
        asked = [{"request": {"method": "GET", "url": one}} for one in _BATCH]
        body = json.dumps({"resourceType": "Bundle", "type": kind, "entry": asked})
        requests.append(asking("POST", "/fhir", "_pretty=false", body=body, media=FHIR_JSON))
    for definition in SERVED.values():
        instances = addresses(definition, example(definition, held))
        requests += [_get(f"/fhir/{address}") for address in instances]
        requests += [_get(f"/fhir/{address}?_pretty=false&_format=json") for address in instances]
        requests += operation_requests(definition)
        if definition.searchable:
            with app.app_context():
                requests += _searches(definition, held)
        if "history-type" in definition.interactions:
            query = "_since=2024-01-01&_at=2025&_count=2"
            requests.append(asking("GET", f"/fhir/{definition.name}/_history", query))
    requests += [
        _get(f"/fhir/Binary/{row_id}").with_headers(Range="bytes=0-9", Accept="*/*")
        for row_id in sorted(held["Binary"])[:3]
    ]
    requests = [*requests, *_further(fhir, requests)]
    plain = (one for one in requests if "$export" not in one.address)
    return [*plain, *_exports(app), *_of_users(app)]


def _of_users(app: Flask) -> Iterator[Request]:
    """Yield what administrators alone ask of the trail, and people of themselves."""
    scope = f"user/{TRAIL.rpartition('/')[2]}.rs openid"
    flow = Flow(app, add_program(app, scope=scope), add_person(app, ADMINISTRATOR))
    token = flow.tokens(scope)["access_token"]
    found = Fhir(app, token).read(f"{TRAIL}?_count=1")
    event_id = found["entry"][0]["resource"]["id"]
    for address in (
        *(TRAIL, f"{TRAIL}/{event_id}", f"{TRAIL}?patient=p1&_count=2&_pretty=false"),
        f"{TRAIL}?date=ge2020-01-01&date=lt2200&_count=9",
    ):
        yield _get(address).with_headers(Authorization=f"Bearer {token}")
    for method in ("GET", "POST"):
        yield asking(method, USERINFO).with_headers(Authorization=f"Bearer {token}")


def _exports(app: Flask) -> Iterator[Request]:
    """Yield kick-offs, each of a client of its own, and what is asked of an export that is done."""
    body = json.dumps(parameters(("_type", "valueString", "Patient")))
    for level in ("", "/Patient", "/Group/grp-allergy-clinic"):
        for request in (
            asking("GET", f"/fhir{level}/$export", "_type=Patient"),
            asking("POST", f"/fhir{level}/$export", body=body, media=FHIR_JSON),
        ):
            yield request.with_headers(Authorization=f"Bearer {Exports(app).token}")
    exports = Exports(app)
    status, other = (exports.started("$export?_type=Patient") for _ in range(2))
    exports.work()
    own = {"Authorization": f"Bearer {exports.token}"}
    for method, address in (
        ("GET", status),
        ("GET", f"{status}/Patient.1.ndjson"),
        ("DELETE", other),
    ):
        yield asking(method, address).with_headers(**own)


def _plain(described: Described) -> Iterator[str]:
    """Yield the addresses that can be asked for as they are."""
    for path, methods in described.paths.items():
        if "get" in methods:
            parameters = described.parameters(path, "get").values()
            if not any(one["required"] for one in parameters):
                yield path


def _get(address: str) -> Request:
    path, _, query = address.partition("?")
    return asking("GET", path, query)


def _searches(definition: Definition, held: Held) -> Iterator[Request]:
    """Yield searches by every parameter, with every modifier, in every form."""
    name = definition.name
    there = list(shown(definition, held).values())
    for parameter in definition.params:
        found = sorted({one for row in there for one in spellings(parameter, row)})[:2] or ["x"]
        for value in found:
            yield asking("GET", f"/fhir/{name}", f"{parameter.name}={value}&_count=2")
        for modifier in modifiers_of(parameter):
            value = _MODIFIED.get((parameter.kind, modifier), found[0])
            value = _MODIFIED.get(modifier, value)
            if parameter.name == "contenttype" and modifier == "below":
                value = "text"
            yield asking("GET", f"/fhir/{name}", f"{parameter.name}:{modifier}={value}")
        for target in getattr(parameter, "targets", ()):
            yield asking("GET", f"/fhir/{name}", f"{parameter.name}:{target}=x")
            if target in SERVED:
                yield asking("GET", f"/fhir/{name}", f"{parameter.name}:{target}._id=p1,x")
                has = f"_has:{name}:{parameter.name}:_id=x,y"
                yield asking("GET", f"/fhir/{target}", has)
        if parameter.sortable:
            yield asking("GET", f"/fhir/{name}", f"_sort=-{parameter.name},_id")
    for query in (
        "_lastUpdated=ge2024-01-01&_lastUpdated=lt2030&_total=none",
        "_revinclude=Provenance:target&_summary=true&_explain=true&_pretty=false",
        "_elements=id,meta&_format=json&unknown=x",
        *(f"_include={value}&_include:iterate={value}" for value in includable(definition)),
        *(f"_revinclude={value}" for value in referring(definition)),
    ):
        yield asking("GET", f"/fhir/{name}", query)
        for path in (f"/fhir/{name}", f"/api/{name}"):
            yield asking("POST", path, body=query, media=FORM)
            yield asking("POST", f"{path}/_search", body=query, media=FORM)
    strict = f"_id={','.join(sorted(held[name])[:3])}&_count=0"
    yield asking("GET", f"/api/{name}", strict).with_headers(Prefer="handling=strict")


# Values for modifiers that do not take what the parameter takes without them.
_MODIFIED = {
    "missing": "true",
    "of-type": "system|code|value",
    "text": "word",
    "contains": "word",
    ("uri", "above"): "http://x.example/a/b",
    ("uri", "below"): "http://x.example/a",
    ("token", "in"): "penicillins,http://lakeside.example/fhir/ValueSet/severe-reactions",
    ("token", "not-in"): "ValueSet/severe-reactions",
    ("token", "below"): "latex",
}
SOUGHT = {
    "resourceType": "Patient",
    "identifier": [{"system": "http://hospital.example", "value": "LGH-100237"}],
    "name": [{"family": "Hartwell", "given": ["Amelia"]}],
    "birthDate": "1958-04-12",
}
_VALUES = {
    "id": ("valueId", PATIENT),
    "date": ("valueDate", "2024-01-01"),
    "dateTime": ("valueDateTime", "2024-01-01T00:00:00Z"),
    "instant": ("valueInstant", "2024-01-01T00:00:00Z"),
    "Coding": ("valueCoding", {"system": "http://loinc.org", "code": "18842-5"}),
    "boolean": ("valueBoolean", False),
    "canonical": ("valueCanonical", "http://x.example/profile"),
    "code": ("valueCode", "Patient,AllergyIntolerance"),
    "integer": ("valueInteger", 2),
    "Resource": ("resource", {"system": "", "code": ""}),
    "string": ("valueString", "LGH-100237"),
    "uri": ("valueUri", "http://hl7.org/fhir/uv/ips/StructureDefinition/Bundle-uv-ips"),
}


def operation_requests(definition: Definition) -> Iterator[Request]:
    """Yield a type's operations, by GET and by POST, with the parameters that they must have."""
    for operation in definition.operations:
        place = f"/{PATIENT}" if operation.instance else ""
        path = f"/fhir/{definition.name}{place}/${operation.name}"
        required = [one for one in operation.parameters if one.required]
        # An end before the start would be refused.
        for listed in (required, operation.parameters):
            values = [(one.name, *_VALUES[one.type]) for one in listed if one.name != "end"]
            query = "&".join(f"{name}={_written(value)}" for name, _, value in values)
            body = json.dumps(parameters(*values))
            if operation.resource:
                # Nothing of it goes in an address or a form.
                held = [one for one in values if one[0] != operation.resource]
                sent = parameters(*held)
                sent["parameter"].append({"name": operation.resource, "resource": SOUGHT})
                yield asking("POST", path, body=json.dumps(sent), media=FHIR_JSON)
                yield asking("POST", path, body=json.dumps(SOUGHT), media=FHIR_JSON)
                continue
            yield asking("GET", path, query)
            yield asking("POST", path, body=query, media=FORM)
            yield asking("POST", path, body=body, media=FHIR_JSON)


def _written(value: Any) -> str:
    """Return how an address writes a value."""
    if isinstance(value, dict):
        return f"{value['system']}|{value['code']}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _further(fhir: Fhir, requests: list[Request]) -> Iterator[Request]:
    """Yield what the next and the previous links of some of these lead to."""
    for request in requests[::4]:
        if request.method == "GET" and request.address.startswith("/fhir/"):
            address = f"{request.path.decode()}?{request.query.decode()}"
            response = fhir.get(address)
            if response.content_type == FHIR_JSON and b'"Bundle"' in response.data:
                following = link(response.get_json(force=True), "next")
                if following:
                    yield _get(following)


def by_kind(described: Described, requests: list[Request]) -> list[list[Request]]:
    """Return the requests sorted out by what they ask for: most of all are searches."""
    kinds: dict[tuple[str | None, str], list[Request]] = {}
    for one in requests:
        kinds.setdefault((described.path_of(one.address), one.method), []).append(one)
    return list(kinds.values())
