"""The fields of a form, as they were typed."""

from __future__ import annotations

from collections.abc import Mapping

from flask import request

from fhirapp.web.errors import PageError
from fhirapp.web.texts import _


def field(name: str, longest: int = 2000, form: Mapping[str, str] | None = None) -> str:
    """Return a form's field, stripped: of the one that is sent, where no other is given.

    Raises PageError where it is too long, or no text.
    """
    text = (request.form if form is None else form).get(name, "")
    if len(text) > longest:
        raise PageError(
            413, _("The field %(name)s takes %(most)s characters at most.", name=name, most=longest)
        )
    return plain(text).strip()


def plain(text: str) -> str:
    """Return a text that can be stored. Raises PageError."""
    # PostgreSQL takes no NUL in a text.
    if "\0" in text:
        raise PageError(400, _("A field takes text only."))
    return text


def password_field(name: str) -> str:
    """Return a password as it was typed; of one that is too long, enough to find it wrong."""
    return request.form.get(name, "")[:1000]
