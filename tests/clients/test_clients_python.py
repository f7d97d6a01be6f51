"""Clients in Python that nobody here wrote ask the real server: fhirpy and SMART's fhirclient."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from base64 import b64decode
from hashlib import sha1
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from fhirclient.client import FHIRClient
from fhirclient.models.allergyintolerance import AllergyIntolerance
from fhirclient.models.documentreference import DocumentReference
from fhirclient.models.fhirelementfactory import FHIRElementFactory
from fhirclient.models.patient import Patient
from fhirclient.models.practitioner import Practitioner
from fhirclient.models.provenance import Provenance
from fhirclient.server import (
    FHIRNotFoundException,
    FHIRPermissionDeniedException,
    FHIRUnauthorizedException,
)
from fhirpy import AsyncFHIRClient, SyncFHIRClient
from fhirpy.base import exceptions
from joserfc import jwt
from joserfc.jwk import ECKey
from requests import HTTPError

from tests.support.client_questions import SEARCHES

if TYPE_CHECKING:
    from tests.support.live import Demo


pytest_plugins = ["tests.support.live"]


@pytest.fixture(params=[SyncFHIRClient, AsyncFHIRClient], ids=["sync", "async"])
def fhirpy(request: pytest.FixtureRequest, demo: Demo) -> Any:
    return request.param(demo.fhir, authorization=f"Bearer {demo.token()}")


def told(answer: Any) -> Any:
    """Return what fhirpy answers, by either of its clients."""
    return asyncio.run(answer) if inspect.isawaitable(answer) else answer


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_fhirpy_finds_all_matches_on_all_pages(fhirpy, demo, search):
    asked = fhirpy.resources(search.type).search(**search.parameters)
    assert demo.ids(search)
    found = [resource.id for resource in told(asked.limit(5).fetch_all())]
    assert sorted(found) == demo.ids(search)
    assert told(asked.count()) == len(found)
    assert told(asked.first()).id == found[0]


def test_fhirpy_follows_a_reference_and_refreshes_what_it_has(fhirpy):
    asked = fhirpy.resources("AllergyIntolerance").search(_id="al-p1-penicillin")
    allergy = told(asked.get())
    assert told(allergy["patient"].to_resource())["birthDate"]
    assert told(allergy["recorder"].to_resource()).resource_type == "Practitioner"
    # It asks with the bare version id in If-None-Match, and takes a 304 (decisions 2.14).
    before = allergy.serialize()
    assert told(allergy.refresh()).serialize() == before
    assert told(fhirpy.get("AllergyIntolerance/al-p1-penicillin")) == before


@pytest.mark.parametrize(
    ("scope", "question", "error", "code"),
    [
        (
            "system/*.rs",
            lambda ask: ask.resources("AllergyIntolerance").search(date="nonsense").fetch(),
            exceptions.OperationOutcome,
            "value",
        ),
        (
            "system/*.rs",
            lambda ask: ask.get("AllergyIntolerance", "nonsense"),
            exceptions.ResourceNotFound,
            "not-found",
        ),
        (
            "system/*.rs",
            lambda ask: ask.resources("Nonsense").fetch(),
            exceptions.ResourceNotFound,
            "not-supported",
        ),
        (
            "system/*.rs",
            lambda ask: ask.delete("AllergyIntolerance", "al-p1-penicillin"),
            exceptions.OperationOutcome,
            "not-supported",
        ),
        (
            "system/DocumentReference.rs",
            lambda ask: ask.resources("AllergyIntolerance").fetch(),
            exceptions.ForbiddenError,
            "forbidden",
        ),
        (
            None,
            lambda ask: ask.resources("AllergyIntolerance").fetch(),
            exceptions.AuthorizationError,
            "login",
        ),
    ],
)
def test_fhirpy_raises_the_outcome_of_an_error(fhirpy, demo, scope, question, error, code):
    fhirpy.authorization = f"Bearer {demo.token(scope)}" if scope else None
    with pytest.raises(error) as raised:
        told(question(fhirpy))
    outcome = json.loads(str(raised.value))
    assert outcome["resourceType"] == "OperationOutcome"
    assert [issue["code"] for issue in outcome["issue"]] == [code]


def smart(at: Demo, scope: str = "system/*.rs", **settings: str) -> FHIRClient:
    """Return a client that found the token endpoint in the CapabilityStatement, and has a token."""
    client = FHIRClient({"app_id": "demo-backend", "api_base": at.fhir, "scope": scope, **settings})
    client.prepare()
    assert not client.ready
    client.authorize()
    assert client.ready
    return client


@pytest.fixture(scope="module")
def smart_server(complete_demo: Demo) -> Any:
    """The server as SMART's client has it, for a client with a secret."""
    return smart(complete_demo, app_secret="demo").server


def assertion(at: Demo) -> str:
    """Return what the demo's client signs with its key."""
    claims = {
        "iss": "demo-backend",
        "sub": "demo-backend",
        "aud": f"{at.url}/oauth/token",
        "jti": uuid4().hex,
        "exp": int(time.time()) + 60,
    }
    header = {"alg": "ES384", "kid": at.key["kid"], "typ": "JWT"}
    return jwt.encode(header, claims, ECKey.import_key(at.key), algorithms=["ES384"])


def test_smart_gets_a_token_for_an_assertion(complete_demo):
    client = smart(complete_demo, jwt_token=assertion(complete_demo))
    assert client.launch_context["scope"] == "system/*.rs"
    assert AllergyIntolerance.read("al-p1-penicillin", client.server).code.text == "Penicillin"


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_smart_finds_all_matches_on_all_pages(complete_demo, smart_server, search):
    struct = {
        name: value if isinstance(value, str) else {"$and": list(value)}
        for name, value in {**search.parameters, "_count": "5"}.items()
    }
    asked = FHIRElementFactory.instantiate(search.type, None).where(struct)
    found = [resource.id for resource in asked.perform_resources_iter(smart_server)]
    assert complete_demo.ids(search)
    assert sorted(found) == complete_demo.ids(search)


def test_smart_gets_what_is_included(smart_server):
    asked = AllergyIntolerance.where({"patient": "p1"}).include("target", Provenance, reverse=True)
    found = list(asked.perform_resources_iter(smart_server))
    assert {resource.resource_type for resource in found} == {"AllergyIntolerance", "Provenance"}


def test_smart_follows_references_and_reads_the_bytes_of_a_document(smart_server):
    document = DocumentReference.read("doc-p1-progress-2023", smart_server)
    assert document.subject.resolved(Patient).id == "p1"
    assert document.author[0].resolved(Practitioner).resource_type == "Practitioner"
    attachment = document.content[0].attachment
    content = smart_server.request_data(attachment.url, {"Accept": attachment.contentType})
    assert content == b64decode(attachment.data)
    assert sha1(content).digest() == b64decode(attachment.hash)
    binary = smart_server.request_json(attachment.url)
    assert b64decode(binary["data"]) == content


@pytest.mark.parametrize(
    ("scope", "path", "error", "code"),
    [
        ("system/*.rs", "AllergyIntolerance/nonsense", FHIRNotFoundException, "not-found"),
        ("system/*.rs", "AllergyIntolerance?date=nonsense", HTTPError, "value"),
        (
            "system/DocumentReference.rs",
            "AllergyIntolerance",
            FHIRPermissionDeniedException,
            "forbidden",
        ),
        (None, "AllergyIntolerance", FHIRUnauthorizedException, "login"),
    ],
)
def test_smart_raises_with_the_outcome_of_an_error(complete_demo, scope, path, error, code):
    server = smart(complete_demo, scope or "system/*.rs", app_secret="demo").server
    with pytest.raises(error) as raised:
        server.request_json(path, nosign=scope is None)
    outcome = FHIRElementFactory.instantiate("OperationOutcome", raised.value.response.json())
    assert [issue.code for issue in outcome.issue] == [code]
