"""The menus of pages, from the declarations of features and those of the core."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from flask import request

from fhirapp.config import settings
from fhirapp.feature import APPS, DATA, N_, PEOPLE, SYSTEM, MenuLink, features

_CORE = (
    MenuLink(DATA, 90, "/admin/schedules", N_("Schedules")),
    MenuLink(SYSTEM, 100, "/admin/audit", N_("Audit trail")),
    MenuLink(SYSTEM, 130, "/admin/keys", N_("Keys")),
    MenuLink(SYSTEM, 140, "/admin/settings", N_("Settings")),
)
_ADMINISTRATION = {
    PEOPLE: N_("People"),
    DATA: N_("Data"),
    APPS: N_("Apps"),
    SYSTEM: N_("System"),
}

_HELP = {"/admin": "administration"}


def links(menu: str, role: str) -> Sequence[MenuLink]:
    """Return the links of a menu that a role sees, in their order; "" has not signed in."""
    return sorted(
        (
            link
            for link in _links()
            if link.menu == menu
            and (link.roles is None or role in link.roles)
            and (settings().demo or not link.demo_only)
        ),
        key=lambda link: link.position,
    )


def administration(role: str) -> tuple[Sequence[tuple[str, str]], str]:
    """Return (menu, label) of each menu of administration that has links, and the current menu."""
    menus = {menu: links(menu, role) for menu in _ADMINISTRATION}
    current = next((menu for menu, found in menus.items() if any(map(is_current, found))), SYSTEM)
    return [(menu, _ADMINISTRATION[menu]) for menu, found in menus.items() if found], current


def is_current(link: MenuLink) -> bool:
    """Return whether the page that is shown is a link's own page, or one below it."""
    return request.path == link.path or (
        not link.is_exact and request.path.startswith(f"{link.path}/")
    )


def help_page() -> str:
    """Return the path of the manual's page that helps on this page."""
    declared = _HELP.items(), *(feature.help.items() for feature in features())
    found = (name for path, name in chain(*declared) if request.path.startswith(path))
    name = next(found, "")
    return f"/docs/{name}" if name else "/docs"


def _links() -> list[MenuLink]:
    return [link for feature in features() for link in feature.navigation] + [*_CORE]
