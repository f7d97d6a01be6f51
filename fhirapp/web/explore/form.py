"""The form of a search: a field for each parameter that the type declares; and the address of it.

A form is read from an address and written into one. What it has no field for are its extra rows:
chains, repetitions, what is unknown here. A field's value and how it is meant (a modifier, the
prefix of a date) are two controls, f.<parameter> and m.<parameter>; those of a second line have ~2
at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote

from werkzeug.datastructures import MultiDict

from fhirapp.definition import Definition, featured_types, types
from fhirapp.rest.definitions import modifiers_of
from fhirapp.rest.include import includable
from fhirapp.search.controls import ITERATE, REVINCLUDE, SUMMARIES, TOTALS
from fhirapp.search.date import PREFIXES, Date
from fhirapp.search.parameter import Parameter
from fhirapp.search.reference import Reference
from fhirapp.search.token import Token
from fhirapp.web.explore.address import Address, pair, piece, pieces_of
from fhirapp.web.texts import _

# The parameters that the form shows first, in this order.
_USUAL = (
    *("patient", "date", "clinical-status", "status", "code", "category", "type", "_content"),
    *("name", "birthdate", "gender", "identifier", "class", "criticality", "target", "_id"),
)
_MOST_USUAL = 8
# More would be no form; the last row holds what is left.
MOST_EXTRA = 40


class Choice(NamedTuple):
    """What can be chosen: how it is sent, and in words."""

    value: str
    words: str


class Entered(NamedTuple):
    """What is entered once: how it is meant, a modifier or a prefix, and the value."""

    meant: str = ""
    value: str = ""


@dataclass(frozen=True)
class Field:
    """A field: of FHIR's type kind, with how it can be meant, and what it can only be, if so."""

    name: str
    kind: str
    doc: str
    meanings: Sequence[Choice] = ()
    only: Sequence[str] = ()
    example: str = ""
    # What it suggests before anybody asks for more.
    offers: Sequence[str] = ()
    # Whether it asks for the codes that occur, as soon as somebody begins to fill it in: that reads
    # records, so not where other fields are as likely to be meant.
    asks: bool = False
    lines: Sequence[Entered] = (Entered(),)

    @property
    def is_used(self) -> bool:
        return any(line.value for line in self.lines)

    @property
    def named_lines(self) -> Sequence[tuple[str, Entered]]:
        """The lines, and how the names of their controls end: date, date~2."""
        ends = ("", *(f"~{number}" for number in range(2, len(self.lines) + 1)))
        return [(self.name + end, line) for end, line in zip(ends, self.lines, strict=True)]

    def takes(self, modifier: str, value: str) -> Entered | None:
        """Return how a value is entered here, the modifier with its colon; None if it cannot."""
        meant = {one.value for one in self.meanings}
        if modifier:
            return Entered(modifier, value) if modifier in meant else None
        if self.only and value not in self.only:
            return None
        if value[:2] in meant:
            return Entered(value[:2], value[2:]) if value[2:] else None
        return Entered("", value)

    def written(self, line: Entered) -> str:
        """Return the piece of the address that says what was entered."""
        if line.meant.startswith(":"):
            return piece(self.name + line.meant, line.value)
        return piece(self.name, line.meant + line.value)


@dataclass(frozen=True)
class Form:
    """The form of a type's search."""

    definition: Definition
    usual: Sequence[Field] = ()
    more: Sequence[Field] = ()
    results: Sequence[Field] = ()
    extra: Sequence[str] = field(default=())

    def fields(self) -> Iterator[Field]:
        yield from self.usual
        yield from self.more
        yield from self.results

    @property
    def sent(self) -> MultiDict[str, str]:
        """What a browser sends of it where nothing is changed."""
        sent = MultiDict([("type", self.definition.name)])
        for one in self.fields():
            for name, line in one.named_lines:
                sent.add(f"m.{name}", line.meant)
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
    declared = _fields(definition)
    entered: dict[str, list[Entered]] = {}
    extra = []
    for one in address.pieces if searched else ():
        found = pair(one)
        name, _colon, modifier = found[0].partition(":") if found else ("", "", "")
        place = declared.get(name)
        line = place.takes(_colon + modifier, found[1]) if place and found else None
        if place is None or line is None or len(entered.get(name, ())) >= len(place.lines):
            extra.append(one)
        else:
            entered.setdefault(name, []).append(line)
    filled = [_filled(one, entered.get(one.name, ())) for one in declared.values()]
    return _sorted(definition, filled, extra)


def write_address(sent: MultiDict[str, str]) -> Address:
    """Return the address that a form says."""
    named = sent.get("type", "")
    definition = types().get(named) or types()[type_names()[0]]
    if not definition.searchable:
        sought = sent.get("f._id", "").strip()
        return Address(f"/fhir/{definition.name}/{quote(sought, safe='', errors='replace')}")
    # Also those of the type that was chosen before: as extra rows nothing is lost.
    before = types().get(sent.get("before", ""))
    declared = {**(_fields(before) if before else {}), **_fields(definition)}
    pieces = []
    for one in declared.values():
        for name, _line in one.named_lines:
            line = Entered(sent.get(f"m.{name}", ""), sent.get(f"f.{name}", ""))
            if line.value:
                pieces.append(one.written(line))
    for row in sent.getlist("x"):
        pieces += pieces_of(row)
    return Address(f"/fhir/{definition.name}", tuple(pieces))


def _sorted(definition: Definition, fields: Sequence[Field], extra: Sequence[str]) -> Form:
    """Return a form; what the address uses stands among the usual fields."""
    controls = {one.name for one in _controls(definition)}
    own = {one.name: one for one in fields if one.name not in controls}
    named = [name for name in _USUAL if name in own][:_MOST_USUAL]
    named += [name for name, one in own.items() if one.is_used and name not in named]
    if len(extra) > MOST_EXTRA:
        extra = [*extra[: MOST_EXTRA - 1], "&".join(extra[MOST_EXTRA - 1 :])]
    return Form(
        definition,
        [own[name] for name in named],
        [one for name, one in own.items() if name not in named],
        [one for one in fields if one.name in controls],
        extra,
    )


def _filled(empty: Field, entered: Sequence[Entered]) -> Field:
    """Return a field with what was entered; lines that are left stay as they are."""
    lines = [*entered, *empty.lines[len(entered) :]]
    return Field(**{**empty.__dict__, "lines": lines})


def _fields(definition: Definition) -> Mapping[str, Field]:
    if not definition.searchable:
        doc = _("Its id: resources of this type are read one by one, not searched")
        return {"_id": Field("_id", "id", doc)}
    declared = [_field(definition, one) for one in definition.params]
    return {one.name: one for one in (*declared, *_controls(definition))}


def _field(definition: Definition, parameter: Parameter) -> Field:
    if isinstance(parameter, Date):
        lines: Sequence[Entered] = (Entered("ge"), Entered("le"))
    else:
        lines = (Entered(),)
    return Field(
        parameter.name,
        parameter.kind,
        parameter.doc,
        list(_meanings(parameter)),
        example=_EXAMPLES.get(parameter.kind, ""),
        offers=listed_codes(definition, parameter),
        asks=_asks(definition, parameter),
        lines=lines,
    )


_EXAMPLES = {"date": "2024-03", "uri": "http://…", "composite": "code$Type/id"}


def _meanings(parameter: Parameter) -> Iterator[Choice]:
    """Yield how a value can be meant: plainly, with a date's prefix, with a modifier."""
    if isinstance(parameter, Date):
        words = {
            "": _("on"),
            "ge": _("from"),
            "le": _("until"),
            "gt": _("after"),
            "lt": _("before"),
            "sa": _("begins after"),
            "eb": _("ends before"),
            "ap": _("about"),
            "eq": _("on (eq)"),
            "ne": _("not on"),
        }
        for prefix in sorted(("", *PREFIXES), key=[*words].index):
            yield Choice(prefix, words[prefix])
    else:
        yield Choice("", _("is"))
    words = {
        "missing": _("is missing: true, false"),
        "exact": _("exactly"),
        "contains": _("holds"),
        "not": _("is not"),
        "text": _("in words"),
        "above": _("is, or above"),
        "below": _("is, or below"),
        "identifier": _("has the identifier"),
        "of-type": _("identifier of a type"),
    }
    for modifier in modifiers_of(parameter):
        yield Choice(f":{modifier}", words.get(modifier, modifier))
    if isinstance(parameter, Reference) and len(parameter.targets) > 1:
        for target in parameter.targets:
            yield Choice(f":{target}", _("is the %(target)s", target=target))


def listed_codes(definition: Definition, parameter: Parameter) -> list[str]:
    """Return the codes that a parameter's own sentence lists: low, high or unable-to-assess."""
    if parameter.searches:
        searched = [definition.params.by_name[name] for name in parameter.searches]
        return [code for one in searched for code in listed_codes(definition, one)]
    words = parameter.doc.removesuffix(" …").replace(" or ", ", ").split(", ")
    is_list = len(words) > 1 and all(
        one.replace("-", "").islower() and " " not in one for one in words
    )
    return words if parameter.kind == "token" and is_list else []


def _asks(definition: Definition, parameter: Parameter) -> bool:
    """Say whether codes or people that occur help; whose record it is must be known before."""
    if isinstance(parameter, Reference):
        return not parameter.compartment
    is_code = isinstance(parameter, Token) and not parameter.of_identifier
    return is_code and not listed_codes(definition, parameter)


def _controls(definition: Definition) -> Sequence[Field]:
    """Return the fields of what shapes the answer."""
    if not definition.searchable:
        return ()
    sorts = [one.name for one in definition.params if one.sortable]
    iterated = (Choice("", _("of the matches")), Choice(f":{ITERATE}", _("of these too")))
    return (
        Field("_count", "number", _("How many results stand on a page"), example="100"),
        Field("_sort", "names", _("What results are sorted by; a minus for the other way round"),
              offers=[sign + one for one in sorts for sign in ("", "-")]),
        Field("_total", "code", _("How the total is found"), only=TOTALS),
        Field("_summary", "code", _("Only parts of each resource"), only=SUMMARIES),
        Field("_elements", "names", _("Only these elements, separated by commas"),
              offers=[*definition.columns]),
        Field("_include", "names", _("Bring what the results refer to"), iterated,
              offers=includable(definition)),
        Field("_revinclude", "code", _("Bring where the results come from"), only=(REVINCLUDE,)),
        Field("_explain", "boolean", _("Explain how the search is read"), only=("true", "false")),
    )  # fmt: skip
