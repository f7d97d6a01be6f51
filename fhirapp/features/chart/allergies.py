"""A patient's allergies for the chart: what AllergyIntolerance/$summary says.

First what can kill, in words; then what does not fit together; then every entry in its section, in
the order in which they matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.features.chart.elements import category
from fhirapp.features.notes.elements import add_names
from fhirapp.fhir.words import ReactionWords, reactions_in_words, reference, shortened
from fhirapp.web.internal_client import read
from fhirapp.web.labels import word
from fhirapp.web.texts import _

VIA = "chart"
Json = Mapping[str, Any]
_STATED = ("none-known", "no-information", "not-asked")
# By the groups of the summary: titles, and whether the section is folded. What was never one, and
# what is over, names its substances in the fold's heading.
_SECTIONS = (
    (("active-severe", "active", "unconfirmed"), _("Active"), False),
    (
        ("status-not-known-severe", "status-not-known"),
        _("Unresolved: clinical status not recorded"),
        False,
    ),
    (("words-only",), _("In document text only"), False),
    (_STATED, _("Statements about allergies"), False),
    (("past",), _("Resolved or inactive"), True),
    (("refuted",), _("Refuted"), True),
    (("entered-in-error",), _("Entered in error"), True),
)
_FOLDED = frozenset(code for codes, _title, is_folded in _SECTIONS if is_folded for code in codes)
# Statements that are no allergies have no reactions.
_STATEMENTS = {
    "none-known": _("none known"),
    "no-information": _("no information"),
    "not-asked": _("not asked"),
    "words-only": _("in document text only"),
}
# Conclusions without an allergy that holds: heading, and whether "none" is what is recorded.
_ABSENCES = {
    "none-known": (_("None known"), True),
    "none-known-in-part": (_("None known for some allergens only"), False),
    "not-asked": (_("Not asked"), False),
    "no-information": (_("No information"), False),
    "none-holding": (_("None active"), False),
    "nothing-recorded": (_("Nothing recorded"), False),
    "not-visible": (_("Not visible to you"), False),
    "words-only": (_("In document text only"), False),
}
# Of those that are severe, how many are written large, and how many substances a fold names.
_MOST_SEVERE, _MOST_NAMED, _MOST_STATED = 12, 20, 3
_REACTION, _NAME = 120, 80


class LabelledDate(NamedTuple):
    """A date with what it is the date of: two that differ never look alike."""

    label: str
    text: str


class ChartRow(NamedTuple):
    """An entry in a row of the chart."""

    id: str
    substance: str
    # The display of its codes, if that differs.
    coded_as: str
    # The classes of the substance, each with what else is in it.
    same_class: str
    # For the red tag; empty where nothing is shown as severe.
    severe: str
    # Whether it is an allergy or an intolerance, and of what category.
    kind: str
    reaction: str
    comments: Sequence[str]
    status: str
    dates: Sequence[LabelledDate]
    is_past: bool


class StatementSource(NamedTuple):
    """Where a statement comes from: its dates, and who recorded or reported it, "" if nobody."""

    dates: Sequence[LabelledDate]
    label: str
    who: str


class Severe(NamedTuple):
    """What can kill: as the banner says it, with where it comes from and what is noted beside."""

    id: str
    # Severe, or High criticality where that alone is recorded.
    word: str
    substance: str
    # The display of its codes, if that differs.
    coded_as: str
    reaction: str
    status: str
    source: StatementSource
    comments: Sequence[str]


class LookTwice(NamedTuple):
    """What does not fit together: a sentence, and where to look: addresses by what they show."""

    text: str
    places: Mapping[str, str]


class ChartSection(NamedTuple):
    """The entries of one standing; names are the substances of a folded one, in a sentence."""

    title: str
    lines: Sequence[ChartRow]
    is_folded: bool
    names: str


class AbsenceStatement(NamedTuple):
    """An entry that is no allergy: its words, where it comes from, and what is noted beside."""

    words: str
    source: StatementSource
    comments: Sequence[str]


class Absence(NamedTuple):
    """Why no allergy is shown; is_known if the record states that there is none.

    statements are the entries that state it.
    """

    title: str
    is_known: bool
    statements: Sequence[AbsenceStatement]


class Allergies(NamedTuple):
    """The allergies section of the chart; absence is None if any may be current.

    also names the other possible ones in the banner.
    """

    severe: Sequence[Severe]
    more_severe: int
    also: str
    conclusion: str
    absence: Absence | None
    look_twice: Sequence[LookTwice]
    sections: Sequence[ChartSection]


def allergies_of(patient_id: str, token: OwnToken) -> Allergies:
    """Return what is recorded, as far as the token sees it. Raises PageError."""
    query = urlencode({"patient": patient_id})
    answer = read(f"/fhir/AllergyIntolerance/$summary?{query}", token, via=VIA)
    entries = {
        _text(group, "code"): list(_parts(group, "entry")) for group in _parts(answer, "group")
    }
    lines = {code: [_line(entry, code) for entry in members] for code, members in entries.items()}
    (conclusion,) = _parts(answer, "conclusion")
    absence = _ABSENCES.get(_text(conclusion, "code"))
    names = {line.id: line.substance for group_lines in lines.values() for line in group_lines}
    holding = [code for code in entries if code not in _FOLDED]
    severe = [entry for code in holding for entry in entries[code] if _flag(entry, "severe")]
    shown = severe[:_MOST_SEVERE]
    unstated = [code for code in holding if code not in _STATED]
    others = [line for code in unstated for line in lines[code] if not line.severe]
    stated = (
        [] if absence is None else [entry for code in _STATED for entry in entries.get(code, ())]
    )
    # The names of the recorders: each may be a request.
    add_names([_author(entry)[1] for entry in (*shown, *stated)], token, VIA)
    return Allergies(
        severe=[_severe_one(entry) for entry in shown],
        more_severe=len(severe) - len(shown),
        also=_names(others) if severe else "",
        conclusion=_text(conclusion, "text"),
        absence=Absence(_(absence[0]), absence[1], _statements(stated)) if absence else None,
        look_twice=[_look_twice(part, patient_id, names) for part in _parts(answer, "finding")],
        sections=list(_sections(lines)),
    )


def _sections(lines: Mapping[str, Sequence[ChartRow]]) -> Iterator[ChartSection]:
    known = {code for codes, _title, _is_folded in _SECTIONS for code in codes}
    # A group that this page does not know is shown with those that hold.
    unknown = [code for code in lines if code not in known]
    for codes, title, is_folded in _SECTIONS:
        wanted = [*codes, *unknown] if codes == _SECTIONS[0][0] else codes
        members = [line for code in wanted for line in lines.get(code, ())]
        if members:
            yield ChartSection(_(title), members, is_folded, _names(members) if is_folded else "")


def _names(lines: Sequence[ChartRow]) -> str:
    names = [_name_of(line) for line in lines[:_MOST_NAMED]]
    if more := len(lines) - len(names):
        names.append(_("%(count)s more", count=more))
    return ", ".join(names)


def _name_of(line: ChartRow) -> str:
    """Return the name of an entry in a list; where its codes have another name, that too."""
    name = shortened(line.substance, _NAME)
    if not line.coded_as:
        return name
    return f"{name} ({_('coded as')} {shortened(line.coded_as, _NAME)})"


def _line(entry: Json, group: str) -> ChartRow:
    kind = _text(entry, "kind")
    kinds = [_text(entry, "type"), category(_values(entry, "category"))]
    return ChartRow(
        id=_source(entry),
        substance=_substance(entry),
        coded_as=_coded_as(entry),
        same_class="; ".join(_values(entry, "sameClass")),
        severe=_text(entry, "whySevere"),
        kind=", ".join(word(term) for term in kinds if term and kind == "allergy"),
        reaction=_(_STATEMENTS[kind]) if kind in _STATEMENTS else _reactions(entry),
        comments=_values(entry, "comment"),
        status=_status(entry),
        dates=_dates(entry),
        is_past=group in _FOLDED,
    )


def _substance(entry: Json) -> str:
    substance = _text(entry, "substance") or _("Substance not recorded")
    # As HL7 writes it for machines.
    return _("No information") if substance == "NoInformation" else substance


def _coded_as(entry: Json) -> str:
    return ", ".join(_values(entry, "codedAs"))


def _severe_one(entry: Json) -> Severe:
    return Severe(
        id=_source(entry),
        word=_("High criticality") if _text(entry, "severeBy") == "criticality" else _("Severe"),
        substance=shortened(_substance(entry), _REACTION),
        coded_as=_coded_as(entry),
        reaction=_text(entry, "worstReaction") or _("reaction not recorded"),
        status=_status(entry),
        source=_source_of(entry),
        comments=_values(entry, "comment"),
    )


def _statements(entries: Sequence[Json]) -> list[AbsenceStatement]:
    return [
        AbsenceStatement(_substance(entry), _source_of(entry), _values(entry, "comment"))
        for entry in entries[:_MOST_STATED]
    ]


def _source_of(entry: Json) -> StatementSource:
    label, author = _author(entry)
    return StatementSource(_dates(entry), label, reference(author))


def _author(entry: Json) -> tuple[str, dict[str, Any]]:
    """Return who recorded an entry, or else who reported it, with the word for that."""
    for recorder in _values(entry, "recorder"):
        return _("recorded by"), recorder
    return _("reported by"), next(iter(_values(entry, "asserter")), {})


def _reactions(entry: Json) -> str:
    names = ("text", "severity", "onset", "description", "severityText")
    return reactions_in_words(
        ReactionWords(*(_text(reaction, name) for name in names))
        for reaction in _parts(entry, "reaction")
    )


def _status(entry: Json) -> str:
    statuses = [_text(entry, "clinicalStatus"), _text(entry, "verificationStatus")]
    return ", ".join([*(word(status) for status in statuses if status), *_values(entry, "note")])


def _dates(entry: Json) -> list[LabelledDate]:
    dates = [
        LabelledDate(_("onset"), _text(entry, "onset")),
        LabelledDate(_("last occurred"), _text(entry, "lastOccurrence")),
        LabelledDate(_("recorded"), _text(entry, "recorded")),
    ]
    return [dated for dated in dates if dated.text] or [LabelledDate(_("onset"), _("not recorded"))]


def _look_twice(finding: Json, patient_id: str, names: Mapping[str, str]) -> LookTwice:
    places = {}
    for source in _values(finding, "source"):
        kind, _slash, row_id = str(source["reference"]).partition("/")
        if kind == "Patient":
            places[f"/patients/{row_id}"] = _("the other record")
        else:
            places[f"/patients/{patient_id}/allergies/{row_id}"] = names.get(row_id, row_id)
    return LookTwice(_text(finding, "text"), dict(list(places.items())[:10]))


def _parts(node: Json, name: str) -> Iterator[Json]:
    """Yield the parameters, or parts, of a name."""
    for part in node.get("parameter", node.get("part", ())):
        if part["name"] == name:
            yield part


def _values(node: Json, name: str) -> list[Any]:
    """Return the values of the parts of a name."""
    return [
        value
        for part in _parts(node, name)
        for key, value in part.items()
        if key.startswith("value")
    ]


def _text(node: Json, name: str) -> str:
    return str(next(iter(_values(node, name)), ""))


def _flag(node: Json, name: str) -> bool:
    return True in _values(node, name)


def _source(entry: Json) -> str:
    (source,) = _values(entry, "source")
    return str(source["reference"]).partition("/")[2]
