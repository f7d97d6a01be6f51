"""The plots of the overview, as SVG: drawn by pygal, in the pages' colours, without scripts.

An image sees neither the page's style nor its variables, but whether the person wants light or
dark: so the palette of static/style.css stands here once more.
"""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Callable
from datetime import date
from typing import Any

from flask import Response
from werkzeug.exceptions import NotFound

from fhirapp.web.admin import growth, storage
from fhirapp.web.admin.figures import kept
from fhirapp.web.pages import blueprint_of, for_administrators
from fhirapp.web.texts import _

blueprint = blueprint_of("admin_plots", __name__)
# Of a viewBox: on a phone it is shown smaller, and can be read still.
_WIDTH, _HEIGHT = 420, 260
# Of versions: up to so many each has its own line.
_FEW = 6
_MONTHS = (
    _("Jan"),
    _("Feb"),
    _("Mar"),
    _("Apr"),
    _("May"),
    _("Jun"),
    _("Jul"),
    _("Aug"),
    _("Sep"),
    _("Oct"),
    _("Nov"),
    _("Dec"),
)
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
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cache-Control"] = "no-store"
    return response


def _storage() -> bytes:
    # From below upwards.
    groups = [*kept("storage", storage.storage).groups.items()][::-1]
    # Sizes below are long words.
    chart = _chart("HorizontalBar", storage.sized, max_scale=4)
    chart.x_labels = [name for name, _size in groups]
    chart.add("", [size for _name, size in groups])
    return _drawn(chart, _("Room that the database takes, by what it is for"))


def _versions() -> bytes:
    months = kept("growth", growth.growth).months
    chart = _chart("Bar", "{:,.0f}".format, show_minor_x_labels=False)
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
    return _drawn(chart, _("Room that the database takes, by day"))


PLOTS: dict[str, Callable[[], bytes]] = {
    "storage": _storage,
    "versions": _versions,
    "disk": _disk,
}


def _month(first: date) -> str:
    return f"{_(_MONTHS[first.month - 1])} {first.year}"


def _day(day: date) -> str:
    return f"{day.day} {_month(day)}"


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
