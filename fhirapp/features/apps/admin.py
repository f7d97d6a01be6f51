"""The administrator's pages of clients: approve, disable, change, revoke; and refused requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from flask import Response, request
from sqlalchemy import Connection
from werkzeug.exceptions import NotFound

from fhirapp import config, urls
from fhirapp.auth.clients import administration
from fhirapp.auth.clients.registration import owner_code
from fhirapp.auth.models import Client
from fhirapp.auth.refusals import KEPT_SECONDS, find_refusals, newest_refusals, refusals_of
from fhirapp.db import writing
from fhirapp.features.apps import clients as shown
from fhirapp.web import pages
from fhirapp.web.cookies import form_fields, keeps
from fhirapp.web.texts import _, reason_of

blueprint = pages.blueprint_of("admin_clients", __name__)
# Another administrator was faster, or the page was outdated.
blueprint.register_error_handler(
    config.RefusedCommand, lambda error: pages.error_page(409, reason_of(error))
)
_LONGEST_LIST = 12_000


class _Action(NamedTuple):
    """An action of a button on a client, and the message after it.

    run returns False if nothing changes.
    """

    run: Callable[[Connection, str], bool]
    done: str


_ACTIONS: Mapping[str, _Action] = {
    "approve": _Action(administration.approve, _("The app is approved and can request tokens.")),
    "disable": _Action(
        partial(administration.set_disabled, disabled=True),
        _("The app is disabled. Its tokens no longer work."),
    ),
    "enable": _Action(
        partial(administration.set_disabled, disabled=False), _("The app is enabled again.")
    ),
    "revoke": _Action(
        administration.revoke_everything,
        _("All consents and tokens of this app were revoked."),
    ),
}
_DONE: Mapping[str, str] = {
    "registered": _("The app is registered and approved."),
    "changed": _("Registration changed."),
    **{name: action.done for name, action in _ACTIONS.items()},
}


@blueprint.get("/admin/clients")
@pages.for_administrators
def index() -> Response:
    """List the clients, first those that wait for approval."""
    done = pages.done_message({"rejected": _("The app was rejected and deleted.")})
    listed = administration.list_with_tokens()
    return pages.page("apps/clients.html", listed=listed, shown=shown, done=done)


def _client_page(client_id: str, *, message: str = "", status: int = 200) -> Response:
    """Return a client's page, with the entered values of a refused or late change."""
    client, typed = _client(client_id), request.form or form_fields()
    return pages.page(
        "apps/client.html",
        status,
        client=client,
        shown=shown,
        consents=administration.consents_to(client.client_id),
        namesakes=administration.namesakes(client) if client.approved_at is None else (),
        refusals=refusals_of(client.client_id),
        scope=typed.get("scope", client.scope),
        uris=typed.get("redirect_uris", "\n".join(client.redirect_uris or ())),
        is_typed="scope" in typed,
        done=pages.done_message(_DONE),
        message=message,
    )


@blueprint.get("/admin/clients/<client_id>")
@pages.for_administrators
def detail(client_id: str) -> Response:
    """Show everything about a client."""
    return _client_page(client_id)


@blueprint.post("/admin/clients/<client_id>/<action>")
@pages.for_administrators
def act(client_id: str, action: str) -> Response:
    """Do what a button says."""
    _client(client_id)
    if action not in _ACTIONS:
        raise NotFound
    with writing() as connection:
        is_changed = _ACTIONS[action].run(connection, client_id)
    return pages.acted(f"/admin/clients/{client_id}", action, is_changed=is_changed)


@blueprint.post("/admin/clients/<client_id>/reject")
@pages.for_administrators
def reject(client_id: str) -> Response:
    """Delete a client that waits for approval."""
    _client(client_id)
    with writing() as connection:
        administration.reject(connection, client_id)
    return pages.acted("/admin/clients", "rejected")


@blueprint.post("/admin/clients/<client_id>/change")
@keeps("scope", "redirect_uris")
@pages.for_administrators
@pages.form_action(_client_page)
def change(client_id: str) -> Response:
    """Change its scope and redirect URIs."""
    _client(client_id)
    scope, uris = pages.field("scope"), pages.field("redirect_uris", _LONGEST_LIST)
    with writing() as connection:
        is_changed = administration.edit(
            connection, client_id, scope=scope, redirect_uris=uris.split()
        )
    return pages.acted(f"/admin/clients/{client_id}", "changed", is_changed=is_changed)


@blueprint.post("/admin/clients/<client_id>/secret")
@pages.for_administrators
def new_secret(client_id: str) -> Response:
    """Make a new secret, and show it this once."""
    name = _client(client_id).name
    with writing() as connection:
        secret = administration.new_secret(connection, client_id)
    back = f"/admin/clients/{client_id}"
    return pages.page("once.html", scripts=True, kind="secret", secret=secret, name=name, back=back)


@blueprint.post("/admin/clients/<client_id>/owner")
@pages.for_administrators
def new_owner_address(client_id: str) -> Response:
    """Make a new address for its owner, and show it this once; the one before is void."""
    name = _client(client_id).name
    with writing() as connection:
        code = owner_code(connection, client_id)
    secret, back = f"{urls.base_url()}/apps/{code}", f"/admin/clients/{client_id}"
    return pages.page("once.html", scripts=True, kind="owner", secret=secret, name=name, back=back)


def _client(client_id: str) -> Client:
    found = administration.find_client(client_id)
    if found is None:
        raise NotFound
    return found


_LONGEST = 100


@blueprint.get("/admin/refusals")
@pages.for_administrators
def look_up() -> Response:
    """Show the refusals with an id, or the newest ones."""
    request_id = request.args.get("id", "").strip()[:_LONGEST]
    if request_id:
        refusals = list(find_refusals(request_id) or find_refusals(request_id.lower()))
    else:
        refusals = list(newest_refusals())
    return pages.page(
        "apps/refusals.html",
        request_id=request_id,
        refusals=refusals,
        days=KEPT_SECONDS // 86_400,
    )
