"""The explorer's page: a search as a form and as an address, which follow each other; its answer.

    /explore?address=/fhir/AllergyIntolerance?patient=p1&view=table

sends that address with the token of the signed-in person; with send=no it only shows it. The form
sends its fields and the address together, with a digest of each as it was shown: whichever changed
since then counts, with scripts and without.

In the demo the same request can be sent as another demo account, without signing out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from flask import Response, current_app, request
from sqlalchemy import select

from fhirapp.auth.clients.first_party import OwnToken, own_token
from fhirapp.auth.links import linked_patients
from fhirapp.auth.models import PATIENT, User
from fhirapp.auth.public_accounts import PublicAccount, public_accounts
from fhirapp.config import settings
from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.features.explore import suggestions
from fhirapp.features.explore.address import (
    BESIDE,
    HEADERS,
    PAGE,
    Address,
    NoAddressError,
    again,
    lesson,
    link,
    mark_of,
    pages_of,
    read_address,
    readable,
)
from fhirapp.features.explore.answer import MOST_BYTES, MOST_WHOLE, described, headers_of, send
from fhirapp.features.explore.explanation import (
    correction_of,
    ignored_filters,
    is_of_all_patients,
    narrowing,
    reading_of,
    translated,
)
from fhirapp.features.explore.form import read_form, type_names, write_address
from fhirapp.features.explore.snippets import how_to_get_a_token, snippets
from fhirapp.features.explore.tables import around, names_of_patients, tables_of
from fhirapp.features.explore.views import fold_json, visible
from fhirapp.resources.audit_event import SCOPE as TRAIL_SCOPE
from fhirapp.rest.middleware import LONG_URLS
from fhirapp.web import pages
from fhirapp.web.internal_client import token_of
from fhirapp.web.texts import _

VIEWS = ("table", "json", "raw")
# The extension with a function that features may set: by the id of a user, the user name of the
# patient as whom they send requests instead of the demo's patient, or None.
OWN_PATIENT = "fhirapp.explore.own_patient"
blueprint = pages.blueprint_of("explore", __name__)
# Their own addresses contain an address of ours; signing in leads back to it.
blueprint.record_once(lambda state: state.app.extensions.update({LONG_URLS: (PAGE, "/sign-in")}))


def other_accounts() -> Sequence[PublicAccount]:
    """Return the demo accounts as which the request can be sent; none outside the demo."""
    public = public_accounts()
    if public is None:
        return ()
    user = pages.signed_in().user
    people = [account for account in public.people if account.username != user.username]
    own_patient = current_app.extensions.get(OWN_PATIENT, lambda _user_id: None)(user.id)
    if own_patient is None:
        return people
    return [
        person._replace(username=own_patient) if person.role == PATIENT else person
        for person in people
    ]


def token_for(username: str | None) -> OwnToken:
    """Return the token of a demo account; that of the signed-in person for None or their name.

    Raises PageError for an unknown name, and where nobody is signed in.
    """
    session = pages.signed_in()
    if not settings().demo or not username or username == session.user.username:
        return token_of()
    if username not in {account.username for account in other_accounts()}:
        raise pages.PageError(404, _("The demo has no account with this name."))
    user = db.session.scalar(
        select(User).where(User.username == username, User.disabled.is_(False))
    )
    if user is None:
        raise pages.PageError(404, _("This demo account is disabled."))
    if user.role != PATIENT:
        return own_token(session, user)
    record = next(iter(linked_patients(user.id)), None)
    if record is None:
        raise pages.PageError(404, _("No record is linked to this demo account."))
    return own_token(session, user, record)


@blueprint.get(PAGE)
@pages.for_signed_in
def explore() -> Response:
    """Show the form and, where there is an address, send it and show the answer."""
    typed = request.args.get("address")
    if typed is not None and "type" in request.args:
        return pages.see_other(again(_changed(typed)))
    if typed is None or not typed.strip():
        return _page(_first_search(), read_address(_first_search()))
    try:
        address = read_address(typed)
        if request.args.get("send") == "no":
            return _page(typed, address)
        return _answered(typed, address)
    except NoAddressError as error:
        return _page(typed, None, status=400, wrong=str(error))
    except pages.PageError as error:
        return _page(typed, address, status=error.status, wrong=str(error))


@blueprint.get(f"{PAGE}/address")
def write() -> Response:
    """Return the address that the form says."""
    address = write_address(request.args)
    if "HX-Request" not in request.headers:
        return _without_scripts(str(address))
    changes_type = request.args.get("before") != request.args.get("type")
    values = _values(str(address), address, changes_type=changes_type)
    return pages.page("explore/_written.html", **values)


@blueprint.get(f"{PAGE}/form")
def read() -> Response:
    """Return the form that says what an address does."""
    if "HX-Request" not in request.headers:
        return _without_scripts(request.args.get("address", _first_search()))
    typed = request.args.get("address", "")
    try:
        return pages.page("explore/_read.html", **_values(typed, read_address(typed)))
    except NoAddressError:
        # The address is still being typed.
        return _no_change()


@pages.for_signed_in
def _without_scripts(address: str) -> Response:
    """Show the page anew, the form and the address in step, nothing sent."""
    return pages.see_other(again(address, send="no"))


@blueprint.get(f"{PAGE}/codes")
@pages.for_signed_in
def codes() -> Response:
    """Return what the form's fields suggest: the codes that occur, or patients in one field."""
    definition = types().get(request.args.get("type", ""))
    if definition is None or not definition.searchable:
        return _no_change()
    recent, secret = suggestions.recent_values(definition), _token().secret
    fields = read_form(Address(f"/fhir/{definition.name}")).fields()
    name = request.args.get("patients", "")
    if name in {field.name for field in fields if field.finds_patients}:
        typed = request.args.get(f"f.{name}", "")
        return pages.page(
            "explore/_codes.html",
            offers={name: suggestions.patients(typed, recent.get(name, ()), secret)},
        )
    occurring = suggestions.occurring_codes(definition, secret)
    offers = {
        field.name: suggestions.merge_options(
            recent.get(field.name, ()), field.offers, occurring[field.name]
        )
        for field in fields
        if field.name in occurring and not field.finds_patients
    }
    return pages.page("explore/_codes.html", offers=offers)


@blueprint.get(f"{PAGE}/whole")
@pages.for_signed_in
def whole() -> Response:
    """Return an answer's body as a file. Raises PageError."""
    address = read_address(request.args.get("address", ""))
    sent = send(address, _token().secret, request.args, MOST_WHOLE, by_post=is_sent_by_post())
    answer = sent.answer
    if answer.is_cut:
        raise pages.PageError(
            413, _("The response is too large for this page. Use the curl command.")
        )
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", address.path.removeprefix("/fhir/"))[:80].strip("-")
    content_type = answer.headers.get("Content-Type", "")
    is_json = "json" in content_type
    response = Response(
        answer.body, content_type=content_type if is_json else "application/octet-stream"
    )
    ending = ".json" if is_json else ""
    response.headers["Content-Disposition"] = f'attachment; filename="{name or "answer"}{ending}"'
    response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response.headers["Cache-Control"] = "no-store"
    return response


def _no_change() -> Response:
    """Return the answer after which htmx leaves the page as it is."""
    return Response(status=204, headers={"Cache-Control": "no-store"})


def _changed(typed: str) -> str:
    """Return the address to send, if form and address are submitted together.

    The form wins if only the form was changed; both were equal when shown.
    """
    written = str(write_address(request.args))
    is_changed = request.args.get("was") != mark_of(typed)
    return typed if is_changed or request.args.get("stood") == mark_of(written) else written


def _token() -> OwnToken:
    return token_for(request.args.get("as"))


def is_sent_by_post() -> bool:
    return request.args.get("method", "").upper() == "POST"


def _first_search() -> str:
    """Return the search that an empty page offers."""
    return f"/fhir/{type_names()[0]}?_explain=true"


def _answered(typed: str, address: Address) -> Response:
    """Send the address, and show the page with the answer. Raises NoAddressError or PageError."""
    token = _token()
    sent = send(address, token.secret, request.args, MOST_BYTES, by_post=is_sent_by_post())
    # With another Accept header a Binary is sent as its bytes (FHIR R4 binary §2.41.4).
    is_bytes = address.type_name == "Binary" and bool(request.args.get("accept", "").strip())
    answer = described(sent.answer, is_bytes=is_bytes)
    view = _view(answer.content)
    more: dict[str, Any] = {}
    if view == "json":
        more["folded"] = fold_json(answer.content, link)
    elif view == "table":
        tables = more["tables"] = tables_of(answer.content)
        more["around"] = around(answer.content)
        more["names"] = names_of_patients(tables.patients(), token.secret) if tables else {}
    if any(issue.get("severity") != "information" for issue in answer.issues):
        corrected = correction_of(address)
        more["meant"] = [corrected] if corrected else []
    if address.searched and (sent.answer.status == 400 or answer.finds_nothing):
        more["meant"] = more.get("meant") or [*suggestions.patients_meant(address, token.secret)]
    if answer.issues and sent.answer.status < 400:
        more["reading"] = reading_of(answer.issues)
        translated(more["reading"], address, token)
        more["ignored"] = ignored_filters(address, answer.issues)
        more["is_of_all"] = is_of_all_patients(address, token)
        if request.args.get("narrow"):
            more["narrowed"] = narrowing(str(address), token)
    elif address.searched and sent.answer.status == 200 and not is_sent_by_post():
        explained = address._replace(pieces=(*address.pieces, "_explain=true"))
        more["explain"] = again(str(explained))
    return _page(
        typed,
        address,
        sent=sent,
        answer=answer,
        view=view,
        views={name: again(str(address), view=name) for name in VIEWS},
        whole=again(str(address), f"{PAGE}/whole"),
        # What the token lacks is named there.
        lacks_trail=TRAIL_SCOPE in sent.answer.headers.get("WWW-Authenticate", ""),
        narrow=again(str(address), narrow="1") + "#explained",
        pages=pages_of(answer.content),
        **more,
    )


def _view(content: Any) -> str:
    """Return how an answer is shown: as it was chosen, or else a Bundle's resources as tables."""
    if content is None:
        return "raw"
    chosen = request.args.get("view", "")
    is_bundle = isinstance(content, dict) and content.get("resourceType") == "Bundle"
    return chosen if chosen in VIEWS else "table" if is_bundle else "json"


def _page(
    typed: str, address: Address | None, *, status: int = 200, wrong: str = "", **values: Any
) -> Response:
    return pages.page(
        "explore/page.html",
        status,
        scripts=True,
        wrong=wrong,
        headers={name: request.args.get(name, "") for name in HEADERS},
        lesson=lesson(),
        # As it was chosen: another answer may be better shown otherwise.
        chosen_view=request.args.get("view", ""),
        link=link,
        visible=visible,
        **_values(readable(typed), address),
        **values,
    )


def _values(typed: str, address: Address | None, **values: Any) -> dict[str, Any]:
    """Return what the form and its neighbours show; address is None where typed is none."""
    form = read_form(address or read_address(_first_search()))
    recent = suggestions.recent_values(form.definition)
    searched = address.searched if address else None
    is_post = is_sent_by_post() and searched is not None
    method = "POST" if is_post else "GET"
    values |= {
        "typed": typed,
        "form": form,
        "is_search": address is None or searched is not None,
        "was": mark_of(typed),
        "stood": mark_of(str(write_address(form.sent))),
        "type_names": type_names(),
        "offers": {
            field.name: suggestions.merge_options(recent.get(field.name, ()), field.offers)
            for field in form.fields()
        },
        "again": again,
        "address": "",
        "method": method,
        "as_username": request.args.get("as", ""),
        "others": (),
        "snippets": (),
    }
    # The session may have ended while the form was filled in; what was typed stays.
    with suppress(pages.PageError):
        values["others"] = other_accounts()
    if address is None:
        return values
    target = f"/fhir/{searched.name}/_search" if is_post and searched else str(address)
    sent_headers = headers_of(request.args, is_binary=address.type_name == "Binary")
    return values | {
        "address": str(address),
        "beside": {name: value for name in BESIDE if (value := request.args.get(name))},
        "snippets": snippets(target, method, address.query, sent_headers),
        "get_token": how_to_get_a_token(),
    }
