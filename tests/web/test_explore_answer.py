"""The explorer's answer: told in words, as JSON to look at, as HTTP, as a table, as a file."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from html import unescape
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from markupsafe import escape
from werkzeug.datastructures import Headers

from fhirapp.audit.read import entries
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT
from fhirapp.definition import types
from fhirapp.rest.internal import Answer, _body
from fhirapp.web.explore import routes
from fhirapp.web.explore.answer import described
from fhirapp.web.explore.tables import (
    MOST_MARKUP,
    MOST_ROWS,
    Cell,
    Tables,
    names_of_patients,
    tables_of,
)
from fhirapp.web.explore.views import MOST, folded
from tests.support.browsing import Browser, add_person, id_of
from tests.support.helpers import BASE_URL, FHIR_JSON, token_for
from tests.support.plenty import publish
from tests.support.publishing import TIMES
from tests.support.publishing import publish as publish_resources

ALLERGIES = "/fhir/AllergyIntolerance"
NOTES = "/fhir/DocumentReference"
IMAGE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def clinic(make_app):
    """An app with users of its own."""
    return make_app()


@pytest.fixture(scope="module")
def clinician(clinic):
    return Browser(clinic).resume(add_person(clinic, CLINICIAN))


@pytest.fixture(scope="module")
def plenty(make_app):
    """A clinician's browser, where there are 150 allergies."""
    app = make_app(seed=False)
    publish(app, 150)
    return Browser(app).resume(add_person(app, CLINICIAN))


def page_of(address: str, **more: str) -> str:
    return f"/explore?{urlencode({'address': address, **more})}"


def asked_by(links: dict[str, str]) -> list[str]:
    """Return the addresses that links of the explorer ask for."""
    return [
        parse_qs(urlsplit(one).query)["address"][0]
        for one in links.values()
        if one.startswith("/explore?") and "address=" in one
    ]


def seen(markup: str) -> str:
    """Return what folded JSON says, without what is told beside it."""
    return unescape(re.sub(r"<[^>]*>", "", re.sub(r"<small>.*?</small>", "", markup)))


@pytest.mark.parametrize(
    ("address", "told"),
    [
        (f"{ALLERGIES}?patient=p1", r"200 OK · 6 matches · [\d.]+ kB · \d+ ms"),
        (
            f"{ALLERGIES}?patient=p1&_count=2",
            r"200 OK · 6 matches, 2 on this page · [\d.]+ kB",
        ),
        (f"{ALLERGIES}?patient=p1&_count=0", r"200 OK · 6 matches · \d+ bytes · \d+ ms"),
        (f"{ALLERGIES}?patient=p1&_total=none", r"200 OK · 6 on this page · [\d.]+ kB · \d+ ms"),
        (f"{ALLERGIES}?patient=nobody", r"200 OK · 0 matches · \d+ bytes · \d+ ms"),
        ("/fhir/Patient/p1", r"200 OK · Patient/p1, version \d+ · [\d.]+ kB · \d+ ms"),
        ("/fhir/Patient/p1/_history", r"200 OK · 1 version · [\d.]+ kB · \d+ ms"),
        ("/fhir/Patient/p1/$everything", r"200 OK · \d+ matches · [\d.]+ kB · \d+ ms"),
        ("/fhir/metadata", r"200 OK · CapabilityStatement/fhirapp · [\d.]+ kB · \d+ ms"),
        ("/fhir/Patient/nobody", r"404 Not Found · \d+ bytes · \d+ ms"),
    ],
)
def test_an_answer_is_told_in_a_line(clinician, address, told):
    page = clinician.get(page_of(address))
    assert page.status == 200
    assert re.search(told, page.words), page.words


@pytest.mark.parametrize(
    ("address", "more", "told"),
    [
        (f"{ALLERGIES}?date=nonsense", {},
         ("The server could not read this request. date: 'nonsense' is not a date;"
          " use YYYY, YYYY-MM or YYYY-MM-DD.")),
        (f"{ALLERGIES}?patient.nonsense=Bob", {},
         "patient.nonsense: nonsense cannot be searched of Patient."),
        (f"{ALLERGIES}?clinicalstatus=active", {"prefer": "handling=strict"},
         ("is not a search parameter of this type; did you mean clinical-status?"
          " Did you mean clinical-status=active? Table")),
        (f"{ALLERGIES}?code:nonsense=1", {}, "the modifier is not supported on a token parameter"),
        ("/fhir/Nonsense/1", {},
         "This resource or address does not exist, or you don't have access to it."),
        ("/fhir/Patient/p1", {"accept": "image/png"},
         "This server supports none of the formats in the Accept header or _format."),
        (f"{ALLERGIES}?x=" + "a" * 9000, {}, "The address is too long. Send the search as POST."),
    ],
)  # fmt: skip
def test_what_is_refused_is_told_in_words_before_anything_else(clinician, address, more, told):
    page = clinician.get(page_of(address, **more))
    assert told in page.words
    assert page.words.index(told) < page.words.index("Raw HTTP")


def test_a_copy_that_still_holds_is_told_so(clinician):
    raw = clinician.get(page_of("/fhir/Patient/p1", view="raw"))
    (etag,) = re.findall(r'ETag: (W/"\d+")', raw.words)
    page = clinician.get(page_of("/fhir/Patient/p1", if_none_match=etag))
    assert "304 Not Modified" in page.words
    assert "Not modified: the copy you have is current" in page.words
    assert f"If-None-Match: {etag}" in page.words


def test_request_and_answer_stand_side_by_side_as_http_has_them(clinic, clinician):
    page = clinician.get(
        page_of(f"{ALLERGIES}?patient=nobody", view="raw", prefer="handling=strict")
    )
    lines = [one.strip() for one in unescape(page.response.text).splitlines()]
    assert any(
        one.endswith("GET /fhir/AllergyIntolerance?patient=nobody HTTP/1.1") for one in lines
    )
    assert {"Host: fhir.example", "Accept: application/fhir+json"} < {*lines}
    assert "Prefer: handling=strict</pre></div>" in lines
    assert "Preference-Applied: handling=strict" in page.words
    assert "HTTP/1.1 200 OK" in page.words
    assert '"resourceType": "Bundle",' in lines
    (bearer,) = [one for one in lines if one.startswith("Authorization:")]
    assert re.fullmatch(r"Authorization: Bearer \S{6}…", bearer)


@pytest.mark.parametrize(
    ("address", "more"),
    [
        ("/fhir/Patient/p1?_format=xml", {}),
        ("/fhir/Patient/p1?_format=xml", {"view": "json"}),
        ("/fhir/Patient/p1", {"accept": "application/fhir+xml"}),
    ],
)
def test_an_answer_in_xml_is_shown_as_it_came(clinician, address, more):
    page = clinician.get(page_of(address, **more))
    assert "Content-Type: application/fhir+xml; charset=utf-8" in page.words
    assert '<Patient xmlns="http://hl7.org/fhir">' in page.words


def test_a_search_can_be_sent_as_post(clinician):
    page = clinician.get(page_of(f"{ALLERGIES}?patient=p1&x=%C3%A9", view="raw", method="post"))
    assert "POST /fhir/AllergyIntolerance/_search HTTP/1.1" in page.words
    assert "Content-Type: application/x-www-form-urlencoded patient=p1&x=%C3%A9" in page.words
    assert "6 matches" in page.words
    page = clinician.get(page_of("/fhir/Patient/p1", method="post"))
    assert page.status == 400
    assert "Only a search can be sent as POST" in page.words


def test_references_and_pages_lead_on_and_to_addresses_of_ours_alone(clinician):
    page = clinician.get(page_of(f"{ALLERGIES}?patient=p1&_count=1", view="json"))
    asked = asked_by(page.offered)
    assert f"{ALLERGIES}/al-p1-ragweed" in asked
    assert "/fhir/Patient/p1" in asked
    assert "/api/AllergyIntolerance" not in asked, "the type alone: everybody's records"
    (following,) = {one for one in asked if "_cursor" in one}
    assert asked_by({"Next page": page.offered["Next page"]}) == [following]
    again = clinician.get(page_of(following))
    assert "200 OK · 6 matches, 1 on this page" in again.words
    assert all(one.startswith(("/", "#", "http://hl7.org/fhir/")) for one in page.offered.values())


def test_links_keep_how_the_answer_is_looked_at(clinician):
    page = clinician.get(page_of(f"{ALLERGIES}?patient=p1&_count=1", view="table", accept="*/*"))
    query = parse_qs(urlsplit(page.offered["Next page"]).query)
    assert query["view"] == ["table"]
    assert query["accept"] == ["*/*"]


def test_another_record_is_not_asked_for_with_the_etag_of_this_one(clinician):
    page = clinician.get(page_of(f"{ALLERGIES}/al-p1-latex", if_none_match='W/"9"'))
    followed = [one for one in page.offered.values() if "Patient/p1" in one]
    assert followed
    assert not [one for one in followed if "if_none_match" in one]


def test_a_lesson_that_led_here_is_led_back_to(clinician):
    page = clinician.get(page_of(f"{ALLERGIES}/al-p1-latex", lesson="tokens"))
    assert page.offered["Back to the lesson"] == "/learn/tokens#progress"
    again = clinician.get(page.offered["Table"])
    assert again.offered["Back to the lesson"] == "/learn/tokens#progress"
    other = clinician.get(page_of(f"{ALLERGIES}/al-p1-latex", lesson="//evil.example"))
    assert "Back to the lesson" not in other.offered


def test_a_bundle_shows_its_resources_first_and_what_is_around_them_folded(clinician):
    page = clinician.get(page_of(f"{ALLERGIES}?patient=p1&_count=2"))
    around = page.response.text.partition("About the Bundle")
    assert "<details><summary>" in around[0][-20:]
    assert around[0].index("al-p1-ragweed") > around[0].index('id="answer"')
    words = " ".join(unescape(re.sub(r"<[^>]*>", " ", around[2])).split())
    assert re.search(r"^id \S+ type searchset total 6 link: self https://fhir.example/", words)
    assert "link: next https://fhir.example/fhir/AllergyIntolerance?" in words
    # One resource is better read whole.
    assert 'class="json"' in clinician.get(page_of("/fhir/Patient/p1")).response.text


def test_a_table_of_allergies_has_the_columns_that_matter(clinician):
    page = clinician.get(page_of(f"{ALLERGIES}?patient=p1", view="table"))
    columns = "Patient Substance Status Verification Criticality Severity Since Recorded"
    assert f"AllergyIntolerance 6 Scroll sideways for more columns. id {columns}" in (page.words)
    latex = "al-p1-latex Amelia Rose Hartwell p1 Latex gloves active confirmed low mild 1996-05"
    assert latex in page.words
    assert "moderate, severe 1974-06-02 18:30:00+00:00" in page.words
    assert "status not recorded entered-in-error" in page.words
    assert "/fhir/Patient/p1" in asked_by(page.offered)


def test_names_of_patients_are_read_at_once_with_the_token_of_the_request(clinic):
    username = add_person(clinic, CLINICIAN)
    page = Browser(clinic).resume(username).get(page_of(f"{ALLERGIES}?_count=100"))
    assert "Amelia Rose Hartwell p1" in page.words
    with clinic.test_request_context(base_url=BASE_URL):
        names, search = entries(user_id=id_of(clinic, username))
    assert (names.via, search.via) == ("names", "explore")
    assert names.path.startswith("/fhir/Patient?_id=")
    assert {name.partition("/")[0] for name in names.served} == {"Patient"}


def test_a_token_that_may_not_read_a_patient_gets_no_name(clinic):
    may, may_not = (token_for(clinic, f"system/{name}.rs") for name in ("*", "AllergyIntolerance"))
    with clinic.test_request_context(base_url=BASE_URL):
        assert names_of_patients(["p1", "nobody"], may) == {"Patient/p1": "Amelia Rose Hartwell"}
        assert names_of_patients(["p1"], may_not) == {}
        assert names_of_patients([], "no token at all") == {}


def test_columns_are_elements_of_their_type(clinic):
    for name, definition in types(clinic).items():
        assert definition.table_columns, name
        for column in definition.table_columns:
            for path in column.paths:
                assert path.partition(".")[0] in definition.schema.elements, (name, path)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (f"{NOTES}?_id=doc-p1-scan-2023",
         ("id Patient Date Type Title Author Status Document status doc-p1-scan-2023"
          " Amelia Rose Hartwell p1 2023-01-09 11:00:00+00:00 Consult note Letter from the previous"
          " clinic Northgate Family Medicine current")),
        (f"{NOTES}?_id=doc-p1-scan-2023&_include=DocumentReference:author",
         ("Organization 1 included Scroll sideways for more columns. id Name Type Place"
          " Identifier org-northgate Northgate Family Medicine Healthcare Provider Port Alder")),
        ("/fhir/Patient?_id=p1",
         "id Name Born Sex Identifier p1 Amelia Rose Hartwell 1958-04-12 female LGH-100237"),
        ("/fhir/Patient/p1", "Identifier p1 Amelia Rose Hartwell 1958-04-12"),
        ("/fhir/Patient/p1/_history", "Identifier p1 version 1 Amelia Rose Hartwell 1958-04-12"),
        ("/fhir/Practitioner?_id=dr-castellanos",
         "dr-castellanos Rafael Castellanos Emergency medicine 9999901066 yes"),
        ("/fhir/Provenance?_id=prov-p1-penicillin",
         "AllergyIntolerance/al-p1-penicillin create Northgate Family Medicine, Lakeside General"),
        ("/fhir/Encounter?_id=enc-p1-2023-checkup",
         "p1 2023-02-14 09:15:00+00:00 to 09:50:00+00:00 Encounter for check up finished"),
        ("/fhir/Group?_id=grp-allergy-clinic",
         "Patients of the allergy clinic person 5 Harbor Allergy and Asthma Center"),
        ("/fhir/metadata", "id Text fhirapp no narrative"),
        (f"{ALLERGIES}?patient=nobody", "No matches."),
        ("/fhir/Patient/nobody", "This response contains no resources to list."),
    ],
)  # fmt: skip
def test_each_type_has_columns_of_its_own(clinician, address, words):
    assert words in clinician.get(page_of(address, view="table")).words


def test_types_in_one_answer_have_a_table_each(clinician):
    page = clinician.get(page_of("/fhir/Patient/p1/$everything"))
    places = [
        page.words.index(f"{name} {count} Scroll sideways")
        for name, count in [("Patient", "1"), ("AllergyIntolerance", "6"), ("DiagnosticReport", 2),
                            ("DocumentReference", "9"), ("Organization", "4 included")]
    ]  # fmt: skip
    assert places == sorted(places)


def tables(clinic, content) -> Tables:
    """Return the tables of an answer."""
    with clinic.test_request_context():
        found = tables_of(content)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("element", "value", "text"),
    [
        ("onsetAge", {"value": Decimal("3"), "unit": "years", "code": "a"}, "3 years"),
        ("onsetPeriod", {"start": "2019-08"}, "2019-08 to …"),
        ("onsetPeriod", {"end": "2019-08-01T10:00:00Z"}, "… to 2019-08-01 10:00:00Z"),
        ("onsetString", "as a child", "as a child"),
        ("onsetString", "x" * 201, "x" * 200 + "…"),
    ],
)
def test_an_onset_is_told_in_whatever_form_it_is_recorded(clinic, element, value, text):
    (table,) = tables(clinic, {"resourceType": "AllergyIntolerance", element: value}).tables
    assert table.rows[0][table.columns.index("Since")] == Cell(text)


@pytest.mark.parametrize(
    ("end", "cell"),
    [
        ("2024-01-18T09:00:00Z", Cell("2024-01-18", "08:00:00Z to 09:00:00Z")),
        ("2024-01-19T09:00:00Z", Cell("2024-01-18 to 2024-01-19", "08:00:00Z to 09:00:00Z")),
        ("2024-01-19", Cell("2024-01-18 08:00:00Z to 2024-01-19")),
    ],
)
def test_a_period_has_its_days_and_the_times_beneath(clinic, end, cell):
    period = {"start": "2024-01-18T08:00:00Z", "end": end}
    (table,) = tables(clinic, {"resourceType": "Encounter", "period": period}).tables
    assert table.rows[0][table.columns.index("Time")] == cell


def test_a_long_id_is_cut_short_to_the_eye_alone(make_app):
    app = make_app(seed=False)
    long, short = "550e8400-e29b-41d4-a716-446655440000", "o1"
    publish_resources(app, TIMES[0], *({"resourceType": "Organization", "id": each}
                                       for each in (long, short)))  # fmt: skip
    page = Browser(app).resume(add_person(app, CLINICIAN)).get(page_of("/fhir/Organization"))
    cut = re.findall(
        r'<td class="one cut" title="([^"]*)"><bdi><a [^>]*>([^<]*)</a>', page.response.text
    )
    assert cut == [(long, long)]


def test_an_absence_is_told_in_words(clinic):
    bundle = {
        "resourceType": "Bundle",
        "entry": [
            {"resource": {"resourceType": "AllergyIntolerance", "id": "a"}},
            {"resource": {"resourceType": "AllergyIntolerance", "id": "b", "code": {}}},
        ],
    }
    (table,) = tables(clinic, bundle).tables
    for row in table.rows:
        assert [cell.text for cell in row[1:]] == [
            "patient not recorded", "substance not recorded", "status not recorded",
            "verification status not recorded", "criticality not recorded",
            "severity not recorded", "onset not recorded", "date not recorded",
        ]  # fmt: skip
        assert not any(cell.is_known for cell in row[1:])


def test_a_deletion_in_a_history_is_a_row_that_says_so(clinic):
    entry = {"request": {"method": "DELETE", "url": "Patient/p1"}}
    (table,) = tables(
        clinic, {"resourceType": "Bundle", "type": "history", "entry": [entry]}
    ).tables
    assert table.type_name == "Patient"
    assert [[cell.text for cell in row] for row in table.rows] == [["p1", "deleted"]]


@pytest.mark.parametrize("text", ["a", "<" * 200])
def test_more_rows_than_a_page_holds_are_counted(clinic, text):
    resource = {"resourceType": "Organization", "id": "a", "name": text}
    bundle = {"resourceType": "Bundle", "entry": [{"resource": resource}] * 300}
    found = tables(clinic, bundle)
    shown = len(found.tables[0].rows)
    assert shown + found.left_out == 300
    assert shown <= MOST_ROWS
    assert shown * len(escape(text)) <= MOST_MARKUP + 1_000


@pytest.mark.parametrize(
    "content",
    [
        {},
        [],
        None,
        "text",
        Decimal("1.50"),
        {"a": {"b": [1, [2, {"c": None}], True, "x" * 100]}, "d": Decimal("0.10"), "e": []},
        {"div": f"<div>{IMAGE}</div>", IMAGE: [IMAGE, {IMAGE: IMAGE}]},
        {"a": 'quote " & <b>', "b": "line\nbreak\ttab", "c": "é☃", "d": "\u202eevil\u200b"},
    ],
)
def test_what_is_looked_at_is_the_json_and_nothing_of_it_is_markup(content):
    view = folded(content, lambda _text: None)
    assert not view.is_cut
    assert json.loads(seen(view.markup), parse_float=Decimal) == content
    assert not re.search("[\u202e\u200b]", view.markup)
    assert {*re.findall(r"</?([a-z]+)", view.markup)} <= {"p", "b", "i", "small", "details",
                                                          "summary"}  # fmt: skip


def test_what_is_about_a_resource_is_folded_in_its_json():
    meta = {"versionId": "1", "profile": ["x" * 80]}
    resource = {"meta": meta, "code": {"coding": [{"a": "x" * 80}]}, "text": {"div": "y" * 90}}
    markup = folded(resource, lambda _text: None).markup
    closed = re.findall(r"<details><summary><b>&#34;(\w+)", markup)
    assert closed == ["meta", "text"]


def test_deep_and_long_json_is_cut_and_says_so():
    deep: dict = {}
    for _ in range(300):
        deep = {"a": [deep, "x"]}
    long = {"resourceType": "X", "text": "<" * 1_000_000, "a": list(range(500_000))}
    wide = {f"name{at}": IMAGE * 20 for at in range(5_000)}
    for content in (deep, long, wide, [wide] * 10):
        view = folded(content, lambda _text: None)
        assert view.is_cut
        assert len(view.markup) < MOST * 1.2
        assert "<img" not in view.markup
        assert view.markup.count("<details") == view.markup.count("</details>")


def test_entries_that_come_late_have_a_line_each():
    resource = {"resourceType": "AllergyIntolerance", "code": {"text": "<i>Latex"}, "x": "y" * 390}
    entries = [
        {
            "fullUrl": f"{BASE_URL}/fhir/AllergyIntolerance/a{at}",
            "resource": resource | {"id": f"a{at}"},
        }
        for at in range(1000)
    ]
    view = folded(
        {"resourceType": "Bundle", "entry": entries},
        lambda text: f"/explore?{text}" if text.startswith(BASE_URL) else None,
        most=5_000,
    )
    assert view.is_cut
    assert len(view.markup) < 60_000
    assert f'href="/explore?{BASE_URL}/fhir/AllergyIntolerance/a90"' in view.markup
    assert "AllergyIntolerance/a90 · &lt;i&gt;Latex" in view.markup
    assert "… and 900 more" in view.markup
    # The first three are open, what comes then is folded.
    assert re.findall(r"<details( open)?><summary>{ <small>Allergy", view.markup)[:4] == [
        " open", " open", " open", "",
    ]  # fmt: skip


@pytest.mark.parametrize("view", ["json", "raw", "table"])
def test_a_page_of_a_hundred_allergies_is_below_100_kb(plenty, view):
    page = plenty.get(page_of(f"{ALLERGIES}?_count=100&_explain=true", view=view))
    assert "150 matches, 100 on this page" in page.words
    assert len(page.response.data) < 100_000


def test_how_the_server_read_it_stands_beside_the_answer(clinician):
    page = clinician.get(page_of(f"{ALLERGIES}?patient=p1&stats=1&_explain=true"))
    assert "How the server reads your search" in page.words
    assert "stats" in page.words
    page = clinician.get(page.offered["Matches after each filter"].partition("#")[0])
    assert "Remaining matches" in page.words
    page = clinician.get(page_of(f"{ALLERGIES}?patient=p1"))
    assert "How the server reads your search" not in page.words
    page = clinician.get(page.offered["How does the server read this search?"])
    assert "How the server reads your search" in page.words


@pytest.mark.parametrize(
    ("address", "accept", "kind", "name"),
    [
        (f"{ALLERGIES}?patient=p1", "", FHIR_JSON, "AllergyIntolerance.json"),
        ("/fhir/Patient/p1", "", FHIR_JSON, "Patient-p1.json"),
    ],
)
def test_the_whole_is_saved_as_a_file(clinician, address, accept, kind, name):
    whole = clinician.get(page_of(address, accept=accept)).offered["Save as a file"]
    answer = clinician.client.get(whole, base_url=BASE_URL)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == kind
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert answer.json["resourceType"]


def test_of_an_answer_that_is_too_large_no_more_is_read_than_is_described(
    clinic, clinician, monkeypatch
):
    whole = page_of("/fhir/DocumentReference?_count=50").replace("/explore?", "/explore/whole?")
    size = len(clinician.client.get(whole, base_url=BASE_URL).data)
    assert size > 20_000
    monkeypatch.setattr(routes, "MOST_BYTES", 1_000)
    monkeypatch.setattr(routes, "MOST_WHOLE", size - 1)
    page = clinician.get(page_of("/fhir/DocumentReference?_count=50", view="raw"))
    assert page.status == 200
    refused = clinician.get(whole)
    assert (refused.status, "Use the curl command" in refused.words) == (413, True)
    monkeypatch.setattr(routes, "MOST_WHOLE", size)
    assert clinician.client.get(whole, base_url=BASE_URL).status_code == 200


def test_of_a_long_body_a_page_reads_as_much_as_it_wants(clinic):
    pieces = iter([b"a" * 10, b"b" * 10, b"c" * 10])
    assert _body(pieces, 15) == (b"a" * 10 + b"b" * 10, True)
    assert [*pieces] == [b"c" * 10]
    assert _body([b"a" * 10, b"b" * 5], 15) == (b"a" * 10 + b"b" * 5, False)


def test_what_is_no_json_is_saved_or_shown_as_text_never_as_a_page(clinic, clinician):
    with clinic.test_request_context(base_url=BASE_URL):
        page = Answer("200 OK", Headers([("Content-Type", "text/html")]), IMAGE.encode(), 0.1)
        image = Answer("200 OK", Headers([("Content-Type", "image/png")]), b"\x89PNG", 0.1)
        broken = Answer("200 OK", Headers([("Content-Type", FHIR_JSON)]), b'{"a":', 12.34)
        assert (described(page).content, described(page).raw) == (None, IMAGE)
        assert (described(image).content, described(image).raw) == (None, None)
        hostile = b'{"resourceType": "Bundle", "entry": [1, null], "issue": 5}'
        bytes_of = Answer("200 OK", Headers([("Content-Type", FHIR_JSON)]), hostile, 0.1)
        assert described(bytes_of, is_bytes=True).raw == hostile.decode()
        assert (described(broken).content, described(broken).time) == (None, "12.3 s")
    notes = clinician.get(page_of(f"{NOTES}?patient=p1", view="json"))
    binary = next(one for one in asked_by(notes.offered) if "/Binary/" in one)
    for spelled in (binary, binary.replace("Binary", "%42inary")):
        page = clinician.get(page_of(spelled, accept="*/*"))
        assert "Raw HTTP" in page.offered
        assert "JSON" not in page.offered
    assert "JSON" in clinician.get(page_of(binary)).offered
    answer = clinician.client.get(
        f"/explore/whole?{urlencode({'address': binary, 'accept': '*/*'})}", base_url=BASE_URL
    )
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"].startswith("attachment")


def test_a_person_sees_over_the_explorer_what_their_token_lets_them(clinic):
    own = Browser(clinic).resume(add_person(clinic, PATIENT, "p1"))
    page = own.get(page_of(ALLERGIES))
    assert "6 matches" in page.words
    assert "404 Not Found" in own.get(page_of("/fhir/Patient/p2")).words
    page = own.get(page_of(f"{NOTES}?patient=p2"))
    assert "0 matches" in page.words or "403" in page.words


def test_in_the_demo_it_says_as_whom_it_was_asked(make_app, clinician):
    browser = Browser(make_app(demo=True)).resume("clinician")
    page = browser.get(page_of(ALLERGIES, **{"as": "patient"}))
    assert "6 matches" in page.words
    assert re.search(r"Run as [\w ]+, patient\.", page.words)
    # What is sent next is asked so too, until it is said otherwise.
    assert "6 matches" in page.submit("Send").words
    assert "Asked as" not in browser.get(page_of(ALLERGIES)).words
    # Outside the demo everybody is who they are.
    page = clinician.get(page_of(ALLERGIES, **{"as": "patient"}))
    assert "39 matches" in page.words
    assert "Asked as" not in page.words


@pytest.mark.parametrize("is_demo", [True, False])
def test_why_the_audit_trail_is_not_read_here_is_told_and_who_can(make_app, is_demo):
    app = make_app(demo=is_demo)
    browser = Browser(app)
    if is_demo:
        browser.sign_in("admin", "demo")
    else:
        browser.resume(add_person(app, ADMINISTRATOR))
    page = browser.get(page_of("/fhir/AuditEvent?patient=p1"))
    assert "The audit trail is for administrators, with a scope that names it." in page.words
    assert "The token of this page never includes the audit trail." in page.words
    assert browser.get(page.links["Audit trail"]).status == 200
    # Only a demo has clients of its own.
    assert ("No client of the demo is registered for it" in page.words) is is_demo
    # Any other refusal is not of the trail.
    assert "audit trail" not in browser.get(page_of("/fhir/Patient/nobody")).words


def test_who_has_no_record_yet_is_told_so_on_the_page(clinic):
    page = Browser(clinic).resume(add_person(clinic, PATIENT)).get(page_of(ALLERGIES))
    assert page.status == 403
    assert "This record is not linked to your account." in page.words
    assert page.form("Send").fields["address"].strip() == ALLERGIES


def test_every_type_and_every_interaction_can_be_looked_at(clinician, clinic):
    for name, definition in types(clinic).items():
        address = f"/fhir/{name}" if definition.searchable else f"/fhir/{name}/x"
        for view in ("json", "raw", "table"):
            assert clinician.get(page_of(address, view=view)).status == 200, (name, view)
