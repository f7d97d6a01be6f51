"""Extract the marked messages of the pages: `python -m tests.tools.translations`.

Writes messages.pot, which names the files of each message, updates the translations beside it, such
as de.po, and compiles them, to de.mo. New messages are added untranslated, unused ones are removed.
The files contain no dates and no line numbers, so they change only if a message does.
"""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from fhirapp.audit.events import EVENTS
from fhirapp.auth.models import ROLES
from fhirapp.config import declared
from fhirapp.fhir.temporal import MONTHS
from tests import ROOT

REFUSALS = ("RefusedCommand", "TooManyWaiting", "WeakPassword", "PrivateKey", "Marked")
TEMPLATE = ROOT / "fhirapp" / "web" / "texts" / "messages.pot"
_PACKAGE = ROOT / "fhirapp"
_WEB = _PACKAGE / "web"
# Defines the messages of refusals.
AUTH = _PACKAGE / "auth"
# Declares the labels of types and elements.
_RESOURCES = _PACKAGE / "resources"
# Define the messages of refused schedules.
_SCHEDULES = (_PACKAGE / "jobs", _PACKAGE / "server")
# Define the allergy texts of charts.
_ALLERGIES = (_PACKAGE / "clinical", _PACKAGE / "fhir")
# Of features: commands are in English.
_COMMANDS = "cli.py"
_SEARCH = _PACKAGE / "search"
_FOLDERS = (_WEB, _PACKAGE / "features", _SEARCH, AUTH, _RESOURCES, *_SCHEDULES, *_ALLERGIES)
# Unmarked tables: a page translates an entry when it shows it.
_TABLES = {
    "auth/models.py": ROLES,
    "fhir/temporal.py": MONTHS,
    "audit/events.py": EVENTS.values(),
    "config.py": [
        text
        for setting in declared()
        for text in (setting.metadata["doc"], setting.metadata["shown"])
        if text
    ],
}
_KEYWORDS = {
    "_": None,
    "N_": None,
    "gettext": None,
    "worded": None,
    "ngettext": (1, 2),
    "AppFinding": (2,),
    **dict.fromkeys(REFUSALS),
}
_METHODS = [("**.py", "python"), ("**.html", "jinja2.ext.babel_extract")]
_OPTIONS = {"**.html": {"newstyle_gettext": "true", "silent": "false"}}
# Headers that differ in each run.
_VOLATILE_HEADERS = re.compile(
    rb'^"(POT-Creation-Date|PO-Revision-Date|Generated-By|Last-Translator|Language-Team).*\n', re.M
)
_HEADER = "# The texts of fhirapp's pages, gathered by `python -m tests.tools.translations`."


def message_template() -> bytes:
    """Return messages.pot: all marked messages, untranslated."""
    catalog = Catalog(project="fhirapp", header_comment=_HEADER, fuzzy=False)
    for folder in _FOLDERS:
        for path, _, message, comments, context in extract_from_dir(
            folder, method_map=_METHODS, options_map=_OPTIONS, keywords=_KEYWORDS
        ):
            if Path(path).name == _COMMANDS:
                continue
            location = (folder / path).relative_to(_PACKAGE).as_posix()
            catalog.add(message, None, [(location, 0)], auto_comments=comments, context=context)
        for source in sorted(folder.rglob("*.py")):
            if source.name == _COMMANDS:
                continue
            for text in _f_string_messages(source):
                catalog.add(text, None, [(source.relative_to(_PACKAGE).as_posix(), 0)])
    for location, texts in _TABLES.items():
        for text in texts:
            catalog.add(text, None, [(location, 0)])
    return _serialized(catalog)


def _f_string_messages(source: Path) -> Iterator[str]:
    """Yield marked messages in f-strings, which Babel skips under Python 3.11."""
    for string in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        for call in ast.walk(string) if isinstance(string, ast.JoinedStr) else ():
            match call:
                case ast.Call(ast.Name("_" | "worded"), [ast.Constant(str(text)), *_]):
                    yield text


def updated_translation(path: Path) -> bytes:
    """Return a translation file with the messages of messages.pot; new ones are empty."""
    catalog, template = (read_po(io.BytesIO(file.read_bytes())) for file in (path, TEMPLATE))
    catalog.update(template, no_fuzzy_matching=True)
    catalog.locale = path.stem
    catalog.header_comment = _HEADER
    return _serialized(catalog, no_location=True)


def compiled(catalog: Catalog) -> bytes:
    """Return a translation as a compiled catalogue (.mo)."""
    catalog.creation_date = datetime(2000, 1, 1, tzinfo=UTC)
    output = io.BytesIO()
    write_mo(output, catalog)
    return output.getvalue()


def pseudo_translation() -> bytes:
    """Return a compiled translation: each message in ⟦brackets⟧, which mark translated text."""
    catalog = read_po(io.BytesIO(TEMPLATE.read_bytes()), locale="de")
    for message in catalog:
        if message.id == "1,000.5":
            message.string = "1.000,5"
        elif message.id:
            texts = message.id if message.pluralizable else (message.id,)
            marked = tuple(f"⟦{text}⟧" for text in texts)
            message.string = marked if message.pluralizable else marked[0]
    return compiled(catalog)


def _serialized(catalog: Catalog, *, no_location: bool = False) -> bytes:
    output = io.BytesIO()
    options = {"include_lineno": False, "sort_output": True, "ignore_obsolete": True}
    write_po(output, catalog, width=100, no_location=no_location, **options)
    return _VOLATILE_HEADERS.sub(b"", output.getvalue())


def translation_files() -> Sequence[Path]:
    """Return the translation files of the project."""
    return sorted(TEMPLATE.parent.glob("*.po"))


def templates() -> Iterator[Path]:
    """Yield the templates of all pages."""
    return _WEB.rglob("templates/**/*.html")


if __name__ == "__main__":
    TEMPLATE.write_bytes(message_template())
    for path in translation_files():
        path.write_bytes(updated_translation(path))
        path.with_suffix(".mo").write_bytes(compiled(read_po(io.BytesIO(path.read_bytes()))))
        empty = path.read_text(encoding="utf-8").count('\nmsgstr ""\n\n')
        print(f"{path.name}: {empty} messages are not translated yet.")
