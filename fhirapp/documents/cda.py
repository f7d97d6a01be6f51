"""A C-CDA: its text, its HTML, and the files within. CDA R2 §4.2 and §4.3.

The text is of what a reader sees, with the meaning of codes. The HTML is of who and when, and of
the narrative; coded entries are for programs and are left out.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from html import escape
from typing import NamedTuple

from fhirapp.documents.markup import parse_xml, xml_characters
from fhirapp.documents.media import Unreadable

# The parts that are written for people: CDA R2 §4.3.5, data types §2.5 (originalText).
_FOR_PEOPLE = frozenset({"originalText", "text", "title"})
# Of the narrative's elements these do not end a word: CDA R2 §4.3.5.
_WITHIN_A_WORD = frozenset({"content", "footnoteRef", "linkHtml", "sub", "sup"})
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
    "title": "",
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
# How many elements the longest of these paths has, with ClinicalDocument.
_DEEPEST_FACT = 5
_DASHED = re.compile(r"(\d{4}-\d\d(?:-\d\d)?)(?:T(\d\d:\d\d)[\d:.Z+-]*)?", re.ASCII)


class Enclosed(NamedTuple):
    """A file within a C-CDA: its body, the text of a section, or the content of an entry.

    CDA R2 §4.2.4.2 (nonXMLBody) and §4.3.6.5 (observationMedia); data types §2.4 (ED). section is
    the title of its section, "" outside of sections.
    """

    content_type: str
    base64: str
    section: str

    def content(self) -> bytes:
        """Return its bytes. Raises Unreadable."""
        try:
            return b64decode(self.base64)
        except ValueError:
            raise Unreadable("what is called base64 and is not") from None


class XmlDocument(NamedTuple):
    """The text of XML; of a C-CDA also its HTML, which is else empty, and the files within."""

    text: str
    html: str
    enclosed: list[Enclosed]


def read_xml(data: bytes, codec: str) -> XmlDocument:
    """Return what people read in XML. Raises Unreadable."""
    reader = _Reader()
    parse_xml(xml_characters(data, codec), reader)
    html = reader.html() if reader.is_clinical else ""
    return XmlDocument("".join(reader.words), html, reader.enclosed)


def clinical_html(data: bytes, codec: str) -> str:
    """Return the HTML of a C-CDA. Raises Unreadable."""
    if html := read_xml(data, codec).html:
        return html
    raise Unreadable("XML that is no clinical document")


class _Reader:
    """Receives the elements of XML, by their names without prefix; words is its text."""

    def __init__(self) -> None:
        self.is_clinical = False
        self.words: list[str] = []
        self.enclosed: list[Enclosed] = []
        self._path: list[str] = []
        # The depth of the open element that is written for people; 0 outside of one.
        self._people = 0
        self._displays: set[str] = set()
        # The titles of the sections that are open.
        self._titles: list[list[str]] = []
        # The base64 of an open file, the depth of its element, and its media type.
        self._file: list[str] | None = None
        self._file_depth = 0
        self._file_type = ""
        # The closing tags of the open narrative elements.
        self._closing: list[str] = []
        self._body: list[str] = []
        self._facts: list[tuple[str, str]] = []
        # The text of the fact that is being read.
        self._fact: list[str] | None = None
        # The media types of what sections show, by id; and where in the body each is shown.
        self._media: dict[str, str] = {}
        self._medium = ""
        self._shown: list[tuple[int, str]] = []

    def html(self) -> str:
        for place, name in self._shown:
            kind = self._media.get(name, "")
            if kind and not kind.startswith("image/"):
                self._body[place] = _not_shown(kind)
        title = next((text for name, text in self._facts if not name), "")
        head = f"<h1>{escape(title or 'Clinical document without a title')}</h1>"
        facts = "".join(
            f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in self._facts if name
        )
        body = "".join(self._body) or "<p>No section of this document is written for people.</p>"
        return f"{head}<dl>{facts}</dl>{body}"

    def start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(":")[2]
        if not self._path:
            self.is_clinical = local == "ClinicalDocument"
        self._path.append(local)
        self._separate(local)
        if not self.is_clinical:
            return
        display = attributes.get("displayName")
        if display and display not in self._displays:
            self._displays.add(display)
            self.words.append(f"{display}\n")
        if not self._people and local in _FOR_PEOPLE:
            self._people = len(self._path)
        if local == "section":
            self._titles.append([])
        is_file = self._file is None and attributes.get("representation") == "B64"
        if is_file:
            self._file, self._file_depth = [], len(self._path)
            self._file_type = attributes.get("mediaType", "")
        if self._closing:
            self._open(local, attributes)
        elif local in ("title", "text") and self._path[-2:-1] == ["section"]:
            # The heading of ClinicalDocument comes first.
            level = min(1 + self._path.count("section"), 6)
            tag = f"h{level}" if local == "title" else "div"
            self._body.append(f"<{tag}>{_not_shown(self._file_type) if is_file else ''}")
            self._closing.append(f"</{tag}>")
        else:
            self._read_fact(local, attributes)

    def _read_fact(self, local: str, attributes: Mapping[str, str]) -> None:
        at = "/".join(self._path[1:]) if len(self._path) <= _DEEPEST_FACT else ""
        if at in _TEXTS:
            self._fact = []
        elif self._fact is not None:
            self._fact.append(" ")
        elif at in _TIMES and (time := attributes.get("value", "")):
            self._facts.append((_TIMES[at], _date(time)))
        elif at == f"{_PATIENT}/administrativeGenderCode":
            gender = attributes.get("displayName") or attributes.get("code", "")
            self._facts.append(("Gender", gender or "not recorded"))
        elif local == "text" and self._path[-2:-1] == ["nonXMLBody"]:
            kind = attributes.get("mediaType") or "type not recorded"
            self._body.append(f"<p>The body of this document is a file: {escape(kind)}.</p>")
        elif local == "observationMedia":
            self._medium = attributes.get("ID", "")
        elif local == "value" and self._path[-2:-1] == ["observationMedia"]:
            self._media[self._medium] = attributes.get("mediaType", "")

    def _open(self, local: str, attributes: Mapping[str, str]) -> None:
        tag = _NARRATIVE.get(local, "")
        if local == "list" and attributes.get("listType") == "ordered":
            tag = "ol"
        elif local == "content":
            tag = _style(attributes)
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

    def characters(self, text: str) -> None:
        if self._file is not None:
            # Not those of a thumbnail within.
            if len(self._path) == self._file_depth:
                self._file.append(text)
            return
        if self._people or not self.is_clinical:
            self.words.append(text)
        if self._titles and self._path[-2:] == ["section", "title"]:
            self._titles[-1].append(text)
        if self._closing:
            self._body.append(escape(text))
        elif self._fact is not None:
            self._fact.append(text)

    def end(self, _name: str) -> None:
        local, depth = self._path[-1], len(self._path)
        self._separate(local)
        if depth == self._people:
            self._people = 0
        if depth == self._file_depth and self._file is not None:
            self._enclose("".join(self._file))
            self._file = None
        if local == "section" and self.is_clinical:
            self._titles.pop()
        if self._closing:
            self._body.append(self._closing.pop())
        elif self._fact is not None and (at := "/".join(self._path[1:])) in _TEXTS:
            if fact := " ".join("".join(self._fact).split()):
                self._facts.append((_TEXTS[at], fact))
            self._fact = None
        self._path.pop()

    def _separate(self, local: str) -> None:
        if not (self.is_clinical and local in _WITHIN_A_WORD):
            self.words.append("\n")

    def _enclose(self, base64: str) -> None:
        # One that is empty only names a file elsewhere.
        if base64.strip():
            titles = ("".join(title).strip() for title in reversed(self._titles))
            self.enclosed.append(Enclosed(self._file_type, base64, next(filter(None, titles), "")))


def _style(attributes: Mapping[str, str]) -> str:
    if revised := _REVISED.get(attributes.get("revised", "")):
        return revised
    style = attributes.get("styleCode", "").lower()
    return next((tag for word, tag in _STYLES if word in style), "span")


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
