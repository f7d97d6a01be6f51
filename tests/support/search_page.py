"""FHIR R4's search page, ticked off: its sections, how each is read here, and what shows it.

the manual's table is made of these rows, and test_manual.py asks what they ask: no row can say more
than is true. Source: http://hl7.org/fhir/R4/search.html.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.support.expected import (
    OTHERWISE,
    PARTLY,
    YES,
    Bundle,
    Doubted,
    Expectation,
    Finds,
    FindsByForm,
    FindsOfClass,
    Ignored,
    Refused,
    Shows,
)
from tests.support.helpers import BASE_URL, ids, link

PAGE = "http://hl7.org/fhir/R4/search.html"


class Row(NamedTuple):
    """A section, where it is on the page, how it is read here, and what shows that."""

    section: str
    anchor: str
    how: str
    tried: Sequence[tuple[str, Expectation]]

    @property
    def here(self) -> str:
        """Whether it is here, as what shows it has it."""
        found = {expectation.here for _, expectation in self.tried}
        return found.pop() if len(found) == 1 else PARTLY


NOT_HERE = Refused()
NOWHERE = Refused(404)
UNREADABLE = Refused(code="value")
# What the page itself wants to be refused.
WRONG = Refused(code="value", here=YES)

ALLERGY, DOCUMENT = "AllergyIntolerance", "DocumentReference"
PENICILLINS = FindsOfClass("al-p12-penicillin", "al-p3-amoxicillin", "al-p1-penicillin")
OF_P1, OF_P4 = f"{DOCUMENT}?patient=p1", f"{ALLERGY}?patient=p4"
NKDA = Finds("al-p4-nkda")
CORE = "http://hl7.org/fhir/us/core"
PROFILE = f"{CORE}/StructureDefinition/us-core-allergyintolerance"
BEFORE_2024 = ("doc-p1-progress-2023", "doc-p1-scan-2023")
IN_JANUARY = (
    *("doc-p1-discharge-2024", "doc-p1-lab-2024", "doc-p1-hp-2024", "doc-p1-ed-2024"),
    "doc-p1-imaging-2024",
)
SINCE_FEBRUARY = ("doc-p1-consult-2025", "doc-p1-progress-2024")
BY_NOVAK = Finds("al-p6-no-information", "al-p2-morphine", "al-p2-lidocaine")

ASKING = (
    Row("Search of one type", "Introduction",
        "By GET, or by POST of a form; parameters in the URL count too",
        [(OF_P4, NKDA), (f"{ALLERGY}/_search?patient=p4", FindsByForm("al-p4-nkda"))]),
    Row("Search in a compartment", "Introduction",
        "Of a patient: what is about the patient, by `Patient/p1/AllergyIntolerance`, or of all"
        " types by `Patient/p1/*`; not what the patient wrote about others",
        [(f"Patient/p4/{ALLERGY}", NKDA), (f"Patient/p4/*?_type={ALLERGY}", NKDA)]),
    Row("Search of all types", "Introduction",
        "One type after the other, newest first; a parameter has to be one of every type, or is a"
        " 400. `_type` names the types; `_sort` and `_include` are of one type",
        [(f"?_type={ALLERGY},Group&_lastUpdated=gt2025-06&_tag=none", Finds()),
         (f"?_type={ALLERGY},Encounter&patient=p4&_tag:missing=true&_id=al-p4-nkda", NKDA),
         ("?_type=Patient,Encounter&patient=p4", Refused(here=YES))]),
    Row("Messaging, GraphQL", "Introduction", "404",
        [("$process-message", NOWHERE), ("$graphql", NOWHERE)]),
    Row("No parameter", "Introduction", "Everything that the token may see, 100 to a page",
        [("Patient", Shows(lambda bundle: bundle["total"] == len(bundle["entry"]) > 10))]),
    Row("What cannot be read", "errors", "400, with the parameter and what would be right",
        [(f"{ALLERGY}?date=yesterday", WRONG)]),
    Row("Values that nothing has", "errors",
        "No matches, which is not an error; for a code that cannot occur the answer names the"
        " nearest one",
        [(f"{ALLERGY}?patient=nobody", Finds()), (f"{ALLERGY}?code=nonsense", Finds()),
         (f"{ALLERGY}?patient=p4&clinical-status=activ", Doubted())]),
    Row("Empty values", "errors", "Ignored, and the answer says so",
        [(f"{ALLERGY}?code=", Ignored(here=YES, is_unknown=False))]),
    Row("Unknown parameters", "errors",
        "Ignored, and the answer names them; 400 with `Prefer: handling=strict`",
        [(f"{ALLERGY}?patients=p1", Ignored(here=YES))]),
)  # fmt: skip

PARAMETERS = (
    Row("`_id`", "id", "Up to 100, separated by commas, all on one page",
        [(f"{ALLERGY}?_id=al-p4-nkda", NKDA)]),
    Row("`_lastUpdated`", "lastUpdated", "With all prefixes",
        [(f"{OF_P4}&_lastUpdated=gt2023", NKDA), (f"{OF_P4}&_lastUpdated=eb2023", Finds())]),
    Row("`_tag`, `_profile`, `_security`", "tag", "And `_source`, from R4's list of parameters",
        [(f"{ALLERGY}?_tag=HTEST", Finds("al-p7-bee")), (f"{OF_P4}&_profile={PROFILE}", NKDA),
         (f"{DOCUMENT}?_security=R", Finds("doc-p12-psych-2024")),
         (f"{ALLERGY}?_source=https://riverbend-camp.example/records", Finds("al-p7-bee"))]),
    Row("Parameters for each resource", "parameters",
        "All of R4's",
        [("Patient?family=okafor", Finds("p13", "p4")), ("Patient?phonetic=ocafore",
          Finds("p13", "p4"))]),
)  # fmt: skip

KINDS = (
    Row("number", "number", "R4 has none on the types served here", []),
    Row("date", "date",
        "A day, month or year is all of that time, milliseconds are a point; a time without zone is"
        " UTC. Twice `date` must"
        " be a closed range",
        [(f"{OF_P1}&date=2024-01", Finds(*IN_JANUARY)),
         (f"{OF_P1}&date=ge2024-01-01&date=lt2024-02-01", Finds(*IN_JANUARY)),
         (f"{OF_P1}&date=gt2023&date=gt2024", WRONG)]),
    Row("string", "string", "The beginning, whatever the case and accents",
        [("Patient?name=ekstrom", Finds("p9"))]),
    Row("uri", "uri", "As a whole; a canonical also without its version",
        [(f"{OF_P4}&_profile={PROFILE}", NKDA)]),
    Row("token", "token", "`code`, `system|code`, `|code` or `system|`; case matters in codes of"
        " HL7's systems and UCUM and in identifiers, otherwise not",
        [(f"{OF_P1}&type=18842-5", Finds("doc-p1-discharge-2024")),
         (f"{OF_P1}&type=http://loinc.org|18842-5", Finds("doc-p1-discharge-2024")),
         (f"{OF_P1}&type=|18842-5", Finds()), (f"{OF_P1}&status=CURRENT", Doubted()),
         (f"{OF_P1}&type=18842-5&contenttype=TEXT/plain", Finds("doc-p1-discharge-2024")),
         (f"{OF_P4}&code=http://snomed.info/sct|", NKDA)]),
    Row("quantity", "quantity", "Durations, the one kind that R4 has here: in UCUM's units of time,"
        " which are converted, or the number alone",
        [*((f"Encounter?length={one}", Finds("enc-p1-2024-ed")) for one in ("gt3||h", "225")),
         ("Encounter?length=gt5||kg", WRONG)]),
    Row("reference", "reference", "`id`, `Type/id`, or an address",
        [(f"{ALLERGY}?recorder=dr-novak", BY_NOVAK),
         (f"{ALLERGY}?recorder=Practitioner/dr-novak", BY_NOVAK),
         (f"{ALLERGY}?recorder={BASE_URL}/fhir/Practitioner/dr-novak", BY_NOVAK)]),
    Row("composite", "composite", "Both parts in the same repetition",
        [(f"{DOCUMENT}?relationship=replaces$doc-p12-discharge-2023",
          Finds("doc-p12-discharge-2023-corrected"))]),
    Row("special", "special", "R4 has none on the types served here, save `_filter`", []),
)  # fmt: skip

MODIFIERS = (
    Row("Prefixes", "prefix", "`eq ne gt lt ge le sa eb ap`, on dates",
        [(f"{OF_P1}&date=ge2024-02", Finds(*SINCE_FEBRUARY)),
         (f"{OF_P1}&date=eq2024-01", Finds(*IN_JANUARY)),
         (f"{OF_P1}&date=ne2024", Finds("doc-p1-consult-2025", *BEFORE_2024)),
         (f"{OF_P1}&date=gt2024", Finds("doc-p1-consult-2025")),
         (f"{OF_P1}&date=lt2024", Finds(*BEFORE_2024)),
         (f"{OF_P1}&date=le2023", Finds(*BEFORE_2024)),
         (f"{OF_P1}&date=sa2024-01", Finds(*SINCE_FEBRUARY)),
         (f"{OF_P1}&date=eb2024", Finds(*BEFORE_2024)),
         (f"{OF_P1}&date=ap2024-01-18", Shows(lambda bundle: {*IN_JANUARY} <= {*ids(bundle)}))]),
    Row("`:missing`", "modifiers",
        "`true` or `false`, on every parameter but `_text` and `_content`",
        [(f"{ALLERGY}?patient=p1&recorder:missing=true", Finds("al-p1-ibuprofen")),
         (f"{ALLERGY}?_content:missing=true", Refused(here=YES))]),
    Row("`:exact`, `:contains`", "modifiers",
        "On a string: the whole as it is written; anywhere in it",
        [("Patient?name:contains=kafor", Finds("p13", "p4")),
         ("Patient?name:exact=Ekström", Finds("p9")), ("Patient?name:exact=ekström", Finds())]),
    Row("`:text`", "token", "On a token: the beginning of its text, or of a word in it",
        [(f"{ALLERGY}?code:text=latex", Finds("al-p1-latex"))]),
    Row("`:not`", "token", "On a token: resources without the code, or without any code",
        [(f"{ALLERGY}?patient=p1&clinical-status:not=active", Finds("al-p1-metformin"))]),
    Row("`:of-type`", "token", "On an identifier: system and code of its type, and its value",
        [("Patient?identifier:of-type=http://terminology.hl7.org/CodeSystem/v2-0203|MR|LGH-100385",
          Finds("p5"))]),
    Row("`:in`, `:not-in` on a token", "token",
        "By an imported value set that lists its codes, or a built-in class; 400 by any other",
        [(f"{ALLERGY}?code:in=penicillins", PENICILLINS),
         (f"{ALLERGY}?patient=p1&code:in=urn:nobodys", Refused(code="not-found", here=YES)),
         (f"{ALLERGY}?patient=p3&code:not-in=penicillins,tree-nuts",
          FindsOfClass("al-p3-egg", "al-p3-cat", "al-p3-milk", "al-p3-peanut"))]),
    Row("`:below` on a token", "token", "By a built-in class alone; 400 by a code",
        [(f"{ALLERGY}?code:below=penicillins", PENICILLINS),
         (f"{ALLERGY}?code:below=http://snomed.info/sct|111088007",
          Refused(code="not-found", here=YES))]),
    Row("`:above` on a token", "token", "400: hierarchies of codes are not followed",
        [(f"{ALLERGY}?code:above=http://snomed.info/sct|111088007", NOT_HERE)]),
    Row("`:below` on a media type", "token", "Its beginning: `text`, or `text/plain`",
        [(f"{OF_P1}&type=18842-5&contenttype:below=text", Finds("doc-p1-discharge-2024"))]),
    Row("`:above`, `:below` on a uri", "uri", "By the steps of its path",
        [(f"{OF_P4}&_profile:below={CORE}", NKDA), (f"{OF_P4}&_profile:above={PROFILE}/x", NKDA)]),
    Row("`:Patient` and other types", "reference",
        "Also on a reference to any type, as `Provenance?target`",
        [(f"{ALLERGY}?recorder:Practitioner=dr-novak", BY_NOVAK),
         (f"{ALLERGY}?recorder:Patient=dr-novak", Finds()),
         ("Provenance?target:Patient=p1", Finds())]),
    Row("`:identifier`", "reference", "The identifier within a reference, read as a token",
        [(f"{ALLERGY}?recorder:identifier=nobodys", Finds())]),
    Row("`:above`, `:below` on a reference", "recursive", "400: hierarchies are not followed",
        [("Encounter?part-of:above=x", NOT_HERE), ("Organization?partof:below=x", NOT_HERE)]),
    Row("Any other modifier", "modifiers", "400, as the page demands",
        [(f"{ALLERGY}?code:exact=x", Refused(here=YES))]),
)  # fmt: skip

COMBINING = (
    Row("References and versions", "versions",
        "A search ignores versions; `_include` adds the one that a reference names",
        [(f"{ALLERGY}?recorder=Practitioner/dr-novak/_history/1", BY_NOVAK)]),
    Row("Chained parameters", "chaining",
        "Up to two steps, over every reference; it takes the permission to search what it leads to",
        [(f"{ALLERGY}?{one}.name=okafor", Finds("al-p13-nka", "al-p4-nkda"))
         for one in ("patient", "patient:Patient")]),
    Row("`_has`", "has",
        "Up to two steps, also beside a chain; it takes the permission to search what refers",
        [(f"Patient?_has:{ALLERGY}:patient:code=7984", Finds("p1"))]),
    Row("And, or", "combining", "A repeated parameter means and, a comma means or",
        [(f"{OF_P1}&type=11506-3,18842-5",
          Finds("doc-p1-progress-2024", "doc-p1-discharge-2024", "doc-p1-progress-2023")),
         (f"{OF_P1}&type=11506-3&type=18842-5", Finds())]),
    Row("Missing data", "missing",
        "A search for a value leaves out resources without one: search `:missing=true` too",
        [(f"{ALLERGY}?patient=p2&severity:missing=true", Finds("al-p2-lidocaine"))]),
    Row("Escaping", "escaping", r"A backslash before `,` `|` `$` and itself",
        [(rf"{OF_P4}&code=716186003\,x", Finds()), (rf"{OF_P4}&code=a\|b\|c", Finds()),
         (f"{OF_P4}&code=a|b|c", WRONG)]),
    Row("`_text`, `_content`", "text",
        "Words that must all be there, `\"words together\"`, `begin*`; a comma means or. Only on"
        " the two main types; 400 for AND, OR, NOT, a minus and parentheses",
        [(f'{OF_P1}&_text="chest pain"', Finds("doc-p1-discharge-2024", "doc-p1-progress-2023")),
         (f"{ALLERGY}?_content=lat*,peanut", Finds("al-p3-peanut", "al-p1-latex")),
         (f"{ALLERGY}?_content=latex OR peanut", UNREADABLE),
         (f"{OF_P1}&_text=chest -pain", UNREADABLE),
         (f"{DOCUMENT}?_text=(bone OR liver) and metastases", UNREADABLE),
         ("Encounter?_content=pain", Ignored())]),
    Row("`_list`", "list", "400", [(f"{ALLERGY}?_list=42", NOT_HERE)]),
    Row("`_filter`", "filter", "400", [(f"{ALLERGY}?_filter=code eq 1", NOT_HERE)]),
    Row("`_type`", "_type", "Of a search of all types; ignored on one, and the answer says so",
        [(f"?_type={ALLERGY}&patient=p4", NKDA),
         (f"{ALLERGY}?_type=Patient", Ignored(here=YES))]),
)  # fmt: skip

GP = "Patient:general-practitioner"
# Of the elements of a resource these tell one part of it from another.
WATCHED = {"text", "code", "patient", "clinicalStatus", "recordedDate"}


def brings(*included: str) -> Shows:
    """Expect these resources beside the matches, in any order."""
    return Shows(lambda bundle: sorted(ids(bundle, "include")) == sorted(included))


def totals(total: int | None) -> Shows:
    """Expect this total, or none."""
    return Shows(lambda bundle: bundle.get("total") == total)


def has(*elements: str) -> Shows:
    """Expect these of the watched elements, and the mark of a resource that is only a part."""

    def is_so(bundle: Bundle) -> bool:
        resource = bundle["entry"][0]["resource"]
        tags = [tag["code"] for tag in resource["meta"].get("tag", ())]
        marked = [] if {*elements} == WATCHED else ["SUBSETTED"]
        return (WATCHED & {*resource}, tags) == ({*elements}, marked)

    return Shows(is_so)


def is_ranked(bundle: Bundle) -> bool:
    """Say whether the matches have scores, the best first."""
    scores = [entry["search"]["score"] for entry in bundle["entry"]]
    return len(set(scores)) > 1 and scores == sorted(scores, reverse=True) and max(scores) <= 1


ANSWER = (
    Row("`_sort`", "sort",
        "By up to five parameters; the first of several values counts, resources without one"
        " come last, and ties are sorted by id",
        [(f"{ALLERGY}?patient=p2&_sort=code",
          Finds("al-p2-dust-mite", "al-p2-morphine", "al-p2-lidocaine", "al-p2-mariscos")),
         (f"{OF_P1}&date=2024-01&_sort=-status,date", Finds(*IN_JANUARY[::-1]))]),
    Row("`_total`", "total", "`none` leaves it out, `estimate` and `accurate` count exactly",
        [(f"{OF_P4}&_total=none", totals(None)), (f"{OF_P4}&_total=estimate", totals(1)),
         (f"{OF_P4}&_total=accurate", totals(1))]),
    Row("`_count`", "count", "Up to 1,000, but not with `_id`; `0` is `_summary=count`",
        [("Patient?_count=2", Shows(lambda bundle: len(ids(bundle)) == 2)),
         ("Patient?_count=0", Shows(lambda bundle: bundle["total"] > 10 and not ids(bundle)))]),
    Row("`_include`", "include",
        "By each parameter that is a reference, or by `*`; of a type that is not served"
        " nothing comes, and the answer says so",
        [(f"{OF_P4}&_include=AllergyIntolerance:recorder", brings("dr-farrow")),
         (f"{OF_P4}&_include=AllergyIntolerance:*", brings("p4", "dr-farrow")),
         (f"{OF_P4}&_include=AllergyIntolerance:recorder:Patient", brings())]),
    Row("`_include:iterate`", "include", "Five steps, also from other types",
        [(f"{ALLERGY}?patient=p13&_include=AllergyIntolerance:patient&_include:iterate={GP}",
          brings("p13", "dr-lindholm"))]),
    Row("`_revinclude`", "include",
        "By each reference to the type, or by `*`; of allergies and notes `Provenance:target`"
        " alone. Where more than 2,000 refer to a page it is a 400: none is left out silently",
        [(f"Patient?_id=p4&_revinclude={ALLERGY}:patient", brings("al-p4-nkda")),
         (f"{OF_P4}&_revinclude=Provenance:target", brings("prov-p4-nkda")),
         (f"{OF_P4}&_revinclude=Provenance:entity", UNREADABLE)]),
    Row("`_revinclude:iterate`", "include", "Five steps, also from other types",
        [(f"Patient?_id=p4&_revinclude={ALLERGY}:patient&_revinclude:iterate=Provenance:target",
          brings("al-p4-nkda", "prov-p4-nkda"))]),
    Row("Contained resources", "contained",
        "Come with what holds them; `_contained` and `_containedType` are a 400",
        [(f"{ALLERGY}?_contained=true", NOT_HERE)]),
    Row("External references", "external", "Nothing is fetched, nor is an attachment included",
        [(f"{OF_P1}&_include=DocumentReference:location", UNREADABLE)]),
    Row("Paging", "Paging", "Each page has what its own matches refer to",
        [(f"{OF_P1}&_count=1&_include=DocumentReference:patient", brings("p1"))]),
    Row("`_summary`", "summary", "`true`, `text`, `data`, `count`, `false`",
        [(f"{OF_P4}&_summary=true", has("code", "patient", "clinicalStatus")),
         (f"{OF_P4}&_summary=text", has("text", "patient")),
         (f"{OF_P4}&_summary=data", has(*WATCHED - {"text"})),
         (f"{OF_P4}&_summary=false", has(*WATCHED)),
         (f"{OF_P4}&_summary=count", totals(1))]),
    Row("`_elements`", "elements", "Up to 50, beside what is mandatory and what modifies",
        [(f"{OF_P4}&_elements=code", has("code", "patient", "clinicalStatus")),
         (f"{OF_P4}&_elements={','.join(['code'] * 51)}", WRONG)]),
    Row("Relevance", "score",
        "`_sort=_score` alone: one page, the best of the 500 newest matches, each with its score",
        [(f"{OF_P1}&_content=pneumonia&_sort=_score", Shows(is_ranked)),
         (f"{OF_P1}&_sort=_score", WRONG)]),
    Row("Server conformance: self link", "conformance",
        "`/api/<Type>` without the search, which `first` has; with `FHIRAPP_SELF_LINK=fhir` self"
        " has it too",
        [(OF_P4, Shows(lambda bundle: link(bundle, "self") == f"/api/{ALLERGY}", OTHERWISE)),
         (OF_P4, Shows(lambda bundle: link(bundle, "first") == f"/fhir/{OF_P4}", OTHERWISE))]),
    Row("`_query`", "query", "400", [(f"{ALLERGY}?_query=name", NOT_HERE)]),
    Row("Search result currency", "currency",
        "Pages show what was there at the first one, as it is now",
        [(f"{OF_P1}&_count=2", Shows(lambda bundle: link(bundle, "next")))]),
)  # fmt: skip

SECTIONS: Mapping[str, Sequence[Row]] = {
    "Asking": ASKING,
    "Parameters": PARAMETERS,
    "Types of parameters": KINDS,
    "Prefixes and modifiers": MODIFIERS,
    "Combining": COMBINING,
    "The answer": ANSWER,
}
