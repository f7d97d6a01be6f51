"""The explorer's form and address: each says what the other does, and nothing is lost between."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.datastructures import MultiDict

from fhirapp.audit.read import entries
from fhirapp.auth.models import CLINICIAN, PATIENT
from fhirapp.definition import types
from fhirapp.web.explore import form as forms
from fhirapp.web.explore import suggestions
from fhirapp.web.explore.address import NoAddressError, pair, read_address
from fhirapp.web.explore.form import read_form, write_address
from fhirapp.web.explore.suggestions import occurring_codes
from tests.support.browsing import PASSWORD, Browser, add_person, id_of
from tests.support.helpers import BASE_URL
from tests.support.publishing import TIMES, publish

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


@pytest.fixture
def in_app(clinic):
    with clinic.test_request_context(base_url=BASE_URL):
        yield


def page_of(address: str, **more: str) -> str:
    return f"/explore?{urlencode({'address': address, **more})}"


def address_on(page) -> str:
    """Return the address that stands on a page."""
    return page.form("Send").fields["address"].strip()


def part(browser: Browser, name: str, **asked: str) -> str:
    """Return a part of the page as htmx asks for it."""
    answer = browser.client.get(
        f"/explore/{name}",
        base_url=BASE_URL,
        query_string=asked or None,
        headers={"HX-Request": "true"},
    )
    assert answer.status_code in (200, 204)
    assert answer.headers["Cache-Control"] == "no-store"
    return answer.text


def said(query: str) -> list[tuple[str, str]]:
    """Return what a query says, whatever its order and how its signs are escaped."""
    return sorted(parse_qsl(query, keep_blank_values=True, errors="surrogateescape"))


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("/fhir/Patient/p1", "/fhir/Patient/p1"),
        (f"{BASE_URL}/fhir/Patient/p1", "/fhir/Patient/p1"),
        ("fhir/Patient/p1", "/fhir/Patient/p1"),
        ("Patient/p1", "/fhir/Patient/p1"),
        ("metadata", "/fhir/metadata"),
        ("$export?_type=Patient", "/fhir/$export?_type=Patient"),
        (" GET  /fhir/Patient/p1\n", "/fhir/Patient/p1"),
        ("GET /fhir/Patient/p1 HTTP/1.1", "/fhir/Patient/p1"),
        ("/fhir/Patient\n?name=A", "/fhir/Patient?name=A"),
        ("/fhir/Patient/p1/_history/1", "/fhir/Patient/p1/_history/1"),
        ("/fhir/Patient/p1/$everything?_since=2024", "/fhir/Patient/p1/$everything?_since=2024"),
        ("/api/AllergyIntolerance", "/api/AllergyIntolerance"),
        ("/fhir/Patient?name=José Ñ", "/fhir/Patient?name=Jos%C3%A9%20%C3%91"),
        ("/fhir/Patient?name=Jos%C3%A9+A", "/fhir/Patient?name=Jos%C3%A9+A"),
        ("/fhir/Patient#top", "/fhir/Patient"),
        ('/fhir/Patient?name="a"', "/fhir/Patient?name=%22a%22"),
    ],
)
def test_an_address_is_read_as_people_type_it(in_app, typed, read):
    assert str(read_address(typed)) == read


@pytest.mark.parametrize(
    "typed",
    [
        *("/admin/users", "/oauth/token", "/fhirx", "/api-docs", "/", "x", "/fhir\\..\\admin"),
        *("https://evil.example/fhir/Patient", f"{BASE_URL}.evil.example/fhir/Patient"),
        *("//evil.example/fhir/Patient", "javascript:alert(1)", IMAGE),
        *("/fhir/../admin/users", "/fhir/%2e%2E/admin", "/fhir/Patient/./p1", "/fhir/..%5cadmin"),
        # What an address cannot say is refused, not left out.
        "POST /fhir/AllergyIntolerance/_search",
        "POST /fhir/Patient/_search\nContent-Type: application/x-www-form-urlencoded\n\nname=x",
        "GET /fhir/Patient?nme=x HTTP/1.1\nPrefer: handling=strict",
    ],
)
def test_no_other_address_is_asked(clinic, clinician, typed):
    with clinic.test_request_context(base_url=BASE_URL), pytest.raises(NoAddressError):
        read_address(typed)
    page = clinician.get(page_of(typed))
    assert page.status == 400
    assert "/fhir/" in page.words
    assert address_on(page) == typed
    assert "Raw HTTP" not in page.offered


# A row of what people and programs search by; all of it comes back from the form.
QUERIES = [
    (ALLERGIES, ""),
    (ALLERGIES, "patient=p1&clinical-status=active&date=ge2024-03&_explain=true"),
    (ALLERGIES, "date=ge2024-01-01&date=lt2024-02-01"),
    (ALLERGIES, "date=ge2024&date=lt2025&date=ne2024-06"),
    (ALLERGIES, "date=2024&date:missing=false"),
    (ALLERGIES, "code:text=penicillin&code:not=7984&code=http://x.example%7C1,%7C2"),
    (ALLERGIES, "code=a%5C,b&code=c&code=d"),
    (ALLERGIES, "patient:Patient=p1&recorder:Practitioner=dr-adeyemi"),
    (ALLERGIES, "patient:identifier=http://x%7C1&identifier:of-type=a%7Cb%7Cc"),
    (ALLERGIES, "patient.name=Maria&_has:Provenance:target:agent=x&stats=2&code:nonsense=1"),
    (ALLERGIES, "patient=&=x&nothing&&_count=10"),
    (ALLERGIES, "_content=%22chest+pain%22+lung*&_text=a%26b%3Dc%2Bd%25"),
    (ALLERGIES, "code=%FF&code=%00&code=a%0Ab&code=%E2%80%AEevil"),
    (ALLERGIES, f"code={IMAGE.replace(' ', '+')}&%3Cscript%3E=1&x'=%22%27"),
    (ALLERGIES, "&".join(f"x{at}={at}" for at in range(150))),
    (ALLERGIES, "_total=none&_summary=nonsense&_count=0&_sort=-date,code&_elements=code"),
    (NOTES, "_include=DocumentReference:author&_include:iterate=Patient:x&_revinclude=x:y"),
    (NOTES, "_include=DocumentReference:author&_include=DocumentReference:subject"),
    (NOTES, "relationship=replaces$DocumentReference/d1&location:below=http://x.example/"),
    (NOTES, "description:contains=a&description:exact=B&type=http://loinc.org%7C18842-5"),
]


@pytest.mark.parametrize(("path", "query"), QUERIES)
def test_what_an_address_says_the_form_says_too(in_app, path, query):
    address = read_address(f"{path}?{query}")
    again = write_address(read_form(address).sent)
    assert again.path == path
    assert said(again.query) == said(query.replace("&&", "&"))
    assert write_address(read_form(again).sent) == again


NAMES = st.sampled_from(
    ["patient", "date", "code", "_include", "_count", "_total", "_explain", "x", "patient.name"]
)
MODIFIERS = st.sampled_from(["", "", ":missing", ":not", ":text", ":Patient", ":iterate", ":x"])
VALUES = st.sampled_from(["=ge2024", "=le", "=a,b", "=true", "=%FF", "=a+b", "=-date", "=", ""])


@given(
    st.lists(
        st.builds(
            "".join, st.tuples(NAMES, MODIFIERS, VALUES | st.text(max_size=9).map("={}".format))
        ),
        max_size=8,
    )
)
def test_whatever_an_address_says_nothing_is_lost(clinic, pieces):
    with clinic.test_request_context(base_url=BASE_URL):
        address = read_address(f"{ALLERGIES}?{'&'.join(pieces)}")
        written = write_address(read_form(address).sent)
        assert said(written.query) == said(address.query)
        assert read_address(str(written)) == written


@pytest.mark.parametrize(("path", "query"), QUERIES)
def test_the_form_on_the_page_says_it_too_without_scripts(clinician, path, query):
    address = f"{path}?{query}" if query else path
    page = clinician.get(page_of(address, send="no"))
    assert address_on(page) == address
    assert "Raw HTTP" not in page.offered
    written = address_on(page.submit("Update address"))
    assert said(written.partition("?")[2]) == said(query.replace("&&", "&"))


def test_every_declared_parameter_has_a_field_that_tells_of_it(clinician, clinic):
    for name, definition in types(clinic).items():
        page = clinician.get(page_of(f"/fhir/{name}", send="no"))
        fields = page.form("Send").fields
        for parameter in definition.params if definition.searchable else ():
            assert f"f.{parameter.name}" in fields, (name, parameter.name)
            assert " ".join(parameter.doc.split()) in page.words


def test_of_a_type_that_is_not_searched_the_form_takes_an_id(in_app):
    assert read_form(read_address("/fhir/Binary/b1")).definition.name == "Binary"
    sent = MultiDict({"type": "Binary", "f._id": "a/b c"})
    assert str(write_address(sent)) == "/fhir/Binary/a%2Fb%20c"


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("clinical-status", ["active", "inactive", "resolved"]),
        ("criticality", ["low", "high", "unable-to-assess"]),
        ("status", ["active", "inactive", "resolved", "unconfirmed", "confirmed", "refuted",
                    "entered-in-error"]),
        ("code", []),
        ("identifier", []),
        ("patient", []),
    ],
)  # fmt: skip
def test_codes_that_a_parameter_lists_are_offered(in_app, name, listed):
    definition = types()["AllergyIntolerance"]
    assert forms.listed_codes(definition, definition.params.by_name[name]) == listed


def test_of_the_form_and_the_address_whichever_was_changed_counts(clinician):
    page = clinician.get(page_of(f"{ALLERGIES}?code=7984&patient=p1"))
    both = {"f.patient": "p2", "address": f"{ALLERGIES}?patient=p3"}
    for filled, sent in [
        ({}, "code=7984&patient=p1"),
        ({"f.patient": "p2"}, "patient=p2&code=7984"),
        ({"address": f"{ALLERGIES}?patient=p3"}, "patient=p3"),
        (both, "patient=p3"),
        ({"type": "DocumentReference"}, "patient=p1&code=7984"),
    ]:
        answered = page.submit("Send", **filled)
        path = NOTES if "type" in filled else ALLERGIES
        assert address_on(answered) == f"{path}?{sent}"
        # The page's own address is short, and can be kept.
        assert {name for name, _ in parse_qsl(urlsplit(answered.path).query)} == {"address"}


def test_what_the_form_begins_is_sent_though_the_address_was_a_read(clinician):
    page = clinician.get(page_of("/fhir/Patient/p1"))
    assert "The address is not a search." in page.words
    assert address_on(page.submit("Send")) == "/fhir/Patient/p1"
    sent = page.submit("Send", **{"f.name": "Maria"})
    assert address_on(sent) == "/fhir/Patient?name=Maria"


def test_each_follows_the_other_though_the_session_ended(clinic):
    nobody = Browser(clinic)
    form = {"type": "AllergyIntolerance", "before": "AllergyIntolerance", "f.patient": "p1"}
    assert "\n/fhir/AllergyIntolerance?patient=p1</textarea>" in part(nobody, "address", **form)
    assert 'value="7984"' in part(nobody, "form", address=f"{ALLERGIES}?code=7984")
    # While an address is typed it may be none.
    assert part(nobody, "form", address="/nonsense") == ""


@pytest.mark.parametrize(
    "query",
    ["patient=p1&code:text=penicillin%20&x=%FF", "_id=" + ",".join(["al-p1-latex"] * 600)],
)
def test_who_must_sign_in_again_comes_back_to_what_was_typed(clinic, query):
    browser = Browser(clinic)
    username = add_person(clinic, CLINICIAN)
    page = browser.get(page_of(f"{ALLERGIES}?{query}", view="raw"))
    assert page.heading == "Sign in"
    page = page.submit("Sign in", username=username, password=PASSWORD)
    assert page.path.startswith("/explore?")
    assert address_on(page) == f"{ALLERGIES}?{query}"
    assert "Request" in page.words


def test_a_session_that_ends_while_a_form_is_filled_in_loses_nothing(clinic):
    username = add_person(clinic, CLINICIAN)
    browser = Browser(clinic).resume(username)
    page = browser.get("/explore")
    browser.set_cookie("nonsense")
    page = page.submit("Send", **{"f.patient": "p1", "f.code": "7984"})
    page = page.submit("Sign in", username=username, password=PASSWORD)
    assert address_on(page) == f"{ALLERGIES}?patient=p1&code=7984&_explain=true"


def test_signs_that_turn_a_line_around_are_seen_in_the_address(clinician):
    page = clinician.get(page_of(f"{ALLERGIES}?code=\u202eabc&patient=p1"))
    assert address_on(page) == f"{ALLERGIES}?code=%E2%80%AEabc&patient=p1"
    assert address_on(page.submit("Send")) == address_on(page)


@pytest.mark.parametrize("hostile", [IMAGE, "\"'><script>alert(1)</script>", "\u202eevil", "%"])
def test_what_strangers_type_is_text(clinician, hostile):
    address = f"{ALLERGIES}?code={hostile}&{hostile}=1"
    asked = dict.fromkeys(("accept", "prefer", "view", "as", "method", "x"), hostile)
    pages = [
        clinician.get(page_of(address, send=send, **asked)).response.text for send in ("", "no")
    ]
    form = {"type": hostile, "f.code": hostile, "m.code": hostile, "x": hostile}
    pages += [part(clinician, "address", **form), part(clinician, "form", address=address)]
    for text in pages:
        assert "<form" in text or "<textarea" in text or 'id="fields"' in text
        assert IMAGE not in text
        assert "<script>alert" not in text
        assert "\"'>" not in text


def test_fields_suggest_what_this_person_may_see_and_nothing_else(clinic, clinician):
    offered = unescape(part(clinician, "codes", type="AllergyIntolerance"))
    assert "Practitioner/dr-adeyemi" in offered
    assert "naproxen" in offered
    patient = Browser(clinic).resume(add_person(clinic, PATIENT, "p1"))
    own = unescape(part(patient, "codes", type="AllergyIntolerance"))
    assert "aspirin" not in own
    assert "naproxen" not in own


def options(markup: str, name: str) -> list[tuple[str, str]]:
    """Return what a field suggests: values, and the words beside them."""
    (listed,) = re.findall(rf'<datalist id="o-{name}"[^>]*>(.*?)</datalist>', markup, re.DOTALL)
    found = re.findall(r'<option value="([^"]*)"(?: label="([^"]*)")?>', listed)
    return [(unescape(value), unescape(words)) for value, words in found]


ACTIVITY = ("active", "inactive", "resolved")
AMELIA = ("p1", "Amelia Rose Hartwell, born 12 April 1958")


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("amel", [AMELIA]),
        ("hartwell, a", [AMELIA]),
        ("p1", [AMELIA]),
        ("Patient/p1", [AMELIA]),
        ("LGH-100237", [AMELIA]),
        ("a", []),
        ("nobody of that name", []),
        (IMAGE, []),
    ],
)
def test_patients_are_suggested_by_name_number_or_id(clinician, typed, found):
    asked = {"type": "AllergyIntolerance", "patients": "patient", "f.patient": typed}
    assert options(part(clinician, "codes", **asked), "patient") == found


def test_patients_are_suggested_to_those_who_may_see_them(clinic):
    patient = Browser(clinic).resume(add_person(clinic, PATIENT, "p1"))
    asked = {"type": "DocumentReference", "patients": "subject"}
    for typed, found in (("amelia", [AMELIA]), ("p2", [])):
        markup = part(patient, "codes", **asked, **{"f.subject": typed})
        assert options(markup, "subject") == found


def test_no_more_than_ten_patients_are_suggested(make_app):
    app = make_app(seed=False)
    named = {"resourceType": "Patient", "name": [{"family": "Anders"}]}
    publish(app, TIMES[0], *(named | {"id": f"x{at}"} for at in range(30)))
    browser = Browser(app).resume(add_person(app, CLINICIAN))
    asked = {"type": "AllergyIntolerance", "patients": "patient", "f.patient": "and"}
    assert len(options(part(browser, "codes", **asked), "patient")) == 10


def test_before_anything_is_typed_only_patients_of_own_searches_are_named(clinic):
    username = add_person(clinic, CLINICIAN)
    browser = Browser(clinic).resume(username)
    asked = {"type": "AllergyIntolerance", "patients": "patient"}
    assert options(part(browser, "codes", **asked), "patient") == []
    with clinic.test_request_context(base_url=BASE_URL):
        assert entries(user_id=id_of(clinic, username)) == []
    browser.get(page_of(f"{ALLERGIES}?patient=Patient/p1"))
    assert options(part(browser, "codes", **asked), "patient") == [AMELIA]
    with clinic.test_request_context(base_url=BASE_URL):
        named, *_searches = entries(user_id=id_of(clinic, username))
    assert (named.via, named.served) == ("suggestions", ("Patient/p1/1",))


def test_codes_are_suggested_once_and_in_words(clinic, clinician):
    for markup in (
        clinician.get(page_of(f"{ALLERGIES}?_count=1", send="no")).response.text,
        part(clinician, "codes", type="AllergyIntolerance"),
    ):
        values = options(markup, "status")
        assert [value for value, _ in values][:3] == ["active", "inactive", "resolved"]
        assert ("entered-in-error", "entered in error") in values
        assert len({value for value, _ in values}) == len(values)


def test_what_a_person_searched_for_is_suggested_to_them_alone(clinic):
    browser = Browser(clinic).resume(add_person(clinic, CLINICIAN))
    other = Browser(clinic).resume(add_person(clinic, CLINICIAN))
    browser.get(page_of(f"{ALLERGIES}?code=my-own-code"))
    for name in ("codes?type=AllergyIntolerance", f"form?address={ALLERGIES}"):
        assert "my-own-code" in part(browser, name)
        assert "my-own-code" not in part(other, name)


def test_what_was_misspelled_is_not_suggested_again(clinic):
    browser = Browser(clinic).resume(add_person(clinic, CLINICIAN))
    browser.get(page_of(f"{ALLERGIES}?clinical-status=activ&category=,&type=allergy"))
    markup = part(browser, "form", address=ALLERGIES)
    assert options(markup, "clinical-status") == [(each, "") for each in ACTIVITY]
    assert ("allergy", "") in options(markup, "type")
    assert (",", "") not in options(markup, "category")


def test_no_record_is_read_before_somebody_looks_for_a_code(clinic):
    username = add_person(clinic, CLINICIAN)
    browser = Browser(clinic).resume(username)
    text = browser.get("/explore").response.text
    asking = {*re.findall(r'<input id="f-([^"]*)"[^>]*hx-get="/explore/codes', text)}
    assert {"code", "manifestation", "recorder"} < asking
    assert not {"identifier", "clinical-status", "date", "_content"} & asking
    (patient,) = re.findall(r'<input id="f-patient"[^>]*>', text)
    assert "patients=patient" in patient, "of which fewer are found than of codes"
    with clinic.test_request_context(base_url=BASE_URL):
        assert entries(user_id=id_of(clinic, username)) == []
    part(browser, "codes", type="AllergyIntolerance")
    with clinic.test_request_context(base_url=BASE_URL):
        (entry,) = entries(user_id=id_of(clinic, username))
    assert (entry.via, len(entry.served)) == ("suggestions", 39)


def test_codes_are_asked_for_once_a_minute(clinic, in_app, monkeypatch):
    asked = []
    monkeypatch.setattr(suggestions, "_search_codes", lambda *given: asked.append(given) or {})
    definition = types()["AllergyIntolerance"]
    moments = iter([100, 110, 161, 162])
    monkeypatch.setattr("time.monotonic", lambda: next(moments))
    for _ in range(4):
        occurring_codes(definition, "a secret of nobody's")
    assert len(asked) == 2


def test_a_piece_that_no_field_can_show_stays_a_piece():
    assert pair("code=a%0Ab") is None
    assert pair("code=%FF") is None
    assert pair("code") is None
    assert pair("code=a%2Bb+c") == ("code", "a+b c")
