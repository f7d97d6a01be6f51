"""`_explain=true`: how the server read a search."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tests.support.helpers import BASE_URL, Fhir, assert_outcome, ids, link, token_for

ALLERGY = "AllergyIntolerance"
DOCUMENT = "DocumentReference"
SPEC = "http://hl7.org/fhir/R4/search.html"
PARAMETER = "http://hl7.org/fhir/SearchParameter/"


def issues(fhir: Fhir, path: str) -> list[dict]:
    """Return the issues of a search's outcome, which is the last entry."""
    entry = fhir.read(path)["entry"][-1]
    assert entry["search"] == {"mode": "outcome"}
    assert re.fullmatch("urn:uuid:[0-9a-f-]{36}", entry["fullUrl"])
    found: list[dict] = entry["resource"]["issue"]
    return found


def told(fhir: Fhir, path: str) -> list[str]:
    """Return the sentences of an explanation."""
    found = [one for one in issues(fhir, path) if one["severity"] == "information"]
    assert {one["code"] for one in found} == {"informational"}
    return [one["diagnostics"] for one in found]


def of(fhir: Fhir, parameter: str, path: str) -> list[dict]:
    """Return the issues of an explanation that are about one parameter."""
    return [
        one
        for one in issues(fhir, f"{path}&_explain=true")
        if one.get("expression") == [f"http.{parameter}"]
    ]


def values(issue: dict) -> dict:
    """Return the values of an issue's extension; of names that repeat a list."""
    (extension,) = issue["extension"]
    assert extension["url"] == f"{BASE_URL}/fhir/StructureDefinition/search-explanation"
    return parts(extension)


def parts(extension: dict) -> dict:
    found: dict = {}
    for part in extension["extension"]:
        named = [value for name, value in part.items() if name.startswith("value")]
        found.setdefault(part["url"], []).append(named[0] if named else parts(part))
    single = ("topic", "name", "modifier", "kind", "firstOf", "doc", "sql", "text", "prefix")
    single += ("depth", "access", "table", "by")
    return {
        name: several[0] if name in (*single, "low", "high") else several
        for name, several in found.items()
    }


STATUS = "searches clinicalStatus and verificationStatus and matches what"
CODE = "searches code and reaction.substance and matches what"


PARAMETERS = [
    (f"{ALLERGY}?_id=al-p1-latex,x",
     ("_id: a token parameter that searches id and matches what has the id 'al-p1-latex'"
     " or has the id 'x'."), "token", "Resource-id"),
    (f"{ALLERGY}?code=7984",
     f"code: a token parameter that {CODE} has the code '7984' of any system.",
     "token", "clinical-code"),
    (f"{ALLERGY}?code=http://x.example|1,|2,http://x.example|",
     (f"code: a token parameter that {CODE} has the code '1' of the system 'http://x.example'"
     " or has the code '2' without a system or has any code of the system 'http://x.example'."),
     "token", "clinical-code"),
    (f"{ALLERGY}?identifier=A-1",
     ("identifier: a token parameter that searches identifier and matches what has the"
     " identifier 'A-1' of any system."), "token", "clinical-identifier"),
    (f"{ALLERGY}?code=1&code=2",
     (f"code: a token parameter that {CODE} has the code '1' of any system, and also has the"
     " code '2' of any system."), "token", "clinical-code"),
    (rf"{ALLERGY}?code=a\,b",
     f"code: a token parameter that {CODE} has the code 'a,b' of any system.",
     "token", "clinical-code"),
    (f"{ALLERGY}?date=2024-03",
     ("date: a date parameter that searches recordedDate, or else onsetDateTime, or else"
     " onsetPeriod and matches what is within [2024-03-01, 2024-04-01) UTC."),
     "date", "clinical-date"),
    (f"{ALLERGY}?date=ge2024-01-01&date=lt2024-02-01",
     ("date: a date parameter that searches recordedDate, or else onsetDateTime, or else"
     " onsetPeriod and matches what is within [2024-01-01, 2024-01-02) UTC or extends further,"
     " and also starts before 2024-02-01 UTC."), "date", "clinical-date"),
    (f"{ALLERGY}?_lastUpdated=gt2024-03-01T09:30-05:00",
     ("_lastUpdated: a date parameter that searches meta.lastUpdated and matches what extends"
     " to 2024-03-01T14:31:00+00:00 UTC or later."), "date", "Resource-lastUpdated"),
    (f"{ALLERGY}?recorder=dr-adeyemi",
     ("recorder: a reference parameter that searches recorder and matches what refers to the id"
     " 'dr-adeyemi' of any type."), "reference", "AllergyIntolerance-recorder"),
    (f"{ALLERGY}?patient=p1",
     ("patient: a reference parameter that searches patient and matches what refers to"
     " 'Patient/p1'."), "reference", "clinical-patient"),
    (f"{ALLERGY}?recorder=http://elsewhere.example/fhir/Practitioner/1",
     ("recorder: a reference parameter that searches recorder and matches what refers to"
     " 'http://elsewhere.example/fhir/Practitioner/1', which is elsewhere."),
     "reference", "AllergyIntolerance-recorder"),
    (f"{DOCUMENT}?description=Discharge%20%20Summary",
     ("description: a string parameter that searches description and matches what begins with"
     " 'discharge summary', whatever its case and accents."),
     "string", "DocumentReference-description"),
    (f"{DOCUMENT}?location={BASE_URL}/fhir/Binary/b1",
     ("location: a uri parameter that searches content.attachment.url and matches what is"
     f" '{BASE_URL}/fhir/Binary/b1'."), "uri", "DocumentReference-location"),
    (f"{DOCUMENT}?relationship=appends$doc-p1-ed-2024",
     ("relationship: a composite parameter that searches relatesTo and matches what has the"
     " code 'appends' of any system and, in the same repetition, refers to"
     " 'DocumentReference/doc-p1-ed-2024'."), "composite", "DocumentReference-relationship"),
    (f'{DOCUMENT}?_content=Pneumonia "chest pain" lung*',
     ("_content: a string parameter that searches text of the resource and of its attached"
     " documents and matches what has the word 'pneumonia' and the words 'chest pain' together"
     " and a word that begins with 'lung'."), "content", "Resource-content"),
]  # fmt: skip


def test_each_parameter_is_explained(fhir):
    for path, sentence, section, spec in PARAMETERS:
        name = sentence.partition(":")[0]
        (found,) = of(fhir, name, path)
        assert values(found)["topic"] == "parameter"
        assert found.pop("extension")
        assert [found] == [
            {
                "severity": "information",
                "code": "informational",
                "diagnostics": sentence,
                "expression": [f"http.{name}"],
                "details": {"text": f"See {SPEC}#{section} and {PARAMETER}{spec}"},
            }
        ]


MODIFIERS = [
    (f"{ALLERGY}?code:not=1,2",
     (f"code: a token parameter with the modifier :not that {CODE} lacks the code '1' of any"
     " system and lacks the code '2' of any system."), "modifiers"),
    (f"{ALLERGY}?code:text=Penicill",
     (f"code: a token parameter with the modifier :text that {CODE} has a text in which a word,"
     " or the whole, begins with 'Penicill'."), "modifiers"),
    (f"{ALLERGY}?code:missing=true",
     f"code: a token parameter with the modifier :missing that {CODE} has no value.",
     "missing"),
    (f"{ALLERGY}?code:missing=false",
     f"code: a token parameter with the modifier :missing that {CODE} has a value.",
     "missing"),
    (f"{ALLERGY}?identifier:of-type=http://x.example|MR|446053",
     ("identifier: a token parameter with the modifier :of-type that searches identifier and"
     " matches what has the identifier '446053' of the type 'MR' of the system"
     " 'http://x.example'."), "modifiers"),
    (f"{ALLERGY}?recorder:identifier=http://x.example|9",
     ("recorder: a reference parameter with the modifier :identifier that searches recorder and"
     " matches what names by identifier what has the identifier '9' of the system"
     " 'http://x.example'."), "modifiers"),
    (f"{ALLERGY}?recorder:Practitioner=dr-adeyemi",
     ("recorder: a reference parameter with the modifier :Practitioner that searches recorder"
     " and matches what refers to 'Practitioner/dr-adeyemi'."), "modifiers"),
    (f"{DOCUMENT}?description:exact=Chest X-ray",
     ("description: a string parameter with the modifier :exact that searches description and"
     " matches what is exactly 'Chest X-ray'."), "modifiers"),
    (f"{DOCUMENT}?description:contains=X-ray",
     ("description: a string parameter with the modifier :contains that searches description"
     " and matches what holds 'x-ray', whatever its case and accents."), "modifiers"),
    (f"{DOCUMENT}?location:below=http://x.example/notes",
     ("location: a uri parameter with the modifier :below that searches content.attachment.url"
     " and matches what is 'http://x.example/notes' or below it."), "modifiers"),
]  # fmt: skip


def test_each_modifier_is_explained(fhir):
    for path, sentence, section in MODIFIERS:
        name = sentence.partition(":")[0]
        (found,) = of(fhir, name, path)
        assert found["diagnostics"] == sentence
        assert f"{SPEC}#{section}" in found["details"]["text"].split()


PREFIXES = [
    ("eq2024", "is within [2024-01-01, 2025-01-01) UTC"),
    ("ne2024", "is not within [2024-01-01, 2025-01-01) UTC"),
    ("gt2024", "extends to 2025-01-01 UTC or later"),
    ("lt2024", "starts before 2024-01-01 UTC"),
    ("ge2024", "is within [2024-01-01, 2025-01-01) UTC or extends further"),
    ("le2024", "is within [2024-01-01, 2025-01-01) UTC or starts before it"),
    ("sa2024", "starts at 2025-01-01 UTC or later"),
    ("eb2024", "ends before 2024-01-01 UTC"),
    ("2024-03-01T09:30", ("is within"
     " [2024-03-01T09:30:00+00:00, 2024-03-01T09:31:00+00:00) UTC")),
    ("2024-03-01T09:30:15.5", "is the point 2024-03-01T09:30:15.500+00:00"),
    ("ne2024-03-01T09:30:15.000Z", "is not the point 2024-03-01T09:30:15.000+00:00"),
    ("gt2024-03-01T09:30:15.000Z", "extends beyond the point 2024-03-01T09:30:15.000+00:00"),
    ("ge2024-03-01T09:30:15.000Z",
     "is the point 2024-03-01T09:30:15.000+00:00 or extends beyond it"),
    ("lt2024-03-01T09:30:15.000Z", "starts before the point 2024-03-01T09:30:15.000+00:00"),
    ("le2024-03-01T09:30:15.000Z",
     "is the point 2024-03-01T09:30:15.000+00:00 or starts before it"),
    ("sa2024-03-01T09:30:15.000Z", "starts after the point 2024-03-01T09:30:15.000+00:00"),
    ("eb2024-03-01T09:30:15.000Z", "ends before the point 2024-03-01T09:30:15.000+00:00"),
]  # fmt: skip


def test_each_prefix_is_explained_with_the_range_that_is_used(fhir):
    for value, meaning in PREFIXES:
        (found,) = of(fhir, "onset", f"{ALLERGY}?onset={value}")
        assert found["diagnostics"] == (
            f"onset: a date parameter that searches reaction.onset and matches what {meaning}."
        )


EXTENSIONS = [
    (f"{ALLERGY}?onset=ge2024,2023-05&onset=lt2025-02-01T10:00:00Z",
     {"name": "onset", "kind": "date", "path": ["reaction.onset"], "firstOf": False,
      "repetition": [
          {"value": [
              {"text": "is within [2024-01-01, 2025-01-01) UTC or extends further",
               "prefix": "ge", "low": "2024-01-01", "high": "2025-01-01"},
              {"text": "is within [2023-05-01, 2023-06-01) UTC",
               "low": "2023-05-01", "high": "2023-06-01"}]},
          {"value": [
              {"text": "starts before 2025-02-01T10:00:00+00:00 UTC", "prefix": "lt",
               "low": "2025-02-01T10:00:00+00:00", "high": "2025-02-01T10:00:01+00:00"}]}]}),
    (f"{ALLERGY}?onset=2024-03-01T09:30:15.5Z",
     {"name": "onset", "kind": "date", "path": ["reaction.onset"], "firstOf": False,
      "repetition": [
          {"value": [{"text": "is the point 2024-03-01T09:30:15.500+00:00"}]}]}),
    (f"{ALLERGY}?code:not=1,2",
     {"name": "code", "modifier": "not", "kind": "token",
      "path": ["code", "reaction.substance"], "firstOf": False,
      "repetition": [
          {"value": [{"text": "lacks the code '1' of any system"},
                     {"text": "lacks the code '2' of any system"}]}]}),
]  # fmt: skip


def test_the_values_of_a_parameter_are_in_an_extension(fhir):
    for path, expected in EXTENSIONS:
        (found,) = of(fhir, expected["name"], path)
        shown = values(found)
        assert " and ".join(shown.pop("link")) == found["details"]["text"].removeprefix("See ")
        assert shown == {"topic": "parameter", **expected}


def test_each_topic_is_named_in_the_extension(fhir):
    found = issues(fhir, f"{ALLERGY}?patient=p1&_elements=code&_explain=true")
    assert [values(each)["topic"] for each in found] == [
        *("parameter", "sort", "count", "total", "elements", "token"),
    ]
    assert values(found[-1])["text"] == f"may see every {ALLERGY}."


def test_approximately_is_explained_with_the_wider_range(fhir):
    (found,) = of(fhir, "onset", f"{ALLERGY}?onset=ap2004")
    span = r"overlaps \[(\d{4})-[^,]+, (\d{4})-[^)]+\) UTC"
    low, high = map(int, re.search(span, found["diagnostics"]).groups())
    assert low < 2004
    assert high > 2005


def test_a_parameter_of_this_service_has_no_definition_in_fhir(fhir):
    (found,) = of(fhir, "status", f"{ALLERGY}?status=active")
    assert found["details"] == {"text": f"See {SPEC}#token"}


PAGE = "Page: the first, with up to 100 matches."
TOTAL = (
    "Total: counts the matches of all pages that the token may see, exactly; what is included does"
    " not count."
)
ORDER = "Order: what changed last comes first; of equals, the id decides."


SHAPES = [
    ("", [ORDER, PAGE, TOTAL]),
    ("&_count=2", [ORDER, "Page: the first, with up to 2 matches.", TOTAL]),
    ("&_count=0", ["Page: none, for the total alone was asked for.", TOTAL]),
    ("&_summary=count&_total=none",
     ["Page: none, for the total alone was asked for.", TOTAL]),
    ("&_id=al-p1-latex", [ORDER, "Page: one, with everything that _id lists.", TOTAL]),
    ("&_total=none", [ORDER, PAGE, "Total: left out, for _total=none was asked for."]),
    ("&_total=estimate", [ORDER, PAGE, TOTAL]),
    ("&_sort=-date,code",
     [("Order: by date downwards, then by code upwards; of several values the one that comes"
      " first counts, what has none comes last, and of equals the id decides."), PAGE, TOTAL]),
    ("&_summary=text",
     [ORDER, PAGE, TOTAL,
      "Summary: each resource has its narrative, its id and meta, and mandatory elements."]),
    ("&_elements=code",
     [ORDER, PAGE, TOTAL,
      ("Elements: each match has those that were listed and those that it must not be without:"
       " mandatory and modifier elements. What is included is whole.")]),
    (f"&_include={ALLERGY}:patient&_revinclude=Provenance:target",
     [ORDER, PAGE, TOTAL,
      (f"Included: what is referred to by the matches as '{ALLERGY}:patient' says, if it is"
       " here and current and the token may see it."),
      ("Included: each Provenance that has a match among its targets, if the token may see"
       " them all.")]),
]  # fmt: skip


def test_how_the_answer_was_shaped_is_explained(fhir):
    for query, sentences in SHAPES:
        found = told(fhir, f"{ALLERGY}?patient=p1{query}&_explain=true")
        about = ("Order:", "Page:", "Total:", "Summary:", "Elements:", "Included:")
        assert [one for one in found if one.startswith(about)] == sentences


def test_what_was_ignored_comes_first_and_is_told_once(fhir):
    found = issues(fhir, f"{ALLERGY}?patient=p1&statuss=active&_explain=true")
    assert found[0] == {
        "severity": "warning",
        "code": "not-supported",
        "diagnostics": "statuss: is not a search parameter of this type; did you mean status?;"
        " it was ignored",
        "expression": ["http.statuss"],
    }
    assert [one["severity"] for one in found[1:]] == ["information"] * (len(found) - 1)


ACCESS = [
    ("system/*.rs", None,
     [f"Token: may see every {ALLERGY}.", "Token: may see every Patient."]),
    ("patient/*.rs", "p1",
     [f"Token: may see each {ALLERGY} of one patient.",
      "Token: may see each Patient of one patient."]),
    ("patient/AllergyIntolerance.rs", "p1",
     [f"Token: may see each {ALLERGY} of one patient.",
      "Token: may see no Patient; its scope does not cover search of them."]),
    ("system/AllergyIntolerance.rs?criticality=high system/Patient.rs", None,
     [f"Token: may see each {ALLERGY} that the filter of its scope finds.",
      "Token: may see every Patient."]),
]  # fmt: skip


def test_how_far_the_token_reaches_is_told_without_naming_a_patient(app):
    for scope, patient, sentences in ACCESS:
        fhir = Fhir(app, token_for(app, scope, patient=patient))
        path = f"{ALLERGY}?status=active&_include={ALLERGY}:patient&_explain=true"
        found = told(fhir, path)
        assert [one for one in found if one.startswith("Token:")] == sentences
        if patient:
            assert not any(re.search(rf"\b{patient}\b", one) for one in found)


def test_what_is_seen_in_other_ways_is_told_too(fhir):
    found = told(fhir, f"{ALLERGY}?patient=p1&_include={ALLERGY}:recorder&_explain=true")
    assert "Token: may see every Practitioner, as any clinical scope does." in found


def test_an_explanation_changes_neither_matches_nor_total(fhir):
    path = f"{ALLERGY}?patient=p1&_count=2&status=active"
    plain, told_of = fhir.read(path), fhir.read(f"{path}&_explain=true")
    assert (ids(told_of), told_of["total"]) == (ids(plain), plain["total"])
    assert fhir.read(f"{path}&_explain=false")["entry"] == plain["entry"]
    assert fhir.get(f"{path}&_explain=true").headers["ETag"] != fhir.get(path).headers["ETag"]
    further = link(told_of, "next")
    assert ids(fhir.read(further)) == ids(fhir.read(link(plain, "next")))
    assert any(one.startswith("Page: a later one, with up to 2") for one in told(fhir, further))


REFUSED = [
    ("_explain=yes", "value", "_explain: 'yes' is not a boolean; use true or false",
     "_explain"),
    ("_explain=true&_explain=true", "invalid", "_explain: may be given once", "_explain"),
    # A search that is refused is explained by its refusal.
    ("_explain=true&date=nonsense", "value",
     "date: 'nonsense' is not a date; use YYYY, YYYY-MM or YYYY-MM-DD", "date"),
]  # fmt: skip


def test_what_cannot_be_explained_is_a_400(fhir):
    for query, code, diagnostics, parameter in REFUSED:
        assert_outcome(fhir.get(f"{ALLERGY}?{query}"), 400, code, diagnostics, parameter)


def test_there_is_no_sql_outside_the_demo(fhir):
    assert not any("SELECT" in one for one in told(fhir, f"{ALLERGY}?code=1&_explain=true"))


@pytest.fixture(scope="module")
def demo(make_app):
    """The app in demo mode."""
    return make_app(demo=True, database_url="", seed=False)


@pytest.mark.parametrize(
    ("scope", "patient"), [("system/*.rs", None), ("patient/*.rs", "p1")]
)  # fmt: skip
def test_the_demo_shows_the_sql_and_its_plan_without_values(demo, scope, patient):
    fhir = Fhir(demo, token_for(demo, scope, patient=patient))
    path = f"{ALLERGY}?code=7984&date=2023&_sort=date"
    assert fhir.ids(f"{path}&_explain=true") == fhir.ids(path)
    explained = issues(fhir, f"{path}&_explain=true")
    shown = [one["diagnostics"] for one in explained if "SELECT" in one["diagnostics"]]
    assert shown
    statements = [each for each in map(values, explained) if each["topic"] == "statement"]
    assert shown == [
        f"SQL: {each['sql']} -- Plan: {'; '.join(step['text'] for step in each['plan'])}"
        for each in statements
    ]
    for each in statements:
        depths = [step["depth"] for step in each["plan"]]
        assert depths[0] == 0
        assert all(after <= before + 1 for before, after in pairwise(depths)), depths
        tables = {step["table"] for step in each["plan"] if step.get("access") == "search"}
        assert tables >= {"allergy_intolerance"}
    for one in shown:
        sql, _, plan = one.partition(" -- Plan: ")
        assert re.match(r"SQL: SELECT .* FROM .*\?", sql)
        assert plan
        # Nor counts: neither of what the database expects nor of what it was asked before.
        assert not re.search(r"7984|\bp1\b|'|\brows\b|count\(", one)


def test_an_explanation_needs_no_match(demo):
    fhir = Fhir(demo, token_for(demo, "system/*.rs"))
    bundle = fhir.read(f"{ALLERGY}?patient=nobody&_explain=true")
    assert bundle["total"] == 0
    assert [entry["search"]["mode"] for entry in bundle["entry"]] == ["outcome"]
