"""A C-CDA as HTML: who and when, and the narrative of its sections. CDA R2 §4.2 and §4.3.5.

Coded entries are for programs and are left out. Nothing is fetched or expanded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape

from fhirapp.documents.markup import parse_xml
from fhirapp.documents.media import Unreadable

_MAX_DEPTH = 200
# Narrative elements and their HTML elements; others are replaced by their content.
_NARRATIVE: Mapping[str, str] = {
    **{name: name for name in ("br", "caption", "col", "colgroup", "sub", "sup", "table", "tbody")},
    **{name: name for name in ("td", "tfoot", "th", "thead", "tr")},
    "content": "span",
    "footnote": "small",
    "item": "li",
    "list": "ul",
    "paragraph": "p",
}
_EMPTY = frozenset({"br", "col"})
_STYLES = (("bold", "b"), ("italics", "i"), ("underline", "u"), ("emphasis", "em"))
_REVISED = {"delete": "del", "insert": "ins"}
# Facts of the header: their paths below ClinicalDocument, and their labels.
_PATIENT = "recordTarget/patientRole/patient"
_TEXTS = {
    f"{_PATIENT}/name": "Patient",
    "author/assignedAuthor/assignedPerson/name": "Author",
    "author/assignedAuthor/assignedAuthoringDevice/softwareName": "Written by the program",
    "custodian/assignedCustodian/representedCustodianOrganization/name": "Kept by",
    "legalAuthenticator/assignedEntity/assignedPerson/name": "Signed by",
}
_TIMES = {
    "effectiveTime": "Made",
    f"{_PATIENT}/birthTime": "Born",
    "componentOf/encompassingEncounter/effectiveTime/low": "Visit from",
    "componentOf/encompassingEncounter/effectiveTime/high": "Visit until",
}
_NAMES = frozenset({"name", "softwareName"})
_DASHED = re.compile(r"(\d{4}-\d\d(?:-\d\d)?)(?:T(\d\d:\d\d)[\d:.Z+-]*)?", re.ASCII)


def narrative(text: str) -> str:
    """Return the HTML of a clinical document. Raises Unreadable."""
    reader = _Narrative()
    parse_xml(text, reader)
    return reader.html()


class _Narrative:
    """Receives the elements of a clinical document and writes its HTML."""

    def __init__(self) -> None:
        self._path: list[str] = []
        # The closing tags of the open narrative elements.
        self._closing: list[str] = []
        self._title = ""
        self._facts: list[tuple[str, str]] = []
        self._body: list[str] = []
        # The text of the fact that is being read.
        self._fact: list[str] | None = None
        self._file = ""
        # The depth of the element whose base64 is omitted; 0 outside of one.
        self._left_out = 0
        # The media types of what sections show, by id; and where in the body each is shown.
        self._media: dict[str, str] = {}
        self._medium = ""
        self._shown: list[tuple[int, str]] = []

    def html(self) -> str:
        for place, name in self._shown:
            kind = self._media.get(name, "")
            if kind and not kind.startswith("image/"):
                self._body[place] = _not_shown(kind)
        facts = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in self._facts)
        head = f"<h1>{escape(self._title or 'Clinical document without a title')}</h1>"
        if self._file:
            self._body.append(f"<p>The body of this document is a file: {escape(self._file)}.</p>")
        elif not self._body:
            self._body.append("<p>No section of this document is written for people.</p>")
        return f"{head}<dl>{facts}</dl>{''.join(self._body)}"

    def start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(":")[2]
        if not self._path and local != "ClinicalDocument":
            raise Unreadable("XML that is no clinical document")
        self._path.append(local)
        if len(self._path) > _MAX_DEPTH:
            raise Unreadable(f"nested more than {_MAX_DEPTH} elements deep")
        if self._closing:
            self._open(local, attributes)
        elif local in ("title", "text") and self._path[-2:-1] == ["section"]:
            # The heading of ClinicalDocument comes first.
            level = min(1 + self._path.count("section"), 6)
            opened, closed = (
                (f"<h{level}>", f"</h{level}>") if local == "title" else ("<div>", "</div>")
            )
            self._body.append(opened)
            self._closing.append(closed)
            if attributes.get("representation") == "B64":
                self._left_out = len(self._path)
                self._body.append(_not_shown(attributes.get("mediaType", "")))
        elif local == "text" and self._path[-2:-1] == ["nonXMLBody"]:
            self._file = attributes.get("mediaType") or "type not recorded"
        elif local == "observationMedia":
            self._medium = attributes.get("ID", "")
        elif local == "value" and self._path[-2:-1] == ["observationMedia"]:
            self._media[self._medium] = attributes.get("mediaType", "")
        else:
            self._read_fact(local, attributes)

    def _read_fact(self, local: str, attributes: Mapping[str, str]) -> None:
        at = "/".join(self._path[1:])
        if at == "title" or at in _TEXTS:
            self._fact = []
        elif at in _TIMES and (time := attributes.get("value", "")):
            self._facts.append((_TIMES[at], _date(time)))
        elif at == f"{_PATIENT}/administrativeGenderCode":
            gender = attributes.get("displayName") or attributes.get("code", "")
            self._facts.append(("Gender", gender or "not recorded"))
        elif self._fact is not None and local not in _NAMES:
            self._fact.append(" ")

    def _open(self, local: str, attributes: Mapping[str, str]) -> None:
        tag = _NARRATIVE.get(local, "")
        if local == "list" and attributes.get("listType") == "ordered":
            tag = "ol"
        elif local == "content":
            tag = self._style(attributes)
        elif local == "renderMultiMedia":
            self._shown.append((len(self._body), attributes.get("referencedObject", "")))
            self._body.append("<i>(a picture that is not shown)</i>")
        if not tag:
            self._closing.append("")
            return
        cells = "".join(
            f' {name}="{escape(attributes[name])}"'
            for name in ("colspan", "rowspan")
            if tag in ("td", "th") and name in attributes
        )
        self._body.append(f"<{tag}{cells}>")
        self._closing.append("" if tag in _EMPTY else f"</{tag}>")

    @staticmethod
    def _style(attributes: Mapping[str, str]) -> str:
        if revised := _REVISED.get(attributes.get("revised", "")):
            return revised
        style = attributes.get("styleCode", "").lower()
        return next((tag for word, tag in _STYLES if word in style), "span")

    def characters(self, text: str) -> None:
        if self._left_out:
            return
        if self._closing:
            self._body.append(escape(text))
        elif self._fact is not None:
            self._fact.append(text)

    def end(self, _name: str) -> None:
        at = "/".join(self._path[1:])
        if len(self._path) == self._left_out:
            self._left_out = 0
        self._path.pop()
        if self._closing:
            self._body.append(self._closing.pop())
        elif self._fact is not None and (at == "title" or at in _TEXTS):
            fact = " ".join("".join(self._fact).split())
            self._fact = None
            if at == "title":
                self._title = fact
            elif fact:
                self._facts.append((_TEXTS[at], fact))


def _not_shown(media_type: str) -> str:
    kind = media_type or "type not recorded"
    return f"<i>(a file that is not shown here: {escape(kind)})</i>"


def _date(time: str) -> str:
    """Return a time of HL7 v3, YYYYMMDDhhmmss+hhmm, as 2024-03-05 14:30.

    Some documents have dashes and colons themselves: 2024-03-05T14:30:00+01:00.
    """
    if dashed := _DASHED.fullmatch(time):
        return " ".join(filter(None, dashed.groups()))
    digits = time[:14]
    if not (digits[:4].isdigit() and len(digits) >= 4):
        return time
    day = "-".join(filter(None, (digits[:4], digits[4:6], digits[6:8])))
    return (
        f"{day} {digits[8:10]}:{digits[10:12]}"
        if digits[8:12].isdigit() and len(digits) >= 12
        else day
    )
