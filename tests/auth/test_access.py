"""Access of tokens through HTTP: contexts, scopes, filters of scopes, and naming a patient.

Every route for every kind of token is in test_access_matrix.py. p1 and p2 of seed.sql have
allergies, documents, encounters and provenances each.
"""

from __future__ import annotations

from sqlalchemy import insert

from fhirapp.auth.clients.administration import OPERATOR
from fhirapp.auth.models import AccessToken
from fhirapp.auth.oauth.server import new_token
from fhirapp.auth.scopes import Permission, access_of
from fhirapp.auth.tokens import token_row
from fhirapp.db import writing
from tests.support.access import ALLERGY, DOCUMENT, P1_ALLERGIES, as_scope
from tests.support.contract import publish
from tests.support.helpers import Fhir, assert_outcome, ids, lasting, token_for

LAB = "http://terminology.hl7.org/CodeSystem/v2-0074|LAB"
EVERYTHING = "patient/*.rs user/*.rs system/*.rs"
ANOTHER = "the token is for one patient, and this is another."


def statuses(fhir: Fhir, *paths: str) -> list[int]:
    return [fhir.get(path).status_code for path in paths]


def test_grants_of_a_scope_are_within_the_registration():
    filters = [(("a", "1"),), (("b", "2"),)]
    for scope, registered, patient, permission, grants in (
        ("system/*.rs", EVERYTHING, None, "r", (Permission(None),)),
        ("system/Patient.r", EVERYTHING, None, "s", ()),
        ("system/Encounter.r", EVERYTHING, None, "r", ()),
        ("patient/*.rs", EVERYTHING, "p1", "s", (Permission("p1"),)),
        # A patient scope without a patient reaches nobody, rather than everybody.
        ("patient/*.rs", EVERYTHING, None, "s", ()),
        ("patient/*.rs system/*.rs", EVERYTHING, "p1", "s", (Permission(None),)),
        ("patient/*.rs system/*.rs", "patient/*.rs", "p1", "s", (Permission("p1"),)),
        ("system/*.rs", "system/*.r", None, "s", ()),
        ("system/*.rs", "user/*.rs patient/*.rs", None, "s", ()),
        ("system/*.rs", "", None, "s", ()),
        ("openid launch", EVERYTHING, "p1", "s", ()),
        (
            "system/Patient.rs?a=1 system/Patient.rs?b=2",
            EVERYTHING,
            None,
            "s",
            tuple(Permission(None, pairs) for pairs in filters),
        ),
        ("system/Patient.rs?a=1 system/*.s", EVERYTHING, None, "s", (Permission(None),)),
        (
            "system/Patient.rs?a=1 system/*.s",
            EVERYTHING,
            None,
            "r",
            (Permission(None, filters[0]),),
        ),
    ):
        found = access_of(scope, registered, patient).grants("Patient", permission)
        assert found == grants, (scope, registered, patient, permission)


def test_access_allows_a_permission_where_any_clinical_scope_has_it():
    for scope, patient, allowed in (
        ("system/Patient.r", None, {"r"}),
        ("patient/Patient.rs", "p1", {"r", "s"}),
        ("patient/Patient.rs", None, set()),
        ("openid", None, set()),
    ):
        access = access_of(scope, EVERYTHING, patient)
        assert {permission for permission in "rs" if access.allows_any(permission)} == allowed


def test_scope_covers_its_context_type_and_interaction(app):
    history = (f"{ALLERGY}/_history", f"{ALLERGY}/_history/1")
    paths = ("AllergyIntolerance", ALLERGY, *history, DOCUMENT, "Binary/bin-p1-ed-2024")
    paths += ("Patient/p1", "Practitioner/dr-adeyemi", "Organization/org-lakeside")
    paths += ("Provenance/prov-p1-list", "AllergyIntolerance/unknown")
    read, search, both = [403, 200, 200, 200], [200, 403, 403, 403], [200] * 4
    no_document, documents = [403, 403], [200, 200]
    expected = {
        "system/AllergyIntolerance.rs": [*both, *no_document, 403, 200, 200, 200, 404],
        "user/AllergyIntolerance.rs": [*both, *no_document, 403, 200, 200, 200, 404],
        "system/AllergyIntolerance": [*both, *no_document, 403, 200, 200, 200, 404],
        "system/AllergyIntolerance.r": [*read, *no_document, 403, 200, 200, 200, 404],
        "system/AllergyIntolerance.read": [*both, *no_document, 403, 200, 200, 200, 404],
        "system/AllergyIntolerance.s": [*search, *no_document, 403, 403, 403, 403, 403],
        "system/DocumentReference.r": [403, 403, 403, 403, *documents, 403, 200, 200, 404, 403],
        "system/DocumentReference.s": [403, 403, 403, 403, *no_document, 403, 403, 403, 403, 403],
        "system/*.s": [*search, *no_document, 403, 403, 403, 403, 403],
    }
    found = {scope: statuses(as_scope(app, scope), *paths) for scope in expected}
    assert found == expected
    # A history of all types needs a scope to read one.
    everything = {scope: as_scope(app, scope).get("_history").status_code for scope in expected}
    assert {scope for scope, status in everything.items() if status == 403} == {
        scope for scope in expected if scope.endswith(".s")
    }


def test_missing_scope_is_named_in_the_challenge(app):
    for path, interaction, needed in (
        ("AllergyIntolerance", "search of AllergyIntolerance", "system/AllergyIntolerance.s"),
        (ALLERGY, "read of AllergyIntolerance", "system/AllergyIntolerance.r"),
        ("Patient/p1", "read of Patient", "system/Patient.r"),
    ):
        response = as_scope(app, "system/DocumentReference.rs").get(path)
        message = f"The token's scope does not cover {interaction}."
        assert_outcome(response, 403, "forbidden", message)
        challenge = response.headers["WWW-Authenticate"]
        assert challenge == (
            f'Bearer realm="fhirapp", error="insufficient_scope", scope="{needed}"'
        )


def test_contexts_of_one_token_hold_for_their_own_types(app):
    system = as_scope(app, "system/AllergyIntolerance.rs")
    assert system.read("AllergyIntolerance?_count=0")["total"] == 39
    fhir = as_scope(app, "patient/AllergyIntolerance.rs system/DocumentReference.rs", "p1")
    assert set(fhir.ids("AllergyIntolerance")) == P1_ALLERGIES
    assert statuses(fhir, ALLERGY, DOCUMENT) == [404, 200]
    assert fhir.read("DocumentReference?patient=p2")["total"] == 5
    wider = as_scope(app, "patient/AllergyIntolerance.rs system/AllergyIntolerance.rs", "p1")
    assert wider.read("AllergyIntolerance?patient=p2")["total"] == 4


# Another patient.


def test_record_of_another_patient_is_answered_as_an_unknown_id(fhir, as_patient):
    patient = as_patient("p1")
    for path in (
        *(ALLERGY, f"{ALLERGY}/_history", f"{ALLERGY}/_history/1", DOCUMENT, "Patient/p2"),
        *("Binary/bin-p2-pathology-2023", "Encounter/enc-p2-2023-ed", "Patient/p2/_history/1"),
        *("Provenance/prov-p2-mariscos", "Provenance/prov-p2-mariscos/_history"),
    ):
        assert fhir.get(path).status_code == 200
        resource_id = path.split("/")[1]
        another = patient.get(path)
        name = path.removesuffix("/_history")
        assert_outcome(another, 404, "not-found", f"{name} is not known here.")
        unknown_id = "x" * len(resource_id)
        unknown = patient.get(path.replace(resource_id, unknown_id))
        assert unknown.data.replace(unknown_id.encode(), resource_id.encode()) == another.data
        assert lasting(unknown) == lasting(another)
    for operation in ("everything", "summary"):
        answer = patient.get(f"Patient/p2/${operation}")
        assert_outcome(answer, 404, "not-found", "Patient/p2 is not known here.")


def test_deleted_entry_is_gone_for_its_own_patient_and_unknown_to_others(as_patient):
    path = "AllergyIntolerance/al-p5-codeine"
    assert_outcome(as_patient("p5").get(path), 410, "deleted", f"{path} was deleted.")
    assert_outcome(as_patient("p1").get(path), 404, "not-found", f"{path} is not known here.")


def test_patient_may_name_themselves(as_patient):
    for name in ("patient", "patient:Patient"):
        for value in ("p1", "Patient/p1", "https://fhir.example/fhir/Patient/p1", "p1,p1"):
            found = as_patient("p1").get("AllergyIntolerance", query_string={name: value})
            assert found.get_json(force=True)["total"] == len(P1_ALLERGIES)


def test_naming_another_patient_is_forbidden_in_every_spelling(as_patient):
    fhir = as_patient("p1")
    names = [("AllergyIntolerance", name) for name in ("patient", "patient:Patient")]
    names += [("DocumentReference", name) for name in ("patient", "subject", "subject:Patient")]
    names += [(f"{type_}/$summary", "patient") for type_ in ("AllergyIntolerance",)]
    names += [("DocumentReference/$docref", "patient")]
    for path, name in names:
        values = (
            ["p2"]
            if "$" in path
            else [
                *("p2", "Patient/p2", "https://fhir.example/fhir/Patient/p2", "p1,p2", "p2,p1"),
                *("https://other.example/fhir/Patient/p1", "Patient/p2/_history/1", "nobody", "P1"),
                "urn:uuid:0e1c2f6a-7b7a-4d8e-9a53-9c6d2d0f6a11",
            ]
        )
        parameter = name.partition(":")[0]
        for value in values:
            response = fhir.get(path, query_string={name: value})
            assert_outcome(response, 403, "forbidden", f"{name}: {ANOTHER}", parameter)
            assert 'error="insufficient_scope"' in response.headers["WWW-Authenticate"]
    for response in (
        fhir.post("AllergyIntolerance", {"patient": "p2"}),
        fhir.post("AllergyIntolerance/_search", {"patient": "p2"}),
        # The own patient does not cover another one beside it.
        fhir.get("AllergyIntolerance?patient=p1&patient=p2"),
        fhir.post("AllergyIntolerance/_search?patient=p1", {"patient": "p2"}),
        fhir.get("AllergyIntolerance?patient=p2&_summary=count"),
    ):
        assert_outcome(response, 403, "forbidden", f"patient: {ANOTHER}", "patient")


def test_query_that_only_another_record_matches_finds_nothing(fhir, as_patient):
    text = fhir.read("AllergyIntolerance/al-p2-morphine")["code"]["text"]
    for query in (
        *("AllergyIntolerance?_id=al-p2-morphine", f"AllergyIntolerance?code:text={text}"),
        *("Provenance?target=AllergyIntolerance/al-p2-mariscos",),
        "Provenance?agent=Organization/org-meridian",
    ):
        assert fhir.read(query)["total"] > 0
        assert as_patient("p1").read(query)["total"] == 0, query


def test_provenances_are_those_of_visible_targets(app, as_patient):
    patient = as_patient("p1")
    bundle = patient.read("AllergyIntolerance?_revinclude=Provenance:target")
    own = {"prov-p1-penicillin", "prov-p1-list", "prov-p1-metformin"}
    assert set(ids(bundle, "include")) == own
    assert patient.read("Provenance?_summary=count")["total"] == len(patient.ids("Provenance")) == 5
    # A scope on the type of every target is needed.
    path = "Provenance/prov-p1-list"
    response = as_scope(app, "system/DocumentReference.rs").get(path)
    assert_outcome(response, 404, "not-found", f"{path} is not known here.")


def test_provenance_of_a_hidden_provenance_is_hidden(make_app):
    app = make_app()
    second = {
        "resourceType": "Provenance",
        "id": "second",
        "target": [{"reference": "Provenance/prov-p4-nkda"}],
        "recorded": "2026-02-01T00:00:00Z",
        "agent": [{"who": {"reference": "Organization/org-lakeside"}}],
    }
    publish(app, second, now="2026-02-01T00:00:00.000+00:00")
    for patient, status, found in (("p4", 200, {"second"}), ("p1", 404, set())):
        fhir = Fhir(app, token_for(app, "patient/*.rs", patient=patient))
        assert fhir.get("Provenance/second").status_code == status
        assert set(fhir.ids("Provenance")) & {"second"} == found


# Filters of scopes.


def test_filter_of_a_scope_narrows_a_search(app):
    environment = {"al-p1-latex", "al-p1-ragweed"}
    name = "patient/AllergyIntolerance.rs"
    for scope, expected in (
        (f"{name}?category=environment", environment),
        (f"{name}?clinical-status=active", P1_ALLERGIES - {"al-p1-metformin"}),
        (f"{name}?category=environment&clinical-status=inactive", set()),
        (f"{name}?category=environment {name}?category=medication", P1_ALLERGIES),
        (f"{name}?category=environment,food", environment),
        (f"patient/DocumentReference.rs?category={LAB}", {"doc-p1-lab-2024"}),
    ):
        fhir = as_scope(app, scope, "p1")
        assert set(fhir.ids(scope.split("/")[1].split(".")[0])) == expected, scope
    # Scope and search narrow together.
    fhir = as_scope(app, "system/AllergyIntolerance.rs?category=environment")
    found = fhir.ids("AllergyIntolerance?patient=p1&clinical-status=active")
    assert found == ["al-p1-ragweed", "al-p1-latex"]
    assert fhir.read("AllergyIntolerance?patient=p1&category=medication")["total"] == 0


def test_filter_of_a_scope_hides_reads_histories_binaries_and_provenances(app):
    fhir = as_scope(app, "system/AllergyIntolerance.rs?category=environment")
    path = "AllergyIntolerance/al-p1-sulfa"
    assert fhir.get("AllergyIntolerance/al-p1-latex").status_code == 200
    assert_outcome(fhir.get(path), 404, "not-found", f"{path} is not known here.")
    # The second version of this allergy, entered in error, has no clinical status.
    fhir = as_scope(app, "system/AllergyIntolerance.rs?clinical-status=active")
    path = "AllergyIntolerance/al-p1-metformin"
    tails = ("", "/_history", "/_history/1", "/_history/2")
    assert statuses(fhir, *(path + tail for tail in tails)) == [404] * 4
    fhir = as_scope(app, f"system/DocumentReference.rs?category={LAB}")
    visible = ("Binary/bin-p1-lab-2024", "Provenance/prov-p9-labs")
    hidden = ("Binary/bin-p1-ed-2024", "Provenance/prov-p1-discharge")
    assert statuses(fhir, *visible, *hidden) == [200, 200, 404, 404]


def test_filter_that_cannot_be_enforced_gives_nothing(app):
    """Such a token is not issued, but a parameter may be removed while tokens name it."""
    for query in (
        *("nonsense=1", "_filter=code", "category:in=http://example.org/ValueSet/x", "date=soon"),
        *("patient.name=Hartwell", "category=environment&nonsense=1"),
    ):
        token = new_token()
        scope = f"system/AllergyIntolerance.rs?{query}"
        row = token_row(token, client_id=OPERATOR, scope=scope, lifetime=60)
        as_scope(app, "system/*.rs")
        with app.app_context(), writing() as connection:
            connection.execute(insert(AccessToken), [row])
        fhir = Fhir(app, token)
        assert fhir.read("AllergyIntolerance")["total"] == 0
        paths = (ALLERGY, f"{ALLERGY}/_history", f"{ALLERGY}/_history/1")
        assert statuses(fhir, *paths) == [404] * 3
