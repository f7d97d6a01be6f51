"""How a search was read, for people: the answer to `_explain=true`.

An explanation repeats to the client what the client itself sent, codes and references too, which no
other answer does; nothing in it comes from the data. decisions §4: nor does it go to a log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fhirapp.fhir.outcome import issue
from fhirapp.search.controls import BY_SCORE, Controls, Include
from fhirapp.search.parameter import Context, Parameter, Parameters
from fhirapp.search.query import Query
from fhirapp.search.values import parse_boolean, repr_value

SPEC = "http://hl7.org/fhir/R4/search.html"
# Parameters and modifiers that have a section of their own; others have that of their kind.
_SECTIONS = {"_text": "text", "_content": "content", "missing": "missing"}

Issue = dict[str, Any]


def explained(sentence: str, parameter: str | None = None, *links: str) -> Issue:
    """Return an issue that informs; links say where more is to be read."""
    content = issue("information", "informational", sentence, parameter)
    if links:
        content["details"] = {"text": f"See {' and '.join(links)}"}
    return content


def explain_query(parameters: Parameters, query: Query, context: Context) -> Iterator[Issue]:
    """Yield an issue for each parameter that was applied, all its repetitions together."""
    grouped: dict[str, list[str]] = {}
    for name, value in query.applied:
        grouped.setdefault(name, []).append(value)
    for name, values in grouped.items():
        base, _, modifier = name.partition(":")
        parameter = parameters.by_name[base]
        sought = ", and also ".join(
            _one_repetition(parameter, modifier, value, context) for value in dict.fromkeys(values)
        )
        modified = f" with the modifier :{modifier}" if modifier else ""
        sentence = (
            f"{base}: a {parameter.kind} parameter{modified} that looks at {_place(parameter)}"
            f" and finds what {sought}."
        )
        links = [f"{SPEC}#{_SECTIONS.get(base, parameter.kind)}"]
        if modifier:
            links.append(f"{SPEC}#{_SECTIONS.get(modifier, 'modifiers')}")
        if parameter.spec:
            links.append(parameter.spec)
        yield explained(sentence, base, *links)


def _one_repetition(parameter: Parameter, modifier: str, value: str, context: Context) -> str:
    """Return what a value looks for, its parts between commas joined."""
    parts = parameter.choices(value)
    if modifier == "missing":
        sought = [f"has {'no' if parse_boolean(modifier, part) else 'a'} value" for part in parts]
    else:
        sought = [parameter.describe(modifier, part, context) for part in parts]
    return (" and " if modifier == "not" else " or ").join(sought)


def _place(parameter: Parameter) -> str:
    if not parameter.paths:
        return parameter.doc[0].lower() + parameter.doc[1:]
    return (", or else at " if parameter.first_of else " and ").join(parameter.paths)


def explain_answer(controls: Controls) -> Iterator[Issue]:
    """Yield an issue for each way in which the answer was shaped."""
    given = {name.partition(":")[0] for name, _ in controls.applied}
    for name, sentence in (
        ("_sort", _order(controls)),
        ("_count", _page(controls)),
        ("_total", _total(controls)),
        ("_summary", _SUMMARIES.get(controls.summary, "")),
        ("_elements", _elements(controls)),
        *(("_include", _include(one)) for one in controls.includes),
        ("_revinclude", _ORIGINS if controls.revinclude else ""),
    ):
        if sentence:
            parameter = name if name in given else None
            yield explained(sentence, parameter, f"{SPEC}#{name.removeprefix('_')}")


_SUMMARIES = {
    "true": "Summary: each resource has the elements that FHIR marks for a summary, and those that"
    " it must not be without: mandatory and modifier elements.",
    "text": "Summary: each resource has its narrative, its id and meta, and mandatory elements.",
    "data": "Summary: each resource is without its narrative.",
}
_ORIGINS = (
    "Included: each Provenance that has a match among its targets, if the token may see them all."
)


def _order(controls: Controls) -> str:
    if controls.only_total:
        return ""
    if not controls.sort:
        return "Order: what changed last comes first; of equals, the id decides."
    if controls.sort == BY_SCORE:
        return "Order: the best match for the words comes first; there is one page."
    keys = ", then by ".join(
        f"{name.removeprefix('-')} {'downwards' if name.startswith('-') else 'upwards'}"
        for name in controls.sort.split(",")
    )
    return (
        f"Order: by {keys}; of several values the one that comes first counts, what has none comes"
        " last, and of equals the id decides."
    )


def _page(controls: Controls) -> str:
    if controls.only_total:
        return "Page: none, for the total alone was asked for."
    if controls.count is None:
        return "Page: one, with everything that _id lists."
    if controls.cursor is None:
        return f"Page: the first, with up to {controls.count} matches."
    return (
        f"Page: a later one, with up to {controls.count} matches; it has what was there at the"
        " first page, as it is now."
    )


def _total(controls: Controls) -> str:
    if controls.total == "none" and not controls.only_total:
        return "Total: left out, for _total=none was asked for."
    return (
        "Total: counts the matches of all pages that the token may see, exactly; what is included"
        " does not count."
    )


def _elements(controls: Controls) -> str:
    if not controls.elements:
        return ""
    return (
        "Elements: each match has those that were listed and those that it must not be without:"
        " mandatory and modifier elements. What is included is whole."
    )


def _include(include: Include) -> str:
    among = "the matches, and by what is included," if include.iterate else "the matches"
    return (
        f"Included: what is referred to by {among} as {repr_value(include.value)} says,"
        " if it is here and current and the token may see it."
    )
