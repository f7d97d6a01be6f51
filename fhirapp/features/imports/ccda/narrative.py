"""The words of an Allergies section, block by block: rows of tables, items of lists, paragraphs.

The cells of a table are known by the heads of their columns, so that a name, a reaction, a severity
and a status in the narrative can be compared with the codes of an entry. Texts resolves the links
of elements to the narrative. Source: CDA R2 §4.3.5 (narrative block).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import takewhile

from fhirapp.features.imports.ccda.tree import CcdaElement
from fhirapp.features.imports.ccda.words import is_heading, names_kind
from fhirapp.search.string import fold

# A name, or a remark: what is longer points to a whole section, which stays in the document.
LONGEST = 4_000
_LETTERS = re.compile(r"[^\W\d_]")
_NO_WORD = re.compile(r"[\W_]+")
_APART = re.compile(r"[;,/]|\band\b")
# Of the narrative's elements these do not end a word.
_WITHIN_A_WORD = frozenset({"content", "footnoteRef", "linkHtml", "sub", "sup"})
# These are, or begin, a line of their own.
_LINES = frozenset({"br", "item", "paragraph"})
# XML cannot contain it.
_LINE_BREAK = "\v"
_BULLET = re.compile(r"^[-*\u2022\u2013\u00b7]\s+")


class Texts:
    """Finds the text that elements have or point to."""

    def __init__(self, sections: list[CcdaElement]) -> None:
        self._by_id: dict[str, CcdaElement] = {}
        for section in sections:
            for text in in_section(section, "text"):
                for element in (text, *text.descendants()):
                    if name := element.get("ID"):
                        # The first counts: an id occurs once in a valid document.
                        self._by_id.setdefault(name, element)

    def of(self, element: CcdaElement | None) -> str:
        """Return the text in an element and that to which it points; "" where there is neither.

        Words that are in both are returned once.
        """
        if element is None:
            return ""
        parts = [plain(element), *map(plain, self.targets(element))]
        return shortened(" ".join(unique(parts)))

    def targets(self, element: CcdaElement | None) -> list[CcdaElement]:
        """Return the elements of the narrative to which an element, such as a text, points."""
        if element is None:
            return []
        names = [reference.get("value").removeprefix("#") for reference in element.all("reference")]
        return [self._by_id[name] for name in names if name in self._by_id]


def in_section(section: CcdaElement, name: str) -> list[CcdaElement]:
    """Return the elements of a name in a section and in the sections within it."""
    inner = section.all("component/section")
    return [*section.all(name), *(part for other in inner for part in in_section(other, name))]


def plain(element: CcdaElement) -> str:
    """Return all text in an element, on one line."""
    parts: list[str] = []
    _collect(element, parts)
    return tidy("".join(parts))


def tidy(text: str) -> str:
    """Return a text with a single space between its words."""
    return " ".join(text.split())


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def unique(texts: list[str]) -> list[str]:
    """Return the texts, in their order, without those whose words are part of another one."""
    kept: list[str] = []
    for text in filter(None, texts):
        if covers(kept, text):
            continue
        kept = [other for other in kept if not covers([text], other)]
        kept.append(text)
    return kept


def covers(texts: list[str], words: str) -> bool:
    """Say whether one of the texts holds these words, in their order, but for case and accents."""
    wanted = f" {_bare(words)} "
    return any(wanted in f" {_bare(text)} " for text in texts)


def stands_in(texts: list[str], words: str) -> bool:
    """Say whether the texts hold these words, or each part of them: "hives; rash and wheezing"."""
    parts = [part for part in map(str.strip, _APART.split(words)) if part]
    return covers(texts, words) or all(covers(texts, part) for part in parts)


def words_in(texts: Iterable[str]) -> set[str]:
    """Return the words of texts, without case and accents."""
    return set().union(*map(_words, texts))


@lru_cache(maxsize=1_000)
def _words(text: str) -> frozenset[str]:
    return frozenset(_bare(text).split())


@lru_cache(maxsize=1_000)
def _bare(text: str) -> str:
    return _NO_WORD.sub(" ", fold(text)).strip()


def _collect(element: CcdaElement, parts: list[str], *, line_break: str = " ") -> None:
    """Add the texts in an element to parts, with a line break around what is a line of its own."""
    for child in element.content:
        if isinstance(child, str):
            parts.append(child)
        else:
            apart = "" if child.name in _WITHIN_A_WORD else " "
            apart = line_break if child.name in _LINES else apart
            parts.append(apart)
            _collect(child, parts, line_break=line_break)
            parts.append(apart)


class Column(Enum):
    """What the cells of a column hold."""

    SUBSTANCE = "substance"
    REACTION = "reaction"
    SEVERITY = "severity"
    CRITICALITY = "criticality"
    STATUS = "status"
    NOTE = "note"


# In this order: "reaction severity" is a severity, "allergy status" a status.
_HEADS = (
    (None, re.compile(r"\b(?:date|time|onset|type|category|code|source|author|provider)\b")),
    (Column.CRITICALITY, re.compile(r"\bcriticality\b")),
    (Column.SEVERITY, re.compile(r"\bsever\w+\b")),
    # A reaction may be over where its allergy is not.
    (
        None,
        re.compile(
            r"^(?:reactions?|manifestations?|symptoms?)(?: ?'s)? status\b"
            r"|\bstatus of (?:the )?(?:reactions?|manifestations?|symptoms?)\b"
        ),
    ),
    (Column.STATUS, re.compile(r"\bstatus\b")),
    (Column.NOTE, re.compile(r"\b(?:comments?|notes?|remarks?|details?|description)\b")),
    (Column.REACTION, re.compile(r"\b(?:reactions?|manifestations?|symptoms?|adverse)\b")),
    (
        Column.SUBSTANCE,
        re.compile(
            r"\b(?:allerg(?:en|y|ies|ens)|substances?|agents?|drugs?|medications?|products?|names?"
            r"|ingredients?|items?|intolerances?)\b"
        ),
    ),
)
# Columns whose cells may hold a statement in each line.
_LISTING = frozenset({Column.REACTION, Column.SEVERITY})
# Whose cells say how it was recorded.
_ADMINISTRATIVE = re.compile(
    r"\b(?:dates?|times?|codes?|source|author|provider|clinician|recorder|informant|id|identifier"
    r"|(?:recorded|entered|reviewed|reported|documented) by|datum|fecha|data|quelle|fuente|fonte"
    r"|bron|autor|auteur|autore|codigo|codice)\b"
)
# A label behind which a value stands.
_LABEL = re.compile(r"([^:]{1,60}):\s*(.*)", re.DOTALL)
_SKIPPED = frozenset({"thead", "colgroup", "col"})
_BLOCKS = frozenset({"paragraph", "item"})
_NESTING = frozenset({"list", "table", "item", "paragraph"})


@dataclass(eq=False)
class Block:
    """A row, item, paragraph or run of text, in words; cells are those of known columns.

    others are the cells of other columns, each with its head. is_aside: it is a title or a caption.
    A list of labels and values is one block; elements are its rows or items.
    """

    element: CcdaElement
    text: str
    cells: dict[Column, str] = field(default_factory=dict)
    columns: dict[CcdaElement, Column] = field(default_factory=dict)
    # The reactions, where a cell has several below each other.
    reaction_lines: list[str] = field(default_factory=list)
    others: list[tuple[str, str]] = field(default_factory=list)
    elements: list[CcdaElement] = field(default_factory=list)
    is_aside: bool = False

    @property
    def is_line(self) -> bool:
        """Whether it is a row of a table or an item of a list."""
        return self.element.name in ("tr", "item")

    @property
    def clinical(self) -> list[tuple[str, str]]:
        """The cells of other columns that may be about the allergy, each with its head."""
        return [
            (head, words)
            for head, words in self.others
            if _LETTERS.search(words) and not _ADMINISTRATIVE.search(fold(head))
        ]

    def put(self, column: Column | None, head: str, lines: list[str]) -> None:
        """Add the lines of a cell, of a known column or of another one."""
        words = "; ".join(lines)
        if not words:
            return
        if column is Column.REACTION:
            self.reaction_lines += lines
        if column is None:
            self.others.append((head, words))
            return
        known = self.cells.get(column)
        self.cells[column] = f"{known}, {words}" if known else words


class Narrative:
    """The blocks of the sections of a document: titles first."""

    def __init__(self, titles: Iterable[CcdaElement], texts: Iterable[CcdaElement]) -> None:
        blocks = [Block(title, plain(title), is_aside=True) for title in titles]
        blocks += [block for text in texts for block in _within(text)]
        self._by_element: dict[CcdaElement, Block] = {}
        for block in blocks:
            for element in block.elements or [block.element]:
                self._by_element.setdefault(element, block)
        self.blocks = [block for block in blocks if any(map(str.isalpha, block.text))]

    def block_of(self, element: CcdaElement) -> Block | None:
        """Return the block that an element is in, or the only one in it; else None."""
        for around in takewhile(lambda around: around.name != "section", element.lineage()):
            if around in self._by_element:
                return self._by_element[around]
        within = [
            self._by_element[inner] for inner in element.descendants() if inner in self._by_element
        ]
        return within[0] if len(within) == 1 else None

    def rows_of(self, element: CcdaElement) -> list[Block]:
        """Return the rows of tables that an element is, or that are in it."""
        within = (element, *element.descendants())
        return [
            self._by_element[inner]
            for inner in within
            if inner.name == "tr" and inner in self._by_element
        ]

    def column_of(self, element: CcdaElement) -> Column | None:
        """Return the column that an element is in, None where that is not known."""
        block = self.block_of(element)
        columns = block.columns if block is not None else {}
        return next((columns[around] for around in element.lineage() if around in columns), None)


def _within(holder: CcdaElement) -> Iterator[Block]:
    """Yield the blocks in an element; text between them is a block of its own."""
    loose: list[str] = []
    items = holder.all("item") if holder.name == "list" else []
    labelled = _labelled([(item, *_labels_in(item)) for item in items if not _is_nesting(item)])
    if len(labelled) and sum(len(block.elements) for block in labelled) == len(items):
        yield from _captions(holder)
        yield from labelled
        return
    for child in holder.content:
        if isinstance(child, str):
            loose.append(child)
        elif child.name in _SKIPPED:
            continue
        elif child.name == "caption":
            yield Block(child, plain(child), is_aside=True)
        elif child.name == "table":
            yield from _rows(child)
        elif child.name in _BLOCKS and not _is_nesting(child):
            yield Block(child, plain(child))
        elif child.name == "list" or _is_nesting(child):
            yield from _within(child)
        else:
            loose.append(f" {plain(child)} ")
    if text := tidy("".join(loose)):
        yield Block(holder, text)


def _captions(holder: CcdaElement) -> Iterator[Block]:
    for caption in holder.all("caption"):
        yield Block(caption, plain(caption), is_aside=True)


def _is_nesting(element: CcdaElement) -> bool:
    return any(inner.name in _NESTING for inner in element.descendants())


def _rows(table: CcdaElement) -> Iterator[Block]:
    """Yield the rows of a table, with known cells by column; a head of one cell is a title."""
    yield from _captions(table)
    rows = [row for part in table.elements for row in _rows_in(part)]
    above = table.all("thead/tr")
    heads = [row for row in above if _is_head(row) or _is_title(row)]
    if above and above[-1] not in heads and any(map(_names_column, _cells(above[-1]))):
        heads.append(above[-1])
    rows = [*(row for row in above if row not in heads), *rows]
    heads += takewhile(_is_head, rows)
    for row in heads:
        if _is_title(row):
            yield Block(row, plain(row), is_aside=True)
    if not heads and (labelled := _labelled([(row, *_labels_of(row)) for row in rows])):
        yield from labelled
        return
    cells = [cell for row in (*heads, *rows) for cell in _cells(row)]
    # A cell over several rows moves the cells beneath it.
    is_regular = all(cell.get("rowspan") in ("", "1") for cell in cells)
    columns = _columns(heads[-1]) if heads and is_regular else {}
    names = {at: plain(cell) for at, cell in _positions(heads[-1])} if columns else {}
    for row in rows:
        if row in heads:
            continue
        block = Block(row, ", ".join(filter(None, map(plain, _cells(row)))))
        for position, cell in _positions(row) if columns else ():
            column = columns.get(position)
            if column is not None:
                block.columns[cell] = column
            block.put(column, names.get(position, ""), _lines(cell, column))
        yield block


def _labels_of(row: CcdaElement) -> tuple[str, str, CcdaElement | None]:
    """Return the label and the value of a row that has these two cells."""
    cells = _cells(row)
    if len(cells) != 2:
        return "", "", None
    return plain(cells[0]).removesuffix(":").strip(), plain(cells[1]), cells[1]


def _labels_in(item: CcdaElement) -> tuple[str, str, CcdaElement | None]:
    """Return the label and the value of an item: "Agent: codeine"."""
    match = _LABEL.fullmatch(plain(item))
    return (match[1].strip(), match[2], item) if match else ("", "", None)


def _labelled(lines: list[tuple[CcdaElement, str, str, CcdaElement | None]]) -> list[Block]:
    """Return lines that have a label each as one block for each substance; none where they do not.

    Most labels are names of columns, and the first is that of the substance, or of its kind.
    """
    labels = [label for _, label, _, _ in lines]
    known = [label for label in labels if label and is_heading(label)]
    if len(lines) < 2 or not all(labels) or 2 * len(known) <= len(labels):
        return []
    # Where labels are kinds, so is a label that is not known: "Insects" after "Foods".
    is_by_kind = len(set(filter(names_kind, labels))) > 1
    blocks: list[Block] = []
    for element, label, words, value in lines:
        column = _column(label) if label in known else None
        if names_kind(label) or (is_by_kind and label not in known):
            column = Column.SUBSTANCE
        if column is Column.SUBSTANCE and not (blocks and column not in blocks[-1].cells):
            blocks.append(Block(element, ""))
        if not blocks:
            return []
        block = blocks[-1]
        block.elements.append(element)
        block.text = f"{block.text}; {label}: {words}" if block.text else f"{label}: {words}"
        if value is not None and column is not None:
            block.columns[value] = column
        in_cell = value if value is not element else None
        block.put(column, label, _lines(in_cell, column) if in_cell is not None else [words])
    return blocks


def _rows_in(part: CcdaElement) -> list[CcdaElement]:
    if part.name == "tr":
        return [part]
    return part.all("tr") if part.name in ("tbody", "tfoot") else []


def _lines(cell: CcdaElement, column: Column | None) -> list[str]:
    """Return the text of a cell; of one that may hold several statements, line by line."""
    if column not in _LISTING:
        return list(filter(None, [plain(cell)]))
    parts: list[str] = []
    _collect(cell, parts, line_break=_LINE_BREAK)
    lines = (_BULLET.sub("", tidy(line)) for line in "".join(parts).split(_LINE_BREAK))
    return list(filter(None, lines))


def _is_head(row: CcdaElement) -> bool:
    """Say whether a row holds the heads of columns; in some tables their cells are common ones."""
    cells = _cells(row)
    if cells and all(cell.name == "th" for cell in cells):
        is_mostly_known = 2 * sum(map(_names_column, cells)) > len(cells)
        return is_mostly_known or all(is_heading(plain(cell)) for cell in cells)
    columns = set(map(_column, map(plain, cells))) - {None}
    return len(columns) > 1 and all(is_heading(plain(cell)) for cell in cells)


def _names_column(cell: CcdaElement) -> bool:
    words = plain(cell)
    return _column(words) is not None and is_heading(words)


def _is_title(row: CcdaElement) -> bool:
    return len(list(filter(None, map(plain, _cells(row))))) == 1


def _cells(row: CcdaElement) -> list[CcdaElement]:
    return [cell for cell in row.elements if cell.name in ("td", "th")]


def _positions(row: CcdaElement) -> Iterator[tuple[int, CcdaElement]]:
    at = 0
    for cell in _cells(row):
        yield at, cell
        span = cell.get("colspan")
        at += int(span) if span.isdecimal() and len(span) < 4 else 1


def _columns(head: CcdaElement) -> dict[int, Column]:
    """Return what the columns hold; of the substance the first that may be it."""
    columns: dict[int, Column] = {}
    for position, cell in _positions(head):
        column = _column(plain(cell))
        if column and not (column is Column.SUBSTANCE and column in columns.values()):
            columns[position] = column
    return columns


@lru_cache(maxsize=1_000)
def _column(head: str) -> Column | None:
    """Return what a column of this head holds, None where that is not known."""
    words = fold(head)
    return next((kind for kind, pattern in _HEADS if pattern.search(words)), None)
