"""The explorer's answer: in a line, as a table, as JSON, as HTTP and as a file."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from flask import Flask
from markupsafe import escape
from werkzeug.datastructures import Headers

from fhirapp.audit.entries import entries
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT
from fhirapp.definition import types
from fhirapp.features.explore import routes
from fhirapp.features.explore.answer import described
from fhirapp.features.explore.tables import (
    MOST_MARKUP,
    MOST_ROWS,
    Cell,
    Tables,
    names_of_patients,
    tables_of,
)
from fhirapp.features.explore.views import MOST, fold_json
from fhirapp.rest.internal import InternalResponse, _body
from tests.support.browsing import Browser, add_person, id_of
from tests.support.helpers import BASE_URL, FHIR_JSON, token_for
from tests.support.pages import browser_of, elements, explorer_address, links, requested, texts

ALLERGIES, NOTES = "/fhir/AllergyIntolerance", "/fhir/DocumentReference"
OF_P1 = f"{ALLERGIES}?patient=p1"
IMAGE = "<img src=x onerror=alert(1)>"


def loose(text: str) -> str:
    """Return what folded JSON says, without what stands beside it."""
    return unescape(re.sub(r"<[^>]*>", "", re.sub(r"<small>.*?</small>", "", text)))


# The line and the sentences about an answer.


def test_line_has_status_count_size_and_time(clinician):
    size, time = r" · ([\d.]+ kB|\d+ bytes)", r" · \d+ ms"
    lines = {
        OF_P1: "200 OK · 6 matches",
        f"{OF_P1}&_count=2": "200 OK · 6 matches, 2 on this page",
        f"{OF_P1}&_count=0": "200 OK · 6 matches",
        f"{OF_P1}&_total=none": "200 OK · 6 on this page",
        f"{ALLERGIES}?patient=nobody": "200 OK · 0 matches",
        "/fhir/Patient/p1": r"200 OK · Patient/p1, version \d+",
        "/fhir/Patient/p1/_history": "200 OK · 1 version",
        "/fhir/Patient/p1/$everything": r"200 OK · \d+ matches",
        "/fhir/metadata": "200 OK · CapabilityStatement/fhirapp",
        "/fhir/Patient/nobody": "404 Not Found",
    }
    for address, line in lines.items():
        page = clinician.get(explorer_address(address))
        assert page.status == 200
        (found,) = texts(page, "p.facts-line")
        assert re.fullmatch(line + size + time, found), (address, found)


def test_refusal_is_shown_above_the_answer_with_its_parameter(clinician):
    strict = {"prefer": "handling=strict"}
    for address, headers, parameter, words in (
        (f"{ALLERGIES}?date=nonsense", {}, "date", "use YYYY, YYYY-MM or YYYY-MM-DD"),
        (f"{ALLERGIES}?patient.nonsense=Bob", {}, "patient.nonsense", "Patient"),
        (f"{ALLERGIES}?clinicalstatus=active", strict, "clinicalstatus", "mean clinical-status?"),
        (f"{ALLERGIES}?code:nonsense=1", {}, "code:nonsense", "modifier"),
        ("/fhir/Nonsense/1", {}, "", ""),
        ("/fhir/Patient/p1", {"accept": "image/png"}, "", "Accept"),
        (f"{ALLERGIES}?x=" + "a" * 9000, {}, "", "POST"),
    ):
        page = clinician.get(explorer_address(address, **headers))
        (notice,) = elements(page, "div.notice")
        assert [parameter] == (texts(notice, "code")[:1] or [""])
        assert words in " ".join(notice.itertext())


def test_explorer_reads_with_the_users_own_token(clinic):
    own = browser_of(clinic, PATIENT, "p1")
    found = {
        address: texts(own.get(explorer_address(address)), "span.status")[0]
        for address in (ALLERGIES, "/fhir/Patient/p2", f"{NOTES}?patient=p2")
    }
    assert found[ALLERGIES] == "200 OK"
    assert found["/fhir/Patient/p2"] == "404 Not Found"
    assert found[f"{NOTES}?patient=p2"].startswith("403")
    assert "6 matches" in own.get(explorer_address(ALLERGIES)).words
    page = browser_of(clinic, PATIENT).get(explorer_address(ALLERGIES))
    assert (page.status, page.form("Send").fields["address"].strip()) == (403, ALLERGIES)


@pytest.mark.parametrize("is_demo", [True, False])
def test_refused_audit_trail_leads_to_where_it_is_read(clinic, demo, is_demo):
    app = demo if is_demo else clinic
    browser = Browser(app).resume("admin" if is_demo else add_person(app, ADMINISTRATOR))
    page = browser.get(explorer_address("/fhir/AuditEvent?patient=p1"))
    (address,) = links(page, "/admin/audit")
    assert browser.get(address).status == 200
    # Only a demo lets users register a client themselves.
    assert bool(links(page, "/apps/register")) is is_demo
    assert links(browser.get(explorer_address("/fhir/Patient/nobody")), "/admin/audit") == []


# HTTP.


def test_request_and_answer_are_shown_as_http(clinician):
    address = f"{ALLERGIES}?patient=nobody"
    page = clinician.get(explorer_address(address, view="raw", prefer="handling=strict"))
    request, answer = ((pre.text or "").split("\n") for pre in elements(page, "pre.http"))
    assert request[0] == "GET /fhir/AllergyIntolerance?patient=nobody HTTP/1.1"
    assert {"Host: fhir.example", "Accept: application/fhir+json"} < {*request}
    assert "Prefer: handling=strict" in request
    (bearer,) = [line for line in request if line.startswith("Authorization:")]
    assert re.fullmatch(r"Authorization: Bearer \S{6}…", bearer)
    assert answer[0] == "HTTP/1.1 200 OK"
    assert "Preference-Applied: handling=strict" in answer
    assert '"resourceType": "Bundle",' in map(str.strip, answer)


def test_answer_in_xml_is_shown_as_it_came(clinician):
    for address, beside in (
        ("/fhir/Patient/p1?_format=xml", {"view": "json"}),
        ("/fhir/Patient/p1", {"accept": "application/fhir+xml"}),
    ):
        (_, answer) = texts(clinician.get(explorer_address(address, **beside)), "pre.http")
        assert "Content-Type: application/fhir+xml; charset=utf-8" in answer
        assert '<Patient xmlns="http://hl7.org/fhir">' in answer


def test_search_is_sent_as_post_and_nothing_else_is(clinician):
    page = clinician.get(explorer_address(f"{OF_P1}&x=%C3%A9", view="raw", method="post"))
    (request, _) = texts(page, "pre.http")
    assert request.startswith("POST /fhir/AllergyIntolerance/_search HTTP/1.1")
    assert "Content-Type: application/x-www-form-urlencoded patient=p1&x=%C3%A9" in request
    assert "6 matches" in page.words
    assert clinician.get(explorer_address("/fhir/Patient/p1", method="post")).status == 400


def test_ignored_parameter_is_named_above_the_answer(clinic, clinician):
    patient = browser_of(clinic, PATIENT, "p1")
    everybody, others = "these are the records of all patients", "does not limit these results"
    for browser, address, warnings in (
        (clinician, f"{ALLERGIES}?pateint=p1", [f"pateint was ignored: {everybody}."]),
        (clinician, f"{ALLERGIES}?patient=&_count=2", [f"patient was ignored: {everybody}."]),
        (clinician, f"{OF_P1}&foo=1&foo=2", [f"foo was ignored: it {others}."]),
        (clinician, "/fhir/Practitioner?nmae=x", [f"nmae was ignored: it {others}."]),
        (clinician, "/fhir/Patient/p1/AllergyIntolerance?x=1", [f"x was ignored: it {others}."]),
        (patient, f"{ALLERGIES}?pateint=p1", [f"pateint was ignored: it {others}."]),
        (clinician, f"{OF_P1}&clinical-status=activ&_include=x&_elements=y", []),
        (clinician, f"{OF_P1}&_explain=true", []),
    ):
        for view in ("table", "json"):
            page = browser.get(explorer_address(address, view=view))
            assert texts(page, "p.notice.long", role="alert") == warnings, address


# Links.


def test_references_and_pages_lead_to_the_explorer(clinician):
    page = clinician.get(explorer_address(f"{OF_P1}&_count=1", view="json"))
    found = requested(page)
    assert {f"{ALLERGIES}/al-p1-ragweed", "/fhir/Patient/p1"} <= {*found}
    assert "/api/AllergyIntolerance" not in found, "the type alone: everybody's records"
    (following,) = {address for address in found if "_cursor" in address}
    assert "6 matches, 1 on this page" in clinician.get(explorer_address(following)).words
    assert all(
        address.startswith(("/", "#", "http://hl7.org/fhir/")) for address in page.offered.values()
    )


def test_links_keep_view_and_headers_but_not_the_etag(clinician):
    page = clinician.get(explorer_address(f"{OF_P1}&_count=1", view="table", accept="*/*"))
    (following,) = {link for link in links(page, "/explore?") if "_cursor" in link}
    query = parse_qs(urlsplit(following).query)
    assert (query["view"], query["accept"]) == (["table"], ["*/*"])
    page = clinician.get(explorer_address(f"{ALLERGIES}/al-p1-latex", if_none_match='W/"9"'))
    followed = [address for address in links(page, "/explore?") if "Patient/p1" in address]
    assert followed
    assert not [address for address in followed if "if_none_match" in address]


def test_explorer_leads_back_to_the_lesson_that_it_was_opened_from(clinician):
    page = clinician.get(explorer_address("/fhir/Patient/p1", lesson="tokens"))
    assert links(page, "/learn/") == ["/learn/tokens#progress"]
    assert links(clinician.get(page.offered["Table"]), "/learn/") == ["/learn/tokens#progress"]
    page = clinician.get(explorer_address("/fhir/Patient/p1", lesson="//evil.example"))
    assert links(page, "/learn/") + links(page, "//") == []


def test_id_leads_to_the_current_version_and_in_a_history_to_its_own(clinician):
    latex = f"{ALLERGIES}/al-p1-latex"
    for address in (f"{ALLERGIES}?_id=al-p1-latex", f"{latex}/_history/1"):
        found = requested(clinician.get(explorer_address(address, view="table")))
        assert latex in found
        assert f"{latex}/_history/1" not in {*found} - {address}
    assert f"{latex}/_history/1" in requested(clinician.get(explorer_address(f"{latex}/_history")))


# Tables.


COLUMNS = {
    f"{ALLERGIES}?_id=al-p1-latex": (
        *("al-p1-latex", "Amelia Rose Hartwell p1", "Latex gloves", "active", "confirmed", "low"),
        *("mild", "1996-05"),
    ),
    f"{NOTES}?_id=doc-p1-scan-2023": (
        *("doc-p1-scan-2023", "Amelia Rose Hartwell p1", "2023-01-09 11:00:00+00:00"),
        *("Consult note", "Letter from the previous clinic", "Northgate Family Medicine"),
        "current",
    ),
    "/fhir/Patient?_id=p1": ("p1", "Amelia Rose Hartwell", "1958-04-12", "female", "LGH-100237"),
    "/fhir/Patient/p1/_history": ("p1 version 1", "Amelia Rose Hartwell", "1958-04-12"),
    "/fhir/Practitioner?_id=dr-castellanos": (
        *("dr-castellanos", "Rafael Castellanos", "Emergency medicine", "9999901066", "yes"),
    ),
    "/fhir/Provenance?_id=prov-p1-penicillin": (
        *("AllergyIntolerance/al-p1-penicillin", "create"),
        "Northgate Family Medicine, Lakeside General Hospital",
    ),
    "/fhir/Encounter?_id=enc-p1-2023-checkup": (
        *("2023-02-14 09:15:00+00:00 to 09:50:00+00:00", "Encounter for check up", "finished"),
    ),
    "/fhir/Group?_id=grp-allergy-clinic": (
        *("Patients of the allergy clinic", "person", "5", "Harbor Allergy and Asthma Center"),
    ),
    "/fhir/metadata": ("fhirapp", "no narrative"),
}


def test_each_type_has_columns_of_its_own(clinician):
    for address, row in COLUMNS.items():
        page = clinician.get(explorer_address(address, view="table"))
        (table,) = elements(page, "div.records")
        assert " | ".join(row) in " | ".join(texts(table, "td")), address


def test_tables_of_several_types_and_of_none(clinician):
    page = clinician.get(explorer_address("/fhir/Patient/p1/$everything"))
    assert texts(page, "h3.term")[:4] == [
        *("Patient 1", "AllergyIntolerance 6", "DiagnosticReport 2", "DocumentReference 9")
    ]
    assert "Organization 4 included" in texts(page, "h3.term")
    for address in (f"{ALLERGIES}?patient=nobody", "/fhir/Patient/nobody"):
        page = clinician.get(explorer_address(address, view="table"))
        assert elements(page, "div.records") == []


def test_names_of_patients_are_read_once_with_the_token_of_the_request(clinic):
    username = add_person(clinic, CLINICIAN)
    page = Browser(clinic).resume(username).get(explorer_address(f"{ALLERGIES}?_count=100"))
    assert "Amelia Rose Hartwell p1" in page.words
    may, may_not = (token_for(clinic, f"system/{name}.rs") for name in ("*", "AllergyIntolerance"))
    with clinic.test_request_context(base_url=BASE_URL):
        names, search = entries(user_id=id_of(clinic, username))
        assert names_of_patients(["p1", "nobody"], may) == {"Patient/p1": "Amelia Rose Hartwell"}
        assert names_of_patients(["p1"], may_not) == {}
        assert names_of_patients([], "no token at all") == {}
    assert (names.via, search.via) == ("names", "explore")
    assert names.path.startswith("/fhir/Patient?_id=")
    assert {name.partition("/")[0] for name in names.served} == {"Patient"}


def tables(clinic: Flask, content: Any) -> Tables:
    with clinic.test_request_context():
        found = tables_of(content)
    assert found is not None
    return found


def test_dates_and_periods_are_written_in_one_cell(clinic):
    start = "2024-01-18T08:00:00Z"
    onsets: list[tuple[dict[str, Any], Cell]] = [
        ({"onsetAge": {"value": Decimal(3), "unit": "years"}}, Cell("3 years")),
        ({"onsetPeriod": {"start": "2019-08"}}, Cell("2019-08 to …")),
        ({"onsetPeriod": {"end": "2019-08-01T10:00:00Z"}}, Cell("… to 2019-08-01 10:00:00Z")),
        ({"onsetString": "as a child"}, Cell("as a child")),
        ({"onsetString": "x" * 201}, Cell("x" * 200 + "…")),
    ]
    visits = {
        "2024-01-18T09:00:00Z": Cell("2024-01-18", "08:00:00Z to 09:00:00Z"),
        "2024-01-19T09:00:00Z": Cell("2024-01-18 to 2024-01-19", "08:00:00Z to 09:00:00Z"),
        "2024-01-19": Cell("2024-01-18 08:00:00Z to 2024-01-19"),
    }
    for resource_type, column, cases in (
        ("AllergyIntolerance", "Since", onsets),
        (
            "Encounter",
            "Time",
            [({"period": {"start": start, "end": end}}, cell) for end, cell in visits.items()],
        ),
    ):
        for element, cell in cases:
            (table,) = tables(clinic, {"resourceType": resource_type, **element}).tables
            assert table.rows[0][table.columns.index(column)] == cell, element


def test_missing_elements_are_named_in_their_cells(clinic):
    allergies = [{"id": "a"}, {"id": "b", "code": {}}]
    entry = [
        {"resource": {"resourceType": "AllergyIntolerance", **allergy}} for allergy in allergies
    ]
    (table,) = tables(clinic, {"resourceType": "Bundle", "entry": entry}).tables
    absent = ("patient", "substance", "status", "verification status", "criticality", "severity")
    for row in table.rows:
        assert [cell.text for cell in row[1:]] == [
            f"{name} not recorded" for name in (*absent, "onset", "date")
        ]
        assert not any(cell.is_known for cell in row[1:])


def test_deletion_in_a_history_has_a_row(clinic):
    entry = {"request": {"method": "DELETE", "url": "Patient/p1"}}
    bundle = {"resourceType": "Bundle", "type": "history", "entry": [entry]}
    (table,) = tables(clinic, bundle).tables
    assert table.type_name == "Patient"
    assert [[cell.text for cell in row] for row in table.rows] == [["p1", "deleted"]]


def test_rows_beyond_the_limit_are_counted(clinic):
    for text in ("a", "<" * 200):
        resource = {"resourceType": "Organization", "id": "a", "name": text}
        found = tables(clinic, {"resourceType": "Bundle", "entry": [{"resource": resource}] * 300})
        shown = len(found.tables[0].rows)
        assert shown + found.left_out == 300
        assert shown <= MOST_ROWS
        assert shown * len(escape(text)) <= MOST_MARKUP + 1_000


# JSON.


def test_folded_json_is_the_json_and_none_of_it_is_markup():
    for content in (
        *({}, [], None, "text", Decimal("1.50")),
        {"a": {"b": [1, [2, {"c": None}], True, "x" * 100]}, "d": Decimal("0.10"), "e": []},
        {"div": f"<div>{IMAGE}</div>", IMAGE: [IMAGE, {IMAGE: IMAGE}]},
        {"a": 'quote " & <b>', "b": "line\nbreak\ttab", "c": "é☃", "d": "\u202eevil\u200b"},
    ):
        view = fold_json(content, lambda _text: None)
        assert (view.cuts_texts, view.cuts_parts) == (False, False)
        assert json.loads(loose(view.markup), parse_float=Decimal) == content
        assert not re.search("[\u202e\u200b]", view.markup)
        tags = {*re.findall(r"</?([a-z]+)", view.markup)}
        assert tags <= {"p", "b", "i", "small", "details", "summary"}


def test_deep_and_long_json_is_cut():
    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"a": [deep, "x"]}
    long = {"resourceType": "X", "text": "<" * 1_000_000, "a": list(range(100_000))}
    wide = {f"name{number}": IMAGE * 20 for number in range(2_000)}
    for content in (deep, long, wide, [wide] * 10):
        view = fold_json(content, lambda _text: None)
        assert view.cuts_parts
        assert len(view.markup) < MOST * 1.2
        assert "<img" not in view.markup
        assert view.markup.count("<details") == view.markup.count("</details>")


def test_page_says_what_of_the_json_is_cut(clinician):
    long, many = {"a": "x" * 411}, {"a": [{"b": "y" * 300}] * 300}
    cut = {"texts": "Long texts are shortened.", "parts": "Some parts are left out."}
    for content, expected in ((long, ["texts"]), (many, ["parts"]), ([long, many], [*cut])):
        view = fold_json(content, lambda _text: None)
        assert (view.cuts_texts, view.cuts_parts) == ("texts" in expected, "parts" in expected)
    for address, expected in (
        ("Organization?_count=1", []),
        ("Binary/bin-p3-consult-2024", ["texts"]),
        ("AllergyIntolerance?patient=p1", ["texts", "parts"]),
    ):
        page = clinician.get(explorer_address(f"/fhir/{address}", view="json"))
        assert [name for name, words in cut.items() if words in page.words] == expected, address


def test_entries_beyond_the_limit_have_a_line_each():
    resource = {"resourceType": "AllergyIntolerance", "code": {"text": "<i>Latex"}, "x": "y" * 390}
    fhir = f"{BASE_URL}/fhir/AllergyIntolerance"
    entry = [
        {"fullUrl": f"{fhir}/a{number}", "resource": resource | {"id": f"a{number}"}}
        for number in range(1000)
    ]
    view = fold_json(
        {"resourceType": "Bundle", "entry": entry},
        lambda text: f"/explore?{text}" if text.startswith(BASE_URL) else None,
        most=5_000,
    )
    assert (view.cuts_parts, len(view.markup) < 60_000) == (True, True)
    assert f'href="/explore?{fhir}/a90"' in view.markup
    assert "AllergyIntolerance/a90 · &lt;i&gt;Latex" in view.markup
    assert "… and 900 more" in view.markup


# Files.


def test_answer_is_saved_as_a_file(clinician):
    names = {OF_P1: "AllergyIntolerance.json", "/fhir/Patient/p1": "Patient-p1.json"}
    for address, name in names.items():
        (whole,) = links(clinician.get(explorer_address(address)), "/explore/whole?")
        answer = clinician.client.get(whole, base_url=BASE_URL)
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, FHIR_JSON)
        assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}"'
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in answer.headers["Content-Security-Policy"]
        assert answer.json["resourceType"]


def test_answer_beyond_the_limit_is_not_read_to_its_end(clinician, monkeypatch):
    assert clinician.get("/explore/whole?address=/admin/users").status == 400
    address = explorer_address(f"{NOTES}?_count=50", view="raw")
    whole = address.replace("/explore?", "/explore/whole?")
    size = len(clinician.client.get(whole, base_url=BASE_URL).data)
    assert size > 20_000
    monkeypatch.setattr(routes, "MOST_BYTES", 1_000)
    monkeypatch.setattr(routes, "MOST_WHOLE", size - 1)
    assert clinician.get(address).status == 200
    assert clinician.get(whole).status == 413
    monkeypatch.setattr(routes, "MOST_WHOLE", size)
    assert clinician.client.get(whole, base_url=BASE_URL).status_code == 200
    pieces = iter([b"a" * 10, b"b" * 10, b"c" * 10])
    assert _body(pieces, 15) == (b"a" * 10 + b"b" * 10, True)
    assert [*pieces] == [b"c" * 10]
    assert _body([b"a" * 10, b"b" * 5], 15) == (b"a" * 10 + b"b" * 5, False)


def test_answer_that_is_no_json_is_text_or_a_file_and_never_a_page(in_app):
    def description(content_type: str, body: bytes, **options: Any) -> Any:
        headers = Headers([("Content-Type", content_type)])
        return described(InternalResponse("200 OK", headers, body, 12.34), **options)

    page, image = description("text/html", IMAGE.encode()), description("image/png", b"\x89PNG")
    broken = description(FHIR_JSON, b'{"a":')
    hostile = b'{"resourceType": "Bundle", "entry": [1, null], "issue": 5}'
    assert (page.content, page.raw) == (None, IMAGE)
    assert (image.content, image.raw) == (None, None)
    assert (broken.content, broken.time) == (None, "12.3 s")
    assert description(FHIR_JSON, hostile, is_bytes=True).raw == hostile.decode()


def test_binary_is_saved_as_bytes_where_its_own_type_is_accepted(clinician):
    notes = clinician.get(explorer_address(f"{NOTES}?patient=p1", view="json"))
    binary = next(address for address in requested(notes) if "/Binary/" in address)
    for address, accept, views in (
        (binary, "", {"table", "json", "raw"}),
        (binary, "*/*", {"raw"}),
        (binary.replace("Binary", "%42inary"), "*/*", {"raw"}),
    ):
        page = clinician.get(explorer_address(address, accept=accept))
        tabs = (parse_qs(urlsplit(address).query) for address in links(page, "/explore?"))
        assert {query["view"][0] for query in tabs if "view" in query} == views
    whole = explorer_address(binary, accept="*/*").replace("/explore?", "/explore/whole?")
    answer = clinician.client.get(whole, base_url=BASE_URL)
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"].startswith("attachment")


def test_every_type_can_be_viewed_in_every_way(clinician, clinic):
    for name, definition in types(clinic).items():
        address = f"/fhir/{name}" if definition.searchable else f"/fhir/{name}/x"
        view = ("json", "raw", "table")[len(name) % 3]
        assert clinician.get(explorer_address(address, view=view)).status == 200, (name, view)
