"""Three servers behind nginx, on one PostgreSQL: paging and the audit trail are those of one.

Sessions, tokens, exports and jobs of several servers are in tests/server/test_several_servers.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.audit_events import administrator
from tests.support.cluster import Cluster, Server
from tests.support.helpers import Fhir, link, token_for

ALLERGY = "AllergyIntolerance"


@pytest.fixture
def everything(running: Cluster) -> Fhir:
    return Fhir(running.app, token_for(running.app, "system/*.rs"))


def test_concurrent_first_starts_print_one_setup_address(running):
    assert len(running.setup_codes[0]) == 1
    assert running.setup_codes == [running.setup_codes[0]] * 3


def test_requests_are_balanced_over_all_servers(everything):
    assert len({everything.get("Patient/p1").headers["X-Server"] for _ in range(3)}) == 3


@pytest.mark.parametrize(
    "search",
    [
        f"{ALLERGY}?_count=150",
        f"{ALLERGY}?code=c3&_sort=-date&_count=50",
        f"{ALLERGY}?patient=p1&_count=40&_include=AllergyIntolerance:patient",
        "DocumentReference?_count=9&_revinclude=Provenance:target",
        "Patient/p1/$everything?_count=40",
    ],
)
def test_pages_from_several_servers_are_those_of_one_server(running, everything, search):
    first = running.servers[0]

    def from_first(path: str) -> Any:
        return first.get(path if path.startswith("/") else f"/fhir/{path}", everything.token)

    pages, servers = walk(everything.get, search)
    assert len(pages) > 3
    assert len(servers) == 3
    assert pages == walk(from_first, search)[0]


def walk(get: Any, search: str) -> tuple[list[Any], set[str | None]]:
    """Return the pages of a search, by following its links; and who answered."""
    pages, servers, path = [], set(), search
    while path:
        answer = get(path)
        assert answer.status_code == 200, answer.text
        servers.add(answer.headers.get("X-Server"))
        pages.append(answer.get_json(force=True))
        path = link(pages[-1], "next")
    return pages, servers


def test_each_request_is_in_the_audit_trail_once_at_every_server(running, everything):
    asked = [f"{ALLERGY}/a{number:05}" for number in range(300, 330)]
    for path in asked:
        assert everything.get(path).status_code == 200
    auditor = administrator(running.app)

    def noted(server: Server) -> list[str]:
        bundle = server.get("/fhir/AuditEvent?_count=200", auditor.token).get_json()
        served = [
            entity["what"]["reference"].partition("/_history/")[0]
            for entry in bundle["entry"]
            # Searches of other tests had these resources on their pages.
            if entry["resource"]["subtype"][0]["code"] == "read"
            for entity in entry["resource"].get("entity", ())
            if "reference" in entity.get("what", {})
        ]
        return sorted(name for name in served if name in asked)

    assert [noted(server) for server in running.servers] == [asked] * 3


def test_audit_trail_is_intact_at_every_server(running):
    for server in running.servers:
        server.command("audit", "verify")
