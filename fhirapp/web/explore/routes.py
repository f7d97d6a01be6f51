"""The explorer's page: the form of a search and its address, each follows the other; the answer.

    /explore?address=/fhir/AllergyIntolerance?patient=p1&view=table

sends that address with the token of who signed in. With send=no it is not sent yet. The form sends
its fields and the address together, and marks of both as they were shown: whichever was changed
since counts, with scripts and without.

In the demo: the same request as another person of the demo, without signing out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from flask import Response, request
from sqlalchemy import select

from fhirapp.auth.clients.first_party import OwnToken, own_token
from fhirapp.auth.demo import PEOPLE, Person
from fhirapp.auth.models import User
from fhirapp.auth.models.user import PATIENT
from fhirapp.auth.users.accounts import linked_patients
from fhirapp.config import settings
from fhirapp.db import db
from fhirapp.definition import Definition, types
from fhirapp.rest.errors import LONG_URLS
from fhirapp.web.explore import suggestions
from fhirapp.web.explore.address import Address, NoAddressError, mark_of, read_address, readable
from fhirapp.web.explore.answer import (
    BESIDE,
    HEADERS,
    MOST_BYTES,
    MOST_WHOLE,
    PAGE,
    again,
    lesson,
    link,
    pages_of,
    said,
    send,
    shown,
)
from fhirapp.web.explore.explanation import narrowing, reading_of
from fhirapp.web.explore.form import read_form, type_names, write_address
from fhirapp.web.explore.json_view import folded, visible
from fhirapp.web.explore.snippets import how_to_get_a_token, snippets
from fhirapp.web.explore.table import table_of
from fhirapp.web.internal_client import token_of
from fhirapp.web.pages import (
    PageError,
    blueprint_of,
    current_session,
    for_signed_in,
    page,
    see_other,
    signed_in,
)
from fhirapp.web.texts import _


def others() -> Sequence[Person]:
    """Return whom the request can be tried as beside who signed in: nobody outside the demo."""
    if not settings().demo:
        return ()
    own = signed_in().user.username
    return [person for person in PEOPLE if person.username != own]


def token_for(username: str | None) -> OwnToken:
    """Return the token of a person of the demo, that of who signed in for None or outside it.

    Raises PageError for a name that nobody in the demo has, and where nobody signed in.
    """
    signed = signed_in()
    if not settings().demo or not username or username == signed.user.username:
        return token_of()
    if username not in {person.username for person in PEOPLE}:
        raise PageError(404, _("The demo has no account of that name."))
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


blueprint = blueprint_of("explore", __name__)
# These hold an address of ours in their own; who signs in comes back to it.
blueprint.record_once(
    lambda state: state.app.extensions.update({LONG_URLS: ("/explore", "/sign-in")})
)

VIEWS = ("json", "raw", "table")


@blueprint.get(PAGE)
@for_signed_in
def explore() -> Response:
    """Show the form and, where an address is given, send it and show the answer."""
    typed = request.args.get("address")
    if typed is not None and "type" in request.args:
        return see_other(again(_meant(typed)))
    if typed is None or not typed.strip():
        return _page(_first_search(), read_address(_first_search()))
    try:
        address = read_address(typed)
        if request.args.get("send") == "no":
            return _page(typed, address)
        return _answered(typed, address)
    except NoAddressError as error:
        return _page(typed, None, status=400, wrong=str(error))
    except PageError as error:
        return _page(typed, address, status=error.status, wrong=str(error))


@blueprint.get(f"{PAGE}/address")
def write() -> Response:
    """Return the address that the form says."""
    if "HX-Request" not in request.headers:
        return _without_scripts("write")
    address = write_address(request.args)
    changes_type = request.args.get("before") != request.args.get("type")
    return _part("_written.html", address, str(address), changes_type=changes_type)


@blueprint.get(f"{PAGE}/form")
def read() -> Response:
    """Return the form that says what an address does."""
    if "HX-Request" not in request.headers:
        return _without_scripts("read")
    typed = request.args.get("address", "")
    try:
        return _part("_read.html", read_address(typed), typed)
    except NoAddressError:
        # It is being typed.
        return _nothing()


@for_signed_in
def _without_scripts(direction: str) -> Response:
    """Show the page anew, the form and the address in step, nothing sent."""
    typed = request.args.get("address", _first_search())
    to = str(write_address(request.args)) if direction == "write" else typed
    return see_other(again(to, send="no"))


@blueprint.get(f"{PAGE}/codes")
@for_signed_in
def codes() -> Response:
    """Return what the form's fields suggest."""
    definition = types().get(request.args.get("type", ""))
    if definition is None or not definition.searchable:
        return _nothing()
    fields = {one.name: one for one in read_form(Address(f"/fhir/{definition.name}")).fields()}
    occurring = suggestions.codes(definition, _token().secret)
    lately = _recent(definition)
    offered = {
        name: [*lately.get(name, ()), *occurring.get(name, ())] for name in {*lately, *occurring}
    }
    return page("explore/_codes.html", fields=fields, offered=offered)


@blueprint.get(f"{PAGE}/whole")
@for_signed_in
def whole() -> Response:
    """Return an answer's body as a file. Raises PageError."""
    try:
        address = read_address(request.args.get("address", ""))
        sent = send(address, _token().secret, request.args, MOST_WHOLE, by_post=_is_post())
    except NoAddressError as error:
        raise PageError(400, str(error)) from None
    answer = sent.answer
    if answer.is_cut:
        told = _("The answer is too large for a page: use the curl command.")
        raise PageError(413, told)
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", address.path.removeprefix("/fhir/"))[:80].strip("-")
    kind = answer.headers.get("Content-Type", "")
    is_json = "json" in kind
    response = Response(answer.body, content_type=kind if is_json else "application/octet-stream")
    ending = ".json" if is_json else ""
    response.headers["Content-Disposition"] = f'attachment; filename="{name or "answer"}{ending}"'
    response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = "no-store"
    return response


def _recent(definition: Definition) -> suggestions.Suggestions:
    """Return what this person searched for last; nothing where nobody is signed in."""
    found = current_session()
    if found is None or not found.complete:
        return {}
    return suggestions.recent(definition, found.user.id)


def _nothing() -> Response:
    """Return that nothing is to be changed on the page."""
    return Response(status=204, headers={"Cache-Control": "no-store"})


def _meant(typed: str) -> str:
    """Return the address that is meant where form and address were sent together.

    That of the form where it alone was changed; both were in step when they were shown.
    """
    written = str(write_address(request.args))
    is_changed = request.args.get("was") != mark_of(typed)
    return typed if is_changed or request.args.get("stood") == mark_of(written) else written


def _token() -> OwnToken:
    return token_for(request.args.get("as"))


def _is_post() -> bool:
    return request.args.get("method", "").upper() == "POST"


def _answered(typed: str, address: Address) -> Response:
    """Send the address, and show the page with the answer. Raises NoAddressError or PageError."""
    token = _token()
    sent = send(address, token.secret, request.args, MOST_BYTES, by_post=_is_post())
    # Of who takes another type a Binary sends its bytes (FHIR R4 binary §2.41.4).
    is_bytes = address.type_name == "Binary" and bool(request.args.get("accept", "").strip())
    told = shown(sent.answer, address.searched, is_bytes=is_bytes)
    view = request.args.get("view", "")
    view = "raw" if told.content is None else view if view in VIEWS else VIEWS[0]
    more: dict[str, Any] = {}
    if view == "json":
        more["folded"] = folded(told.content, link)
    elif view == "table":
        more["table"] = table_of(told.content)
    if told.issues and sent.answer.status < 400:
        more["reading"] = reading_of(told.issues)
        if request.args.get("narrow"):
            more["narrowed"] = narrowing(str(address), token)
    elif address.searched and sent.answer.status == 200 and not _is_post():
        explained_too = address._replace(pieces=(*address.pieces, "_explain=true"))
        more["explain"] = again(str(explained_too))
    views = {name: again(str(address), view=name) for name in VIEWS}
    return _page(
        typed,
        address,
        sent=sent,
        told=told,
        view=view,
        views=views,
        whole=again(str(address), path=f"{PAGE}/whole"),
        narrow=again(str(address), narrow="1") + "#explained",
        pages=pages_of(told.content),
        **more,
    )


def _first_search() -> str:
    """Return the search that an empty page offers."""
    return f"/fhir/{type_names()[0]}?_explain=true"


def _page(
    typed: str, address: Address | None, *, status: int = 200, wrong: str = "", **values: Any
) -> Response:
    form = read_form(address or read_address(_first_search()))
    typed = readable(typed)
    return page(
        "explore/page.html",
        status,
        scripts=True,
        typed=typed,
        form=form,
        is_search=address is None or address.searched is not None,
        was=mark_of(typed),
        stood=mark_of(str(write_address(form.sent))),
        type_names=type_names(),
        recent=_recent(form.definition),
        wrong=wrong,
        given={name: request.args.get(name, "") for name in HEADERS},
        lesson=lesson(),
        link=link,
        visible=visible,
        **_beside(address),
        **values,
    )


def _part(template: str, address: Address, typed: str, **values: Any) -> Response:
    """Return parts of the page, for htmx to put in their places."""
    form = read_form(address)
    return page(
        f"explore/{template}",
        typed=typed,
        form=form,
        is_search=address.searched is not None,
        was=mark_of(typed),
        stood=mark_of(str(write_address(form.sent))),
        type_names=type_names(),
        recent=_recent(form.definition),
        **_beside(address),
        **values,
    )


def _beside(address: Address | None) -> dict[str, Any]:
    """Return what is shown beside a request: how programs send it, and who else could."""
    if address is None:
        return {"snippets": (), "others": (), "address": "", "method": "GET", "as_username": ""}
    searched = address.searched
    is_post = _is_post() and searched is not None
    target = f"/fhir/{searched.name}/_search" if is_post and searched else str(address)
    try:
        persons = others()
    except PageError:
        # The session ended while the form was filled in; what was typed stays.
        persons = ()
    return {
        "address": str(address),
        "method": "POST" if is_post else "GET",
        "as_username": request.args.get("as", ""),
        "beside": {name: given for name in BESIDE if (given := request.args.get(name))},
        "others": persons,
        "snippets": snippets(
            target,
            "POST" if is_post else "GET",
            address.query,
            said(request.args, is_binary=address.type_name == "Binary"),
        ),
        "get_token": how_to_get_a_token(),
    }
