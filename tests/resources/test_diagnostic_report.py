"""DiagnosticReport: the documents that are reports, seen as such. US Core, Clinical Notes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.contract import publish, versions_held
from tests.support.helpers import FHIR_JSON, Fhir, assert_outcome, ids, token_for
from tests.support.importing import load_lines
from tests.support.reports import LOINC, concept, document, made

TIMES = [f"2026-03-0{day}T00:00:00.000+00:00" for day in range(1, 6)]
NOT_REACHED = "The token's scope does not cover search of DiagnosticReport."


@pytest.fixture(scope="module")
def reports(make_app):
    """An app for tests that publish documents of their own."""
    return make_app()


def asking(app: Any, scope: str = "system/*.rs", patient: str | None = None) -> Fhir:
    return Fhir(app, token_for(app, scope, patient=patient))


def test_the_reports_of_the_seed(fhir):
    assert set(fhir.ids("DiagnosticReport")) == {
        *("doc-p1-lab-2024", "doc-p5-lab-2024", "doc-p9-lab-2024", "doc-p9-lab-2025-03"),
        *("doc-p9-lab-2025-10", "doc-p10-lab-2024", "doc-p10-lab-2025"),
        *("doc-p1-imaging-2024", "doc-p5-imaging-2023", "doc-p12-imaging-2023"),
        *("doc-p2-pathology-2023", "doc-p6-pathology-2024"),
        *("doc-p3-procedure-2024", "doc-p6-procedure-2024", "doc-p6-scan-2024"),
    }


def test_each_report_has_what_its_document_has(app, fhir):
    for row_id, versions in versions_held(app)["DiagnosticReport"].items():
        for number in range(1, len(versions) + 1):
            path = f"{row_id}/_history/{number}"
            report = fhir.read(f"DiagnosticReport/{path}")
            source = fhir.read(f"DocumentReference/{path}")
            attached = [content["attachment"] for content in source.get("content", ())]
            for attachment in attached:
                attachment.pop("data", None)
            assert report.get("presentedForm", []) == attached
            assert report["code"] == source["type"]
            assert report["subject"] == source["subject"]
            assert report["issued"] == source["date"]
            for name in ("versionId", "lastUpdated"):
                assert report["meta"][name] == source["meta"][name]


def test_a_report_follows_the_versions_of_its_document(reports):
    fhir = asking(reports)
    publish(reports, document("turns", type=concept("11506-3")), now=TIMES[0])
    assert fhir.get("DiagnosticReport/turns").status_code == 404
    publish(reports, document("turns", docStatus="preliminary"), now=TIMES[1])
    publish(reports, document("turns", docStatus="final"), now=TIMES[2])
    assert fhir.read("DiagnosticReport/turns")["meta"]["versionId"] == "3"
    publish(reports, document("turns", status="superseded"), now=TIMES[3])
    path = "DiagnosticReport/turns"
    assert_outcome(fhir.get(path), 410, "deleted", f"{path} was deleted.")
    assert fhir.get("DocumentReference/turns").status_code == 200
    assert "turns" not in fhir.ids("DiagnosticReport?patient=p1")
    publish(reports, document("turns", docStatus="amended"), now=TIMES[4])
    assert fhir.read(path)["status"] == "amended"
    history = fhir.read(f"{path}/_history")["entry"]
    assert [entry["response"]["etag"] for entry in history] == ['W/"5"', 'W/"4"', 'W/"3"', 'W/"2"']
    assert [entry.get("resource", {}).get("status") for entry in history] == [
        *("amended", None),
        *("final", "preliminary"),
    ]
    assert fhir.get(f"{path}/_history/1").status_code == 404


def test_several_versions_in_one_batch_are_versions_of_the_report(reports):
    publish(reports, document("quick"), document("quick", docStatus="amended"), now=TIMES[0])
    fhir = asking(reports)
    assert fhir.read("DiagnosticReport/quick")["meta"]["versionId"] == "2"
    assert fhir.ids("DiagnosticReport?_id=quick") == ["quick"]


def test_a_report_that_was_filed_to_the_wrong_patient_leaves_that_patients_reach(reports):
    publish(reports, document("moved"), now=TIMES[0])
    publish(reports, document("moved", subject={"reference": "Patient/p2"}), now=TIMES[1])
    wrong, right = (asking(reports, "patient/*.rs", name) for name in ("p1", "p2"))
    for tail in ("", "/_history", "/_history/1", "/_history/2"):
        assert wrong.get(f"DiagnosticReport/moved{tail}").status_code == 404
    assert "moved" not in wrong.ids("DiagnosticReport")
    assert "moved" in right.ids("DiagnosticReport")
    assert right.get("DiagnosticReport/moved/_history/1").status_code == 404


FOUND = [
    ("patient=p9", ["doc-p9-lab-2025-10", "doc-p9-lab-2025-03", "doc-p9-lab-2024"]),
    ("patient=p1&category=LAB", ["doc-p1-lab-2024"]),
    (f"patient=p1&category={LOINC}|LP29684-5", ["doc-p1-imaging-2024"]),
    (f"patient=p5&code={LOINC}|11502-2", ["doc-p5-lab-2024"]),
    ("patient=p9&category=LAB&date=ge2025-04", ["doc-p9-lab-2025-10"]),
    ("patient=p9&code=11502-2&date=lt2025", ["doc-p9-lab-2024"]),
    ("patient=p9&status=preliminary", ["doc-p9-lab-2025-10"]),
    ("patient=p9&status=http://hl7.org/fhir/diagnostic-report-status|preliminary",
     ["doc-p9-lab-2025-10"]),
    ("patient=p9&category=LAB&_lastUpdated=ge2025-10", ["doc-p9-lab-2025-10"]),
    ("category=LP29708-2", ["doc-p5-imaging-2023"]),
    ("performer=Practitioner/dr-novak", ["doc-p6-procedure-2024"]),
    ("encounter=enc-p2-2023-appendix", ["doc-p2-pathology-2023"]),
    ("issued=2024-04-02", ["doc-p6-pathology-2024"]),
    ("patient=p4", []),
]  # fmt: skip


def test_a_search_finds(fhir):
    for query, found in FOUND:
        assert fhir.ids(f"DiagnosticReport?{query}") == found


def test_a_report_has_a_scope_of_its_own(app):
    assert_outcome(
        asking(app, "system/DocumentReference.rs").get("DiagnosticReport"),
        403,
        "forbidden",
        NOT_REACHED,
    )
    fhir = asking(app, "system/DiagnosticReport.rs?category=http://loinc.org|LP7839-6")
    assert set(fhir.ids("DiagnosticReport")) == {"doc-p2-pathology-2023", "doc-p6-pathology-2024"}
    assert fhir.get("DiagnosticReport/doc-p1-lab-2024").status_code == 404
    assert fhir.get("DocumentReference/doc-p2-pathology-2023").status_code == 403


def test_the_bytes_are_read_by_whoever_may_read_the_document(app):
    """decisions §6: a DiagnosticReport that names a Binary does not carry it."""
    address = asking(app).read("DiagnosticReport/doc-p1-imaging-2024")["presentedForm"][0]["url"]
    path = address.removeprefix("https://fhir.example/fhir/")
    both = "system/DiagnosticReport.rs system/DocumentReference.rs"
    assert asking(app, both).get(path).status_code == 200
    refusal = "The token's scope does not cover read of Binary."
    response = asking(app, "system/DiagnosticReport.rs").get(path, headers={"Accept": FHIR_JSON})
    assert_outcome(response, 403, "forbidden", refusal)


def test_reports_are_not_imported(make_app, tmp_path):
    """They follow from documents: two sources of one report would contradict each other."""
    app = make_app(seed=False)
    report = made()
    done = load_lines(app, tmp_path, {**report, "status": "cancelled"}, document())
    assert (done.skipped, done.rejected) == ({"DiagnosticReport": 1}, [])
    bundle = asking(app).read("DiagnosticReport")
    assert ids(bundle) == ["d"]
    assert bundle["entry"][0]["resource"]["status"] == "final"
