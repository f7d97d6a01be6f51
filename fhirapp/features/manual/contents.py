"""The manual: pages of Markdown, which the server shows at /docs and `fhirapp docs` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from fhirapp.feature import N_

# The pages for each audience, in the order of the contents; index is the contents.
AUDIENCES = {
    N_("Everybody"): ("index", "pages", "try"),
    N_("Administrators"): ("administration", "load", "clinic", "deploy", "scale", "security"),
    N_("Developers"): ("connect", "search", "search-page", "operations", "limits"),
    N_("Contributors"): ("architecture", "decisions", "contributing"),
}
NAMES = tuple(chain(*AUDIENCES.values()))
_FOLDER = Path(__file__).parent / "docs"
_HEADING = re.compile(r"(?P<marks>#{2,4}) (?P<title>.*)")
_FENCE = "```"
_MARKUP = re.compile(r"^```.*$|[`*]|\]\([^)]*\)|<!--.*?-->|(?<!\w)\[|^- ", re.M)
_TABLE_LINE = re.compile(r"^\|[-:| ]+\|$", re.M)
_CELL_BORDER = re.compile(r" *(?<!\\)\| *")
_MOST = 30
_SNIPPET = 200
_TITLE_WEIGHT = 10


class ManualSection(NamedTuple):
    """A part of a page below a heading; anchor is empty for what stands before the first."""

    title: str
    level: int
    anchor: str
    text: str


class ManualPage(NamedTuple):
    """A page: its name, its title, its Markdown without the title, its sections."""

    name: str
    title: str
    text: str
    sections: tuple[ManualSection, ...]

    @property
    def source(self) -> str:
        return f"# {self.title}\n\n{self.text}"


class ManualMatch(NamedTuple):
    """A section that a search found, with the text around the first match.

    snippet alternates between text and words that were searched for.
    """

    page: ManualPage
    section: ManualSection
    snippet: list[str]


def pages() -> Mapping[str, ManualPage]:
    """Return the pages by name, in the order of the contents."""
    return {name: _read(name) for name in NAMES}


def search(words: str) -> list[ManualMatch]:
    """Return the sections that hold all of the words, the best match first.

    The score of a page is the less the fewer people it is for.
    """
    wanted = words.casefold().split()
    if not wanted:
        return []
    scored = []
    for share, names in enumerate(AUDIENCES.values(), 1):
        for page in map(_read, names):
            for section in page.sections:
                title, text = section.title.casefold(), plain(section.text).casefold()
                if all(word in title or word in text for word in wanted):
                    score = sum(
                        _TITLE_WEIGHT * (word in title) + text.count(word) for word in wanted
                    )
                    match = ManualMatch(page, section, _snippet(section.text, wanted))
                    scored.append((score / share, match))
    scored.sort(key=lambda pair: -pair[0])
    return [match for _, match in scored[:_MOST]]


def anchor_of(title: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def plain(text: str) -> str:
    """Return Markdown without its marks, on one line, with dots between the cells of a table."""
    lines = _MARKUP.sub("", _TABLE_LINE.sub("", text)).splitlines()
    cells = (
        _CELL_BORDER.sub(" · ", line.strip("|")) if line[:1] == "|" else line for line in lines
    )
    return " ".join(" ".join(cells).split())


@cache
def _read(name: str) -> ManualPage:
    text = (_FOLDER / f"{name}.md").read_text(encoding="utf-8")
    title, _, rest = text.partition("\n")
    rest = rest.strip("\n")
    title = title.removeprefix("# ")
    return ManualPage(name, title, rest, tuple(_sections(title, rest)))


def _sections(page_title: str, text: str) -> Iterator[ManualSection]:
    title, level, anchor = page_title, 1, ""
    lines: list[str] = []
    is_code = False
    for line in text.split("\n"):
        is_code ^= line.startswith(_FENCE)
        heading = None if is_code else _HEADING.fullmatch(line)
        if heading is None:
            lines.append(line)
            continue
        yield ManualSection(title, level, anchor, "\n".join(lines).strip("\n"))
        title, level = heading["title"], len(heading["marks"])
        anchor, lines = anchor_of(title), []
    yield ManualSection(title, level, anchor, "\n".join(lines).strip("\n"))


def _snippet(text: str, wanted: list[str]) -> list[str]:
    """Return some of the text around the first match: text and matches in turn."""
    shown = plain(text)
    places = [place for word in wanted if (place := shown.casefold().find(word)) >= 0]
    begin = max(0, min(places, default=0) - _SNIPPET // 3)
    # From the beginning of a word on.
    begin = shown.find(" ", begin) + 1 if begin else 0
    cut = shown[begin : begin + _SNIPPET]
    if begin + _SNIPPET < len(shown):
        cut = f"{cut.rpartition(' ')[0] or cut} …"
    cut = f"{'… ' if begin else ''}{cut}"
    return re.split(f"({'|'.join(map(re.escape, wanted))})", cut, flags=re.IGNORECASE)
