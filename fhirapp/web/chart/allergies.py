"""A patient's allergies for the chart: what AllergyIntolerance/$summary says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.web.chart.elements import category
from fhirapp.web.internal_client import read
from fhirapp.web.labels import word
from fhirapp.web.texts import _

VIA = "chart"
Json = Mapping[str, Any]
# Told apart from what may hold.
_APART = ("refuted", "entered-in-error")
# What is no allergy has no reactions.
_STATEMENTS = {
    "none-known": _("none known"),
    "no-information": _("no information"),
    "not-asked": _("not asked"),
    "words-only": _("in a document's words only"),
}
_GREY = ("past", *_APART)


class Line(NamedTuple):
    """An allergy in a row of the chart."""

    id: str
    substance: str
    # What its codes are called, where that differs.
    coded_as: str
    # For the red tag; empty where nothing is shown as severe.
    severe: str
    # Whether it is an allergy or an intolerance, and of what category.
    kind: str
    reaction: str
    comments: Sequence[str]
    status: str
    since: str
    # Whether that is when it began; else it is when it was recorded.
    is_onset: bool
    last: str
    is_past: bool

    @property
    def began(self) -> str:
        """Since when, where no heading of a column says what it is."""
        return _("began: %(since)s", since=self.since) if self.is_onset else self.since


class LookTwice(NamedTuple):
    """What does not fit together: a sentence, and where to look: addresses by what they show."""

    text: str
    places: Mapping[str, str]


class Allergies(NamedTuple):
    """The section: conclusion, what to look at twice, what may hold or did, what never was."""

    conclusion: str
    # Whether the conclusion is an absence: nothing that holds is listed.
    is_absence: bool
    look_twice: Sequence[LookTwice]
    lines: Sequence[Line]
    apart: Sequence[Line]


def allergies_of(patient_id: str, token: OwnToken) -> Allergies:
    """Return the section, as far as the token sees it. Raises PageError."""
    query = urlencode({"patient": patient_id})
    answer = read(f"/fhir/AllergyIntolerance/$summary?{query}", token, via=VIA)
    lines: list[Line] = []
    apart: list[Line] = []
    for group in _parts(answer, "group"):
        code = _one(group, "code")
        shown = [_line(entry, code) for entry in _parts(group, "entry")]
        (apart if code in _APART else lines).extend(shown)
    (conclusion,) = _parts(answer, "conclusion")
    names = {one.id: one.substance for one in (*lines, *apart)}
    return Allergies(
        conclusion=_one(conclusion, "text"),
        is_absence=_one(conclusion, "code") not in ("allergies", "words-only"),
        look_twice=[_look_twice(one, patient_id, names) for one in _parts(answer, "finding")],
        lines=lines,
        apart=apart,
    )


def _line(entry: Json, group: str) -> Line:
    kind = _one(entry, "kind")
    substance = _one(entry, "substance") or _("Substance not recorded")
    # As HL7 writes it for machines.
    substance = _("No information") if substance == "NoInformation" else substance
    kinds = [_one(entry, "type"), category(_all(entry, "category"))]
    last = _one(entry, "lastOccurrence")
    return Line(
        id=_source(entry),
        substance=substance,
        coded_as=", ".join(_all(entry, "codedAs")),
        severe=_severe(entry),
        kind=", ".join(word(one) for one in kinds if one and kind == "allergy"),
        reaction=_(_STATEMENTS[kind]) if kind in _STATEMENTS else _reactions(entry),
        comments=_all(entry, "comment"),
        status=_status(entry),
        since=_one(entry, "onset") or _recorded(entry),
        is_onset=bool(_one(entry, "onset")),
        last=_("last occurred %(day)s", day=last) if last else "",
        is_past=group in _GREY,
    )


def _severe(entry: Json) -> str:
    """Return why an entry is shown as severe; empty where it is not."""
    if not _is(entry, "severe"):
        return ""
    if _one(entry, "criticality") == "high":
        return _("high criticality")
    if words := _one(entry, "describedAs"):
        return _("described as “%(words)s”", words=words)
    severities = {_one(one, "severity") for one in _parts(entry, "reaction")}
    return _("severe reaction") if "severe" in severities else _("anaphylaxis")


def _reactions(entry: Json) -> str:
    found = []
    for one in _parts(entry, "reaction"):
        text = ": ".join(filter(None, (_one(one, "text"), _one(one, "description"))))
        words = _one(one, "severityText")
        severities = (_one(one, "severity"), f"“{words}”" if words else "")
        severity = ", ".join(filter(None, severities)) or _("severity not recorded")
        found.append(f"{text} ({severity})")
    return " · ".join(found) or _("reaction not recorded")


def _status(entry: Json) -> str:
    statuses = [_one(entry, "clinicalStatus"), _one(entry, "verificationStatus")]
    return ", ".join([*(word(status) for status in statuses if status), *_all(entry, "note")])


def _recorded(entry: Json) -> str:
    recorded = _one(entry, "recorded")
    if not recorded:
        return _("not known since when")
    return _("recorded %(day)s", day=recorded)


def _look_twice(finding: Json, patient_id: str, names: Mapping[str, str]) -> LookTwice:
    places = {}
    for one in _all(finding, "source"):
        kind, _slash, row_id = str(one["reference"]).partition("/")
        if kind == "Patient":
            places[f"/patients/{row_id}"] = _("the other record")
        else:
            places[f"/patients/{patient_id}/allergies/{row_id}"] = names.get(row_id, row_id)
    return LookTwice(_one(finding, "text"), dict(list(places.items())[:10]))


def _parts(held: Json, name: str) -> Iterator[Json]:
    """Yield the parameters, or parts, of a name."""
    for one in held.get("parameter", held.get("part", ())):
        if one["name"] == name:
            yield one


def _all(held: Json, name: str) -> list[Any]:
    """Return the values of the parts of a name."""
    return [
        value for one in _parts(held, name) for key, value in one.items() if key.startswith("value")
    ]


def _one(held: Json, name: str) -> str:
    return str(next(iter(_all(held, name)), ""))


def _is(held: Json, name: str) -> bool:
    return True in _all(held, name)


def _source(entry: Json) -> str:
    (source,) = _all(entry, "source")
    return str(source["reference"]).partition("/")[2]
