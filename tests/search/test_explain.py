"""`_explain=true`: how the server read a search."""

from __future__ import annotations

import re

import pytest

from fhirapp.db import reader
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import BASE_URL, Fhir, ids, link, token_for

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


def explanation(fhir: Fhir, path: str) -> list[str]:
    """Return the sentences of an explanation."""
    found = [issue for issue in issues(fhir, path) if issue["severity"] == "information"]
    assert {issue["code"] for issue in found} == {"informational"}
    return [issue["diagnostics"] for issue in found]


def about(fhir: Fhir, parameter: str, path: str) -> dict:
    """Return the issue of an explanation that is about one parameter."""
    (found,) = [
        issue
        for issue in issues(fhir, f"{path}&_explain=true")
        if issue.get("expression") == [f"http.{parameter}"]
    ]
    return found


def values(issue: dict) -> dict:
    """Return the values of an issue's extension; of names that may repeat a list."""
    (extension,) = issue["extension"]
    assert extension["url"] == f"{BASE_URL}/fhir/StructureDefinition/search-explanation"
    return parts(extension)


SINGLE = "topic name modifier kind firstOf doc sql plan text prefix low high"


def parts(extension: dict) -> dict:
    found: dict = {}
    for part in extension["extension"]:
        named = [value for name, value in part.items() if name.startswith("value")]
        found.setdefault(part["url"], []).append(named[0] if named else parts(part))
    single = SINGLE.split()
    return {name: held[0] if name in single else held for name, held in found.items()}


# (search, kind and paths, section of FHIR's search page, definition, the meaning of its values).
PARAMETERS = [
    (f"{ALLERGY}?_id=al-p1-latex,x", "token id", "token", "Resource-id",
     ["has the id 'al-p1-latex'", "has the id 'x'"]),
    (f"{ALLERGY}?code=http://x.example|1,|2,http://x.example|,7", "token code reaction.substance",
     "token", "clinical-code",
     ["has the code '1' of the system 'http://x.example'", "has the code '2' without a system",
      "has any code of the system 'http://x.example'", "has the code '7' of any system"]),
    (f"{ALLERGY}?code=1&code=2", "token code reaction.substance", "token", "clinical-code",
     ["has the code '1' of any system", "has the code '2' of any system"]),
    (rf"{ALLERGY}?code=a\,b", "token code reaction.substance", "token", "clinical-code",
     ["has the code 'a,b' of any system"]),
    (f"{ALLERGY}?identifier=A-1", "token identifier", "token", "clinical-identifier",
     ["has the identifier 'A-1' of any system"]),
    (f"{ALLERGY}?date=ge2024-01-01&date=lt2024-02-01",
     "date recordedDate onsetDateTime onsetPeriod", "date", "clinical-date",
     ["is within [2024-01-01, 2024-01-02) UTC or extends further", "starts before 2024-02-01 UTC"]),
    (f"{ALLERGY}?_lastUpdated=gt2024-03-01T09:30-05:00", "date meta.lastUpdated", "date",
     "Resource-lastUpdated", ["extends to 2024-03-01T14:31:00+00:00 UTC or later"]),
    (f"{ALLERGY}?recorder=dr-adeyemi", "reference recorder", "reference",
     "AllergyIntolerance-recorder", ["refers to the id 'dr-adeyemi' of any type"]),
    (f"{ALLERGY}?patient=p1", "reference patient", "reference", "clinical-patient",
     ["refers to 'Patient/p1'"]),
    (f"{ALLERGY}?recorder=http://elsewhere.example/fhir/Practitioner/1", "reference recorder",
     "reference", "AllergyIntolerance-recorder",
     ["refers to 'http://elsewhere.example/fhir/Practitioner/1', which is elsewhere"]),
    (f"{DOCUMENT}?description=Discharge%20%20Summary", "string description", "string",
     "DocumentReference-description",
     ["begins with 'discharge summary', whatever its case and accents"]),
    (f"{DOCUMENT}?location={BASE_URL}/fhir/Binary/b1", "uri content.attachment.url", "uri",
     "DocumentReference-location", [f"is '{BASE_URL}/fhir/Binary/b1'"]),
    (f"{DOCUMENT}?relationship=appends$doc-p1-ed-2024", "composite relatesTo", "composite",
     "DocumentReference-relationship",
     [("has the code 'appends' of any system and, in the same repetition, refers to"
       " 'DocumentReference/doc-p1-ed-2024'")]),
    (f'{DOCUMENT}?_content=Pneumonia "chest pain" lung*', None, "content", "Resource-content",
     [("has the word 'pneumonia' and the words 'chest pain' together and a word that begins with"
       " 'lung'")]),
]  # fmt: skip


def test_each_kind_of_parameter_is_explained(fhir):
    for path, searched, section, spec, meanings in PARAMETERS:
        name = path.partition("?")[2].partition("=")[0]
        issue = about(fhir, name, path)
        assert (issue["severity"], issue["code"]) == ("information", "informational")
        assert issue["details"] == {"text": f"See {SPEC}#{section} and {PARAMETER}{spec}"}
        assert issue["diagnostics"].startswith(f"{name}: a ")
        shown = values(issue)
        assert (shown["topic"], shown["name"]) == ("parameter", name)
        if searched:
            assert " ".join([shown["kind"], *shown["path"]]) == searched
        texts = [value["text"] for repeated in shown["repetition"] for value in repeated["value"]]
        assert texts == meanings
        assert all(meaning in issue["diagnostics"] for meaning in meanings)
    (found,) = [about(fhir, "status", f"{ALLERGY}?status=active")]
    # It is a parameter of this service, without a definition in FHIR.
    assert found["details"] == {"text": f"See {SPEC}#token"}


MODIFIERS = [
    (f"{ALLERGY}?code:not=1,2", "modifiers",
     "lacks the code '1' of any system and lacks the code '2' of any system"),
    (f"{ALLERGY}?code:text=Penicill", "modifiers",
     "has a text in which a word, or the whole, begins with 'Penicill'"),
    (f"{ALLERGY}?code:missing=true", "missing", "has no value"),
    (f"{ALLERGY}?code:missing=false", "missing", "has a value"),
    (f"{ALLERGY}?identifier:of-type=http://x.example|MR|446053", "modifiers",
     "has the identifier '446053' of the type 'MR' of the system 'http://x.example'"),
    (f"{ALLERGY}?recorder:identifier=http://x.example|9", "modifiers",
     "names by identifier what has the identifier '9' of the system 'http://x.example'"),
    (f"{ALLERGY}?recorder:Practitioner=dr-adeyemi", "modifiers",
     "refers to 'Practitioner/dr-adeyemi'"),
    (f"{DOCUMENT}?description:exact=Chest X-ray", "modifiers", "is exactly 'Chest X-ray'"),
    (f"{DOCUMENT}?description:contains=X-ray", "modifiers",
     "holds 'x-ray', whatever its case and accents"),
    (f"{DOCUMENT}?location:below=http://x.example/notes", "modifiers",
     "is 'http://x.example/notes' or below it"),
]  # fmt: skip


def test_each_modifier_is_explained(fhir):
    for path, section, meaning in MODIFIERS:
        name, _, modifier = path.partition("?")[2].partition("=")[0].partition(":")
        issue = about(fhir, name, path)
        assert f"with the modifier :{modifier} that searches" in issue["diagnostics"]
        assert issue["diagnostics"].endswith(f"matches what {meaning}.")
        assert f"{SPEC}#{section}" in issue["details"]["text"].split()


PREFIXES = {
    "eq2024": "is within [2024-01-01, 2025-01-01) UTC",
    "ne2024": "is not within [2024-01-01, 2025-01-01) UTC",
    "gt2024": "extends to 2025-01-01 UTC or later",
    "lt2024": "starts before 2024-01-01 UTC",
    "ge2024": "is within [2024-01-01, 2025-01-01) UTC or extends further",
    "le2024": "is within [2024-01-01, 2025-01-01) UTC or starts before it",
    "sa2024": "starts at 2025-01-01 UTC or later",
    "eb2024": "ends before 2024-01-01 UTC",
    "2024-03-01T09:30": "is within [2024-03-01T09:30:00+00:00, 2024-03-01T09:31:00+00:00) UTC",
    "2024-03-01T09:30:15.5": "is the point 2024-03-01T09:30:15.500+00:00",
    "ne2024-03-01T09:30:15.000Z": "is not the point 2024-03-01T09:30:15.000+00:00",
    "gt2024-03-01T09:30:15.000Z": "extends beyond the point 2024-03-01T09:30:15.000+00:00",
    "ge2024-03-01T09:30:15.000Z": "is the point 2024-03-01T09:30:15.000+00:00 or extends beyond it",
    "lt2024-03-01T09:30:15.000Z": "starts before the point 2024-03-01T09:30:15.000+00:00",
    "le2024-03-01T09:30:15.000Z": "is the point 2024-03-01T09:30:15.000+00:00 or starts before it",
    "sa2024-03-01T09:30:15.000Z": "starts after the point 2024-03-01T09:30:15.000+00:00",
    "eb2024-03-01T09:30:15.000Z": "ends before the point 2024-03-01T09:30:15.000+00:00",
}


def test_each_prefix_is_explained_with_the_range_that_is_used(fhir):
    start = "onset: a date parameter that searches reaction.onset and matches what "
    found = {
        value: about(fhir, "onset", f"{ALLERGY}?onset={value}")["diagnostics"] for value in PREFIXES
    }
    assert found == {value: f"{start}{meaning}." for value, meaning in PREFIXES.items()}
    approximate = about(fhir, "onset", f"{ALLERGY}?onset=ap2004")["diagnostics"]
    low, high = map(
        int, re.search(r"overlaps \[(\d{4})-.+, (\d{4})-.+\) UTC", approximate).groups()
    )
    assert low < 2004 < 2005 < high


def test_the_ranges_of_dates_are_in_an_extension(fhir):
    path = f"{ALLERGY}?onset=ge2024,2023-05&onset=lt2025-02-01T10:00:00Z"
    shown = values(about(fhir, "onset", path))
    assert (shown["kind"], shown["path"], shown["firstOf"]) == ("date", ["reaction.onset"], False)
    ranges = [
        [(value.get("prefix"), value["low"], value["high"]) for value in repeated["value"]]
        for repeated in shown["repetition"]
    ]
    assert ranges == [
        [("ge", "2024-01-01", "2025-01-01"), (None, "2023-05-01", "2023-06-01")],
        [("lt", "2025-02-01T10:00:00+00:00", "2025-02-01T10:00:01+00:00")],
    ]
    assert values(about(fhir, "code", f"{ALLERGY}?code:not=1"))["modifier"] == "not"


ORDER = "Order: what changed last comes first"
PAGE = "Page: the first, with up to 100 matches."
TOTAL = "Total: counts the matches of all pages that the token may see, exactly"
NO_PAGE = "Page: none, for the total alone"
SHAPES = [
    ("", [ORDER, PAGE, TOTAL]),
    ("&_count=2", [ORDER, "Page: the first, with up to 2 matches.", TOTAL]),
    ("&_count=0", [NO_PAGE, TOTAL]),
    ("&_summary=count&_total=none", [NO_PAGE, TOTAL]),
    ("&_id=al-p1-latex", [ORDER, "Page: one, with everything that _id lists.", TOTAL]),
    ("&_total=none", [ORDER, PAGE, "Total: left out"]),
    ("&_total=estimate", [ORDER, PAGE, TOTAL]),
    ("&_sort=-date,code", ["Order: by date downwards, then by code upwards", PAGE, TOTAL]),
    ("&_summary=text", [ORDER, PAGE, TOTAL, "Summary: each resource has its narrative"]),
    ("&_elements=code", [ORDER, PAGE, TOTAL, "Elements: each match has those that were listed"]),
    (f"&_include={ALLERGY}:patient&_revinclude=Provenance:target",
     [ORDER, PAGE, TOTAL,
      f"Included: what is referred to by the matches as '{ALLERGY}:patient' says",
      "Included: each Provenance that has a match among its targets"]),
]  # fmt: skip


def test_how_the_answer_was_shaped_is_explained(fhir):
    topics = ("Order:", "Page:", "Total:", "Summary:", "Elements:", "Included:")
    for query, beginnings in SHAPES:
        told = explanation(fhir, f"{ALLERGY}?patient=p1{query}&_explain=true")
        shaped = [sentence for sentence in told if sentence.startswith(topics)]
        assert len(shaped) == len(beginnings), query
        for sentence, beginning in zip(shaped, beginnings, strict=True):
            assert sentence.startswith(beginning)


def test_an_ignored_parameter_comes_first_and_once(fhir):
    first, *others = issues(fhir, f"{ALLERGY}?patient=p1&statuss=active&_explain=true")
    assert (first["severity"], first["expression"]) == ("warning", ["http.statuss"])
    assert "did you mean status?" in first["diagnostics"]
    assert {issue["severity"] for issue in others} == {"information"}


ACCESS = [
    ("system/*.rs", None, [f"may see every {ALLERGY}.", "may see every Patient."]),
    ("patient/*.rs", "p1",
     [f"may see each {ALLERGY} of one patient.", "may see each Patient of one patient."]),
    ("patient/AllergyIntolerance.rs", "p1",
     [f"may see each {ALLERGY} of one patient.",
      "may see no Patient; its scope does not cover search of them."]),
    ("system/AllergyIntolerance.rs?criticality=high system/Patient.rs", None,
     [f"may see each {ALLERGY} that the filter of its scope finds.", "may see every Patient."]),
]  # fmt: skip


def test_the_access_of_the_token_is_explained_without_naming_a_patient(app, fhir):
    for scope, patient, sentences in ACCESS:
        client = Fhir(app, token_for(app, scope, patient=patient))
        path = f"{ALLERGY}?status=active&_include={ALLERGY}:patient&_explain=true"
        told = explanation(client, path)
        expected = [f"Token: {sentence}" for sentence in sentences]
        assert [sentence for sentence in told if sentence.startswith("Token:")] == expected
        if patient:
            assert not any(re.search(rf"\b{patient}\b", sentence) for sentence in told)
    told = explanation(fhir, f"{ALLERGY}?patient=p1&_include={ALLERGY}:recorder&_explain=true")
    assert "Token: may see every Practitioner, as any clinical scope does." in told


def test_an_explanation_changes_neither_matches_nor_total(fhir):
    path = f"{ALLERGY}?patient=p1&_count=2&status=active"
    plain, explained = fhir.read(path), fhir.read(f"{path}&_explain=true")
    assert (ids(explained), explained["total"]) == (ids(plain), plain["total"])
    assert fhir.read(f"{path}&_explain=false")["entry"] == plain["entry"]
    assert fhir.get(f"{path}&_explain=true").headers["ETag"] != fhir.get(path).headers["ETag"]
    further = link(explained, "next")
    assert ids(fhir.read(further)) == ids(fhir.read(link(plain, "next")))
    assert any(sentence.startswith("Page: a later one") for sentence in explanation(fhir, further))


def test_there_is_no_sql_outside_the_demo(fhir):
    told = explanation(fhir, f"{ALLERGY}?code=1&_explain=true")
    assert not any("SELECT" in sentence for sentence in told)


@pytest.fixture(scope="module")
def demo(make_app):
    """The app in demo mode."""
    return make_app(demo=True, database_url="", seed=False)


@pytest.mark.parametrize(("scope", "patient"), [("system/*.rs", None), ("patient/*.rs", "p1")])
def test_demo_shows_the_sql_without_values(demo, scope, patient):
    fhir = Fhir(demo, token_for(demo, scope, patient=patient))
    path = f"{ALLERGY}?code=7984&date=2023&_sort=date"
    assert fhir.ids(f"{path}&_explain=true") == fhir.ids(path)
    explained = issues(fhir, f"{path}&_explain=true")
    shown = [issue["diagnostics"] for issue in explained if "SELECT" in issue["diagnostics"]]
    statements = [each for each in map(values, explained) if each["topic"] == "statement"]
    assert shown
    assert shown == [
        f"SQL: {each['sql']} -- Plan: {'; '.join(map(str.strip, each['plan'].splitlines()))}"
        for each in statements
    ]
    for text in shown:
        sql, _, plan = text.partition(" -- Plan: ")
        assert re.match(r"SQL: SELECT .* FROM .*\?", sql)
        assert plan
        # Nor counts: neither of what the database expects nor of what it was asked before.
        assert not re.search(r"7984|\bp1\b|'|\brows\b|count\(", text)


@pytest.mark.databases(SQLITE, POSTGRESQL)
def test_plan_is_indented_text_without_estimates(make_app):
    sql = (
        "SELECT r.id FROM allergy_intolerance r WHERE r.pk IN"
        " (SELECT k.pk FROM allergy_intolerance_token k WHERE k.code = ?)"
    )
    app = make_app()
    with app.app_context():
        outer, *inner = reader().plan(sql, ("active",))
    assert not outer.startswith(" ")
    assert any(line.startswith("  ") for line in inner)
    plan = "\n".join([outer, *inner])
    assert {"r", "k"} <= {*re.findall(r"\w+", plan)}
    assert not re.search(r"\b(cost|rows|width)=", plan)
