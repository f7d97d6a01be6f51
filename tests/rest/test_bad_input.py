"""What is wrong is refused: a 400 that names the parameter, soon, whatever it costs to make up.

Each is asked for by a form, which may be longer than an address. test_fuzz.py makes up others.
Source: FHIR R4 search §3.1.1; decisions §3, §4.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from urllib.parse import quote

import pytest
from werkzeug.test import TestResponse

from fhirapp.definition import Definition
from fhirapp.rest.definitions import modifiers_of
from fhirapp.search.parameter import Parameter
from fhirapp.search.reference import Reference
from fhirapp.search.words import Words
from tests.support.contract import PARAMETERS, SEARCHABLE
from tests.support.helpers import Fhir, assert_outcome, link
from tests.support.operations import DOCREF, EVERYTHING, FORM

ALLERGY = "AllergyIntolerance"
DOCUMENT = "DocumentReference"
# Of the processor's time, which others that run here do not take away.
MOST_SECONDS = 0.1

NO_DATE = "is not a date; use YYYY, YYYY-MM or YYYY-MM-DD"
NO_TIME = "is not a date; use YYYY, YYYY-MM, YYYY-MM-DD or YYYY-MM-DDThh:mm[:ss]"
NO_DAY = "is not a date of the calendar"
NO_REFERENCE = "is not a reference; use id, Type/id or an address"
NO_TOKEN = "is not a token; use code, system|code, |code or system|"
NO_QUANTITY = "is no number, number||unit or number|http://unitsofmeasure.org|unit"
NO_PAIR = "is not a pair; use code$reference"
NO_WORD = "has no letter or digit to look for"
NO_WORDS = 'is not understood; use words, "words that stand together" and beginnings*'
NO_OPERATOR = (
    "has no operator NEAR: all words given must be found, a comma means OR, and words cannot be"
    " excluded; put it in quotes to search for it as a word"
)
TOO_MANY_WORDS = "takes at most 20 words and 500 characters"
NO_CURSOR = "is not one of this server's; start again from the first page"
OTHER_CURSOR = "belongs to another search; start again from the first page"
NO_VALUE = "lists no value"

# Of each kind of parameter values that are none, and what is said of them.
MALFORMED: Mapping[str, tuple[tuple[str, str], ...]] = {
    "date": tuple(
        (value, f"{value[:40]!r} {message}")
        for message, values in (
            (NO_DATE, ("x", "ge", "gege2024", "xx2024", "2024-1-1", "20240101", "2024-13")),
            (NO_DATE, ("2024-00", "2024-01-32", "-2024", "0000", "٢٠٢٤", "NaN", "2024-01-0²")),
            (NO_DAY, ("2024-02-30", "ap2023-02-29", "2023-02-29T00:00")),
            (NO_TIME, ("2024-01-01T", "2024-01-01T25:00", "2024-01-01T00:00+15:00", "2" * 10_000)),
            (NO_TIME, ("2024-01-01T00:00:61", "2024-01-01 00:00", "2024-01-01T00:00:00.")),
        )
        for value in values
    ),
    "reference": tuple(
        (value, NO_REFERENCE)
        for value in (
            *("Patient/", "/p1", "Patient/p1/_history", "Patient/p1/x", "patient/p1", "p 1", "#p1"),
            *("p_1", "a" * 65, "Patient/" + "a" * 65, "Patient?identifier=x", "a/" * 5_000, "é"),
        )
    ),
    "token": tuple((value, NO_TOKEN) for value in ("a|b|c", "|", "||", "|" * 10_000)),
    "string": (
        ("\u0301", NO_WORD),
        ("\u0301 \u0302", NO_WORD),
        ("a" * 201, "has 201 characters; 200 are the most"),
        ("a" * 10_000, "has 10000 characters; 200 are the most"),
    ),
    "uri": (),
    "quantity": tuple(
        (value, f"{value[:40]!r} {NO_QUANTITY}")
        for value in ("a", "5|min", "|", "inf", "5" * 10_000)
    ),
    "composite": tuple((value, NO_PAIR) for value in ("a", "a$", "$a", "$", "a$b$c", "$" * 10_000)),
}
# Of a search for words: what a full-text engine would take for an expression, or choke on.
NO_SEARCH_FOR_WORDS = (
    *((value, NO_WORDS) for value in ('"', 'a "', "(", "a)", "near(a b)", 'a "b" "c')),
    *((value, NO_WORD) for value in ("-", "^", ":", "+ -", "'", ";", '"-"', "{}", "near -")),
    *((value, NO_OPERATOR) for value in ("NEAR(", "NEAR(a b)", "a NEAR b", "NEAR -", "NEAR")),
    *((value, NO_WORDS) for value in ("*", "* a", "a * b", "a**")),
    ("a " * 21, TOO_MANY_WORDS),
    ('"' + "a " * 21 + '"', TOO_MANY_WORDS),
    *((value * 2_500, TOO_MANY_WORDS) for value in ("word ", "NEAR(", '"', "*", "\\", "a\\|")),
)
# Every modifier of FHIR R4 and R5, and some of nobody's.
MODIFIERS = (
    *("missing", "exact", "contains", "text", "not", "in", "not-in", "below", "above", "of-type"),
    *("identifier", "iterate", "code-text", "text-advanced", "Patient", "Observation", "x", "é"),
)


def asked(fhir: Fhir, path: str, body: str | bytes) -> TestResponse:
    """Return the answer to a form, once it is known to come soon: one of three times."""
    form = body if isinstance(body, bytes) else body.encode()
    taken = []
    while not taken or (min(taken) > MOST_SECONDS and len(taken) < 3):
        start = time.process_time()
        response = fhir.post(path, form, content_type=FORM)
        taken.append(time.process_time() - start)
    assert min(taken) <= MOST_SECONDS, f"{body[:80]!r} took {min(taken):.3f} s"
    return response


def assert_refused(
    fhir: Fhir, path: str, body: str | bytes, code: str, parameter: str, message: str
) -> None:
    response = asked(fhir, path, body)
    assert_outcome(response, 400, code, f"{parameter}: {message}", parameter)


@pytest.mark.parametrize(("definition", "parameter"), PARAMETERS)
def test_a_malformed_value_is_a_400(fhir, definition: Definition, parameter: Parameter):
    path, name = f"{definition.name}/_search", parameter.name
    for value, message in malformed(parameter):
        assert_refused(fhir, path, f"{name}={quote(value)}", "value", name, message)
        # Nor does it pass beside one that is right.
        if not isinstance(parameter, Words):
            assert_refused(fhir, path, f"{name}={quote(value)},2024", "value", name, message)
    assert_refused(fhir, path, f"{name}=a%00b", "value", name, "has a NUL character")
    for value in (",", ",,,", "%20,"):
        assert_refused(fhir, path, f"{name}={value}", "value", name, NO_VALUE)
    many, long = ",".join("1" * 10_000), "1" * 20_001
    message = "200 values in a search are the most"
    assert_refused(fhir, path, f"{name}={many}", "value", name, message)
    message = "is longer than 20000 characters"
    assert_refused(fhir, path, f"{name}={long}", "value", name, message)


def malformed(parameter: Parameter) -> Iterator[tuple[str, str]]:
    if isinstance(parameter, Words):
        yield from NO_SEARCH_FOR_WORDS
    elif parameter.name != "_id":
        # An id that can be none is an unknown one.
        yield from MALFORMED[parameter.kind]
    if isinstance(parameter, Reference) and parameter.targets:
        targets = ", ".join(parameter.targets)
        yield "Nothing/x", f"Nothing is no target; use {targets}"


@pytest.mark.parametrize(("definition", "parameter"), PARAMETERS)
def test_a_modifier_that_a_parameter_does_not_take_is_a_400(fhir, definition, parameter):
    path = f"{definition.name}/_search"
    kind = (
        "search for words" if isinstance(parameter, Words) else f"{parameter.kind} parameter here"
    )
    taken = {*modifiers_of(parameter)}
    if isinstance(parameter, Reference):
        taken |= {*(parameter.targets or ("Patient", "Observation"))}
    for modifier in MODIFIERS:
        if modifier not in taken:
            name = f"{parameter.name}:{modifier}"
            message = f"the modifier is not supported on a {kind}"
            assert_refused(fhir, path, f"{quote(name)}=2024", "not-supported", name, message)
    name = f"{parameter.name}:"
    message = "the modifier after the colon is missing"
    assert_refused(fhir, path, f"{name}=2024", "not-supported", name, message)
    if "missing" in taken:
        name = f"{parameter.name}:missing"
        for value in ("yes", "1", "TRUE", "true,maybe"):
            wrong = value.rpartition(",")[2]
            message = f"{wrong!r} is not a boolean; use true or false"
            assert_refused(fhir, path, f"{name}={value}", "value", name, message)


# What is wrong with a modifier's value: (query, parameter, message).
WITH_MODIFIER = [
    (f"{ALLERGY}?code:text={'a' * 101}", "code", ":text takes 1 to 100 characters"),
    (f"{ALLERGY}?code:text=%CC%81", "code", ":text takes 1 to 100 characters"),
    *(
        (f"{ALLERGY}?identifier:of-type={value}", "identifier",
         "is not an identifier of a type; use system|code|value")
        for value in ("a", "a|b", "a|b|", "|b|c", "a|b|c|d")
    ),
    (f"{ALLERGY}?recorder:identifier=a|b|c", "recorder:identifier", NO_TOKEN),
    (f"{ALLERGY}?recorder:Patient=Practitioner/x", "recorder",
     "Practitioner contradicts the modifier :Patient"),
    (f"{DOCUMENT}?description:contains={'a' * 101}", "description",
     "has 101 characters; 100 are the most"),
    *(
        (f"{DOCUMENT}?location:{modifier}={value}", "location",
         (f"{value!r} has no path to compare: :{modifier} takes a URL with its scheme, such as"
          " https://clinic.example/fhir; search for others without it"))
        for modifier in ("above", "below")
        for value in ("x", "urn:uuid:x", "clinic.example/fhir")
    ),
    *(
        (f"{DOCUMENT}?location:{modifier}={value}", "location",
         f":{modifier} takes at most 100 characters")
        for modifier in ("above", "below")
        for value in ("http://" + "a" * 100, "http://" + "a/" * 5_000)
    ),
]  # fmt: skip


@pytest.mark.parametrize(("query", "parameter", "message"), WITH_MODIFIER)
def test_a_malformed_value_of_a_modifier_is_a_400(fhir, query, parameter, message):
    path, _, body = query.partition("?")
    assert_refused(fhir, f"{path}/_search", body, "value", parameter, message)


CLOSED = "two values must form a closed range: one with gt, ge or sa, one with lt, le or eb"
NO_BOOLEAN = "is not a boolean; use true or false"
# What shapes the answer: (query, code, parameter, message).
CONTROLS = [
    *(
        (f"_count={value}", "value", "_count", f"{value[:40]!r} is not a whole number of 0 or more")
        for value in ("-1", "1.5", "x", "1e3", "٣", "²", "0x1", "x" * 10_000)
    ),
    *(
        (f"{name}={value}", "value", name, f"{value!r} is not supported; use {choices}")
        for name, value, choices in (
            ("_total", "some", "accurate, estimate, none"),
            ("_summary", "yes", "true, text, data, count, false"),
            ("_revinclude", "Provenance:agent", "Provenance:target"),
        )
    ),
    *((f"{name}=x", "value", name, f"'x' {NO_BOOLEAN}") for name in ("_pretty", "_explain")),
    ("_sort=nothing", "value", "_sort", "'nothing' is not a search parameter of this type"),
    ("_sort=--date", "value", "_sort", "'--date' is not a search parameter of this type"),
    ("_sort=_content", "not-supported", "_sort", "_content has no order"),
    (f"_sort={'date,' * 5}date", "value", "_sort", "takes at most 5 parameters"),
    (f"_sort={'date,' * 2_000}date", "value", "_sort", "takes at most 5 parameters"),
    (f"_elements={','.join(['id'] * 51)}", "value", "_elements",
     "lists more than 50; that is the most"),
    *(
        (f"{name}=1&{name}=2", "invalid", name, "may be given once")
        for name in ("_count", "_cursor", "_elements", "_pretty", "_sort", "_summary", "_total",
                     "_explain", "_revinclude", "_format")
    ),
    *(
        (f"{name}:x=1", "not-supported", f"{name}:x", "the modifier is not supported")
        for name in ("_count", "_sort", "_format")
    ),
    *(
        (f"{name}:x=1", "not-supported", f"{name}:x", "the modifier is not supported; use iterate")
        for name in ("_include", "_revinclude")
    ),
    *(
        (f"{name}=x", "not-supported", name, f"is not supported here; {otherwise}")
        for name, otherwise in (
            ("_filter", "use the parameters of the type: a comma means or, a repetition and"),
            ("_list", "read the list where it is kept, and name its ids by _id"),
            ("_query", "no queries are defined by name"),
            *((name, "contained resources come with what holds them, and are not searched")
              for name in ("_contained", "_containedType")),
        )
    ),
    ("date=2024&date=2025", "value", "date", CLOSED),
    ("date=ge2024&date=gt2023", "value", "date", CLOSED),
    ("date=ge2024&date=le2025&date=le2026", "value", "date", CLOSED),
    ("date=ge2024,2025&date=le2026", "value", "date", CLOSED),
    ("date=gt2024&date=lt2025", "value", "date", f"{CLOSED}; here nothing lies between the two"),
    *((f"_cursor={value}", "value", "_cursor", NO_CURSOR)
      for value in ("x", ".", "W10.x", "é", "a" * 10_000, "a." * 5_000, "..", "%00")),
    (f"_id={','.join(map(str, range(101)))}", "value", "_id", "lists 101 ids; 100 is the most"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "code", "parameter", "message"), CONTROLS)
def test_what_shapes_an_answer_is_checked_too(fhir, query, code, parameter, message):
    assert_refused(fhir, f"{ALLERGY}/_search", query, code, parameter, message)


@pytest.mark.parametrize("definition", SEARCHABLE)
def test_a_cursor_of_another_search_is_a_400(fhir, definition):
    cursors = {
        path: (link(fhir.read(path), "next") or "").partition("_cursor=")[2]
        for path in (
            f"{ALLERGY}?_count=1",
            f"{DOCUMENT}?_count=1&_sort=date",
            f"{DOCREF}?patient=p1&_count=1",
            f"{EVERYTHING}?_count=1",
        )
    }
    history = link(fhir.read(f"{ALLERGY}/_history?_count=1"), "next") or ""
    for path, cursor in cursors.items():
        assert cursor
        body = f"_lastUpdated=ge2000&_cursor={cursor}"
        assert_refused(fhir, f"{definition.name}/_search", body, "value", "_cursor", OTHER_CURSOR)
        cut = f"_cursor={cursor[:-1]}"
        assert_refused(fhir, f"{definition.name}/_search", cut, "value", "_cursor", NO_CURSOR)
        refused = fhir.get(f"{ALLERGY}/_history?_cursor={cursor}")
        message = "_cursor: is not one of this history's; start again from its first page"
        assert_outcome(refused, 400, "value", message, "_cursor"), path
    foreign = f"_cursor={history.partition('_cursor=')[2]}"
    assert_refused(fhir, f"{definition.name}/_search", foreign, "value", "_cursor", NO_CURSOR)


# Bytes that are no UTF-8: cut short, overlong, half of a surrogate pair, beyond Unicode.
NO_TEXT = (b"\xff", b"\xe2\x82", b"\xc0\x80", b"\xc0\xaf", b"\xe0\x80\xaf", b"\xf0\x80\x80\x80")
NO_TEXT += (b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf4\x90\x80\x80", b"\xfe", b"a\x80")


@pytest.mark.parametrize("wrong", NO_TEXT)
def test_what_is_no_utf_8_is_a_400(fhir, wrong):
    """Of bytes that are no text a name cannot be told from a value: the request is named."""
    escaped = quote(wrong).encode()
    for form in (b"code=" + wrong, b"code=" + escaped, wrong + b"=x", escaped + b"=x"):
        message = "the parameters are not UTF-8"
        assert_refused(fhir, f"{ALLERGY}/_search", form, "value", "request", message)
        for path in (ALLERGY, f"{ALLERGY}/al-p1-latex", f"{ALLERGY}/_history", DOCREF, "metadata"):
            query = form.decode("latin-1")
            response = fhir.get(path, environ_overrides={"QUERY_STRING": query})
            assert_outcome(response, 400, "value", f"request: {message}", "request")


@pytest.mark.parametrize(
    "body",
    [
        "&".join(f"code=c{number}" for number in range(1_000)),
        "&".join(f"x{number}=1" for number in range(1_000)),
        "&" * 10_000,
    ],
)
def test_too_many_parameters_are_a_400(fhir, body):
    message = "has more than 200 parameters; that is the most"
    assert_refused(fhir, f"{ALLERGY}/_search", body, "value", "request", message)


@pytest.mark.parametrize(
    "name", ["x", "é", "a b", "patient\0", "\0", "n" * 200, "clinical-statu", '"', "%", "<x>"]
)
def test_a_name_that_is_unknown_is_told_or_refused_soon(fhir, name):
    body = f"{quote(name)}=1"
    bundle = asked(fhir, f"{ALLERGY}/_search?_count=0", body).get_json(force=True)
    (entry,) = bundle["entry"]
    (issue,) = entry["resource"]["issue"]
    assert (issue["severity"], issue["expression"]) == ("warning", [f"http.{name}"])
    path, strict = f"{ALLERGY}/_search?patient=p1", {"Prefer": "handling=strict"}
    refused = fhir.post(path, body, content_type=FORM, headers=strict)
    message = issue["diagnostics"].removesuffix("; it was ignored")
    assert_outcome(refused, 400, "not-supported", message, name)


LONG = 500_000


@pytest.mark.parametrize(
    "value",
    ["\\" * LONG, "\\," * LONG, "\\|" * LONG, "a," * LONG, "|" * LONG],
    ids=["backslashes", "escaped commas", "escaped bars", "commas", "bars"],
)
@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"{ALLERGY}/_search", "code"),
        (f"{ALLERGY}/_search", "date"),
        (f"{ALLERGY}/_search", "patient"),
        (f"{DOCUMENT}/_search", "relationship"),
        (f"{DOCUMENT}/_search", "description"),
        (f"{ALLERGY}/_search", "_content"),
        (f"{DOCREF}?patient=p1", "type"),
    ],
)
def test_a_value_that_fills_a_body_is_a_400_too(fhir, path, name, value):
    assert_refused(fhir, path, f"{name}={value}", "value", name, "is longer than 20000 characters")
    # Of what can still be long, nothing costs more than it must.
    allowed = asked(fhir, path, f"{name}={value[:20_000]}")
    assert allowed.status_code in (200, 400)
