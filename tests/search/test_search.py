"""The searches beyond service.md: decisions §2 and §3."""

from __future__ import annotations

import re

import pytest

from tests.support.contract import allergy, publish
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import BASE_URL, Fhir, assert_outcome, ids, link, token_for

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

ALLERGY = "AllergyIntolerance"
DOCUMENT = "DocumentReference"
CLINICAL = "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical"
RXNORM = "http://www.nlm.nih.gov/research/umls/rxnorm"
# Newest first: how a search answers them.
OF_P1 = ["ragweed", "metformin", "ibuprofen", "latex", "sulfa", "penicillin"]
STRICT = {"Prefer": "handling=strict"}


def of_p1(fhir, query):
    """Return which entries of p1 a query finds, by the last part of their ids."""
    found = fhir.ids(f"{ALLERGY}?patient=p1&{query}")
    return [row_id.removeprefix("al-p1-") for row_id in found]


TOKENS = [
    # Every coding of a system.
    (f"code={RXNORM}|", ["metformin", "ibuprofen", "sulfa", "penicillin"]),
    ("category=medication,food", ["metformin", "ibuprofen", "sulfa", "penicillin"]),
    ("status:not=active,entered-in-error", []),
    ("clinical-status:not=active", ["metformin"]),
    ("verification-status=confirmed&criticality=high", ["penicillin"]),
    ("manifestation=418363000&manifestation=271807003", ["sulfa"]),
    (f"recorder={BASE_URL}/fhir/Practitioner/dr-whitmore", ["ragweed"]),
    ("recorder=http://elsewhere.example/fhir/Practitioner/dr-whitmore", []),
    # A backslash makes the comma a part of the value.
    (r"code=7984\,733", []),
    ("_id=al-p1-latex,al-p2-mariscos", ["latex"]),
    (r"_id=al-p1-latex\,al-p1-sulfa", []),
    ("_id=al-p1-latex&_id=al-p1-sulfa", []),
]


def test_a_token_or_a_reference_finds(fhir):
    assert {case: of_p1(fhir, case) for case, _ in TOKENS} == dict(TOKENS)


UNKNOWN = ["patient=nobody", "code=nothing", "_id=nobody", "date=1800"]


def test_an_unknown_value_of_a_known_parameter_finds_nothing(fhir):
    for query in UNKNOWN:
        bundle = fhir.read(f"{ALLERGY}?{query}")
        assert bundle["total"] == 0
        assert "entry" not in bundle


def test_special_characters_are_escaped_with_a_backslash(make_app):
    app = make_app(seed=False)
    value = "A,1|2$3\\4"
    entry = allergy("odd", identifier=[{"system": "urn:oid:1.2.3", "value": value}])
    publish(app, entry, allergy("other"), now="2026-01-01T00:00:00.000+00:00")
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    assert fhir.ids(rf"{ALLERGY}?identifier=A\,1\|2\$3\\4") == ["odd"]
    assert fhir.ids(rf"{ALLERGY}?identifier=urn:oid:1.2.3|A\,1\|2\$3\\4") == ["odd"]
    assert fhir.ids(rf"{ALLERGY}?identifier=A,1") == []


def test_an_unknown_parameter_is_told_in_the_bundle(fhir):
    bundle = fhir.read(f"{ALLERGY}?patient=p4&statuss=resolved&foo=1")
    assert ids(bundle) == ["al-p4-nkda"]
    assert bundle["total"] == 1
    told = bundle["entry"][-1]
    # HL7's validators ask for one; the same outcome has the same.
    assert re.fullmatch("urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", told.pop("fullUrl"))
    assert told == {
        "resource": {
            "resourceType": "OperationOutcome",
            "issue": [
                warning("statuss", "is not a search parameter of this type; "
                        "did you mean status?; it was ignored"),
                warning("foo", "is not a search parameter of this type; it was ignored"),
            ],
        },
        "search": {"mode": "outcome"},
    }  # fmt: skip
    # The links hold what was applied, and no more.
    assert link(bundle, "first") == f"/fhir/{ALLERGY}?patient=p4"


def warning(name, reason):
    return {
        "severity": "warning",
        "code": "not-supported",
        "diagnostics": f"{name}: {reason}",
        "expression": [f"http.{name}"],
    }


EMPTY = ["patient=", "code=&patient=", "status=%20"]


def test_an_empty_value_is_ignored(fhir):
    for query in EMPTY:
        assert fhir.read(f"{ALLERGY}?{query}")["total"] == fhir.read(ALLERGY)["total"]


def test_url_and_body_count_as_one_query(fhir):
    merged = fhir.post(f"{ALLERGY}/_search?patient=p1&status=active", {"status": "confirmed"})
    assert ids(merged.get_json(force=True)) == of_p1_ids("ragweed", "ibuprofen", "latex", "sulfa",
                                                         "penicillin")  # fmt: skip
    narrowed = fhir.post(f"{ALLERGY}?patient=p1", {"patient": "p2"})
    assert narrowed.get_json(force=True)["total"] == 0
    ranged = fhir.post(f"{ALLERGY}?date=ge2023-02-14", {"date": "lt2023-02-15", "patient": "p1"})
    assert ids(ranged.get_json(force=True)) == of_p1_ids("sulfa", "penicillin")


def of_p1_ids(*names):
    return [f"al-p1-{name}" for name in names]


def test_a_patient_token_implies_the_patient(as_patient):
    fhir = as_patient("p1")
    assert fhir.ids(ALLERGY) == [f"al-p1-{name}" for name in OF_P1]
    assert fhir.get(f"{ALLERGY}?status=active", headers=STRICT).status_code == 200
    assert fhir.ids(f"{ALLERGY}?_id=al-p2-mariscos") == []


def test_a_search_is_answered_304_until_its_answer_changes(make_app):
    app = make_app()
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    path = f"{ALLERGY}?patient=p4&_revinclude=Provenance:target"
    etag = fhir.get(path).headers["ETag"]
    assert etag.startswith('W/"')
    for held in (etag, etag.removeprefix("W/"), f'"x", {etag}', "*", etag.replace('"', "")):
        answer = fhir.get(path, headers={"If-None-Match": held})
        assert (answer.status_code, answer.data) == (304, b"")
        assert answer.headers["ETag"] == etag
    publish(app, allergy("al-p9-new", "p9"), now="2026-02-01T00:00:00.000+00:00")
    assert fhir.get(path, headers={"If-None-Match": etag}).status_code == 304
    publish(app, allergy("al-p4-new", "p4"), now="2026-02-02T00:00:00.000+00:00")
    changed = fhir.get(path, headers={"If-None-Match": etag})
    assert changed.status_code == 200
    assert changed.headers["ETag"] != etag


@pytest.fixture(scope="module")
def other_settings(make_app):
    """An app with the settings that change what a search answers."""
    app = make_app(
        self_link="fhir", require_patient_or_id=True, empty_content="dar", inline_max=900
    )
    return Fhir(app, token_for(app, "system/*.rs"))


def test_the_self_link_can_be_that_of_fhir(other_settings):
    bundle = other_settings.read(f"{ALLERGY}?patient=p1&_count=2&unknown=x")
    assert link(bundle, "self") == f"/fhir/{ALLERGY}?patient=p1&_count=2"
    further = link(bundle, "next")
    assert link(other_settings.read(further), "self") == further


UNRESTRICTED = ["", "?status=active", "?patient=", "?_pretty=false"]


def test_patient_or_id_can_be_required(other_settings):
    for query in UNRESTRICTED:
        assert_outcome(
            other_settings.get(ALLERGY + query),
            400,
            "required",
            "patient: is required when _id is not given",
            "patient",
        )
        assert other_settings.read(f"{DOCUMENT}?subject=p1")["total"] == 9
        assert other_settings.read(f"{DOCUMENT}?_id=doc-p1-scan-2023")["total"] == 1


def test_a_document_without_content_can_say_so(other_settings, fhir):
    path = f"{DOCUMENT}?_id=doc-p9-lab-2024"
    (entry,) = other_settings.read(path)["entry"]
    absent = {
        "url": "http://hl7.org/fhir/StructureDefinition/data-absent-reason",
        "valueCode": "unknown",
    }
    assert entry["resource"]["content"] == [{"attachment": {"_url": {"extension": [absent]}}}]
    (plain,) = fhir.read(path)["entry"]
    assert "content" not in plain["resource"]
    for one in (entry, plain):
        assert "profile" not in one["resource"]["meta"]


def test_only_small_attachments_are_inline(other_settings, fhir):
    sizes = {True: [], False: []}
    for entry in other_settings.read(f"{DOCUMENT}?patient=p1")["entry"]:
        for content in entry["resource"]["content"]:
            attachment = content["attachment"]
            assert attachment["url"].startswith(f"{BASE_URL}/fhir/Binary/")
            assert attachment["hash"]
            sizes["data" in attachment].append(attachment["size"])
    assert max(sizes[True]) <= 900 < min(sizes[False])


NARROWED = ["", "&_count=2", "&_id=al-p1-latex", "&code=nothing"]


def test_the_total_is_exact_unless_none_is_wanted(fhir):
    for query in NARROWED:
        path = f"{ALLERGY}?patient=p1{query}"
        total = fhir.read(path)["total"]
        assert fhir.read(f"{path}&_total=accurate")["total"] == total
        assert fhir.read(f"{path}&_total=estimate")["total"] == total
        without = fhir.read(f"{path}&_total=none")
        assert "total" not in without
        assert ids(without) == fhir.ids(path)
