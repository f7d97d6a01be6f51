"""What went wrong on a page, in words."""

from __future__ import annotations

import errno
import sqlite3

from fhirapp.auth.attempts import TooOften
from fhirapp.web.texts import _, ngettext

# By the answer's status: what went wrong, and what to do where nothing else is said of it.
_TITLES = {
    400: (_("That could not be read"), _("Go back, and try again.")),
    403: (_("That is not for you"), _("Sign in as somebody who may do that.")),
    404: (_("There is no such page"), _("Look at the address again, or begin at your account.")),
    405: (_("That is not how this page works"), _("Go back, and use what the page offers.")),
    409: (_("That was done already"), _("Go back, and look at what is there now.")),
    413: (_("That is too long"), _("Go back, and write less.")),
    414: (_("That address is too long"), _("Go back, and write less.")),
    429: (_("Too many tries"), _("Wait a while, and try again.")),
    503: (_("Not just now"), _("The server is busy. Wait a moment, and try again.")),
    507: (
        _("The server's disk is full"),
        _("Nothing was done. Somebody must make room on it first: tell an administrator."),
    ),
}
_OTHER = (_("Something went wrong"), _("Go back, and try again."))


class PageError(Exception):
    """A page cannot be shown; str() tells the person why and what to do.

    title is the heading, where that of the status does not fit; form the path of the form's page.
    """

    def __init__(self, status: int, message: str, title: str = "", form: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.title = title
        self.form = form


def wait(error: TooOften) -> str:
    """Return how long to wait, in words."""
    return ngettext("Wait %(num)s minute.", "Wait %(num)s minutes.", -(-error.seconds // 60))


def is_disk_full(error: BaseException) -> bool:
    """Say whether an error means that the disk, or a quota, is full."""
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, OSError):
        return cause.errno in (errno.ENOSPC, errno.EDQUOT)
    # PostgreSQL's code is of its appendix A.
    return (
        getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        or getattr(cause, "sqlstate", None) == "53100"
    )


def told_of(status: int) -> tuple[str, str]:
    """Return what is said of a status: what went wrong, and what to do."""
    usual, advice = _TITLES.get(status, _OTHER)
    return _(usual), _(advice)
