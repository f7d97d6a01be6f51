"""The explorer's form and address: each contains what the other does; and what fields suggest."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import parse_qsl, urlsplit

import pytest
from werkzeug.datastructures import MultiDict

from fhirapp.audit.entries import entries
from fhirapp.auth.models import CLINICIAN, PATIENT
from fhirapp.definition import types
from fhirapp.features.explore import form as forms
from fhirapp.features.explore.address import NoAddressError, pair, read_address
from fhirapp.features.explore.form import read_form, write_address
from tests.support.browsing import Browser, Page, add_person, id_of
from tests.support.helpers import BASE_URL
from tests.support.pages import browser_of, elements, explorer_address, submit_to, texts

ALLERGIES, NOTES = "/fhir/AllergyIntolerance", "/fhir/DocumentReference"
IMAGE = "<img src=x onerror=alert(1)>"
READ_AS = {
    "/fhir/Patient/p1": "/fhir/Patient/p1",
    f"{BASE_URL}/fhir/Patient/p1": "/fhir/Patient/p1",
    "fhir/Patient/p1": "/fhir/Patient/p1",
    "Patient/p1": "/fhir/Patient/p1",
    "metadata": "/fhir/metadata",
    "$export?_type=Patient": "/fhir/$export?_type=Patient",
    " GET  /fhir/Patient/p1\n": "/fhir/Patient/p1",
    "GET /fhir/Patient/p1 HTTP/1.1": "/fhir/Patient/p1",
    "/fhir/Patient\n?name=A": "/fhir/Patient?name=A",
    "/fhir/Patient/p1/_history/1": "/fhir/Patient/p1/_history/1",
    "/fhir/Patient/p1/$everything?_since=2024": "/fhir/Patient/p1/$everything?_since=2024",
    "/api/AllergyIntolerance": "/api/AllergyIntolerance",
    "/fhir/Patient?name=José Ñ": "/fhir/Patient?name=Jos%C3%A9%20%C3%91",
    "/fhir/Patient?name=Jos%C3%A9+A": "/fhir/Patient?name=Jos%C3%A9+A",
    "/fhir/Patient#top": "/fhir/Patient",
    '/fhir/Patient?name="a"': "/fhir/Patient?name=%22a%22",
}
REFUSED = (
    *("/admin/users", "/oauth/token", "/fhirx", "/api-docs", "/", "x", "/fhir\\..\\admin"),
    *("https://evil.example/fhir/Patient", f"{BASE_URL}.evil.example/fhir/Patient"),
    *("//evil.example/fhir/Patient", "javascript:alert(1)", IMAGE),
    *("/fhir/../admin/users", "/fhir/%2e%2E/admin", "/fhir/Patient/./p1", "/fhir/..%5cadmin"),
    # A body and headers are refused, not left out.
    "POST /fhir/AllergyIntolerance/_search",
    "POST /fhir/Patient/_search\nContent-Type: application/x-www-form-urlencoded\n\nname=x",
    "GET /fhir/Patient?nme=x HTTP/1.1\nPrefer: handling=strict",
)
SEARCHES = [
    (ALLERGIES, ""),
    (ALLERGIES, "date=ge2024&date=lt2025&date=ne2024-06"),
    (ALLERGIES, "patient=&=x&nothing&&_count=10"),
    (ALLERGIES, f"code={IMAGE.replace(' ', '+')}&%3Cscript%3E=1&x'=%22%27"),
    (ALLERGIES, "patient=p1&clinical-status=active&date=ge2024-03&_explain=true"),
    (ALLERGIES, "date=ge2024-01-01&date=lt2024-02-01"),
    (ALLERGIES, "date=2024&date:missing=false"),
    (ALLERGIES, "code:text=penicillin&code:not=7984&code=http://x.example%7C1,%7C2"),
    (ALLERGIES, "code=a%5C,b&code=c&code=d"),
    (ALLERGIES, "patient:Patient=p1&recorder:Practitioner=dr-adeyemi"),
    (ALLERGIES, "patient:identifier=http://x%7C1&identifier:of-type=a%7Cb%7Cc"),
    (ALLERGIES, "patient.name=Maria&_has:Provenance:target:agent=x&stats=2&code:nonsense=1"),
    (ALLERGIES, "_content=%22chest+pain%22+lung*&_text=a%26b%3Dc%2Bd%25"),
    (ALLERGIES, "code=%FF&code=%00&code=a%0Ab&code=%E2%80%AEevil"),
    (ALLERGIES, "&".join(f"x{number}={number}" for number in range(150))),
    (ALLERGIES, "_total=none&_summary=nonsense&_count=0&_sort=-date,code&_elements=code"),
    (NOTES, "_include=DocumentReference:author&_include:iterate=Patient:x&_revinclude=x:y"),
    (NOTES, "_include=DocumentReference:author&_include=DocumentReference:subject"),
    (NOTES, "relationship=replaces$DocumentReference/d1&location:below=http://x.example/"),
    (NOTES, "description:contains=a&description:exact=B&type=http://loinc.org%7C18842-5"),
]


def sent_from(page: Page, **filled: str) -> Page:
    """Send the explorer's form."""
    return submit_to(page, "/explore", address=filled.pop("address", address_on(page)), **filled)


def address_on(page: Page) -> str:
    """Return the address that is in the form of a page."""
    (field,) = elements(page, "textarea", id="address")
    return (field.text or "").strip()


def has_answer(page: Page) -> bool:
    return elements(page, "section", id="answer") != []


def part(browser: Browser, name: str, **query: str) -> str:
    """Return a part of the page as htmx loads it."""
    answer = browser.client.get(
        f"/explore/{name}",
        base_url=BASE_URL,
        query_string=query or None,
        headers={"HX-Request": "true"},
    )
    assert answer.status_code in (200, 204)
    assert answer.headers["Cache-Control"] == "no-store"
    return answer.text


def pairs(query: str) -> list[tuple[str, str]]:
    """Return the parameters of a query, whatever their order and how they are escaped."""
    return sorted(parse_qsl(query, keep_blank_values=True, errors="surrogateescape"))


# Address and form.


def test_address_is_read_as_people_type_it(in_app):
    assert {typed: str(read_address(typed)) for typed in READ_AS} == READ_AS


def test_address_that_is_none_of_the_api_is_refused_and_not_sent(in_app, clinician):
    for typed in REFUSED:
        with pytest.raises(NoAddressError):
            read_address(typed)
    for typed in (IMAGE, "/fhir/../admin/users"):
        page = clinician.get(explorer_address(typed))
        assert (page.status, address_on(page), has_answer(page)) == (400, typed, False)
        # The other notice is hidden.
        assert len(texts(page, "p.notice", role="alert")) == 2


def test_form_contains_every_parameter_of_an_address(in_app):
    for path, query in SEARCHES:
        address = read_address(f"{path}?{query}")
        written = write_address(read_form(address).sent)
        assert written.path == path
        assert pairs(written.query) == pairs(query.replace("&&", "&"))
        assert write_address(read_form(written).sent) == written


def test_form_without_scripts_writes_the_address(clinician):
    for path, query in SEARCHES[:4]:
        page = clinician.get(explorer_address(f"{path}?{query}".rstrip("?"), send="no"))
        assert (address_on(page), has_answer(page)) == (f"{path}?{query}".rstrip("?"), False)
        # The button that updates the address has an address of its own.
        sent = page.form("Send").fields
        written = clinician.get("/explore/address", query_string=sent)
        assert pairs(address_on(written).partition("?")[2]) == pairs(query.replace("&&", "&"))


def test_every_declared_parameter_has_a_field_with_its_description(in_app):
    for definition in types().values():
        if definition.searchable:
            address = read_address(f"/fhir/{definition.name}")
            fields = {field.name: field.doc for field in read_form(address).fields()}
            for parameter in definition.params:
                assert fields[parameter.name] == " ".join(parameter.doc.split()), parameter
    # A type without searches has a field for the id.
    assert read_form(read_address("/fhir/Binary/b1")).definition.name == "Binary"
    sent = MultiDict({"type": "Binary", "f._id": "a/b c"})
    assert str(write_address(sent)) == "/fhir/Binary/a%2Fb%20c"


def test_codes_that_a_parameter_lists_are_offered(in_app):
    activity = ["active", "inactive", "resolved"]
    listed = {
        "clinical-status": activity,
        "criticality": ["low", "high", "unable-to-assess"],
        "status": [*activity, "unconfirmed", "confirmed", "refuted", "entered-in-error"],
        **{name: [] for name in ("code", "identifier", "patient")},
    }
    allergies = types()["AllergyIntolerance"]
    found = {name: forms.listed_codes(allergies, allergies.params.by_name[name]) for name in listed}
    assert found == listed


def test_of_form_and_address_the_one_that_was_changed_is_sent(clinician):
    page = clinician.get(explorer_address(f"{ALLERGIES}?code=7984&patient=p1"))
    other = {"address": f"{ALLERGIES}?patient=p3"}
    for filled, sent in (
        ({}, f"{ALLERGIES}?code=7984&patient=p1"),
        ({"f.patient": "p2"}, f"{ALLERGIES}?patient=p2&code=7984"),
        (other, f"{ALLERGIES}?patient=p3"),
        (other | {"f.patient": "p2"}, f"{ALLERGIES}?patient=p3"),
        ({"type": "DocumentReference"}, f"{NOTES}?patient=p1&code=7984"),
    ):
        answered = sent_from(page, **filled)
        assert address_on(answered) == sent
        # The address of the page is short.
        assert {name for name, _ in parse_qsl(urlsplit(answered.path).query)} == {"address"}
    page = clinician.get(explorer_address("/fhir/Patient/p1"))
    assert address_on(sent_from(page)) == "/fhir/Patient/p1"
    assert address_on(sent_from(page, **{"f.name": "Maria"})) == "/fhir/Patient?name=Maria"


def test_parts_of_the_form_need_no_session(clinic):
    nobody = Browser(clinic)
    form = {"type": "AllergyIntolerance", "before": "AllergyIntolerance", "f.patient": "p1"}
    assert "\n/fhir/AllergyIntolerance?patient=p1</textarea>" in part(nobody, "address", **form)
    assert 'value="7984"' in part(nobody, "form", address=f"{ALLERGIES}?code=7984")
    # While an address is typed it may be none.
    assert part(nobody, "form", address="/nonsense") == ""
    # Without scripts it is a whole page.
    page = nobody.get("/explore/form", query_string={"address": f"{ALLERGIES}?code=7984"})
    assert page.status == 200


def test_request_is_sent_after_signing_in(clinic):
    username = add_person(clinic, CLINICIAN)
    long = "_id=" + ",".join(["al-p1-latex"] * 600)
    for query in ("patient=p1&code:text=penicillin%20&x=%FF", long):
        page = Browser(clinic).get(explorer_address(f"{ALLERGIES}?{query}", view="raw"))
        page = submit_to(page, "/sign-in", username=username, password="demo")
        assert page.path.startswith("/explore?")
        assert address_on(page) == f"{ALLERGIES}?{query}"
        assert elements(page, "pre.http") != []
    browser = Browser(clinic).resume(username)
    page = browser.get("/explore")
    browser.set_cookie("an ended session")
    page = sent_from(page, **{"f.patient": "p1", "f.code": "7984"})
    page = submit_to(page, "/sign-in", username=username, password="demo")
    assert address_on(page) == f"{ALLERGIES}?patient=p1&code=7984&_explain=true"


def test_text_of_a_request_is_escaped(clinician):
    for hostile in (IMAGE, "\"'><script>alert(1)</script>", "\u202eevil"):
        address = f"{ALLERGIES}?code={hostile}&{hostile}=1"
        query = dict.fromkeys(("accept", "prefer", "view", "as", "method", "x"), hostile)
        form = {"type": hostile, "f.code": hostile, "m.code": hostile, "x": hostile}
        for text in (
            clinician.get(explorer_address(address, send="", **query)).response.text,
            clinician.get(explorer_address(address, send="no", **query)).response.text,
            part(clinician, "address", **form),
            part(clinician, "form", address=address),
        ):
            assert "<form" in text or "<textarea" in text or 'id="fields"' in text
            assert [bad for bad in (IMAGE, "<script>alert", "\"'>") if bad in text] == []


def test_parameter_that_no_field_can_show_stays_as_it_is():
    assert [pair(text) for text in ("code=a%0Ab", "code=%FF", "code")] == [None] * 3
    assert pair("code=a%2Bb+c") == ("code", "a+b c")


# What fields suggest.


def options(markup: str, name: str) -> list[tuple[str, str]]:
    """Return the values that a field suggests, with their labels."""
    (listed,) = re.findall(rf'<datalist id="o-{name}"[^>]*>(.*?)</datalist>', markup, re.DOTALL)
    found = re.findall(r'<option value="([^"]*)"(?: label="([^"]*)")?>', listed)
    return [(unescape(value), unescape(label)) for value, label in found]


def suggested(browser: Browser, typed: str, field: str = "patient") -> list[tuple[str, str]]:
    """Return the patients that are suggested for what was typed."""
    query = {"type": "AllergyIntolerance", "patients": field, f"f.{field}": typed}
    return options(part(browser, "codes", **query), field)


def trail_of(clinic, browser_user: str):
    with clinic.test_request_context(base_url=BASE_URL):
        return entries(user_id=id_of(clinic, browser_user))


AMELIA = ("p1", "Amelia Rose Hartwell, born 12 April 1958")


def test_codes_are_suggested_that_the_user_may_see(clinic, clinician):
    assert part(clinician, "codes", type="Nonsense") == ""
    codes = unescape(part(clinician, "codes", type="AllergyIntolerance"))
    assert "Practitioner/dr-adeyemi" in codes
    assert "naproxen" in codes
    own = part(browser_of(clinic, PATIENT, "p1"), "codes", type="AllergyIntolerance")
    assert "aspirin" not in own
    assert "naproxen" not in own


def test_patients_are_suggested_by_name_record_number_and_id(clinic, clinician):
    for typed in ("amel", "hartwell, a", "p1", "Patient/p1", "LGH-100237"):
        assert suggested(clinician, typed) == [AMELIA], typed
    for typed in ("a", "nobody of that name", IMAGE):
        assert suggested(clinician, typed) == [], typed
    patient = browser_of(clinic, PATIENT, "p1")
    assert (suggested(patient, "amelia"), suggested(patient, "p2")) == ([AMELIA], [])


def test_own_searches_are_suggested_and_nobody_elses(clinic):
    username = add_person(clinic, CLINICIAN)
    browser, other = Browser(clinic).resume(username), browser_of(clinic, CLINICIAN)
    assert suggested(browser, "") == []
    assert trail_of(clinic, username) == []
    browser.get(explorer_address(f"{ALLERGIES}?patient=Patient/p1&code=my-own-code"))
    assert suggested(browser, "") == [AMELIA]
    named, *_searches = trail_of(clinic, username)
    assert (named.via, named.served) == ("suggestions", ("Patient/p1/1",))
    for name in ("codes?type=AllergyIntolerance", f"form?address={ALLERGIES}"):
        assert "my-own-code" in part(browser, name)
        assert "my-own-code" not in part(other, name)


def test_codes_are_suggested_once_and_misspelled_ones_never(clinician):
    clinician.get(explorer_address(f"{ALLERGIES}?clinical-status=activ&category=,&type=allergy"))
    markup = part(clinician, "form", address=ALLERGIES)
    assert [value for value, _ in options(markup, "clinical-status")] == [
        *("active", "inactive", "resolved")
    ]
    assert ("allergy", "") in options(markup, "type")
    assert (",", "") not in options(markup, "category")
    values = options(markup, "status")
    assert ("entered-in-error", "entered in error") in values
    assert len({value for value, _ in values}) == len(values)


def test_records_are_read_only_when_a_field_with_codes_is_used(clinic):
    username = add_person(clinic, CLINICIAN)
    browser = Browser(clinic).resume(username)
    fields = elements(browser.get("/explore"), "input")
    loading = {field.get("id", "") for field in fields if field.get("hx-get")}
    assert {"f-code", "f-manifestation", "f-recorder", "f-patient"} < loading
    assert not {"f-identifier", "f-clinical-status", "f-date", "f-_content"} & loading
    assert trail_of(clinic, username) == []
    part(browser, "codes", type="AllergyIntolerance")
    (entry,) = trail_of(clinic, username)
    assert (entry.via, len(entry.served)) == ("suggestions", 39)
