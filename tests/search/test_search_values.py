"""Media types, languages, versions of references, and values that no resource can have."""

from __future__ import annotations

import pytest

from tests.support.contract import allergy, publish
from tests.support.helpers import ids

NOW = "2026-03-01T00:00:00.000+00:00"
DOCUMENT, ALLERGY = "DocumentReference", "AllergyIntolerance"
ELSEWHERE = "https://other.example/fhir/Practitioner/x"
TYPES = {
    "bare": "text/plain",
    "charset": "text/plain; charset=utf-8",
    "loud": 'Text/Plain;CHARSET="UTF-8"',
    "page": "text/html",
    "picture": "image/png",
    "near": "text/plain-x",
}


def document(name, content_type, **more):
    attachment = {"contentType": content_type, "data": "bm90ZQ==", **more}
    return {
        "resourceType": DOCUMENT,
        "id": name,
        "status": "current",
        "subject": {"reference": "Patient/p1"},
        "content": [{"attachment": attachment}],
    }


@pytest.fixture(scope="module")
def app(make_app):
    app = make_app(seed=False)
    publish(app, *(document(name, one) for name, one in TYPES.items()), now=NOW)
    spoken = document("spoken", "audio/mpeg", language="de-CH")
    related = [{"reference": "Medication/m1"}, {"reference": f"{ELSEWHERE}/_history/7"}]
    publish(app, spoken | {"context": {"related": related}}, now=NOW)
    statuses = {
        "clinicalStatus": {"coding": [{"system": f"{CT}/allergyintolerance-clinical",
                                       "code": "active"}]},
        "verificationStatus": {"coding": [{"system": f"{CT}/allergyintolerance-verification",
                                           "code": "confirmed"}]},
        "recorder": {"reference": f"{ELSEWHERE}/_history/2"},
    }  # fmt: skip
    publish(app, allergy("al", type="allergy", category=["food"], **statuses), now=NOW)
    return app


CT = "http://terminology.hl7.org/CodeSystem"


FOUND = [
    ("contenttype=text/plain", "bare charset loud"),
    ("contenttype=TEXT/plain", "bare charset loud"),
    ("contenttype=urn:ietf:bcp:13|text/plain", "bare charset loud"),
    ("contenttype=urn:other|text/plain", ""), ('contenttype="', ""), ('contenttype=" "', ""),
    ("contenttype=text/plain;charset=utf-8", "charset loud"),
    ("contenttype=text/plain; charset=UTF-8", "charset loud"),
    ("contenttype=text/plain;charset=latin1", ""), ("contenttype=text", ""),
    ("contenttype:below=text", "bare charset loud near page"),
    ("contenttype:below=Text/*", "bare charset loud near page"),
    ("contenttype:below=text/plain", "bare charset loud"),
    ("contenttype:below=text/plain;charset=utf-8", "charset loud"),
    ("contenttype:below=image,text/html", "page picture"), ("contenttype:below=tex", ""),
    ("contenttype:below=urn:ietf:bcp:13|image", "picture"),
    ("contenttype:not=text/plain", "near page picture spoken"), ("language=de-CH", "spoken"),
    ("language=DE-ch", "spoken"), ("language=urn:ietf:bcp:47|de-ch", "spoken"),
    ("language=de", ""),
    # as an address elsewhere, with a version and without
    (f"related={ELSEWHERE}", "spoken"), (f"related={ELSEWHERE}/_history/7", "spoken"),
    (f"related={ELSEWHERE}/_history/8", "spoken"), (f"related={ELSEWHERE}x", ""),
]  # fmt: skip


def test_a_document_is_found_by(fhir):
    for query, found in FOUND:
        name, _, value = query.partition("=")
        bundle = fhir.get(DOCUMENT, query_string={name: value}).get_json(force=True)
        assert sorted(ids(bundle)) == found.split()


def test_an_entry_is_found_by_who_recorded_it_elsewhere(fhir):
    for value in (ELSEWHERE, f"{ELSEWHERE}/_history/2", f"{ELSEWHERE}/_history/9"):
        assert fhir.ids(f"{ALLERGY}?recorder={value}") == ["al"]


UNSERVED = ["Medication", "Binary", "Condition"]


def test_a_type_that_is_not_served_is_not_included_and_the_answer_says_so(fhir):
    for target in UNSERVED:
        bundle = fhir.read(f"{DOCUMENT}?_id=spoken&_include={DOCUMENT}:related:{target}")
        assert ids(bundle) == ["spoken"]
        assert ids(bundle, "include") == []
        assert warnings(bundle) == [
            ("not-supported", f"_include: nothing of the type {target} is included here")
        ]


NO_TYPES = ["identifier", "medication", "Medi1", ""]


def test_include_of_no_type_is_refused(fhir):
    for target in NO_TYPES:
        response = fhir.get(f"{DOCUMENT}?_include={DOCUMENT}:related:{target}")
        assert response.status_code == 400


def warnings(bundle):
    """Return (code, diagnostics) of the warnings in an answer."""
    return [
        (issue["code"], issue["diagnostics"])
        for entry in bundle.get("entry", ())
        if entry["search"]["mode"] == "outcome"
        for issue in entry["resource"]["issue"]
        if issue["severity"] == "warning"
    ]


CLINICAL = "active, inactive, resolved"
VERIFICATION = "unconfirmed, confirmed, refuted, entered-in-error"


DOUBTED = [
    (f"{ALLERGY}?clinical-status=activ",
     f"clinical-status: one value is none of {CLINICAL}; did you mean active?"),
    (f"{ALLERGY}?clinical-status=Active",
     f"clinical-status: one value is none of {CLINICAL}; did you mean active?"),
    (f"{ALLERGY}?clinical-status={CT}/allergyintolerance-clinical|resolve",
     f"clinical-status: one value is none of {CLINICAL}; did you mean resolved?"),
    (f"{ALLERGY}?clinical-status=active,xyz",
     f"clinical-status: one value is none of {CLINICAL}"),
    (f"{ALLERGY}?clinical-status:not=activ",
     f"clinical-status:not: one value is none of {CLINICAL}; did you mean active?"),
    (f"{ALLERGY}?status=confirm",
     f"status: one value is none of {CLINICAL}, {VERIFICATION}; did you mean confirmed?"),
    (f"{ALLERGY}?category=foods",
     ("category: one value is none of food, medication, environment, biologic;"
      " did you mean food?")),
    (f"{ALLERGY}?severity=sever",
     "severity: one value is none of mild, moderate, severe; did you mean severe?"),
    (f"{ALLERGY}?type=urn:x|allergy",
     "type: all values are of the system http://hl7.org/fhir/allergy-intolerance-type"),
    (f"{DOCUMENT}?relation=replace",
     ("relation: one value is none of replaces, transforms, signs, appends;"
      " did you mean replaces?")),
    ("Patient?gender=f",
     "gender: one value is none of male, female, other, unknown"),
    ("Patient?active=yes", "active: one value is none of true, false"),
    ("Patient?address-use=house",
     "address-use: one value is none of home, work, temp, old, billing; did you mean home?"),
]  # fmt: skip


def test_a_value_that_cannot_be_is_named_with_the_nearest(fhir):
    for path, message in DOUBTED:
        for asked, headers in ((path, {}), (f"{path}&_id=al", {"Prefer": "handling=strict"})):
            response = fhir.get(asked, headers=headers)
            assert response.status_code == 200
            assert warnings(response.get_json(force=True)) == [("code-invalid", message)]


VALID = [
    f"{ALLERGY}?clinical-status=active", f"{ALLERGY}?status=active,refuted",
    f"{ALLERGY}?clinical-status=urn:translated|aktiv",
    f"{ALLERGY}?clinical-status={CT}/allergyintolerance-clinical|",
    f"{ALLERGY}?clinical-status:text=activ", f"{ALLERGY}?clinical-status:missing=true",
    f"{ALLERGY}?code=penicilin", f"{DOCUMENT}?type=nobodys", "Patient?identifier=nobodys",
    "Group?value=anything", "Patient?active=true",
]  # fmt: skip


def test_a_value_that_can_be_is_not_doubted(fhir):
    for path in VALID:
        assert warnings(fhir.read(path)) == []


def test_a_doubted_value_is_not_repeated(fhir):
    """decisions §4: a token may name a person."""
    text = fhir.get("Patient?gender=okafor").text
    assert "okafor" not in text.split('"outcome"')[0].split('"issue"')[1]
