"""Malformed searches are refused with a 400 that names the parameter; long ones cost little.

Searches are sent as forms, which may be longer than a URL. The limit of CPU time for each test
bounds what a refusal costs. Source: FHIR R4 search §3.1.1; decisions §3, §4.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

import pytest

from fhirapp.definition import Definition
from fhirapp.rest.definitions import modifiers_of
from fhirapp.search.parameter import Parameter
from fhirapp.search.reference import Reference
from fhirapp.search.words import Words
from tests.support.contract import SEARCHABLE
from tests.support.helpers import Fhir, assert_outcome, link
from tests.support.operations import DOCREF, EVERYTHING, FORM

ALLERGY = "AllergyIntolerance"
DOCUMENT = "DocumentReference"

NO_DATE = "is not a date; use YYYY, YYYY-MM or YYYY-MM-DD"
NO_TIME = "is not a date; use YYYY, YYYY-MM, YYYY-MM-DD or YYYY-MM-DDThh:mm[:ss]"
NO_DAY = "is not a date of the calendar"
NO_REFERENCE = "is not a reference; use id, Type/id or an address"
NO_TOKEN = "is not a token; use code, system|code, |code or system|"
NO_QUANTITY = "is no number, number||unit or number|http://unitsofmeasure.org|unit"
NO_UNIT = "is not a unit of time in UCUM (ms, s, min, h, d, wk, mo, a)"
NO_PAIR = "is not a pair; use code$reference"
NO_WORD = "has no letter or digit to look for"
NO_WORDS = 'is not understood; use words, "words that stand together" and beginnings*'
TOO_MANY_WORDS = "takes at most 20 words and 500 characters"
NO_CURSOR = "is not one of this server's; start again from the first page"
NO_BOOLEAN = "is not a boolean; use true or false"
CLOSED = "two values must form a closed range: one with gt, ge or sa, one with lt, le or eb"
BETWEEN = f"{CLOSED}; here nothing lies between the two"


def no_operator(operator: str) -> str:
    return (
        f"has no operator {operator}: all words given must be found, a comma means OR, and words"
        " cannot be excluded; put it in quotes to search for it as a word"
    )


# Of a parameter of each kind: (message, values); a message that begins with {} quotes the value.
MALFORMED: dict[str, list[tuple[str, Iterable[str]]]] = {
    f"{ALLERGY}.date": [
        (f"{{}} {NO_DATE}",
         ("x", "ge", "gege2024", "xx2024", "GE2024", "=2024", ">2024", " 2024", "2024-1-1",
          "20240101", "2024-13", "2024-00", "2024-01-32", "-2024", "0000", "٢٠٢٤", "NaN",
          "2024-01-0²")),
        (f"{{}} {NO_DAY}", ("2024-02-30", "ap2023-02-29", "2023-02-29T00:00")),
        (f"{{}} {NO_TIME}",
         ("2024-01-01T", "2024-01-01T25:00", "2024-01-01T00:00+15:00", "2" * 10_000,
          "2024-01-01T00:00:61", "2024-01-01 00:00", "2024-01-01T00:00:00.")),
    ],
    f"{ALLERGY}.patient": [
        (NO_REFERENCE,
         ("Patient/", "/p1", "Patient/p1/_history", "Patient/p1/x", "patient/p1", "p 1", "#p1",
          "p_1", "a" * 65, "Patient/" + "a" * 65, "Patient?identifier=x", "a/" * 5_000, "é",
          r"a\,b")),
        ("Practitioner is no target; use Patient", ("Practitioner/x",)),
    ],
    f"{ALLERGY}.recorder": [
        ("Organization is no target; use Practitioner, PractitionerRole, Patient, RelatedPerson",
         ("Organization/x",)),
    ],
    f"{ALLERGY}.code": [(NO_TOKEN, ("a|b|c", "|", "||", "a||b", "|" * 10_000))],
    f"{DOCUMENT}.description": [
        (NO_WORD, ("\u0301", "\u0301 \u0302")),
        ("has 201 characters; 200 are the most", ("a" * 201,)),
        ("has 10000 characters; 200 are the most", ("a" * 10_000,)),
    ],
    "Encounter.length": [
        (f"{{}} {NO_QUANTITY}",
         ("a", "5|min", "|", "inf", "1_0||min", "٣||min", "1e999", "gt", "5" * 10_000)),
        (f"'|kg' {NO_UNIT}", ("30||kg",)),
        (f"'http://unitsofmeasure.org|' {NO_UNIT}", ("30|http://unitsofmeasure.org|",)),
        (f"'http://x|min' {NO_UNIT}", ("30|http://x|min",)),
    ],
    f"{DOCUMENT}.relationship": [(NO_PAIR, ("a", "a$", "$a", "$", "a$b$c", "$" * 10_000))],
    # A full-text engine would take these for an expression, or choke on them.
    f"{DOCUMENT}._text": [
        (NO_WORDS, ('"', 'a "', "(", "a)", "near(a b)", 'a "b" "c', "*", "* a", "a * b", "a**")),
        (NO_WORD, ("^", ":", "+ -", "'", ";", '"-"', "{}", "near -", "-")),
        (no_operator("NEAR"), ("NEAR(", "NEAR(a b)", "a NEAR b", "NEAR -", "NEAR")),
        (no_operator("AND"), ("chest AND pain",)),
        (no_operator("OR"), ("chest OR pain",)),
        (no_operator("NOT"), ("chest NOT pain", "NOT pain")),
        (no_operator("- before a word"), ("chest -pain", "-pain", '-"chest pain"')),
        (no_operator("! before a word"), ("!pain",)),
        (no_operator("\N{MINUS SIGN} before a word"), ("\N{MINUS SIGN}pain",)),
        (TOO_MANY_WORDS,
         ("a " * 21, '"' + "a " * 21 + '"', "word " * 2_500, "NEAR(" * 2_500, '"' * 2_500,
          "*" * 2_500, "\\" * 2_500, "a\\|" * 2_500)),
    ],
    f"{ALLERGY}._content": [(NO_WORDS, ("(",)), (no_operator("AND"), ("chest AND pain",))],
}  # fmt: skip
# A malformed value of each kind of parameter: what every parameter of the kind refuses.
WRONG = {"date": "x", "reference": "a_b", "token": "a|b|c", "string": "\u0301",
         "quantity": "x", "composite": "x"}  # fmt: skip


def assert_refused(
    fhir: Fhir, path: str, body: str | bytes, code: str, parameter: str, message: str
) -> None:
    form = body if isinstance(body, bytes) else body.encode()
    response = fhir.post(path, form, content_type=FORM)
    assert_outcome(response, 400, code, f"{parameter}: {message}", parameter)


@pytest.mark.parametrize("searched", MALFORMED)
def test_a_malformed_value_of_each_kind_of_parameter_is_refused(fhir, searched):
    type_name, name = searched.split(".")
    for message, values in MALFORMED[searched]:
        for value in values:
            said = message.replace("{}", repr(value[:40]), 1) if "{} " in message else message
            path, body = f"{type_name}/_search", f"{name}={quote(value)}"
            assert_refused(fhir, path, body, "value", name, said)
            # A valid value beside it does not make it pass.
            if not name.startswith("_"):
                assert_refused(fhir, path, f"{body},2024", "value", name, said)


@pytest.mark.parametrize("definition", SEARCHABLE)
def test_each_parameter_refuses_malformed_values_and_other_modifiers(fhir, definition: Definition):
    path = f"{definition.name}/_search"
    for parameter in definition.params:
        name = parameter.name
        is_words = isinstance(parameter, Words)
        values = [] if name == "_id" else ["^"] if is_words else [WRONG.get(parameter.kind)]
        for value in filter(None, values):
            response = fhir.post(path, {name: value})
            assert response.status_code == 400, (name, value)
            (issue,) = response.get_json(force=True)["issue"]
            assert (issue["code"], issue["expression"]) == ("value", [f"http.{name}"])
        assert_refused(fhir, path, f"{name}=a%00b", "value", name, "has a NUL character")
        assert_refused(fhir, path, f"{name}=%20,", "value", name, "lists no value")
        kind = "search for words" if is_words else f"{parameter.kind} parameter here"
        modifier = f"{name}:{first_other_modifier(parameter)}"
        message = f"the modifier is not supported on a {kind}"
        assert_refused(fhir, path, f"{modifier}=2024", "not-supported", modifier, message)
        if isinstance(parameter, Reference) and parameter.targets:
            message = f"Nothing is no target; use {', '.join(parameter.targets)}"
            assert_refused(fhir, path, f"{name}=Nothing/x", "value", name, message)


# Every modifier of FHIR R4 and R5, and some of nobody's.
MODIFIERS = (
    *("missing", "exact", "contains", "text", "not", "in", "not-in", "below", "above", "of-type"),
    *("identifier", "iterate", "code-text", "text-advanced", "Patient", "Observation", "x", "é"),
    *("Not", "not:x"),
)


def taken_modifiers(parameter: Parameter) -> set[str]:
    targets = parameter.targets if isinstance(parameter, Reference) else ()
    any_type = ("Patient", "Observation") if isinstance(parameter, Reference) else ()
    return {*modifiers_of(parameter), *(targets or any_type)}


def first_other_modifier(parameter: Parameter) -> str:
    """Return a modifier that a parameter does not take; most may be taken by another kind."""
    return next(name for name in MODIFIERS if name not in taken_modifiers(parameter))


def test_a_modifier_that_a_kind_of_parameter_does_not_take_is_refused(fhir):
    """FHIR R4 search §3.1.1.4.4: a server SHALL reject a modifier that it does not support."""
    taken = {
        f"{ALLERGY}.date": {"missing"},
        f"{ALLERGY}.code": {"missing", "text", "not", "in", "not-in", "below"},
        f"{ALLERGY}.identifier": {"missing", "text", "not", "of-type"},
        f"{ALLERGY}.recorder": {"missing", "identifier", "Patient"},
        f"{ALLERGY}._id": {"missing", "not"},
        f"{ALLERGY}._content": set(),
        f"{ALLERGY}._profile": {"missing", "below", "above"},
        f"{DOCUMENT}.contenttype": {"missing", "not", "text", "below"},
        f"{DOCUMENT}.description": {"missing", "exact", "contains"},
        f"{DOCUMENT}.relationship": {"missing"},
        "Encounter.length": {"missing"},
    }
    found = {}
    for searched in taken:
        type_name, name = searched.split(".")
        answers = {
            modifier: fhir.post(f"{type_name}/_search", {f"{name}:{modifier}": "2024"})
            for modifier in MODIFIERS
        }
        refused = {
            modifier
            for modifier, response in answers.items()
            if response.status_code == 400
            and "the modifier is not supported on a" in response.text
            and '"not-supported"' in response.text
        }
        found[searched] = {*MODIFIERS} - refused
    assert found == taken
    message = "the modifier after the colon is missing"
    assert_refused(fhir, f"{ALLERGY}/_search", "code:=x", "not-supported", "code:", message)


# What is wrong with a modifier's value: (search, parameter, message, values).
WITH_MODIFIER = [
    (f"{ALLERGY}?code:text", "code", ":text takes 1 to 100 characters", ("a" * 101, "%CC%81")),
    (f"{ALLERGY}?identifier:of-type", "identifier",
     "is not an identifier of a type; use system|code|value",
     ("a", "a|b", "a|b|", "|b|c", "a|b|c|d")),
    (f"{ALLERGY}?recorder:identifier", "recorder:identifier", NO_TOKEN, ("a|b|c",)),
    (f"{ALLERGY}?recorder:Patient", "recorder",
     "Practitioner contradicts the modifier :Patient", ("Practitioner/x",)),
    (f"{DOCUMENT}?description:contains", "description",
     "has 101 characters; 100 are the most", ("a" * 101,)),
    *((f"{DOCUMENT}?location:{modifier}", "location",
       (f"{{}} has no path to compare: :{modifier} takes a URL with its scheme, such as"
        " https://clinic.example/fhir; search for others without it"),
       ("x", "urn:uuid:x", "clinic.example/fhir", "//clinic.example/fhir"))
      for modifier in ("above", "below")),
    *((f"{DOCUMENT}?location:{modifier}", "location",
       f":{modifier} takes at most 100 characters", ("http://" + "a" * 100, "http://" + "a/" * 999))
      for modifier in ("above", "below")),
    (f"{ALLERGY}?code:missing", "code:missing", f"{{}} {NO_BOOLEAN}", ("yes", "1", "TRUE")),
    (f"{ALLERGY}?code:missing", "code:missing", f"'maybe' {NO_BOOLEAN}", ("true,maybe",)),
]  # fmt: skip


def test_a_malformed_value_of_a_modifier_is_refused(fhir):
    for search, parameter, message, values in WITH_MODIFIER:
        path, _, name = search.partition("?")
        for value in values:
            said = message.replace("{}", repr(value), 1)
            assert_refused(fhir, f"{path}/_search", f"{name}={value}", "value", parameter, said)


# What shapes the answer: (code, parameter, message, queries).
CONTROLS = [
    *(("value", "_count", f"{value[:40]!r} is not a whole number of 0 or more", [f"_count={value}"])
      for value in ("-1", "1.5", "x", "1e3", "٣", "²", "0x1", "x" * 10_000)),
    *(("value", name, f"{value!r} is not supported; use {choices}", [f"{name}={value}"])
      for name, value, choices in (
          ("_total", "some", "accurate, estimate, none"),
          ("_summary", "yes", "true, text, data, count, false"),
          ("_revinclude", "Provenance:agent", "Provenance:target"))),
    *(("value", name, f"'x' {NO_BOOLEAN}", [f"{name}=x"]) for name in ("_pretty", "_explain")),
    ("value", "_sort", "'nothing' is not a search parameter of this type", ["_sort=nothing"]),
    ("value", "_sort", "'--date' is not a search parameter of this type", ["_sort=--date"]),
    ("not-supported", "_sort", "_content has no order", ["_sort=_content"]),
    ("value", "_sort", "takes at most 5 parameters",
     [f"_sort={'date,' * number}date" for number in (5, 2_000)]),
    ("value", "_elements", "lists more than 50; that is the most",
     [f"_elements={','.join(['id'] * 51)}"]),
    *(("invalid", name, "may be given once", [f"{name}=1&{name}=2"])
      for name in ("_count", "_cursor", "_elements", "_pretty", "_sort", "_summary", "_total",
                   "_explain", "_revinclude", "_format")),
    *(("not-supported", f"{name}:x", "the modifier is not supported", [f"{name}:x=1"])
      for name in ("_count", "_sort", "_format")),
    *(("not-supported", f"{name}:x", "the modifier is not supported; use iterate", [f"{name}:x=1"])
      for name in ("_include", "_revinclude")),
    *(("not-supported", name, f"is not supported here; {otherwise}", [f"{name}=x"])
      for name, otherwise in (
          ("_filter", "use the parameters of the type: a comma means or, a repetition and"),
          ("_list", "read the list where it is kept, and name its ids by _id"),
          ("_query", "no queries are defined by name"),
          *((name, "contained resources come with what holds them, and are not searched")
            for name in ("_contained", "_containedType")))),
    # decisions 2.7
    ("value", "date", CLOSED,
     [f"date={first}&date={last}" for first, last in (
         ("2023", "2024"), ("eq2023", "le2024"), ("ne2023", "ge2022"), ("ap2023", "ge2022"),
         ("ge2023", "gt2024"), ("le2023", "eb2024"), ("ge2023", "2024"),
         ("ge2022", "le2024&date=le2025"), ("ge2022", "ge2023&date=le2024&date=le2025"),
         ("ge2022,ge2023", "le2024"), ("ge2022", "le2024,2025"))]),
    ("value", "date", BETWEEN,
     [f"date={first}&date={last}" for one, other in (
         ("ge2025", "le2024"), ("gt2024", "le2024"), ("ge2024", "lt2024"),
         ("gt2024-03-01", "lt2024-03-02"), ("sa2024", "eb2024"), ("gt2024", "lt2025"))
      for first, last in ((one, other), (other, one))]),
    ("value", "_cursor", NO_CURSOR,
     [f"_cursor={value}"
      for value in ("x", ".", "W10.x", "é", "a" * 10_000, "a." * 5_000, "..", "%00")]),
    ("not-supported", "_revinclude:iterate", "the modifier is not supported on this type",
     ["_revinclude:iterate=Provenance:target"]),
    ("value", "_id", "lists 101 ids; 100 is the most", [f"_id={','.join(map(str, range(101)))}"]),
    ("value", "code", "200 values in a search are the most", [f"code={','.join('1' * 10_000)}"]),
    ("value", "code", "is longer than 20000 characters", [f"code={'1' * 20_001}"]),
]  # fmt: skip


def test_parameters_that_shape_the_answer_are_checked(fhir):
    for code, parameter, message, queries in CONTROLS:
        for query in queries:
            assert_refused(fhir, f"{ALLERGY}/_search", query, code, parameter, message)
    query = "date=2023&date=2024"
    assert_refused(fhir, f"{DOCUMENT}/_search", query, "value", "date", CLOSED)


def test_a_cursor_of_another_search_is_refused(fhir):
    paths = (
        *(f"{ALLERGY}?_count=1", f"{DOCUMENT}?_count=1&_sort=date", f"{EVERYTHING}?_count=1"),
        f"{DOCREF}?patient=p1&_count=1",
    )
    history = (link(fhir.read(f"{ALLERGY}/_history?_count=1"), "next") or "").split("_cursor=")[1]
    other = "belongs to another search; start again from the first page"
    for path in paths:
        cursor = (link(fhir.read(path), "next") or "").split("_cursor=")[1]
        for name in (ALLERGY, DOCUMENT, "Patient", "Encounter"):
            for body, message in (
                (f"_lastUpdated=ge2000&_cursor={cursor}", other),
                (f"_cursor={cursor[:-1]}", NO_CURSOR),
                (f"_cursor={history}", other),
            ):
                assert_refused(fhir, f"{name}/_search", body, "value", "_cursor", message)
        refused = fhir.get(f"{ALLERGY}/_history?_cursor={cursor}")
        message = "_cursor: belongs to another history; start again from the first page"
        assert_outcome(refused, 400, "value", message, "_cursor")


# Bytes that are no UTF-8: cut short, overlong, half of a surrogate pair, beyond Unicode.
NO_TEXT = (b"\xff", b"\xe2\x82", b"\xc0\x80", b"\xc0\xaf", b"\xe0\x80\xaf", b"\xf0\x80\x80\x80")
NO_TEXT += (b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf4\x90\x80\x80", b"\xfe", b"a\x80")


def test_parameters_that_are_not_utf_8_are_refused(fhir):
    """To drop them would widen the answer. Names and values cannot be told apart."""
    message = "the parameters are not UTF-8"
    for wrong in NO_TEXT:
        escaped = quote(wrong).encode()
        for form in (b"code=" + wrong, b"code=" + escaped, wrong + b"=x", escaped + b"=x"):
            assert_refused(fhir, f"{ALLERGY}/_search", form, "value", "request", message)
    for path in (ALLERGY, f"{ALLERGY}/al-p1-latex", f"{ALLERGY}/_history", DOCREF, "metadata"):
        for query in ("code=\xff", "code=%FF", "\xff=x", "%ED%A0%80=x"):
            response = fhir.get(path, environ_overrides={"QUERY_STRING": query})
            assert_outcome(response, 400, "value", f"request: {message}", "request")


def test_too_many_parameters_are_refused(fhir):
    message = "has more than 200 parameters; that is the most"
    for body in (
        "&".join(f"code=c{number}" for number in range(1_000)),
        "&".join(f"x{number}=1" for number in range(1_000)),
        "&" * 10_000,
    ):
        assert_refused(fhir, f"{ALLERGY}/_search", body, "value", "request", message)


def test_an_unknown_name_is_a_warning_or_under_strict_handling_an_error(fhir):
    for name in ("x", "é", "a b", "patient\0", "\0", "n" * 200, "clinical-statu", '"', "%", "<x>"):
        body = f"{quote(name)}=1"
        path, strict = f"{ALLERGY}/_search?patient=p1", {"Prefer": "handling=strict"}
        bundle = fhir.post(f"{path}&_count=0", body, content_type=FORM).get_json(force=True)
        (entry,) = bundle["entry"]
        (issue,) = entry["resource"]["issue"]
        assert (issue["severity"], issue["expression"]) == ("warning", [f"http.{name}"])
        refused = fhir.post(path, body, content_type=FORM, headers=strict)
        message = issue["diagnostics"].removesuffix("; it was ignored")
        assert_outcome(refused, 400, "not-supported", message, name)


@pytest.mark.parametrize("repeated", ["\\", "\\,", "\\|", "a,", "|"])
def test_a_value_that_fills_a_body_is_refused_at_little_cost(fhir, repeated):
    value, message = repeated * 500_000, "is longer than 20000 characters"
    for path, name in (
        *((f"{ALLERGY}/_search", name) for name in ("code", "date", "patient", "_content")),
        *((f"{DOCUMENT}/_search", name) for name in ("relationship", "description")),
        (f"{DOCREF}?patient=p1", "type"),
    ):
        longest = fhir.post(path, f"{name}={value[:20_000]}", content_type=FORM)
        assert longest.status_code in (200, 400)
        if name == "code" or path.startswith("DocumentReference/$"):
            assert_refused(fhir, path, f"{name}={value}", "value", name, message)
