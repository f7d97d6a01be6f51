"""Why a search does not find a resource: each of its parameters is tried alone.

    /explore/why?address=/fhir/AllergyIntolerance?patient=p1&reference=AllergyIntolerance/al-p1-latex

All requests go to our own addresses with the token, so the page reveals nothing that the token may
not see: as in the API, what it may not see looks like what is not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from flask import Response, request

from fhirapp import urls
from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.definition import Definition
from fhirapp.features.explore.address import explorer_link, read_address
from fhirapp.features.explore.explanation import VIA, Count, Search, count, search_of
from fhirapp.features.explore.routes import other_accounts, token_for
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.words import shortened
from fhirapp.search.query import is_chained_name
from fhirapp.search.values import values_at
from fhirapp.web.internal_client import ask
from fhirapp.web.pages import PageError, blueprint_of, for_signed_in, page, plain
from fhirapp.web.texts import _

blueprint = blueprint_of("explore_why", __name__)
# Parameters that are tried.
_MOST_PARAMETERS = 20
_LONGEST_ADDRESS, _LONGEST_REFERENCE = 8_000, 500
_REFERENCE = re.compile(
    rf"(?:(?P<type>[A-Z][A-Za-z]+)/)?(?P<id>{ID_PATTERN})(?:/_history(?:/{ID_PATTERN})?)?"
)
# Characters of a value, and values.
_LONGEST_SHOWN, _MOST_SHOWN = 80, 4


@blueprint.get("/explore/why")
@for_signed_in
def explain_absence() -> Response:
    """Show why a resource is not found. 400 for what is no search, 404 for an unknown person."""
    address = _address(plain(request.args.get("address", "")))
    reference = plain(request.args.get("reference", "")).strip()
    username, others = request.args.get("as", ""), other_accounts()
    if len(reference) > _LONGEST_REFERENCE:
        raise PageError(414, _("This is too long for a reference."))
    return page(
        "explore/why.html",
        scripts=True,
        address=address,
        reference=reference,
        as_username=username if others else "",
        others=others,
        reasons=[*why_missing(address, reference, token_for(username))] if reference else (),
        back=explorer_link(address, **{"as": username}),
    )


def _address(typed: str) -> str:
    """Return the address of a search as it was typed. Raises PageError."""
    if len(typed) > _LONGEST_ADDRESS:
        raise PageError(414, _("This address is too long for this page."))
    address = str(read_address(typed))
    if search_of(address) is None:
        raise PageError(400, _("Enter a search, for example /fhir/AllergyIntolerance?patient=p1."))
    return address


def why_missing(address: str, reference: str, token: OwnToken) -> Iterator[str]:
    """Yield the reasons why a search does not find a resource; none if the address is no search."""
    search = search_of(address)
    if search is None:
        return
    name = search.definition.name
    parts = _REFERENCE.fullmatch(_without_base(reference))
    if parts is None:
        yield _("This is not a reference. Enter %(name)s/ followed by the id.", name=name)
        return
    if parts["type"] and parts["type"] != name:
        yield _(
            "This search returns %(name)s; %(type)s is returned only if it is included, with "
            "_include.",
            name=name,
            type=parts["type"],
        )
        return
    resource_id = parts["id"]
    alone = count(search.definition, [("_id", resource_id)], token)
    if alone.total is None:
        yield _refused(alone, _("Your token does not allow searching %(name)s.", name=name))
    elif alone.total == 0:
        yield _why_unsearchable(name, resource_id, token)
    else:
        yield from _of_parameters(search, resource_id, token)


def _without_base(reference: str) -> str:
    for base in (urls.base_url(), ""):
        for root in ("/fhir/", "/api/"):
            if reference.startswith(f"{base}{root}"):
                return reference.removeprefix(f"{base}{root}")
    return reference


def _why_unsearchable(name: str, resource_id: str, token: OwnToken) -> str:
    """Return why a resource cannot be searched at all, as far as a read tells."""
    answer = ask(f"/fhir/{name}/{resource_id}", token.secret, via=VIA)
    if answer.status == 200:
        return _("The token allows reading it by id, but not searching for it.")
    if answer.status == 410:
        return _("It was deleted; a search finds only current resources.")
    return _("This %(name)s does not exist, or the token does not give access to it.", name=name)


def _of_parameters(search: Search, resource_id: str, token: OwnToken) -> Iterator[str]:
    """Yield which of the parameters leave out a resource that is there and may be seen."""
    resource: Mapping[str, Any] = {}
    leaves_out, keeps = False, []
    selecting = [*search.selecting.items()]
    for name, values in selecting[:_MOST_PARAMETERS]:
        sent = [("_id", resource_id), *((name, value) for value in values)]
        matches = count(search.definition, sent, token)
        if matches.total:
            keeps.append(name)
            continue
        leaves_out = True
        if matches.total is None:
            yield _refused(matches, _("The server rejects %(name)s.", name=name))
            continue
        resource = resource or _read(search.definition.name, resource_id, token)
        yield _sentence(name, matches, _value_of(search.definition, name, resource))
    if leaves_out:
        if keeps:
            yield _("Matches: %(names)s.", names=", ".join(keeps))
        return
    if len(selecting) > _MOST_PARAMETERS:
        yield _("None of the first %(number)s parameters excludes it.", number=_MOST_PARAMETERS)
        return
    yield _("No parameter excludes it: this search finds it.")
    shaping = {name: value for name, value in search.parameters if name.startswith("_")}
    if shaping.get("_summary") == "count" or shaping.get("_count") == "0":
        yield _("But the search requests only the total, so the response contains no resources.")
    else:
        yield _("If it is not on this page, follow the “next” link.")


def _sentence(name: str, matches: Count, value: str) -> str:
    if name == "_id":
        return _("_id excludes it: it lists other ids.")
    sought = next((param.sought for param in matches.reading.applied if param.name == name), "")
    if not sought:
        return _("%(name)s excludes it.", name=name)
    if value:
        return _(
            "%(name)s excludes it: the search matches only what %(sought)s; this resource "
            "has %(here)s.",
            name=name,
            sought=sought,
            here=value,
        )
    return _(
        "%(name)s excludes it: the search matches only what %(sought)s.", name=name, sought=sought
    )


def _refused(matches: Count, otherwise: str) -> str:
    notes = matches.reading.refused
    return " ".join(": ".join(filter(None, note[:2])) for note in notes) or otherwise


def _read(name: str, resource_id: str, token: OwnToken) -> Mapping[str, Any]:
    """Return a resource, nothing where it may only be searched."""
    answer = ask(f"/fhir/{name}/{resource_id}", token.secret, via=VIA)
    resource: Mapping[str, Any] = answer.json() if answer.status == 200 else {}
    return resource


def _value_of(definition: Definition, name: str, resource: Mapping[str, Any]) -> str:
    """Return what a resource has where a parameter looks; empty where that is not simple."""
    if is_chained_name(name):
        # It would be another resource's.
        return ""
    parameter = definition.params.by_name[name.partition(":")[0]]
    if not resource or not parameter.paths or any("(" in path for path in parameter.paths):
        return ""
    resource = definition.schema.searched(resource)
    by_path = [values for path in parameter.paths if (values := values_at(resource, path))]
    values = [value for values in by_path[: 1 if parameter.first_of else None] for value in values]
    if not values:
        return _("not recorded")
    texts = [*dict.fromkeys(filter(None, map(_text, values)))]
    return ", ".join(texts[:_MOST_SHOWN]) + (" …" if len(texts) > _MOST_SHOWN else "")


def _text(value: Any) -> str:
    """Return a value in short: a date, a code with its words, a reference; empty of others."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if isinstance(value, dict):
        coding: Mapping[str, Any] = next(iter(value.get("coding", ())), {})
        words = value.get("text") or coding.get("display") or value.get("display") or ""
        names = ("reference", "code", "value", "start")
        simple = next(filter(None, (value.get(name) for name in names)), "")
        short = coding.get("code") or simple
        text = f"{short} ({words})" if short and words else short or words
    return shortened(text, _LONGEST_SHOWN)
