"""Gather the texts of the pages that are marked, for translators: `python -m tests.texts`.

Each stands in messages.pot once, with the files that it stands in. No dates and no line numbers:
the file changes when a text does. A translation is a copy of it that is filled in and compiled:

    msginit --locale=de --input=fhirapp/web/texts/messages.pot --output=de.po
    msgfmt --output=de.mo de.po

FHIRAPP_TRANSLATION=de.mo shows the pages with it; what it leaves out stays English.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import write_po

from tests.support.shell import ROOT

REFUSALS = ("RefusedCommand", "WeakPassword", "PrivateKey", "Marked")
TEMPLATE = ROOT / "fhirapp" / "web" / "texts" / "messages.pot"
_PACKAGE = ROOT / "fhirapp"
_WEB = _PACKAGE / "web"
# Why something is refused is said there.
AUTH = _PACKAGE / "auth"
# What pages call a type and its elements is declared there.
_RESOURCES = _PACKAGE / "resources"
# Why a schedule is refused is said there.
_SCHEDULES = (_PACKAGE / "jobs", _PACKAGE / "ops")
_FOLDERS = (_WEB, AUTH, _RESOURCES, *_SCHEDULES)
_KEYWORDS = {
    "_": None,
    "gettext": None,
    "ngettext": (1, 2),
    **dict.fromkeys(REFUSALS),
}
_METHODS = [("**.py", "python"), ("**.html", "jinja2.ext.babel_extract")]
_OPTIONS = {"**.html": {"newstyle_gettext": "true", "silent": "false"}}
# Of each run, not of the texts.
_PASSING = re.compile(
    rb'^"(POT-Creation-Date|PO-Revision-Date|Generated-By|Last-Translator).*\n', re.M
)
_HEADER = "# The texts of fhirapp's pages, gathered by `python -m tests.support.texts`."


def gathered() -> bytes:
    """Return the catalogue of all texts that are marked, without translations."""
    catalog = Catalog(project="fhirapp", header_comment=_HEADER, fuzzy=False)
    for folder in _FOLDERS:
        for path, _, message, comments, context in extract_from_dir(
            folder, method_map=_METHODS, options_map=_OPTIONS, keywords=_KEYWORDS
        ):
            place = (folder / path).relative_to(_PACKAGE).as_posix()
            catalog.add(message, None, [(place, 0)], auto_comments=comments, context=context)
    written = io.BytesIO()
    write_po(written, catalog, width=100, include_lineno=False, sort_output=True)
    return _PASSING.sub(b"", written.getvalue())


def templates() -> Iterator[Path]:
    """Give every template of the pages."""
    return _WEB.rglob("templates/**/*.html")


if __name__ == "__main__":
    TEMPLATE.write_bytes(gathered())
    print(f"{TEMPLATE.relative_to(ROOT)} is written.")  # noqa: T201
