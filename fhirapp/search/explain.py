"""The answer to `_explain=true`: how the server reads a search, as values and as sentences.

Each issue has a sentence for people and an extension with the same values for programs, such as the
explorer. An explanation repeats what the client sent, codes and references too, which no other
answer does. Nothing in it comes from the data, and none of it is logged (decisions §4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fhirapp import urls
from fhirapp.fhir.outcome import issue
from fhirapp.fhir.words import worded
from fhirapp.search.page import BY_SCORE
from fhirapp.search.parameter import Context, Parameter, Parameters
from fhirapp.search.query import HAS, REVINCLUDE, Controls, Include, Query
from fhirapp.search.values import parse_boolean, repr_value
from fhirapp.search.words import Words

SPEC = "http://hl7.org/fhir/R4/search.html"
# Parameters and modifiers with a section of their own; others are in the section of their kind.
_SECTIONS = {"_text": "text", "_content": "content", "missing": "missing"}

Issue = dict[str, Any]

# The topics of an explanation: each issue is about one.
PARAMETER, TOKEN, STATEMENT = "parameter", "token", "statement"
# The FHIR type of each part of the extension; of the others string.
_TYPES = {
    "topic": "Code",
    "kind": "Code",
    "firstOf": "Boolean",
    "prefix": "Code",
    "low": "DateTime",
    "high": "DateTime",
    "link": "Uri",
}


class SoughtValue(NamedTuple):
    """What one value of a parameter looks for: a phrase, and of a date its prefix and interval.

    The interval is [low, high) in UTC; both are empty if the value is no date, or one instant.
    """

    text: str
    prefix: str = ""
    low: str = ""
    high: str = ""


@dataclass(frozen=True)
class ParameterReading:
    """How a parameter is read: the elements it searches, and the values of each repetition."""

    name: str
    modifier: str
    # token, date, reference
    kind: str
    # Element paths; the first that has a value counts alone if is_first_of.
    paths: Sequence[str]
    is_first_of: bool
    # Where it looks, for a parameter without paths.
    doc: str
    repetitions: Sequence[Sequence[SoughtValue]]
    links: Sequence[str]

    @property
    def place(self) -> str:
        if not self.paths:
            return self.doc[:1].lower() + self.doc[1:]
        return (worded(", or else ") if self.is_first_of else worded(" and ")).join(self.paths)

    def sought(self, phrase: Callable[[SoughtValue], str] = lambda value: value.text) -> str:
        """Return the phrase after "matches what": refers to 'Patient/p1'."""
        between = worded(" and ") if self.modifier == "not" else worded(" or ")
        return worded(", and also ").join(
            between.join(phrase(value) for value in repetition) for repetition in self.repetitions
        )

    def issue(self) -> Issue:
        modified = f" with the modifier :{self.modifier}" if self.modifier else ""
        sentence = (
            f"{self.name}: a {self.kind} parameter{modified} that searches {self.place}"
            f" and matches what {self.sought()}."
        )
        parts = [
            _part("name", self.name),
            *([_part("modifier", self.modifier)] if self.modifier else ()),
            _part("kind", self.kind),
            *(_part("path", path) for path in self.paths),
            _part("firstOf", self.is_first_of) if self.paths else _part("doc", self.doc),
            *(_nested("repetition", map(_value_part, values)) for values in self.repetitions),
        ]
        return explanation(PARAMETER, sentence, self.name, self.links, parts)


def explanation(
    topic: str,
    sentence: str,
    parameter: str | None = None,
    links: Sequence[str] = (),
    parts: Sequence[Issue] = (),
) -> Issue:
    """Return an informational issue with a sentence, links for further reading, and its values."""
    content = issue("information", "informational", sentence, parameter)
    if links:
        content["details"] = {"text": f"See {' and '.join(links)}"}
    values = [_part("topic", topic), *parts, *(_part("link", link) for link in links)]
    return {"extension": [_nested(extension_url(), values)]} | content


def extension_url() -> str:
    """Return the address that names the extension with the values of an explanation."""
    return f"{urls.fhir_url()}/StructureDefinition/search-explanation"


def text_part(name: str, text: str) -> Issue:
    """Return a part of the extension that is a text."""
    return _part(name, text)


def _part(name: str, value: str | bool) -> Issue:
    return {"url": name, f"value{_TYPES.get(name, 'String')}": value}


def _nested(url: str, parts: Iterator[Issue] | Sequence[Issue]) -> Issue:
    return {"url": url, "extension": [*parts]}


def _value_part(value: SoughtValue) -> Issue:
    return _nested("value", [_part(name, part) for name, part in value._asdict().items() if part])


def explain_query(parameters: Parameters, query: Query, type_context: Context) -> Iterator[Issue]:
    """Yield an issue for each applied parameter, with all its repetitions."""
    grouped: dict[str, list[str]] = {}
    for name, value in query.applied:
        grouped.setdefault(name, []).append(value)
    for name, values in grouped.items():
        chained = query.chains.get(name)
        if chained is None:
            base, _, modifier = name.partition(":")
            parameter, context, before = parameters.by_name[base], type_context, ""
        else:
            _, parameter, modifier, context, before, _ = chained
            base = before + parameter.name
        links = [f"{SPEC}#{_SECTIONS.get(parameter.name, parameter.kind)}"]
        if chained is not None:
            links.append(f"{SPEC}#{'has' if name.startswith(HAS) else 'chaining'}")
        if modifier:
            links.append(f"{SPEC}#{_SECTIONS.get(modifier, 'modifiers')}")
        if parameter.spec:
            links.append(parameter.spec)
        yield ParameterReading(
            name=base,
            modifier=modifier,
            kind=parameter.kind,
            paths=[before + path for path in parameter.paths],
            is_first_of=parameter.first_of,
            doc=parameter.doc,
            repetitions=[
                [_sought(parameter, modifier, part, context) for part in parameter.choices(value)]
                for value in dict.fromkeys(values)
            ],
            links=links,
        ).issue()
    if any(isinstance(parameters.by_name.get(name), Words) for name in grouped):
        yield explanation("words", _OF_SCANS)


_OF_SCANS = (
    "Words: those of scanned pages are searched only as far as an import machine-read them (OCR),"
    " which may be wrong; a page that was not read, or a word that was misread, is not found."
)


def _sought(parameter: Parameter, modifier: str, value: str, context: Context) -> SoughtValue:
    if modifier == "missing":
        lacks = parse_boolean(modifier, value)
        return SoughtValue(worded("has no value") if lacks else worded("has a value"))
    text = parameter.describe(modifier, value, context)
    return SoughtValue(text, *(parameter.interval(value) or ()))


def explain_answer(controls: Controls) -> Iterator[Issue]:
    """Yield an issue for each control that shapes the answer."""
    applied = {name.partition(":")[0] for name, _ in controls.applied}
    for name, sentence in (
        ("_sort", _order(controls)),
        ("_count", _page(controls)),
        ("_total", _total(controls)),
        ("_summary", _SUMMARIES.get(controls.summary, "")),
        ("_elements", _elements(controls)),
        *((include.base, _include(include)) for include in controls.includes),
    ):
        if sentence:
            topic = name.removeprefix("_")
            parameter = name if name in applied else None
            yield explanation(topic, sentence, parameter, [f"{SPEC}#{topic}"])


_SUMMARIES = {
    "true": "Summary: each resource has the elements that FHIR marks for a summary, and those that"
    " it must not be without: mandatory and modifier elements.",
    "text": "Summary: each resource has its narrative, its id and meta, and mandatory elements.",
    "data": "Summary: each resource is without its narrative.",
}
_ORIGINS = "each Provenance that has a match among its targets, if the token may see them all."


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
    if include.base == "_revinclude":
        among = "a match, or to what is included," if include.iterate else "a match"
        if (include.value, include.iterate) == (REVINCLUDE, False):
            return f"Included: {_ORIGINS}"
        return (
            f"Included: what refers to {among} as {repr_value(include.value)} says, if it is"
            " current and the token may see it."
        )
    among = "the matches, and by what is included," if include.iterate else "the matches"
    return (
        f"Included: what is referred to by {among} as {repr_value(include.value)} says,"
        " if it is here and current and the token may see it."
    )
