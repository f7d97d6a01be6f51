"""The administrator's pages of users: roles, linked records, sign-in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from flask import Response, request
from sqlalchemy import Connection
from werkzeug.exceptions import NotFound

from fhirapp import urls
from fhirapp.audit.entries import ADMINISTRATION, entries
from fhirapp.audit.events import FAILED
from fhirapp.auth.links import RecordLink, all_links, lapse_of, related_to
from fhirapp.auth.models import ROLES, User
from fhirapp.auth.users import accounts, identities, sessions
from fhirapp.auth.users.provider import provider
from fhirapp.auth.users.sign_in import PER_NAME_AND_ADDRESS, failed_lately
from fhirapp.config import RefusedCommand
from fhirapp.db import db, reader, writing
from fhirapp.definition import types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.narrative import concepts
from fhirapp.fhir.words import name_of
from fhirapp.store.merge import merged_target
from fhirapp.url_syntax import is_loopback
from fhirapp.web import pages
from fhirapp.web.admin.audit import before
from fhirapp.web.admin.audit_descriptions import VIA, described
from fhirapp.web.cookies import form_fields, keeps
from fhirapp.web.people import Person, finder, person
from fhirapp.web.texts import _


def _name(reference: str | None) -> str | None:
    """Return the name of a person's record, <type>/<id>; None where there is no record of one."""
    if reference is None:
        return None
    type_name, _slash, id_ = reference.partition("/")
    row = reader().first(
        f"SELECT body FROM {types()[type_name].sql_table} WHERE id = ? AND is_current", (id_,)
    )
    return None if row is None else name_of(fhir_json.loads(row[0])) or None


blueprint = pages.blueprint_of("admin_users", __name__)
_LONGEST_NAME = 200
# Of an account's history, on a page.
_SHOWN = 20


class _Action(NamedTuple):
    """An action of a button or a form on a user, and the message after it.

    run returns False if nothing changes.
    """

    run: Callable[[Connection, str], bool]
    done: str


def _set_role(connection: Connection, user_id: str) -> bool:
    return accounts.set_role(connection, user_id, pages.field("role"), keep_apps=pages.keeps_apps())


def _end_factor(connection: Connection, user_id: str) -> bool:
    return accounts.end_second_factor(connection, user_id, keep_apps=pages.keeps_apps())


def _end_sessions(connection: Connection, user_id: str) -> bool:
    if session_id := pages.field("session", 100):
        return sessions.end_one(connection, user_id, session_id)
    return sessions.sign_out_everywhere(connection, user_id, keep_apps=pages.keeps_apps())


def _set_fhir_user(connection: Connection, user_id: str) -> bool:
    return accounts.set_fhir_user(connection, user_id, pages.field("fhir_user"))


def _link(connection: Connection, user_id: str) -> bool:
    patient_id = pages.field("patient", 64)
    # The record must exist: it was chosen from a list.
    if person(patient_id) is None or merged_target(reader(), patient_id):
        raise RefusedCommand("This record does not exist.")
    related = pages.field("related", 64) or None
    if related is not None and (lapse := lapse_of(patient_id, related)):
        raise RefusedCommand(lapse)
    whose = pages.field("whose")
    return accounts.link(
        connection, user_id, patient_id, is_self=whose == "own", related_person=related
    )


def _unlink(connection: Connection, user_id: str) -> bool:
    return accounts.unlink(connection, user_id, pages.field("patient", 64))


def _link_provider(connection: Connection, user_id: str) -> bool:
    chosen, subject = provider(), pages.field("subject", 255) or pages.field("waiting", 255)
    if chosen is None:
        raise RefusedCommand("No identity provider is configured.")
    return identities.link(connection, user_id, chosen.issuer, subject)


def _unlink_provider(connection: Connection, user_id: str) -> bool:
    issuer, subject = pages.field("issuer", 2000), pages.field("subject", 255)
    identities.unlink(connection, user_id, issuer, subject, keep_apps=pages.keeps_apps())
    return True


_ACTIONS: Mapping[str, _Action] = {
    "role": _Action(_set_role, _("Role changed. It applies immediately.")),
    "disable": _Action(
        partial(accounts.set_user_disabled, disabled=True),
        _("The account is disabled and signed out everywhere."),
    ),
    "enable": _Action(
        partial(accounts.set_user_disabled, disabled=False), _("The account is enabled again.")
    ),
    "practitioner": _Action(_set_fhir_user, _("Practitioner record changed.")),
    "link": _Action(_link, _("Record linked.")),
    "unlink": _Action(_unlink, _("Record unlinked.")),
    "second-factor": _Action(
        _end_factor, _("Second factor removed. The password alone is enough to sign in.")
    ),
    "sessions": _Action(_end_sessions, _("Signed out.")),
    "link-provider": _Action(
        _link_provider, _("Account linked. The user can sign in with it now.")
    ),
    "unlink-provider": _Action(
        _unlink_provider,
        _("Account unlinked. The user can no longer sign in with it and is signed out."),
    ),
}


@blueprint.get("/admin/users")
@pages.for_administrators
def index() -> Response:
    """List the users, or those whom a search finds."""
    name, role = request.args.get("name", "")[:_LONGEST_NAME], request.args.get("role", "")
    found, more = accounts.find_users(name, role if role in ROLES else "")
    chosen = provider()
    return pages.page(
        "accounts/users.html",
        users=found,
        more=more,
        name=name,
        role=role,
        roles=ROLES,
        provider=chosen.name if chosen else "",
        waiting=identities.waiting(chosen.issuer) if chosen else (),
    )


def _form(message: str = "", status: int = 200) -> Response:
    typed = form_fields()
    role = typed.get("role", request.args.get("role"))
    return pages.page(
        "accounts/new_user.html", status, typed=typed, role=role, roles=ROLES, message=message
    )


@blueprint.get("/admin/users/new")
@pages.for_administrators
def form() -> Response:
    """Ask for who is added."""
    return _form()


@blueprint.post("/admin/users/new")
@keeps("name", "username", "role")
@pages.for_administrators
@pages.form_action(_form)
def add() -> Response:
    """Add a user, and show this once the address at which the password is chosen."""
    name, username = pages.field("name", _LONGEST_NAME), pages.field("username", _LONGEST_NAME)
    with writing() as connection:
        user_id = accounts.add_user(connection, username, name=name, role=pages.field("role"))
        code = accounts.new_setup_code(connection, user_id)
    return _setup_address(user_id, name, code)


def _user_page(key: UUID, *, message: str = "", status: int = 200, **_action: str) -> Response:
    user = _user(key)
    found = finder("find", via=VIA, lists_all=False)
    links = [(link, person(link.patient_id), _related_name(link)) for link in all_links(user.id)]
    chosen = provider()
    about = f"user/{user.id}"
    history = entries(kind=ADMINISTRATION, about=about, before=before(), limit=_SHOWN + 1)
    return pages.page(
        "accounts/user.html",
        status,
        user=user,
        roles=ROLES,
        links=links,
        practitioner=_name(user.fhir_user),
        sessions=sessions.of_user(user.id),
        provider=chosen.name if chosen else "",
        identities=identities.of_user(user.id),
        waiting=identities.waiting(chosen.issuer) if chosen else (),
        failed=failed_lately(user.username),
        history=described(history[:_SHOWN]),
        older=history[_SHOWN - 1].number if len(history) > _SHOWN else 0,
        is_later=before() is not None,
        failures=FAILED,
        most=PER_NAME_AND_ADDRESS,
        done=pages.done_message({name: known.done for name, known in _ACTIONS.items()}),
        message=message,
        finder=found,
        related=_related(found.people),
    )


@blueprint.get("/admin/users/<uuid:key>")
@pages.for_administrators
def detail(key: UUID) -> Response:
    """Show a user; find is the text of the search for a patient."""
    return _user_page(key)


@blueprint.post("/admin/users/<uuid:key>/<action>")
@pages.for_administrators
@pages.form_action(_user_page, 409)
def act(key: UUID, action: str) -> Response:
    """Do what a button says."""
    user_id = _user(key).id
    if action not in _ACTIONS:
        raise NotFound
    with writing() as connection:
        is_changed = _ACTIONS[action].run(connection, user_id)
    return pages.acted(f"/admin/users/{user_id}", action, is_changed=is_changed)


@blueprint.post("/admin/users/<uuid:key>/address")
@pages.for_administrators
def new_address(key: UUID) -> Response:
    """Make a new one-time address, and show it this once."""
    user = _user(key)
    with writing() as connection:
        code = accounts.new_setup_code(connection, user.id)
    return _setup_address(user.id, user.name, code)


def _user(key: UUID) -> User:
    found = db.session.get(User, str(key))
    if found is None:
        raise NotFound
    return found


def _setup_address(user_id: str, name: str, code: str) -> Response:
    return pages.page(
        "once.html",
        scripts=True,
        kind="setup",
        secret=f"{urls.base_url()}/setup?code={code}",
        is_local=is_loopback(urlsplit(urls.base_url()).netloc),
        name=name,
        back=f"/admin/users/{user_id}",
    )


def _related(patients: Iterable[Person]) -> dict[str, list[tuple[str, str, str]]]:
    """Return the RelatedPersons of patients: id, name, relationship."""
    return {
        patient.id: [
            (kin["id"], name_of(kin) or kin["id"], concepts(kin.get("relationship", ())))
            for kin in related_to(patient.id)
        ]
        for patient in patients
    }


def _related_name(link: RecordLink) -> str | None:
    """Return the name of the RelatedPerson that a link depends on, its id if unknown."""
    if link.related_person is None:
        return None
    return _name(f"RelatedPerson/{link.related_person}") or link.related_person
