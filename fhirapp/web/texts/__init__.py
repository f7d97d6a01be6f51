"""The words of the pages: English as they stand in templates and code, or another language's.

Templates write {{ _("Sign in") }} or {% trans %}…{% endtrans %}, code writes _("Sign in"). What is
marked in a table that is made at import is not known in another language yet: call _() once more
where it is shown. `python -m tests.tools.translations` gathers all that is marked in messages.pot.

A page is in the language that its reader chose, else in the one that the browser asks for. Ours
are compiled catalogues in this folder: that tool makes de.mo from de.po.
FHIRAPP_TRANSLATION names a compiled catalogue of a clinic's own, which all pages then use.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import cache
from gettext import GNUTranslations, NullTranslations
from pathlib import Path
from typing import Any

from flask import Flask, Response, current_app, g, has_request_context, request

from fhirapp.config import ConfigurationError, Marked, RefusedCommand, settings_of
from fhirapp.web import cookies

ENGLISH = "en"
# What each is called by those who read it.
NAMES: Mapping[str, str] = {ENGLISH: "English", "de": "Deutsch"}
_EXTENSION = "fhirapp.texts"
_FOLDER = Path(__file__).parent
_UNTRANSLATED = NullTranslations()


def init_app(app: Flask) -> None:
    """Let templates mark their words; read the clinic's translation. Raises ConfigurationError."""
    app.jinja_env.add_extension("jinja2.ext.i18n")
    install = app.jinja_env.install_gettext_callables  # type: ignore[attr-defined]
    install(_gettext, _ngettext, newstyle=True)
    path = settings_of(app).translation
    app.extensions[_EXTENSION] = read_translation(Path(path)) if path else None
    app.context_processor(lambda: {"language": language(), "languages": offered_languages()})


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


def offered_languages() -> Mapping[str, str]:
    """Return the languages that a reader can choose from, by their codes."""
    if current_app.extensions.get(_EXTENSION) is not None:
        return {}
    return NAMES


@cache
def catalogue(code: str) -> GNUTranslations:
    """Return a translation of ours."""
    return read_translation(_FOLDER / f"{code}.mo")


def language() -> str:
    """Return the language of the page that is made; English where none is."""
    if not has_request_context():
        return ENGLISH
    if "language" not in g:
        own, known = current_app.extensions.get(_EXTENSION), offered_languages()
        chosen = cookies.language()
        if own is not None:
            # gettext writes pt_BR, HTML and scripts pt-BR.
            g.language = str(own.info().get("language", ENGLISH)).replace("_", "-")
        elif chosen in known:
            g.language = chosen
        else:
            # de-CH is German; of best_match() it would come after any en.
            accepted = (code.partition("-")[0].lower() for code, q in request.accept_languages if q)
            g.language = next((code for code in accepted if code in known), ENGLISH)
    found: str = g.language
    return found


def add_language_headers(response: Response) -> Response:
    """Say which language a page is in, and by what that was chosen."""
    response.headers["Content-Language"] = language()
    response.vary.update(("Accept-Language", "Cookie"))
    return response


def _(text: str, /, **values: Any) -> str:
    """Return a text of the pages; values fill in what stands as %(name)s."""
    return _gettext(text) % values if values else _gettext(text)


def translator() -> Callable[[str], str]:
    """Return what translates into the language of the page that is made, also within others."""
    return _translation().gettext


def reason_of(error: ConfigurationError) -> str:
    """Return why something cannot be done, for a page; in English if that is not translated."""
    return sentence(error.text, error.values) if isinstance(error, RefusedCommand) else str(error)


def sentence(text: str, values: Mapping[str, object]) -> str:
    """Return a marked text with its values, of which some are marked too."""
    return _(text, **{name: _value(value) for name, value in values.items()})


def _value(value: object) -> object:
    if isinstance(value, RefusedCommand):
        return reason_of(value)
    return _gettext(value) if isinstance(value, Marked) else value


def numeral(value: float, decimals: int = 0) -> str:
    """Return a number as the page's language writes it: 1,234.5."""
    form = _("1,000.5")
    return f"{value:,.{decimals}f}".translate({ord(","): form[1], ord("."): form[5]})


def _gettext(text: str) -> str:
    # An empty text would be the catalogue's header.
    return _translation().gettext(text) if text else text


def _ngettext(singular: str, plural: str, count: int) -> str:
    return _translation().ngettext(singular, plural, count)


def ngettext(singular: str, plural: str, count: int) -> str:
    """Return the text of one, or of so many; %(num)s stands for the number."""
    return _ngettext(singular, plural, count) % {"num": count}


def _translation() -> NullTranslations:
    if not current_app:
        return _UNTRANSLATED
    if "translation" not in g:
        own = current_app.extensions.get(_EXTENSION)
        code = ENGLISH if own is not None else language()
        g.translation = own or (_UNTRANSLATED if code == ENGLISH else catalogue(code))
    found: NullTranslations = g.translation
    return found
