"""The form of a search: a field for each parameter that its type declares.

A form is read from an address and written to one. What it has no field for (chains, repetitions,
unknown parameters) is kept as extra rows. A field's value and its modifier or prefix are two
controls, f.<parameter> and m.<parameter>; those of a second line end in ~2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import quote

from werkzeug.datastructures import MultiDict

from fhirapp.definition import Definition, featured_types, types
from fhirapp.features.explore.address import Address, pair, piece, pieces_of
from fhirapp.rest.definitions import modifiers_of
from fhirapp.rest.include_parameters import includable, referring
from fhirapp.search.date import Date
from fhirapp.search.parameter import Parameter
from fhirapp.search.query import ITERATE, REVINCLUDE, SUMMARIES, TOTALS
from fhirapp.search.reference import Reference
from fhirapp.search.token import Identifier, Token
from fhirapp.web.labels import word
from fhirapp.web.texts import _

# The parameters that the form shows first, in this order.
_USUAL = (
    *("patient", "date", "clinical-status", "status", "code", "category", "type", "_content"),
    *("name", "birthdate", "gender", "identifier", "class", "criticality", "target", "_id"),
)
_MOST_USUAL = 8
# The last row holds all that is left.
MOST_EXTRA = 40
_EXAMPLES = {
    "date": "2024-03",
    "quantity": "30||min",
    "uri": "http://…",
    "composite": "code$Type/id",
}
# What the prefix of a quantity means, in the order of the form, then what that of a date does.
_COMPARISONS = {
    "": _("is"),
    "ge": _("at least"),
    "le": _("at most"),
    "gt": _("more than"),
    "lt": _("less than"),
    "ap": _("about"),
    "ne": _("is not"),
}
_PREFIXES = {
    "": _("on"),
    "ge": _("from"),
    "le": _("until"),
    "gt": _("after"),
    "lt": _("before"),
    "sa": _("starts after"),
    "eb": _("ends before"),
    "ap": _("about"),
    "eq": _("on (eq)"),
    "ne": _("not on"),
}
_MODIFIERS = {
    "missing": _("is missing (true or false)"),
    "exact": _("exactly"),
    "contains": _("contains"),
    "not": _("is not"),
    "text": _("text contains"),
    "in": _("is in the value set"),
    "not-in": _("is not in the value set"),
    "above": _("is or is above"),
    "below": _("is or is below"),
    "identifier": _("has the identifier"),
    "of-type": _("identifier of a type"),
}


class FieldOption(NamedTuple):
    """A value to choose, as it is sent, and what it means."""

    value: str
    words: str = ""


class FieldLine(NamedTuple):
    """A line of a field: its modifier with the colon, or its prefix; and the value."""

    meaning: str = ""
    value: str = ""


@dataclass(frozen=True)
class SearchField:
    """A field: of FHIR's type kind, with its possible modifiers and prefixes."""

    name: str
    kind: str
    doc: str
    meanings: Sequence[FieldOption] = ()
    # The only values to choose from; empty where a value is typed.
    only: Sequence[str] = ()
    example: str = ""
    # What it suggests at once.
    offers: Sequence[FieldOption] = ()
    # Whether focus loads the codes that occur. That reads records, so only where it helps.
    loads_codes: bool = False
    # Whether patients are suggested by what is typed. All of them would be too many.
    finds_patients: bool = False
    lines: Sequence[FieldLine] = (FieldLine(),)

    @property
    def is_used(self) -> bool:
        return any(line.value for line in self.lines)

    @property
    def named_lines(self) -> Sequence[tuple[str, FieldLine]]:
        """The lines with the names of their controls: date, date~2."""
        return [
            (f"{self.name}~{number}" if number > 1 else self.name, line)
            for number, line in enumerate(self.lines, 1)
        ]

    def line_of(self, modifier: str, value: str) -> FieldLine | None:
        """Return the line for a value and its modifier with the colon; None if it has none."""
        meanings = {choice.value for choice in self.meanings}
        if modifier:
            return FieldLine(modifier, value) if modifier in meanings else None
        if self.only and value not in self.only:
            return None
        if value[:2] in meanings:
            return FieldLine(value[:2], value[2:]) if value[2:] else None
        return FieldLine("", value)

    def written(self, line: FieldLine) -> str:
        """Return a line as a piece of the address."""
        if line.meaning.startswith(":"):
            return piece(self.name + line.meaning, line.value)
        return piece(self.name, line.meaning + line.value)


class Form(NamedTuple):
    """The form of a type's search."""

    definition: Definition
    usual: Sequence[SearchField]
    more: Sequence[SearchField]
    results: Sequence[SearchField]
    extra: Sequence[str]

    def fields(self) -> Sequence[SearchField]:
        return [*self.usual, *self.more, *self.results]

    @property
    def sent(self) -> MultiDict[str, str]:
        """What a browser sends where nothing is changed."""
        sent = MultiDict([("type", self.definition.name)])
        for field in self.fields():
            for name, line in field.named_lines:
                sent.add(f"m.{name}", line.meaning)
                sent.add(f"f.{name}", line.value)
        for row in self.extra:
            sent.add("x", row)
        return sent


def type_names() -> list[str]:
    """Return the types that are served, the featured ones first."""
    first = featured_types()
    return [*first, *sorted(types().keys() - {*first})]


def read_form(address: Address) -> Form:
    """Return the form that says what an address does; an empty one where it is no search."""
    searched = address.searched
    definition = searched or types()[address.type_name or type_names()[0]]
    fields = _fields(definition)
    lines: dict[str, list[FieldLine]] = {}
    extra: list[str] = []
    for text in address.pieces if searched else ():
        name, value = pair(text) or ("", "")
        name, colon, modifier = name.partition(":")
        # A chain may begin as a field: patient:Patient.name.
        field = None if "." in modifier else fields.get(name)
        line = field.line_of(colon + modifier, value) if field else None
        if field is None or line is None or len(lines.get(name, ())) == len(field.lines):
            extra.append(text)
        else:
            lines.setdefault(name, []).append(line)
    for name, entered in lines.items():
        rest = fields[name].lines[len(entered) :]
        fields[name] = replace(fields[name], lines=[*entered, *rest])
    if len(extra) > MOST_EXTRA:
        extra[MOST_EXTRA - 1 :] = ["&".join(extra[MOST_EXTRA - 1 :])]
    results = [field.name for field in _shaping(definition)]
    own = {name: field for name, field in fields.items() if name not in results}
    first = [name for name in _USUAL if name in own][:_MOST_USUAL]
    first += [name for name, field in own.items() if field.is_used and name not in first]
    return Form(
        definition,
        [own[name] for name in first],
        [field for name, field in own.items() if name not in first],
        [fields[name] for name in results],
        extra,
    )


def write_address(sent: MultiDict[str, str]) -> Address:
    """Return the address that a form says."""
    definition = types().get(sent.get("type", "")) or types()[type_names()[0]]
    if not definition.searchable:
        resource_id = sent.get("f._id", "").strip()
        return Address(f"/fhir/{definition.name}/{quote(resource_id, safe='', errors='replace')}")
    # Also the fields of the type that was chosen before: as extra rows nothing is lost.
    before = types().get(sent.get("before", ""))
    pieces: list[str] = []
    for field in ((_fields(before) if before else {}) | _fields(definition)).values():
        for name, _line in field.named_lines:
            line = FieldLine(sent.get(f"m.{name}", ""), sent.get(f"f.{name}", ""))
            if line.value:
                pieces.append(field.written(line))
    for row in sent.getlist("x"):
        pieces += pieces_of(row)
    return Address(f"/fhir/{definition.name}", tuple(pieces))


def _fields(definition: Definition) -> dict[str, SearchField]:
    if not definition.searchable:
        doc = _("Resource id. This type supports read, not search.")
        return {"_id": SearchField("_id", "id", doc)}
    declared = [_field(definition, parameter) for parameter in definition.params]
    return {field.name: field for field in (*declared, *_shaping(definition))}


def _field(definition: Definition, parameter: Parameter) -> SearchField:
    codes = listed_codes(definition, parameter)
    finds_patients = False
    if isinstance(parameter, Reference):
        finds_patients = parameter.compartment or parameter.targets == ("Patient",)
        loads_codes = not finds_patients
    else:
        is_code = isinstance(parameter, Token) and not isinstance(parameter, Identifier)
        loads_codes = is_code and not codes
    return SearchField(
        parameter.name,
        parameter.kind,
        parameter.doc,
        [*_meanings(parameter)],
        example=_("name or id") if finds_patients else _EXAMPLES.get(parameter.kind, ""),
        offers=[FieldOption(code, "" if word(code) == code else word(code)) for code in codes],
        loads_codes=loads_codes,
        finds_patients=finds_patients,
        lines=(FieldLine("ge"), FieldLine("le")) if parameter.kind == "date" else (FieldLine(),),
    )


def _meanings(parameter: Parameter) -> Iterator[FieldOption]:
    """Yield the prefixes of a date, or the plain meaning; then the modifiers."""
    if isinstance(parameter, Date):
        words = _PREFIXES if parameter.kind == "date" else _COMPARISONS
        for prefix, meaning in words.items():
            yield FieldOption(prefix, _(meaning))
    else:
        yield FieldOption("", _("is"))
    for modifier in modifiers_of(parameter):
        yield FieldOption(f":{modifier}", _(_MODIFIERS.get(modifier, modifier)))
    if isinstance(parameter, Reference) and len(parameter.targets) > 1:
        for target in parameter.targets:
            yield FieldOption(f":{target}", _("is the %(target)s", target=target))


def listed_codes(definition: Definition, parameter: Parameter) -> list[str]:
    """Return the codes of the required bindings of a parameter's elements."""
    bindings = definition.bindings(parameter) if isinstance(parameter, Token) else ()
    return [*dict.fromkeys(code for binding in bindings for code in binding.codes)]


def _reverse(definition: Definition, iterated: tuple[FieldOption, ...]) -> SearchField:
    if definition.provenance_alone:
        doc = _("Include provenance of the results")
        return SearchField("_revinclude", "code", doc, only=(REVINCLUDE,))
    doc = _("Include resources that refer to the results")
    offers = [*map(FieldOption, referring(definition))]
    return SearchField("_revinclude", "names", doc, iterated, offers=offers)


def _shaping(definition: Definition) -> Sequence[SearchField]:
    """Return the fields of what shapes the answer."""
    if not definition.searchable:
        return ()
    sorts = [parameter.name for parameter in definition.params if parameter.sortable]
    iterated = (
        FieldOption("", _("matches")),
        FieldOption(f":{ITERATE}", _("included resources, too")),
    )
    return (
        SearchField("_count", "number", _("Results on a page"), example="100"),
        SearchField(
            "_sort",
            "names",
            _("Sort by these parameters; a minus sorts in descending order"),
            offers=[FieldOption(sign + name) for name in sorts for sign in ("", "-")],
        ),
        SearchField("_total", "code", _("How the total is counted"), only=TOTALS),
        SearchField("_summary", "code", _("Return only part of each resource"), only=SUMMARIES),
        SearchField(
            "_elements",
            "names",
            _("Return only these elements, separated by commas"),
            offers=[*map(FieldOption, definition.columns)],
        ),
        SearchField(
            "_include",
            "names",
            _("Include resources that the results refer to"),
            iterated,
            offers=[*map(FieldOption, includable(definition))],
        ),
        _reverse(definition, iterated),
        SearchField(
            "_explain", "boolean", _("Explain how the search is read"), only=("true", "false")
        ),
    )
