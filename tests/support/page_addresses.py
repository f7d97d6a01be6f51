"""The addresses of the app's pages, from its URL map."""

from __future__ import annotations

import re
from typing import NamedTuple

from flask import Flask

_CONTENT = "/notes/<note_id>/content/<int:number>"
# Addresses that are not HTML pages, or that only redirect.
NO_PAGES = {
    *("/start", "/smart-style.json", "/admin/audit/download/<kind>"),
    *("/explore/address", "/explore/form", "/explore/codes", "/explore/whole"),
    *("/learn/<name>/progress", "/learn/<name>/explore", "/learn/classes/<class_id>/results.csv"),
    # They lead to an identity provider, and do not exist without one.
    *("/sign-in/provider", "/sign-in/provider/answer", "/sign-in/provider/leave"),
    *(f"/admin/{part}/<job_id>/files/<name>" for part in ("imports", "exports")),
    *("/patients/<patient_id>/summary/document", "/admin/backups/<name>/file"),
    # The second redirects except while a server restarts.
    *("/admin/uploads/<upload_id>", "/admin/restoring"),
    *(_CONTENT, f"{_CONTENT}/page/<int:place>.png", f"{_CONTENT}/file"),
}
EXAMPLE_UUID = "5e0c9a4e-0d5c-4b6a-9b0a-9d1f0e6c1a2b"
_EXAMPLES = (("<uuid:[^>]*>", EXAMPLE_UUID), ("<int:[^>]*>", "1"), ("<[^>]*>", "x"))


class Address(NamedTuple):
    """The address of a page: its method, its rule, and an example of its path."""

    method: str
    rule: str
    path: str


def addresses(app: Flask, method: str) -> list[Address]:
    """Return the addresses of the app's pages that accept a method."""
    ours = {name for name, blueprint in app.blueprints.items() if blueprint.template_folder}
    return [
        Address(method, rule.rule, _example(rule.rule))
        for rule in app.url_map.iter_rules()
        if rule.endpoint.partition(".")[0] in ours and method in (rule.methods or ())
    ]


def _example(rule: str) -> str:
    for converter, value in _EXAMPLES:
        rule = re.sub(converter, value, rule)
    return rule
