"""What each kind of token sees by every route: nothing of another patient's record, by any.

Routes come from the declarations of the resource types, so a new type, parameter or operation is
covered. What belongs to a patient is worked out from the records (contract.owned). The tests of all
kinds of token are a campaign: what a token reads by `GET Type/id` and finds by `GET Type` bounds
every other route. decisions §6
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Set
from functools import cache
from typing import Any, NamedTuple

import pytest
from flask import Flask

from fhirapp.auth.models import CLINICIAN, PATIENT
from fhirapp.auth.users.accounts import link
from fhirapp.db import writing
from fhirapp.definition import Definition, Visibility
from fhirapp.rest.include_parameters import includable, referring
from tests.support.authorizing import Flow, add_person, add_program
from tests.support.contract import SERVED, Held, addresses, fill, owned, publish, versions_held
from tests.support.fuzz import Request, send
from tests.support.helpers import FHIR_JSON, Fhir, assert_outcome, token_for
from tests.support.helpers import link as link_of
from tests.support.valid_requests import operation_requests

PATIENT_ID, DOCTOR, RELATED = "p1", "Practitioner/dr-adeyemi", "RelatedPerson/rp-p1"
JSON = {"Accept": FHIR_JSON}
SEARCHABLE = {name: definition for name, definition in SERVED.items() if definition.searchable}
Name = tuple[str, str]
# Types that an answer is made of, and which are no records.
MADE = frozenset({"Bundle", "OperationOutcome", "Composition", "Device", "Parameters"})


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app that holds resources of every type; p1 has a related person."""
    app = make_app()
    fill(app)
    related = {"resourceType": "RelatedPerson", "id": RELATED.partition("/")[2], "active": True}
    related["patient"] = {"reference": f"Patient/{PATIENT_ID}"}
    patient = versions_held(app)["Patient"][PATIENT_ID][-1] or {}
    patient = {
        **patient,
        "generalPractitioner": [{"reference": "Practitioner/dr-okafor"}, {"reference": DOCTOR}],
        "managingOrganization": {"reference": "Organization/org-lakeside"},
    }
    patient.pop("text", None)
    origin = {
        "resourceType": "Provenance",
        "id": "prov-of-patient",
        "target": [{"reference": f"Patient/{PATIENT_ID}"}],
        "recorded": "2026-01-01T00:00:00Z",
        "agent": [{"who": {"reference": DOCTOR}}],
    }
    for resource in (related, patient, origin):
        publish(app, resource, now="2026-02-02T00:00:00.000+00:00")
    return app


@pytest.fixture(scope="module")
def held(clinic: Flask) -> Held:
    return versions_held(clinic)


class Kind(NamedTuple):
    """A kind of token; user is who signed in, empty for a token of the operator's."""

    scope: str
    user: str = ""
    patient: str = ""

    def fhir(self, app: Flask) -> Fhir:
        """Return a client with a token of this kind."""
        if not self.user:
            return Fhir(app, token_for(app, self.scope, patient=self.patient or None))
        if self.user == CLINICIAN:
            user_id = add_person(app, CLINICIAN, fhir_user=DOCTOR)
        elif self.user == PATIENT:
            user_id = add_person(app, PATIENT, PATIENT_ID)
        else:
            user_id = add_person(app, PATIENT)
            related_person = RELATED.partition("/")[2]
            with app.app_context(), writing() as connection:
                link(connection, user_id, PATIENT_ID, related_person=related_person)
        flow = Flow(app, add_program(app, scope=f"launch/patient {self.scope}"), user_id)
        return flow.fhir(f"launch/patient {self.scope}", patient=self.patient or None)


WHO = "openid fhirUser"
WHOLE, OWN = Kind("system/*.rs"), Kind("patient/*.rs", patient=PATIENT_ID)
KINDS = (
    WHOLE,
    OWN,
    Kind(WHO, PATIENT),
    Kind(WHO, CLINICIAN, PATIENT_ID),
    Kind(WHO, "related person"),
    Kind(f"{WHO} patient/AllergyIntolerance.r", PATIENT),
    Kind(f"{WHO} patient/AllergyIntolerance.s", PATIENT),
    Kind(f"{WHO} patient/*.rs", "related person"),
    Kind(f"{WHO} user/Encounter.rs", CLINICIAN, PATIENT_ID),
    Kind("patient/*.r", patient=PATIENT_ID),
    Kind("patient/*.s", patient=PATIENT_ID),
    Kind("patient/Patient.r patient/DocumentReference.rs", patient=PATIENT_ID),
    Kind("patient/AllergyIntolerance.rs?clinical-status=active", patient=PATIENT_ID),
    Kind("patient/Patient.rs patient/Group.rs", patient=PATIENT_ID),
    Kind("system/Patient.r system/AllergyIntolerance.rs?category=medication"),
    Kind("system/DocumentReference.rs?type=http://loinc.org|18842-5 system/Patient.s"),
    Kind("system/Organization.rs"),
    Kind("system/Provenance.r"),
    Kind("system/Group.s"),
)


class Reached(NamedTuple):
    """What a token reads and finds, by type and id, each by itself; known is also what is gone."""

    fhir: Fhir
    read: frozenset[Name]
    known: frozenset[Name]
    found: frozenset[Name]


@pytest.fixture(scope="module")
def reach(clinic: Flask, held: Held) -> Callable[[Kind], Reached]:
    """Return a function for a token's reach: a GET of each resource, a search of each type."""
    known: dict[Kind, Reached] = {}

    def reach_of(kind: Kind) -> Reached:
        if kind not in known:
            fhir = kind.fhir(clinic)
            statuses = {
                (name, row_id): fhir.get(f"{name}/{row_id}", headers=JSON).status_code
                for name in SERVED
                for row_id in held[name]
            }
            read = frozenset(name for name, status in statuses.items() if status == 200)
            gone = frozenset(name for name, status in statuses.items() if status == 410)
            found: set[Name] = set()
            for type_name in SEARCHABLE:
                found |= names_in(fhir, f"{type_name}?_count=1000")
            known[kind] = Reached(fhir, read, read | gone, frozenset(found))
        return known[kind]

    return reach_of


def resources_in(content: Any) -> Iterator[Name]:
    """Yield the (type, id) of each record in an answer, in Bundles at any depth."""
    if content.get("resourceType") == "Bundle":
        for entry in content.get("entry", ()):
            if "resource" in entry:
                yield from resources_in(entry["resource"])
    elif content.get("resourceType") not in MADE and "id" in content:
        yield content["resourceType"], content["id"]


def names_in(fhir: Fhir, path: str | None) -> set[Name]:
    """Return the (type, id) of all records at an address and on the pages after it."""
    names: set[Name] = set()
    while path is not None:
        response = fhir.get(path, headers=JSON)
        content = response.get_json(force=True)
        names.update(resources_in(content))
        path = link_of(content, "next") if content["resourceType"] == "Bundle" else None
    return names


def read_paths(definition: Definition, held: Held) -> Iterator[str]:
    """Yield the addresses of a type that need permission to read."""
    name = definition.name
    for row_id, versions in held[name].items():
        yield f"{name}/{row_id}"
        if "vread" in definition.interactions:
            yield from (f"{name}/{row_id}/_history/{n + 1}" for n in range(len(versions)))
            yield f"{name}/{row_id}/_history"
    if "history-type" in definition.interactions:
        yield f"{name}/_history?_count=1000"


def search_paths(app: Flask, definition: Definition) -> Iterator[str]:
    """Yield the addresses of a type that need permission to search."""
    if not definition.searchable:
        return
    name = definition.name
    with app.app_context():
        followed, reverse = includable(definition), referring(definition)
    for root in ("/fhir", "/api"):
        yield f"{root}/{name}?_count=1000"
        yield f"{root}/{name}/_search?_count=1000"
    yield from (f"{name}?_count=1000&_include={value}" for value in followed)
    yield from (f"{name}?_count=1000&_revinclude={value}" for value in reverse)
    if followed and not definition.provenance_alone:
        yield f"{name}?_count=50&_include=*&_revinclude=*&_include:iterate=*&_revinclude:iterate=*"
    yield f"/fhir?_type={name}&_count=1000"
    yield f"Patient/{PATIENT_ID}/{name}"
    yield f"Patient/{PATIENT_ID}/*?_type={name}"


READ_EVERYWHERE = ("_history?_count=1000",)
SEARCH_EVERYWHERE = ("/fhir?_count=1000", f"Patient/{PATIENT_ID}/*?_count=1000")


def ask(app: Flask, fhir: Fhir, request: Request) -> Any:
    """Return the content of the answer to a request."""
    sent = request.with_headers(Authorization=f"Bearer {fhir.token}", Accept=FHIR_JSON)
    return json.loads(send(app, sent).body)


def matrix(*kinds: Kind) -> Any:
    """Give a test an item for each kind of token."""
    names = [" ".join(filter(None, kind)).replace("/", ".") for kind in kinds]
    return pytest.mark.parametrize("kind", kinds, ids=names)


# Each role whose token is for p1's record and nothing else.
SCOPE = f"{WHO} patient/*.rs"
ROLES = (
    OWN,
    Kind(SCOPE, PATIENT),
    Kind("patient/*.rs", CLINICIAN, PATIENT_ID),
    Kind(SCOPE, "related person"),
)


@pytest.fixture(scope="module")
def own(held: Held) -> set[Name]:
    return owned(held, PATIENT_ID)


@pytest.fixture(scope="module")
def client(clinic: Flask) -> Callable[[Kind], Fhir]:
    """Return a function for a client with a token of a kind, the same for all tests."""
    return cache(lambda kind: kind.fhir(clinic))


def beyond(fhir: Fhir, paths: Iterable[str], visible: Set[Name]) -> dict[str, set[Name]]:
    """Return what each path shows that is not visible."""
    shown = {path: names_in(fhir, path) - visible for path in paths}
    return {path: names for path, names in shown.items() if names}


@matrix(*ROLES)
def test_record_of_another_patient_is_not_found_at_any_address_of_it(held, own, client, kind):
    fhir, wrong = client(kind), {}
    for name, definition in SERVED.items():
        rows = held[name]
        hidden = [row_id for row_id in rows if (name, row_id) not in own]
        visible = [row_id for row_id in rows if (name, row_id) in own and rows[row_id][-1]]
        expected = dict.fromkeys(hidden[:3], 404) | dict.fromkeys(visible[:1], 200)
        for row_id, status in expected.items():
            for path in addresses(definition, row_id)[definition.searchable :]:
                response = fhir.get(path, headers=JSON)
                if response.status_code != status:
                    wrong[path] = response.status_code
                elif status == 404:
                    message = f"{path.removesuffix('/_history')} is not known here."
                    assert_outcome(response, 404, "not-found", message)
    assert wrong == {}


@matrix(*ROLES)
def test_search_or_history_shows_nothing_of_another_patient(clinic, held, own, client, kind):
    fhir = client(kind)
    histories = [
        f"{name}/_history?_count=1000"
        for name, definition in SERVED.items()
        if "history-type" in definition.interactions
    ]
    paths = [path for definition in SERVED.values() for path in search_paths(clinic, definition)]
    paths = [path for path in paths if "clude=" not in path]
    everywhere = (*READ_EVERYWHERE, *SEARCH_EVERYWHERE, "/fhir?_count=3")
    assert beyond(fhir, [*paths, *histories, *everywhere], own) == {}
    counts = {name: fhir.read(f"{name}?_summary=count")["total"] for name in SEARCHABLE}
    current = [name for name, row_id in own if held[name][row_id][-1] is not None]
    assert counts == {name: current.count(name) for name in SEARCHABLE}


@matrix(*ROLES)
def test_include_or_operation_shows_nothing_of_another_patient(clinic, own, client, kind):
    fhir = client(kind)
    paths = [path for definition in SERVED.values() for path in search_paths(clinic, definition)]
    # All of them at once; each by itself is a campaign.
    paths = [path for path in paths if "clude=*" in path]
    record = f"Patient/{PATIENT_ID}"
    operations = (f"{record}/$everything", f"{record}/$everything?_count=3", f"{record}/$summary")
    documents = f"DocumentReference/$docref?patient={PATIENT_ID}"
    paths += [*operations, documents, f"{documents}&on-demand=false&_count=2"]
    assert beyond(fhir, paths, own) == {}
    assert names_in(fhir, operations[0]) >= {("Patient", PATIENT_ID)}


@pytest.mark.campaign
def test_reach_of_some_kinds_is_what_the_records_say(held, own, reach):
    everything = {(name, row_id) for name in SERVED for row_id in held[name]}
    expected: dict[Kind, set[Name]] = {
        WHOLE: everything,
        OWN: own,
        Kind(WHO, PATIENT): {("Patient", PATIENT_ID)},
        Kind(WHO, CLINICIAN, PATIENT_ID): {("Practitioner", "dr-adeyemi")},
        Kind(WHO, "related person"): {("RelatedPerson", "rp-p1")},
        Kind("patient/*.r", patient=PATIENT_ID): own,
        Kind("patient/*.s", patient=PATIENT_ID): set(),
    }
    for kind, names in expected.items():
        current = {(name, row_id) for name, row_id in names if held[name][row_id][-1] is not None}
        # The target of one that is seeded is not here.
        assert {name for name, _ in current - reach(kind).read} <= {"Provenance"}
        assert reach(kind).read <= names, kind


def test_everything_includes_types_that_depend_on_other_scopes(client):
    """Without one of each on the way, the tests of this module would show nothing."""
    fhir = client(WHOLE)
    brought = {name for name, _ in names_in(fhir, f"Patient/{PATIENT_ID}/$everything")}
    assert {"Practitioner", "Organization", "Provenance"} <= brought
    by_any = {
        definition.name
        for definition in SERVED.values()
        if definition.visibility is Visibility.ANY_SCOPE
    }
    assert by_any & brought


# All kinds of token.


@pytest.mark.campaign
@matrix(*KINDS)
def test_no_route_shows_what_a_read_and_a_search_refuse(clinic, held, reach, kind):
    reached = reach(kind)
    fhir = reached.fhir
    reads = [path for definition in SERVED.values() for path in read_paths(definition, held)]
    assert beyond(fhir, [*reads, *READ_EVERYWHERE], reached.known) == {}
    searches = [path for definition in SERVED.values() for path in search_paths(clinic, definition)]
    assert beyond(fhir, [*searches, *SEARCH_EVERYWHERE], reached.found) == {}
    for definition in SERVED.values():
        for request in operation_requests(definition):
            returned = set(resources_in(ask(clinic, fhir, request)))
            assert returned <= reached.read | reached.found, request


@pytest.mark.campaign
@matrix(*KINDS)
def test_chain_finds_only_by_what_can_be_found(held, reach, kind):
    """A search by a reference to a resource, by its id, tells that it is here."""
    reached = reach(kind)
    for name, definition in SEARCHABLE.items():
        hidden_rows = [row for row in held[name] if (name, row) not in reached.found]
        for parameter in definition.references.values():
            for target in SEARCHABLE.keys() & set(parameter.targets or SERVED):
                hidden = [row for row in held[target] if (target, row) not in reached.found]
                if not hidden:
                    continue
                chain = f"{name}?{parameter.name}:{target}._id={','.join(hidden[:90])}"
                assert names_in(reached.fhir, chain) == set(), chain
                if hidden_rows:
                    has = f"_has:{name}:{parameter.name}:_id={','.join(hidden_rows[:90])}"
                    assert names_in(reached.fhir, f"{target}?{has}") == set(), has
