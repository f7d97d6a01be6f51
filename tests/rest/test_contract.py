"""What every resource type must do, driven by the declarations: contract.py has the cases."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from fhirapp.definition import Definition, Visibility
from fhirapp.search.parameter import Parameter
from fhirapp.search.reference import Reference
from tests.support.contract import (
    DELETED,
    NOBODYS,
    SEARCHABLE,
    SERVED,
    TYPES,
    WIDER,
    Held,
    addresses,
    answered,
    current,
    example,
    fill,
    owned,
    shown,
    spellings,
    targets,
    versions_held,
)
from tests.support.effort import sample
from tests.support.helpers import BASE_URL, FHIR_JSON, Fhir, assert_outcome, ids, lasting, token_for

# A Binary answers with its bytes unless FHIR JSON is asked for by name.
JSON = {"Accept": FHIR_JSON}
NOT_HERE = "There is no such resource type or operation here."


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app that has resources of every type, in place of the one that is only seeded."""
    app = make_app()
    fill(app)
    return app


@pytest.fixture(scope="module")
def held(app: Flask) -> Held:
    """All that the app's database holds."""
    return versions_held(app)


@pytest.mark.parametrize("definition", TYPES)
def test_read_vread_and_history_return_the_stored_versions(fhir, held, definition):
    row_id = example(definition, held)
    path, versions = f"{definition.name}/{row_id}", held[definition.name][row_id]
    newest = fhir.get(path, headers=JSON)
    assert (newest.status_code, newest.content_type) == (200, FHIR_JSON)
    resource = newest.get_json(force=True)
    assert (resource["resourceType"], resource["id"]) == (definition.name, row_id)
    assert resource["meta"]["versionId"] == str(len(versions))
    assert newest.headers["ETag"] == f'W/"{len(versions)}"'
    assert "Last-Modified" in newest.headers
    if definition.stores_body:
        assert resource == answered(definition, versions[-1])

    for number, version in enumerate(versions, 1):
        response = fhir.get(f"{path}/_history/{number}", headers=JSON)
        if "vread" in definition.interactions:
            assert response.get_json(force=True) == answered(definition, version)
            assert response.headers["ETag"] == f'W/"{number}"'
        else:
            assert_outcome(response, 404, "not-supported", NOT_HERE)

    history = fhir.get(f"{path}/_history")
    if "history-instance" not in definition.interactions:
        assert_outcome(history, 404, "not-supported", NOT_HERE)
        return
    bundle = history.get_json(force=True)
    assert (bundle["type"], bundle["total"]) == ("history", len(versions))
    assert bundle["entry"] == [
        {
            "fullUrl": f"{BASE_URL}/fhir/{path}",
            "resource": answered(definition, version),
            "request": {"method": "PUT", "url": path},
            "response": entry["response"],
        }
        for version, entry in zip(reversed(versions), bundle["entry"], strict=True)
    ]
    etags = [entry["response"]["etag"] for entry in bundle["entry"]]
    assert etags == [f'W/"{number}"' for number in range(len(versions), 0, -1)]


@pytest.mark.parametrize("definition", TYPES)
def test_head_and_if_none_match_hold_at_every_address(fhir, held, definition):
    for path in addresses(definition, example(definition, held)):
        full = fhir.get(path, headers=JSON)
        head = fhir.request("HEAD", path, headers=JSON)
        assert (head.status_code, head.data, lasting(head)) == (200, b"", lasting(full))
        etag = full.headers["ETag"]
        assert etag.startswith('W/"')
        known = fhir.get(path, headers={**JSON, "If-None-Match": etag})
        assert (known.status_code, known.data, known.headers["ETag"]) == (304, b"", etag)
        other = fhir.get(path, headers={**JSON, "If-None-Match": 'W/"another"'})
        assert (other.status_code, other.data) == (200, full.data)


@pytest.mark.parametrize("definition", TYPES)
def test_unknown_id_or_version_is_not_found(fhir, held, definition):
    unknown = [path for path in addresses(definition, "nobody") if path != definition.name]
    if "vread" in definition.interactions:
        unknown.append(f"{definition.name}/{example(definition, held)}/_history/99")
    for path in unknown:
        message = f"{path.removesuffix('/_history')} is not known here."
        assert_outcome(fhir.get(path, headers=JSON), 404, "not-found", message)


def test_deleted_resource_is_gone_and_keeps_its_history(fhir):
    for definition in SERVED.values():
        if definition.visibility is Visibility.CARRIER:
            continue
        path = f"{definition.name}/{DELETED}"
        for gone in (path, f"{path}/_history/2"):
            assert_outcome(fhir.get(gone), 410, "deleted", f"{gone} was deleted.")
        newest, first = fhir.read(f"{path}/_history")["entry"]
        assert newest["request"] == {"method": "DELETE", "url": path}
        assert "resource" not in newest
        assert first["resource"] == fhir.read(f"{path}/_history/1")


def test_method_that_writes_is_refused_with_the_allowed_ones(fhir, held):
    for definition in SERVED.values():
        for path in addresses(definition, example(definition, held)):
            searches = path == definition.name
            for method in ("PUT", "PATCH", "DELETE", *([] if searches else ["POST"])):
                response = fhir.request(method, path)
                message = f"{method} is not supported here; this server only reads."
                assert_outcome(response, 405, "not-supported", message)
                allowed = ["GET", "HEAD", "OPTIONS", *(["POST"] if searches else [])]
                assert response.headers["Allow"] == ", ".join(allowed)


def test_request_without_a_token_is_refused_at_every_address(http, held):
    for number, definition in enumerate(SERVED.values()):
        # Failures are counted by IP address: each type has its own.
        peer = {"REMOTE_ADDR": f"192.0.2.{number}"}
        for path in addresses(definition, example(definition, held)):
            response = http.get(f"/fhir/{path}", environ_overrides=peer)
            needed = "An access token is needed: send Authorization: Bearer <token>."
            assert_outcome(response, 401, "login", needed)
            assert response.headers["WWW-Authenticate"] == 'Bearer realm="fhirapp"'


@pytest.mark.parametrize("definition", TYPES)
def test_scopes_of_every_other_type_do_not_give_access(app, held, definition):
    name, row_id = definition.name, example(definition, held)
    reaching = {name}
    if definition.visibility is Visibility.CARRIER:
        reaching |= {other.name for other in SERVED.values() if other.attachments}
    if definition.visibility is Visibility.TARGETS:
        reaching |= {target for target, _ in targets(current(definition, held)[row_id])}
    scope = " ".join(f"system/{other}.rs" for other in SERVED if other not in reaching)
    fhir = Fhir(app, token_for(app, scope))
    for path in addresses(definition, row_id):
        response = fhir.get(path, headers=JSON)
        if definition.visibility is Visibility.ANY_SCOPE:
            assert response.status_code == 200
        elif definition.visibility is Visibility.TARGETS and path == name:
            assert row_id not in ids(response.get_json(force=True))
        elif definition.visibility is Visibility.TARGETS:
            unknown = path.removesuffix("/_history")
            assert_outcome(response, 404, "not-found", f"{unknown} is not known here.")
        else:
            assert_insufficient(response, "search" if path == name else "read", name)


def assert_insufficient(response, permission: str, name: str) -> None:
    refusal = f"The token's scope does not cover {permission} of {name}."
    assert_outcome(response, 403, "forbidden", refusal)
    assert 'error="insufficient_scope"' in response.headers["WWW-Authenticate"]


def test_scope_without_the_permission_does_not_give_access(app, held):
    searching, reading = (Fhir(app, token_for(app, f"system/*.{letter}")) for letter in "sr")
    for definition in SERVED.values():
        for path in addresses(definition, example(definition, held)):
            is_search = path == definition.name
            response = (reading if is_search else searching).get(path, headers=JSON)
            assert_insufficient(response, "search" if is_search else "read", definition.name)


@pytest.mark.parametrize("definition", TYPES)
def test_patient_reads_and_finds_only_their_own_resources(as_patient, held, definition):
    """Each resource is read with the token of each patient who may, and of one who may not."""
    clients = {patient: as_patient(patient) for patient in held["Patient"]}
    own = {patient: owned(held, patient) for patient in clients}
    wrong = {}
    for number, (row_id, versions) in enumerate(held[definition.name].items()):
        key, there = (definition.name, row_id), 410 if versions[-1] is None else 200
        owners = [patient for patient in clients if key in own[patient]]
        others = [patient for patient in clients if patient not in owners]
        readers = dict.fromkeys(owners[:1], there)
        if others:
            readers[others[number % len(others)]] = 404
        for patient, expected in readers.items():
            response = clients[patient].get("/fhir/" + "/".join(key), headers=JSON)
            if response.status_code != expected:
                wrong[patient, row_id] = response.status_code
    if definition.searchable:
        there = current(definition, held).keys()
        for patient, client in clients.items():
            expected = {row_id for name, row_id in own[patient] if name == definition.name} & there
            found = set(client.ids(definition.name))
            if found != expected:
                wrong[patient] = found ^ expected
    assert wrong == {}


def test_capability_statement_lists_each_type_as_it_is_declared(http):
    statement = http.get("/fhir/metadata").get_json(force=True)
    listed = {entry["type"]: entry for entry in statement["rest"][0]["resource"]}
    for name, definition in SERVED.items():
        entry = listed[name]
        search = ["search-type"] if definition.searchable else []
        codes = [interaction["code"] for interaction in entry["interaction"]]
        assert codes == [*definition.interactions, *search]
        assert entry["documentation"] == definition.doc != ""
        assert entry.get("supportedProfile", []) == list(definition.profiles)
        declared = [*definition.params] if definition.searchable else []
        assert all(parameter.doc for parameter in declared)
        assert entry.get("searchParam", []) == [
            {
                "name": parameter.name,
                "definition": parameter.spec or own_definition(http, definition, parameter),
                "type": parameter.kind,
                "documentation": f"{parameter.doc}{chained(parameter)}",
            }
            for parameter in declared
        ]


def chained(parameter: Parameter) -> str:
    """Return what the documentation says of the types that a chain leads to."""
    if not isinstance(parameter, Reference):
        return ""
    carriers = {name for name, one in SERVED.items() if one.visibility is Visibility.CARRIER}
    named = sorted({*parameter.targets} & (SERVED.keys() - carriers))
    told = ", ".join(named) if parameter.targets else "any type"
    return f"; chained to {told}" if told else ""


def own_definition(http, definition: Definition, parameter: Parameter) -> str:
    """Return the URL of a SearchParameter that this server serves, after a check of it."""
    path = f"/fhir/SearchParameter/{definition.name}-{parameter.name}"
    resource = http.get(path).get_json(force=True)
    expected = ("SearchParameter", parameter.name, [definition.name], parameter.kind)
    assert tuple(resource[name] for name in ("resourceType", "code", "base", "type")) == expected
    assert resource["url"] == BASE_URL + path
    return resource["url"]


# R4's parameters that its list of search parameters lacks: type, kind, names.
# https://hl7.org/fhir/R4/valueset.html#search and others.
UNLISTED = (
    ("DiagnosticReport", "date", "issued"),
    ("DiagnosticReport", "reference",
     "based-on media performer result results-interpreter subject"),
    ("Group", "token", "actual characteristic code exclude identifier type value"),
    ("Group", "reference", "managing-entity member"),
    ("conformance", "token", "context context-type identifier jurisdiction status version"),
    ("conformance", "string", "description name publisher title"),
    ("conformance", "date", "date"),
    ("conformance", "uri", "url"),
    ("ValueSet", "uri", "expansion reference"),
    ("RelatedPerson", "token", "active identifier relationship"),
    ("RelatedPerson", "string", "name"),
    ("RelatedPerson", "reference", "patient"),
)  # fmt: skip


def published_parameters(shared: Path) -> dict[str, dict[str, Any]]:
    """Return the search parameters of FHIR R4 and US Core by their URLs."""
    found = {}
    with tarfile.open(shared / "data/us-core/us_core_610.tgz") as archive:
        for member in archive:
            if member.name.startswith("package/SearchParameter-"):
                parameter = json.loads(archive.extractfile(member).read())
                # US Core has some of R4's only as those that derive from them.
                found |= {parameter["url"]: parameter, parameter.get("derivedFrom"): parameter}
    of_r4 = json.loads((shared / "data/r4/search-parameters.json").read_text())
    of_r4 += [
        {
            "url": f"http://hl7.org/fhir/SearchParameter/{name}-{code}",
            "code": code,
            "type": kind,
            "base": ["ValueSet" if name == "conformance" else name],
        }
        for name, kind, codes in UNLISTED
        for code in codes.split()
    ]
    return found | {parameter["url"]: parameter for parameter in of_r4}


def test_parameter_that_names_its_definition_is_that_of_r4_or_us_core(shared):
    published, wrong = published_parameters(shared), []
    for definition in SERVED.values():
        for parameter in definition.params if definition.searchable else ():
            if parameter.spec:
                defined = published[parameter.spec]
                same = (defined["code"], defined["type"]) == (parameter.name, parameter.kind)
                if not same or not {definition.name, "Resource", "DomainResource"} & {
                    *defined["base"]
                }:
                    wrong.append((definition.name, parameter.name))
    assert wrong == []


@pytest.mark.parametrize("definition", SEARCHABLE)
def test_search_without_parameters_finds_all_by_get_and_by_post(fhir, held, definition):
    bundle = fhir.read(definition.name)
    assert set(ids(bundle)) == shown(definition, held).keys()
    assert bundle["total"] == len(bundle["entry"])
    for path in (definition.name, f"{definition.name}/_search", f"/api/{definition.name}"):
        assert fhir.post(path, {}).get_json(force=True) == fhir.read(path) == bundle


@pytest.mark.parametrize("definition", SEARCHABLE)
def test_each_parameter_finds_the_resources_with_a_value_and_no_others(fhir, held, definition):
    """Of each parameter a few of the values that occur are searched, and one that does not."""
    resources, wrong = shown(definition, held), {}
    for parameter in definition.params:
        having: dict[str, set[str]] = {}
        for row_id, resource in resources.items():
            for value in spellings(parameter, resource):
                having.setdefault(value, set()).add(row_id)
        assert having, f"no resource has a value of {parameter.name}"
        values, most = sorted(having, key=lambda value: (value.count("|"), value)), sample(4, 500)
        chosen = values[:: -(-len(values) // most)]
        for value in (*chosen, NOBODYS[parameter.kind]):
            expected, query = having.get(value, set()), {parameter.name: value}
            response = fhir.get(definition.name, query_string=query)
            assert "it was ignored" not in response.text
            found = set(ids(response.get_json(force=True)))
            if value == NOBODYS[parameter.kind] or parameter.kind not in WIDER:
                is_right = found == expected
            else:
                is_right = found >= expected
            if not is_right:
                wrong[parameter.name, value] = found ^ expected
    assert wrong == {}


@pytest.mark.parametrize("definition", SEARCHABLE)
def test_code_of_another_system_finds_nothing(fhir, held, definition):
    wrong = []
    for parameter in definition.params:
        if parameter.kind == "token":
            codes = {
                value
                for resource in current(definition, held).values()
                for value in spellings(parameter, resource)
                if "|" not in value
            }
            values = ",".join(f"urn:nobodys|{code}" for code in sorted(codes)[:100])
            query = {parameter.name: values, "_count": "0"}
            bundle = fhir.get(definition.name, query_string=query).get_json(True)
            modes = {entry["search"]["mode"] for entry in bundle.get("entry", ())}
            # At most a warning says that no resource can have the value.
            if bundle["total"] != 0 or not modes <= {"outcome"}:
                wrong.append(parameter.name)
    assert wrong == []
