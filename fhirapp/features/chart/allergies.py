"""A patient's allergies for the chart, as AllergyIntolerance/$summary returns them.

The summary decides whether an entry is severe, its group, and the order of entries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.features.notes.elements import add_names
from fhirapp.fhir import words
from fhirapp.web.internal_client import read
from fhirapp.web.labels import word
from fhirapp.web.marks import substance_with_codes
from fhirapp.web.texts import _

VIA = "chart"
Json = Mapping[str, Any]
# Groups of statements that are no allergies.
_STATED = ("none-known", "no-information", "not-asked")
# Groups of the summary by section: its title, and whether it is folded below its substances.
_SECTIONS = (
    (("active-severe", "active", "unconfirmed"), _("Active"), False),
    (
        ("status-not-known-severe", "status-not-known"),
        _("Unresolved: clinical status not recorded"),
        False,
    ),
    (("words-only",), _("In document text only"), False),
    (_STATED, _("Statements about allergies"), False),
    (("past",), _("Resolved or inactive"), True),
    (("refuted",), _("Refuted"), True),
    (("entered-in-error",), _("Entered in error"), True),
)
_FOLDED = frozenset(code for codes, _title, is_folded in _SECTIONS if is_folded for code in codes)
# Shown in place of reactions for entries that are no allergies.
_STATEMENTS = {
    "none-known": _("none known"),
    "no-information": _("no information"),
    "not-asked": _("not asked"),
    "words-only": _("in document text only"),
}
# Conclusions without an active or unresolved allergy; the record states "none" for the first alone.
_KNOWN = "none-known"
_ABSENCES = {
    _KNOWN: _("None known"),
    "none-known-in-part": _("None known for some allergens only"),
    "not-asked": _("Not asked"),
    "no-information": _("No information"),
    "none-holding": _("None active"),
    "nothing-recorded": _("Nothing recorded"),
    "not-visible": _("Not visible to you"),
    "words-only": _("In document text only"),
}
# Severe allergies in the banner, names in a list, statements beside an absence, links of a finding.
_MOST_SEVERE, _MOST_NAMED, _MOST_STATED, _MOST_LINKS = 12, 20, 3, 10


def allergies_of(patient_id: str, token: OwnToken) -> dict[str, Any]:
    """Return the values of the chart's section of allergies. Raises PageError.

    severe are the entries of the banner, more_severe counts those that do not fit into it, and also
    names the other active or unresolved ones. absence is the heading where no allergy is active or
    unresolved, else ""; statements are the entries that state it.
    """
    query = urlencode({"patient": patient_id})
    answer = _content(read(f"/fhir/AllergyIntolerance/$summary?{query}", token, via=VIA))
    groups = {
        _first(group, "code"): [_entry(entry) for entry in group["entry"]]
        for group in answer["group"]
    }
    entries = [entry for members in groups.values() for entry in members]
    holding = {code: members for code, members in groups.items() if code not in _FOLDED}
    severe = [entry for members in holding.values() for entry in members if entry["is_severe"]]
    others = [
        entry
        for code, members in holding.items()
        if code not in _STATED
        for entry in members
        if not entry["is_severe"]
    ]
    (conclusion,) = answer["conclusion"]
    absence = _ABSENCES.get(_first(conclusion, "code"), "")
    stated = [entry for code in _STATED for entry in groups.get(code, ())] if absence else []
    shown, statements = severe[:_MOST_SEVERE], stated[:_MOST_STATED]
    # Each name may be a request.
    add_names([entry["author"] for entry in (*shown, *statements)], token, VIA)
    names = {entry["id"]: entry["substance"] for entry in entries}
    return {
        "severe": shown,
        "more_severe": len(severe) - len(shown),
        "also": _names(others) if severe else "",
        "conclusion": _first(conclusion, "text"),
        "absence": _(absence),
        "is_known": absence == _ABSENCES[_KNOWN],
        "statements": statements,
        "look_twice": [_look_twice(part, patient_id, names) for part in answer["finding"]],
        "sections": list(_sections(groups)),
    }


def _sections(groups: Mapping[str, Sequence[Json]]) -> Iterator[dict[str, Any]]:
    """Yield the sections that have entries; names are the substances of a folded one."""
    known = {code for codes, _title, _is_folded in _SECTIONS for code in codes}
    # A group that this page does not know is shown with the active allergies.
    unknown = [code for code in groups if code not in known]
    for place, (codes, title, is_folded) in enumerate(_SECTIONS):
        wanted = codes if place else (*codes, *unknown)
        members = [entry for code in wanted for entry in groups.get(code, ())]
        if members:
            names = _names(members) if is_folded else ""
            yield {"title": _(title), "entries": members, "is_folded": is_folded, "names": names}


def _names(entries: Sequence[Json]) -> str:
    names = [
        substance_with_codes(entry["substance"], entry["coded_as"])
        for entry in entries[:_MOST_NAMED]
    ]
    if more := len(entries) - len(names):
        names.append(_("%(count)s more", count=more))
    return ", ".join(names)


def _entry(parts: Json) -> dict[str, Any]:
    """Return an entry as the chart shows it; dates are pairs of a label and a day."""
    kind, substance = _first(parts, "kind"), _first(parts, "substance")
    # HL7 writes it so for machines.
    substance = _("No information") if substance == "NoInformation" else substance
    names = ("text", "severity", "onset", "description", "severityText")
    reactions = (
        words.ReactionWords(*(_first(reaction, name) for name in names))
        for reaction in parts["reaction"]
    )
    terms = (*parts["type"], *parts["category"]) if kind == "allergy" else ()
    statuses = filter(None, (_first(parts, "clinicalStatus"), _first(parts, "verificationStatus")))
    dates = (
        (_("onset"), _first(parts, "onset")),
        (_("last occurred"), _first(parts, "lastOccurrence")),
        (_("recorded"), _first(parts, "recorded")),
    )
    return {
        "id": _first(parts, "source")["reference"].partition("/")[2],
        "substance": substance or _("Substance not recorded"),
        "coded_as": ", ".join(parts["codedAs"]),
        "same_class": "; ".join(parts["sameClass"]),
        "is_severe": True in parts["severe"],
        "is_by_criticality": _first(parts, "severeBy") == "criticality",
        "why_severe": _first(parts, "whySevere"),
        "worst_reaction": _first(parts, "worstReaction"),
        "kind": ", ".join(map(word, terms)),
        "reaction": _(_STATEMENTS.get(kind, "")) or words.reactions_in_words(reactions),
        "comments": parts["comment"],
        "status": ", ".join([*map(word, statuses), *parts["note"]]),
        "dates": [dated for dated in dates if dated[1]] or [(_("onset"), _("not recorded"))],
        "author_label": _("recorded by") if parts["recorder"] else _("reported by"),
        "author": _first(parts, "recorder") or _first(parts, "asserter"),
    }


def _look_twice(finding: Json, patient_id: str, names: Mapping[str, str]) -> dict[str, Any]:
    """Return what does not fit together: a sentence, and links by address to what it is about."""
    links = {}
    for source in finding["source"]:
        kind, _slash, row_id = source["reference"].partition("/")
        if kind == "Patient":
            links[f"/patients/{row_id}"] = _("open the other record")
        else:
            links[f"/patients/{patient_id}/allergies/{row_id}"] = names.get(row_id, row_id)
    return {"text": _first(finding, "text"), "links": dict(islice(links.items(), _MOST_LINKS))}


def _content(node: Json) -> Mapping[str, list[Any]]:
    """Return the values, or the content, of each parameter or part of a name."""
    found: dict[str, list[Any]] = defaultdict(list)
    for part in node.get("parameter", node.get("part", ())):
        values = [value for key, value in part.items() if key.startswith("value")]
        found[part["name"]] += values or [_content(part)]
    return found


def _first(content: Json, name: str) -> Any:
    return next(iter(content[name]), "")
