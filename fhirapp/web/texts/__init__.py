"""The words of the pages: English as they stand in templates and code, or another language's.

Templates write {{ _("Sign in") }} or {% trans %}…{% endtrans %}, code writes _("Sign in"). What is
marked in a table that is made at import is not known in another language yet: call _() once more
where it is shown. `python -m tests.texts` gathers all that is marked in messages.pot, from which a
translation is made; FHIRAPP_TRANSLATION names its compiled file.
"""

from __future__ import annotations

import struct
from gettext import GNUTranslations, NullTranslations
from pathlib import Path
from typing import Any

from flask import Flask, current_app

from fhirapp.config import ConfigurationError, Marked, RefusedCommand, settings_of

_EXTENSION = "fhirapp.texts"
_ENGLISH = NullTranslations()


def init_app(app: Flask) -> None:
    """Let templates mark their words; read the translation. Raises ConfigurationError."""
    app.jinja_env.add_extension("jinja2.ext.i18n")
    install = app.jinja_env.install_gettext_callables  # type: ignore[attr-defined]
    install(_gettext, _ngettext, newstyle=True)
    path = settings_of(app).translation
    app.extensions[_EXTENSION] = read_translation(Path(path)) if path else _ENGLISH
    app.jinja_env.globals["language"] = app.extensions[_EXTENSION].info().get("language", "en")


def read_translation(path: Path) -> GNUTranslations:
    """Return the translation in a compiled catalogue of gettext's. Raises ConfigurationError."""
    try:
        with path.open("rb") as file:
            return GNUTranslations(file)
    except (OSError, ValueError, LookupError, struct.error) as error:
        raise ConfigurationError(
            f"FHIRAPP_TRANSLATION={str(path)!r} cannot be read as a compiled catalogue of texts"
            f" ({error}); make one with: msgfmt -o {path.with_suffix('.mo').name} {path.stem}.po"
        ) from None


def _(text: str, /, **values: Any) -> str:
    """Return a text of the pages; values fill in what stands as %(name)s."""
    return _gettext(text) % values if values else _gettext(text)


def reason_of(error: RefusedCommand) -> str:
    """Return why something cannot be done, for a page."""
    values = {
        name: _gettext(value) if isinstance(value, Marked) else value
        for name, value in error.values.items()
    }
    return _(error.text, **values)


def _gettext(text: str) -> str:
    # An empty text would be the catalogue's header.
    return _translation().gettext(text) if text else text


def _ngettext(one: str, many: str, number: int) -> str:
    return _translation().ngettext(one, many, number)


def ngettext(one: str, many: str, number: int) -> str:
    """Return the text of one, or of so many; %(num)s stands for the number."""
    return _ngettext(one, many, number) % {"num": number}


def _translation() -> NullTranslations:
    found: NullTranslations = (
        current_app.extensions.get(_EXTENSION, _ENGLISH) if current_app else _ENGLISH
    )
    return found
