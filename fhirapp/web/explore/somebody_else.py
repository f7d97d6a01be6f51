"""In the demo: the same request as another person of the demo, without signing out.

    <select name="as"> … of _as.html; the page reads it with token_for(request.args.get("as"))

Outside the demo there is nobody else: whatever is asked, the token is that of who signed in.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from fhirapp.auth.clients.pages import OwnToken, own_token
from fhirapp.auth.demo import PEOPLE, Person
from fhirapp.auth.models import User
from fhirapp.auth.models.user import PATIENT
from fhirapp.auth.people.users import linked_patients
from fhirapp.config import settings
from fhirapp.db import db
from fhirapp.web.ask import token_of
from fhirapp.web.pages import PageError, somebody
from fhirapp.web.texts import _


def others() -> Sequence[Person]:
    """Return whom the request can be tried as beside who signed in: nobody outside the demo."""
    if not settings().demo:
        return ()
    own = somebody().user.username
    return [person for person in PEOPLE if person.username != own]


def token_for(username: str | None) -> OwnToken:
    """Return the token of a person of the demo, that of who signed in for None or outside it.

    Raises PageError for a name that nobody in the demo has, and where nobody signed in.
    """
    signed = somebody()
    if not settings().demo or not username or username == signed.user.username:
        return token_of()
    if username not in {person.username for person in PEOPLE}:
        raise PageError(404, _("There is nobody of that name in the demo."))
    named = select(User).where(User.username == username, User.disabled.is_(False))
    user = db.session.execute(named).scalar_one_or_none()
    if user is None:
        raise PageError(404, _("That person of the demo cannot sign in any more."))
    if user.role != PATIENT:
        return own_token(signed, user)
    record = next(iter(linked_patients(user.id)), None)
    if record is None:
        raise PageError(404, _("No record is linked to that person of the demo any more."))
    return own_token(signed, user, record)
