"""A picture of when notes were written: years across, a row for each kind, encounters as bands.

Dots that would lie on one another are one, with their number. Nothing here asks anything.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import chain, groupby
from typing import NamedTuple
from urllib.parse import quote, urlencode

from markupsafe import Markup

from fhirapp.features.notes.elements import day_of
from fhirapp.fhir import temporal, words
from fhirapp.web.texts import _

# Units of the picture: what is left for the names of the rows, and how it is laid out.
_WIDTH, _LABELS, _MARGIN, _ROW, _AXIS = 900, 190, 16, 30, 26
# Dots that are nearer are gathered; the number stands at most so far from the first of them, for it
# is wider than a dot.
_APART, _ASIDE = 30, 9
_MOST_ROWS = 8
_MOST_YEARS = 9
_STEPS = (1, 2, 5, 10, 20, 50, 100)
# What lies beyond is a slip of the pen, and would leave no room for the others.
_FIRST, _LAST = 1900, 2200


class Dot(NamedTuple):
    """A note: its FHIR date, as much as there is of it; code is that of its kind, or ""."""

    id: str
    date: str
    kind: str
    code: str
    is_past: bool


class EncounterSpan(NamedTuple):
    """An encounter, from a FHIR date to one; words tell what it was."""

    start: str
    end: str
    words: str


class Timeline(NamedTuple):
    """The picture, None where no note has a date for it; undated counts those not in it.

    is_cut says that there are older notes than those that were to be drawn.
    """

    picture: Markup | None
    undated: int
    drawn: int
    is_cut: bool = False


class _Scale(NamedTuple):
    """Turns days into places; first and last are years, the last not included."""

    first: int
    last: int

    def x(self, day: date) -> float:
        begin = date(self.first, 1, 1).toordinal()
        length = date(self.last, 1, 1).toordinal() - begin
        room = _WIDTH - _LABELS - 2 * _MARGIN
        share = min(max((day.toordinal() - begin) / length, 0), 1)
        return round(_LABELS + _MARGIN + room * share, 1)


def timeline(
    patient_id: str, dots: Sequence[Dot], encounters: Sequence[EncounterSpan] = ()
) -> Timeline:
    """Return the picture of a patient's notes."""
    dated = sorted(
        ((day, dot) for dot in dots if (day := _day(dot.date)) is not None),
        key=lambda pair: (pair[0], pair[1].id),
    )
    undated = len(dots) - len(dated)
    if not dated:
        return Timeline(None, undated, 0)
    scale = _Scale(dated[0][0].year, dated[-1][0].year + 1)
    rows = _rows(dot for _day_of_it, dot in dated)
    height = _ROW * len(rows) + _AXIS
    background = (_bands(encounters, scale, height - _AXIS), _axis(scale, height), _labels(rows))
    drawn = Markup("").join(chain.from_iterable(background))
    links = Markup("").join(_links(patient_id, dated, rows, scale))
    picture = Markup(
        '<svg class="timeline" viewBox="0 0 {} {}" role="group" aria-label="{}">'
        '<g role="img" aria-label="{}">{}</g>{}</svg>'
    ).format(_WIDTH, height, _("Timeline of the notes"), _summary(dated, rows), drawn, links)
    return Timeline(picture, undated, len(dated))


def _summary(dated: Sequence[tuple[date, Dot]], rows: Sequence[str]) -> str:
    """Return what the picture shows, for who does not see it."""
    return _(
        "%(count)s from %(first)s to %(last)s, by type: %(kinds)s. The list below "
        "includes all of them.",
        count=_("1 note") if len(dated) == 1 else _("%(count)s notes", count=len(dated)),
        first=dated[0][0].year,
        last=dated[-1][0].year,
        kinds=", ".join(rows),
    )


def _day(text: str) -> date | None:
    """Return the first day of a FHIR date; None where there is none, or one beyond reason."""
    try:
        parts = [*temporal.day_of(text).split("-"), "1", "1"][:3]
        found = date(*(int(part) for part in parts))
    except ValueError:
        return None
    return found if _FIRST <= found.year <= _LAST else None


def _rows(dots: Iterable[Dot]) -> list[str]:
    """Return the kinds that have a row, those with most notes first; the last may stand for all."""
    kinds = [kind for kind, _count in Counter(dot.kind for dot in dots).most_common()]
    is_cut = len(kinds) > _MOST_ROWS
    return [*kinds[: _MOST_ROWS - 1], _("other types")] if is_cut else kinds


def _bands(encounters: Iterable[EncounterSpan], scale: _Scale, height: int) -> Iterator[Markup]:
    band = Markup(
        '<rect class="visit" x="{}" y="0" width="{}" height="{}"><title>{}</title></rect>'
    )
    for encounter in encounters:
        start, end = _day(encounter.start), _day(encounter.end or encounter.start)
        if start and end and end.year >= scale.first and start.year < scale.last:
            left, right = scale.x(start), scale.x(end)
            # A stay of hours would be too thin to be seen.
            width = round(max(right - left, 4), 1)
            yield band.format(left, width, height, encounter.words)


def _axis(scale: _Scale, height: int) -> Iterator[Markup]:
    step = next((step for step in _STEPS if (scale.last - scale.first) / step <= _MOST_YEARS), 100)
    base = height - _AXIS
    yield Markup('<path class="axis" d="M{} {}H{}"/>').format(_LABELS, base + 0.5, _WIDTH)
    for year in range(scale.first, scale.last + 1, step):
        x = scale.x(date(year, 1, 1))
        yield Markup('<path class="tick" d="M{} 0V{}"/>').format(x, base + 4)
        if year < scale.last:
            yield Markup('<text class="year" x="{}" y="{}">{}</text>').format(x, height - 6, year)


def _labels(rows: Sequence[str]) -> Iterator[Markup]:
    label = Markup('<text class="kind" x="0" y="{}">{}<title>{}</title></text>')
    for place, kind in enumerate(rows):
        yield label.format(place * _ROW + _ROW / 2 + 5, words.shortened(kind, 25), kind)


def _links(
    patient_id: str, dated: Sequence[tuple[date, Dot]], rows: Sequence[str], scale: _Scale
) -> Iterator[Markup]:
    places = {kind: place for place, kind in enumerate(rows)}
    last = len(rows) - 1
    marks = sorted(
        ((places.get(dot.kind, last), scale.x(day), day, dot) for day, dot in dated),
        key=lambda mark: mark[:2],
    )
    for place, row in groupby(marks, key=lambda mark: mark[0]):
        y = place * _ROW + _ROW / 2
        for near in _clusters([mark[1:] for mark in row]):
            first, last_of_near = near[0][0], near[-1][0]
            x = round(min((first + last_of_near) / 2, first + _ASIDE), 1)
            yield _link(patient_id, near, x, y)


_Near = list[tuple[float, date, Dot]]


def _clusters(notes: _Near) -> Iterator[_Near]:
    """Yield the notes of a row, those together that would lie on one another."""
    together: _Near = []
    for note in notes:
        if together and note[0] - together[0][0] >= _APART:
            yield together
            together = []
        together.append(note)
    yield together


# The links stand in the list too: who goes by keyboard need not go through all of them twice.
_LINK = Markup(
    '<a href="{}" tabindex="-1" class="{}"><title>{}</title>'
    '<circle class="reach" cx="{}" cy="{}" r="14"/><circle cx="{}" cy="{}" r="{}"/>{}</a>'
)


def _link(patient_id: str, near: _Near, x: float, y: float) -> Markup:
    """Return the dot of a note, which leads to it, or of several, which leads to their list."""
    (_x, first, dot), (_x, last, _dot) = near[0], near[-1]
    is_past = " past" if all(other.is_past for _x, _day, other in near) else ""
    if len(near) == 1:
        title = f"{day_of(dot.date)}: {dot.kind}"
        return _LINK.format(f"/notes/{quote(dot.id)}", f"dot{is_past}", title, x, y, x, y, 6, "")
    parameters = {"patient": patient_id, "from": first.isoformat(), "to": last.isoformat()}
    if dot.code and all(other.code == dot.code for _x, _day, other in near):
        parameters["kind"] = dot.code
    days = day_of(first.isoformat())
    if first != last:
        days = _("%(first)s to %(last)s", first=days, last=day_of(last.isoformat()))
    is_one_kind = all(other.kind == dot.kind for _x, _day, other in near)
    kind = dot.kind if is_one_kind else _("several types")
    title = _("%(count)s notes, %(days)s: %(kind)s", count=len(near), days=days, kind=kind)
    count = str(len(near)) if len(near) < 1_000 else f"{len(near) // 1_000}k"
    number = Markup('<text class="count" x="{}" y="{}">{}</text>').format(x, y + 4, count)
    address = f"/notes?{urlencode(parameters, quote_via=quote)}"
    # Larger for more, as far as its row has room: 2, 8 and 64 notes differ at a glance.
    radius = round(min(8 + math.log2(len(near)), 14), 1)
    return _LINK.format(address, f"dot many{is_past}", title, x, y, x, y, radius, number)
