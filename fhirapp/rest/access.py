"""How far a token reaches, decided before any data is touched. decisions §4, §6."""

from __future__ import annotations

from collections.abc import Sequence

from fhirapp.auth.access.compartment import Access
from fhirapp.auth.access.protector import authenticate, insufficient_scope
from fhirapp.auth.scopes import Scope
from fhirapp.rest.visibility import carriers, filtered
from fhirapp.search.parameter import Context
from fhirapp.search.reference import Reference
from fhirapp.search.values import split
from fhirapp.store.definition import Definition, Visibility, types

_NAMES = {"r": "read", "s": "search"}


def access_to(definition: Definition, permission: str, resource_id: str | None = None) -> Access:
    """Return the request's access, once it is known to reach the type at all.

    permission is "r" or "s"; resource_id is that of the one resource that is read. Raises
    LoginRequired, TokenExpired or Forbidden, before any data is touched.
    """
    access = authenticate().access()
    if definition.visibility is Visibility.SCOPE:
        reaches = bool(access.grants(definition.name, permission))
    elif definition.visibility is Visibility.CARRIER:
        reaches = any(access.grants(carrier.name, permission) for carrier in carriers())
    else:
        is_user = permission == "r" and access.own == (definition.name, resource_id)
        reaches = access.allows_any(permission) or is_user
    if not reaches:
        raise insufficient_scope(
            f"The token's scope does not cover {_NAMES[permission]} of {definition.name}.",
            f"system/{definition.name}.{permission}",
        )
    return access


def enforceable(scope: Scope) -> bool:
    """Say whether a scope names a type that is served, and only filters that it has.

    Where other resources or scopes decide who may see a type, its own filters would not be asked.
    """
    if scope.resource_type == "*":
        return not scope.filters
    definition = types().get(scope.resource_type)
    if definition is None:
        return False
    if definition.visibility is not Visibility.SCOPE:
        return not scope.filters
    return filtered(definition, scope.filters) is not None


def check_patients(
    definition: Definition, access: Access, applied: Sequence[tuple[str, str]], context: Context
) -> None:
    """Refuse a search that names another patient than the token's (decisions §6).

    Raises Forbidden; without this the answer would be an empty Bundle, which reads as "none".
    """
    # Of a TARGETS type, what may be seen hangs on all types.
    deciding = types().values() if definition.visibility is Visibility.TARGETS else (definition,)
    patients = {grant.patient for one in deciding for grant in access.grants(one.name, "s")}
    if None in patients:
        return
    for name, value in applied:
        base, _, modifier = name.partition(":")
        parameter = definition.params.by_name[base]
        if not (isinstance(parameter, Reference) and _is_of_patients(parameter)):
            continue
        if modifier not in ("", *parameter.targets):
            # :missing and :identifier name no patient's id.
            continue
        for one in split(value, ","):
            target = parameter.target(modifier, one, context.base_url)
            if target[1] not in patients or target[0] not in ("", "Patient"):
                raise insufficient_scope(
                    f"{name}: the token is for one patient, and this is another.",
                    f"user/{definition.name}.s",
                    base,
                )


def _is_of_patients(parameter: Reference) -> bool:
    return parameter.compartment or parameter.targets == ("Patient",)
