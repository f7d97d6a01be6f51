"""Gather the texts of the pages that are marked: `python -m tests.support.texts`.

Each stands in messages.pot once, with the files that it stands in. No dates and no line numbers:
the file changes when a text does. The translations beside it, such as de.po, get each text that is
new, to be filled in, and lose those that are gone.
"""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

from fhirapp.auth.models import ROLES
from fhirapp.fhir.temporal import MONTHS
from fhirapp.trail.events import EVENTS
from tests.support.shell import ROOT

REFUSALS = ("RefusedCommand", "TooManyWaiting", "WeakPassword", "PrivateKey", "Marked")
TEMPLATE = ROOT / "fhirapp" / "web" / "texts" / "messages.pot"
_PACKAGE = ROOT / "fhirapp"
_WEB = _PACKAGE / "web"
# Why something is refused is said there.
AUTH = _PACKAGE / "auth"
# What pages call a type and its elements is declared there.
_RESOURCES = _PACKAGE / "resources"
# Why a schedule is refused is said there.
_SCHEDULES = (_PACKAGE / "jobs", _PACKAGE / "ops")
# What a chart says of allergies is worded there.
_OF_ALLERGIES = (_PACKAGE / "allergies", _PACKAGE / "fhir")
_FOLDERS = (_WEB, AUTH, _RESOURCES, *_SCHEDULES, *_OF_ALLERGIES)
# What these say is translated where a page shows it.
_TABLES = {
    "auth/models.py": ROLES,
    "fhir/temporal.py": MONTHS,
    "trail/events.py": EVENTS.values(),
}
_KEYWORDS = {
    "_": None,
    "gettext": None,
    "worded": None,
    "ngettext": (1, 2),
    "AppFinding": (2,),
    **dict.fromkeys(REFUSALS),
}
_METHODS = [("**.py", "python"), ("**.html", "jinja2.ext.babel_extract")]
_OPTIONS = {"**.html": {"newstyle_gettext": "true", "silent": "false"}}
# Of each run, not of the texts.
_PASSING = re.compile(
    rb'^"(POT-Creation-Date|PO-Revision-Date|Generated-By|Last-Translator|Language-Team).*\n', re.M
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
        for source in sorted(folder.rglob("*.py")):
            for text in _in_f_strings(source):
                catalog.add(text, None, [(source.relative_to(_PACKAGE).as_posix(), 0)])
    for place, texts in _TABLES.items():
        for text in texts:
            catalog.add(text, None, [(place, 0)])
    return _written(catalog)


def _in_f_strings(source: Path) -> Iterator[str]:
    """Yield the texts that stand in f-strings, where Babel does not look under Python 3.11."""
    for string in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        for call in ast.walk(string) if isinstance(string, ast.JoinedStr) else ():
            match call:
                case ast.Call(ast.Name("_" | "worded"), [ast.Constant(str(text)), *_]):
                    yield text


def updated(path: Path) -> bytes:
    """Return a translation with the texts of messages.pot: those that are new are empty."""
    catalog, template = (read_po(io.BytesIO(one.read_bytes())) for one in (path, TEMPLATE))
    catalog.update(template, no_fuzzy_matching=True)
    catalog.locale = path.stem
    catalog.header_comment = _HEADER
    return _written(catalog, no_location=True)


def pseudo() -> str:
    """Return a translation that is whole: each text in ⟦brackets⟧, so that no other has any."""
    catalog = read_po(io.BytesIO(TEMPLATE.read_bytes()), locale="de")
    for message in catalog:
        if message.id == "1,000.5":
            message.string = "1.000,5"
        elif message.id:
            texts = message.id if message.pluralizable else (message.id,)
            marked = tuple(f"⟦{text}⟧" for text in texts)
            message.string = marked if message.pluralizable else marked[0]
    return _written(catalog).decode()


def _written(catalog: Catalog, *, no_location: bool = False) -> bytes:
    written = io.BytesIO()
    options = {"include_lineno": False, "sort_output": True, "ignore_obsolete": True}
    write_po(written, catalog, width=100, no_location=no_location, **options)
    return _PASSING.sub(b"", written.getvalue())


def translations() -> Sequence[Path]:
    """Return the files of the languages that are ours."""
    return sorted(TEMPLATE.parent.glob("*.po"))


def templates() -> Iterator[Path]:
    """Give every template of the pages."""
    return _WEB.rglob("templates/**/*.html")


if __name__ == "__main__":
    TEMPLATE.write_bytes(gathered())
    for path in translations():
        path.write_bytes(updated(path))
        empty = path.read_text(encoding="utf-8").count('\nmsgstr ""\n\n')
        print(f"{path.name}: {empty} texts are to be translated.")  # noqa: T201
