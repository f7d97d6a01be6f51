"""Three servers behind nginx, on one PostgreSQL, answer as one."""

from __future__ import annotations

from typing import Any

import pytest

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN
from tests.support.audit_events import administrator
from tests.support.authorizing import Flow, add_backend, parameters_of
from tests.support.browsing import Browser, add_person, id_of
from tests.support.bulk import Exports
from tests.support.cluster import Cluster, Server
from tests.support.consent_pages import Consent
from tests.support.helpers import BASE_URL, Fhir, ids, link, token_for
from tests.support.import_pages import Upload, patient
from tests.support.jobs import task_id, wait_for

ALLERGY = "AllergyIntolerance"


@pytest.fixture
def everything(running: Cluster) -> Fhir:
    return Fhir(running.app, token_for(running.app, "system/*.rs"))


def flow_of(running: Cluster, program: Any) -> Flow:
    """Return who asks as a program, for a clinician."""
    return Flow(running.app, program, id_of(running.app, add_person(running.app, CLINICIAN)))


def test_the_first_starts_at_once_print_one_setup_address(running):
    assert len(running.setup_codes[0]) == 1
    assert running.setup_codes == [running.setup_codes[0]] * 3


def test_requests_go_to_each_in_turn(everything):
    assert len({everything.get("Patient/p1").headers["X-Server"] for _ in range(3)}) == 3


def test_a_backends_token_serves_everywhere_and_its_assertion_once(running):
    backend = add_backend(running.app)
    flow, proof = flow_of(running, backend), backend.proof()
    form = {"grant_type": "client_credentials", "scope": "system/*.rs"}
    answers = [flow.ask("/oauth/token", proof, **form) for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 400, 400], [one.text for one in answers]
    token = answers[0].get_json()["access_token"]
    found = [server.get(f"/fhir/{ALLERGY}?patient=p1", token) for server in running.servers]
    assert [one.status_code for one in found] == [200] * 3
    assert len({one.data for one in found}) == 1


def test_a_person_signs_in_and_allows_an_app_over_servers(running):
    asked = Consent(running.app, CLINICIAN)
    asked.browser = Browser(running.app)
    asked.browser.sign_in(asked.username)
    page = asked.page("openid launch/patient patient/*.rs offline_access")
    assert page.status == 200, page.words
    page = page.submit("Search", name="hartwell")
    (amelia,) = [one for form in page.forms for one in form.buttons if one.startswith("Amelia")]
    page = page.submit(amelia)
    ticked = [*page.form("Allow selected").fields.getlist("scope"), "offline_access"]
    code = parameters_of(page.submit("Allow selected", scope=ticked).location or "")["code"]
    tokens = asked.flow.redeem(code).get_json()
    assert tokens["patient"] == "p1"
    found = [server.get("/fhir/Patient", tokens["access_token"]) for server in running.servers]
    assert [ids(one.get_json()) for one in found] == [["p1"]] * 3
    renewed = asked.flow.refresh(tokens["refresh_token"])
    assert renewed.status_code == 200
    # A code that comes twice ends what came of it, wherever it comes.
    assert asked.flow.redeem(code).status_code == 400
    running.everywhere(statuses("/fhir/Patient", renewed.get_json()["access_token"]), 401)


def statuses(path: str, token: str) -> Any:
    """Return what asks a server for the status of a path."""
    return lambda server: server.get(path, token).status_code


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
def test_all_pages_over_servers_are_those_of_one(running, everything, search):
    one = running.servers[0]

    def of_one(path: str) -> Any:
        return one.get(path if path.startswith("/") else f"/fhir/{path}", everything.token)

    pages, servers = walk(everything.get, search)
    assert len(pages) > 3
    assert len(servers) == 3
    assert pages == walk(of_one, search)[0]


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


def test_an_export_is_begun_followed_fetched_and_deleted_over_servers(running):
    exports = Exports(running.app)
    status = exports.started("$export?_type=AllergyIntolerance,Patient")
    answer = running.wait(lambda: exports.get(status), lambda one: one.status_code != 202)
    assert answer.status_code == 200, answer.text
    lines = exports.lines(answer.get_json())
    found = {(one["resourceType"], one["id"]) for one in lines}
    expected = exports.searched(f"{ALLERGY}?_count=1000") | exports.searched("Patient")
    assert len(lines) == len(found)
    assert found == expected.keys()
    assert exports.request("DELETE", status).status_code == 202
    assert {exports.get(status).status_code for _ in range(3)} == {404}


def test_an_upload_comes_to_servers_in_turn_and_is_imported(running, everything):
    upload = Upload(Browser(running.app).resume(add_person(running.app, ADMINISTRATOR)))
    names = [f"uploaded-{number}" for number in range(200)]
    whole = b"".join(map(patient, names))
    for at in range(0, len(whole), 1_000):
        sent = upload.send(0, "people.ndjson", whole, at=at, until=at + 1_000)
        assert sent.json == {"have": min(at + 1_000, len(whole))}
    page = upload.begin()
    job = wait_for(running.app, task_id(page))
    assert job.state == "done"
    found = [everything.get(f"Patient/{name}").status_code for name in names]
    assert found == [200] * 200
    admin = upload.browser
    reports = [admin.client.get(f"{page.path}/files/report.json", base_url=BASE_URL) for _ in "abc"]
    assert [one.status_code for one in reports] == [200] * 3
    assert len({one.data for one in reports}) == 1


def test_each_request_is_in_the_trail_once_whoever_is_asked(running, everything):
    asked = [f"{ALLERGY}/a{number:05}" for number in range(300, 330)]
    for path in asked:
        assert everything.get(path).status_code == 200
    auditor = administrator(running.app)

    def noted(server: Server) -> list[str]:
        bundle = server.get("/fhir/AuditEvent?_count=200", auditor.token).get_json()
        served = [
            entity["what"]["reference"].partition("/_history/")[0]
            for entry in bundle["entry"]
            for entity in entry["resource"].get("entity", ())
            if "reference" in entity.get("what", {})
        ]
        return sorted(one for one in served if one in asked)

    assert [noted(server) for server in running.servers] == [asked] * 3


def test_who_has_looked_is_the_same_at_all(running, everything):
    for number in range(3):
        assert everything.get(f"{ALLERGY}?patient=p3&_tag=looked{number}").status_code == 200
    admin = Browser(running.app).resume(add_person(running.app, ADMINISTRATOR))
    pages = [admin.get("/admin/audit?patient=p3") for _ in range(3)]
    for page in pages:
        assert [page.response.text.count(f"=looked{number}") for number in range(3)] == [1, 1, 1]


def test_the_trail_is_whole(running):
    for server in running.servers:
        server.command("audit", "verify")
