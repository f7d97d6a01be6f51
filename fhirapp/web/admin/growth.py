"""Records of each type and new versions by month, as numbers and as SVG plots by pygal.

Figures that take long to compute are cached in each process, for longer the longer they took.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from flask import Response, current_app
from werkzeug.exceptions import NotFound

from fhirapp.db import reader
from fhirapp.definition import types
from fhirapp.fhir.temporal import begin_of, instant, now
from fhirapp.web.admin import storage
from fhirapp.web.pages import blueprint_of, for_administrators
from fhirapp.web.texts import _, numeral
from fhirapp.web.times import SHORT_MONTHS, partial

MONTHS = 24
# A count reads the index that it counts: ten million rows a second, where they are in memory. It
# is asked between counts, so one month of one type may take longer.
BUDGET_SECONDS = 3.0


class OfType(NamedTuple):
    """Records of a type that there are now; None where counting took too long."""

    name: str
    records: int | None
    # The type whose records these are made from; empty for one that stands for itself.
    source: str


class Month(NamedTuple):
    """A month, and how many versions of records came in it."""

    first: date
    versions: int


class Growth(NamedTuple):
    """New versions by month, the last one this month's, and when they were counted.

    Earlier months were not reached in time where is_whole is False; before is how many are older
    than the months, None where that was not counted.
    """

    months: Sequence[Month]
    before: int | None
    is_whole: bool
    at: int


def numbers(budget: float = BUDGET_SECONDS) -> Sequence[OfType]:
    """Count the records of each type."""
    end = time.monotonic() + budget
    found = []
    for name, one in types().items():
        count = None
        if time.monotonic() < end:
            rows = reader().all(f"SELECT count(*) FROM {one.sql_table} WHERE is_current")
            count = int(rows[0][0])
        found.append(OfType(name, count, one.view.source if one.view else ""))
    return found


def growth(today: date | None = None, budget: float = BUDGET_SECONDS) -> Growth:
    """Count new versions by month, this one first, as far back as time allows."""
    end = time.monotonic() + budget
    months: list[Month] = []
    for first, following in _months(today or now().date()):
        if time.monotonic() >= end:
            break
        months.insert(0, Month(first, _count(_begin(first), _begin(following))))
    is_whole = len(months) == MONTHS
    before = None
    if is_whole and time.monotonic() < end:
        before = _count("", _begin(months[0].first))
    return Growth(months, before, is_whole, int(time.time()))


def _months(today: date) -> Iterator[tuple[date, date]]:
    """Yield the first days of a month and of the one after it, going back from today's."""
    first = today.replace(day=1)
    for _number in range(MONTHS):
        following = date(first.year + first.month // 12, first.month % 12 + 1, 1)
        yield first, following
        first = date(first.year - (first.month == 1), (first.month - 2) % 12 + 1, 1)


def _begin(day: date) -> str:
    return instant(begin_of(day))


def _count(since: str, until: str) -> int:
    """Return how many versions of records came since one instant and before another."""
    return sum(
        int(row[0])
        for one in types().values()
        if not one.view
        for row in reader().all(
            f"SELECT count(*) FROM {one.sql_table} WHERE last_updated >= ? AND last_updated < ?",
            (since, until),
        )
    )


_EXTENSION = "fhirapp.figures"
# What is made faster is made anew each time.
_FAST_SECONDS = 0.25
# Of a process's time, at most one part in so many goes to the making; kept an hour at the most.
_PART = 200
_KEPT_SECONDS = 3600
Figure = TypeVar("Figure")


class _Kept:
    """One figure, and until when it serves."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.figure: Any = None
        self.until = 0.0


def kept(name: str, make: Callable[[], Figure]) -> Figure:
    """Return a figure, made now unless the one that was made before still serves."""
    known: dict[str, _Kept] = current_app.extensions.setdefault(_EXTENSION, {})
    one = known.setdefault(name, _Kept())
    # Whoever comes meanwhile waits for it, and does not make it too.
    with one.lock:
        began = time.monotonic()
        if began >= one.until:
            one.figure = make()
            took = time.monotonic() - began
            one.until = began + took
            if took > _FAST_SECONDS:
                one.until += min(_KEPT_SECONDS, took * _PART)
            else:
                one.until = 0.0
        figure: Figure = one.figure
        return figure


blueprint = blueprint_of("admin_plots", __name__)
# Of a viewBox: on a phone it is shown smaller, and can be read still.
_WIDTH, _HEIGHT = 420, 260
# Of versions: up to so many each has its own line.
_FEW = 6
STYLE = """
svg { --ink: #1d2329; --soft: #5c6670; --line: #e4dfd8; --accent: #0b6b67; }
@media (prefers-color-scheme: dark) {
  svg { --ink: #e8eaec; --soft: #9aa5af; --line: #2f363d; --accent: #5cc8c1; }
}
text { font: 14px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif; fill: var(--soft); }
.background { fill: none; }
.line, .guide.line { fill: none; stroke: var(--line); }
.axis.x text { text-anchor: middle; } .axis.y text { text-anchor: end; }
.vertical .axis.x .guide.line, .horizontal .axis.y .guide.line { stroke: none; }
.dateline-graph .axis.x .guide.line { stroke: none; }
.rect { fill: var(--accent); }
.series .line { stroke: var(--accent); stroke-width: 2.5; }
"""
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
# Opened as a page of its own it has its own style, and nothing else.
_POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; frame-ancestors 'none'"


@blueprint.get("/admin/plots/<name>.svg")
@for_administrators
def plot(name: str) -> Response:
    """Draw a plot."""
    if name not in PLOTS:
        raise NotFound
    response = Response(PLOTS[name](), mimetype="image/svg+xml")
    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cache-Control"] = "no-store"
    return response


def _storage() -> bytes:
    # From below upwards.
    groups = [*kept("storage", storage.storage).groups.items()][::-1]
    # Sizes below are long words.
    chart = _chart("HorizontalBar", storage.sized, max_scale=4)
    chart.x_labels = [_(name) for name, _size in groups]
    chart.add("", [size for _name, size in groups])
    return _drawn(chart, _("Database size by purpose"))


def _versions() -> bytes:
    months = kept("growth", growth).months
    chart = _chart("Bar", numeral, show_minor_x_labels=False)
    chart.x_labels = [_month(one.first) for one in months]
    # This month, and each half a year before it.
    chart.x_labels_major = [_month(one.first) for one in [*reversed(months)][::6]]
    most = max((one.versions for one in months), default=0)
    if most < _FEW:
        # Else halves stand on the axis, and are written as the same whole number twice.
        chart.y_labels = range(most + 1)
    chart.add("", [one.versions for one in months])
    return _drawn(chart, _("New versions of records by month"))


def _disk() -> bytes:
    noted = storage.days()
    chart = _chart("DateLine", storage.sized, x_value_formatter=_day)
    # More have no room beside one another.
    chart.x_labels = [noted[0].day, noted[-1].day] if noted else []
    chart.add("", [(one.day, one.total) for one in noted])
    return _drawn(chart, _("Database size by day"))


PLOTS: dict[str, Callable[[], bytes]] = {
    "storage": _storage,
    "versions": _versions,
    "disk": _disk,
}


def _month(first: date) -> str:
    return partial(first.isoformat()[:7], SHORT_MONTHS)


def _day(day: date) -> str:
    return partial(day.isoformat(), SHORT_MONTHS)


def _chart(kind: str, formatted: Callable[[Any], str], **options: Any) -> Any:
    """Return a plot of pygal's to be filled; formatted writes its values."""
    # Imported here: it takes a tenth of a second and 8 MB, and most processes draw nothing.
    import pygal

    # Its way to find maps, which nothing here has, makes every later import warn in Python 3.11.
    sys.meta_path[:] = [
        one for one in sys.meta_path if not isinstance(one, pygal.PluginImportFixer)
    ]
    return getattr(pygal, kind)(
        width=_WIDTH,
        height=_HEIGHT,
        margin=8,
        # For half of the last label below.
        margin_right=44,
        js=[],
        css=[],
        show_legend=False,
        show_dots=False,
        include_x_axis=True,
        truncate_label=-1,
        no_data_text=_("Nothing yet"),
        value_formatter=formatted,
        style=pygal.style.Style(label_font_size=14, major_label_font_size=14),
        **{"max_scale": 6, **options},
    )


def _drawn(chart: Any, title: str) -> bytes:
    chart.add_xml_filter(lambda root: _bare(root, title))
    drawn: bytes = chart.render()
    return drawn


def _bare(root: Any, title: str) -> Any:
    """Return a plot with our style, without pygal's own, its script and what that would show."""
    (defs,) = [one for one in root if one.tag == "defs"]
    for one in list(defs):
        defs.remove(one)
    style = defs.makeelement("style", {})
    style.text = STYLE
    defs.append(style)
    for parent in list(root.iter()):
        for one in list(parent):
            classes = one.get("class") or ""
            if one.tag == "desc" or "overlay" in classes or not isinstance(one.tag, str):
                parent.remove(one)
    for one in root.iter("title"):
        if one.text == "Pygal":
            one.text = title
    root.set("role", "img")
    del root.attrib["id"]
    return root
