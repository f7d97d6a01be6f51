"""What a C-CDA document says about allergies, read with ElementTree alone.

Nothing of fhirapp is used, so that both agree only where both read the same. `facts_of` reads;
differences.py compares. Three rules decide: never milder than the source, words count, absence
needs a statement.

Sources: CDA R2, C-CDA R1.1 and R2.1 (Allergy - Intolerance Observation), FHIR R4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET

SNOMED_OID = "2.16.840.1.113883.6.96"
SECTION = "48765-2"
SECTION_CODES = {SECTION, "10155-0", "11382-9", "52473-6"}
SECTION_TITLES = {"allergies", "allergien", "alergias", "allergies et intolerances"}
SECTION_TEMPLATES = {"2.16.840.1.113883.10.20.22.2.6", "2.16.840.1.113883.10.20.22.2.6.1"}
STATUS, SEVERITY, CRITICALITY = "33999-4", "SEV", "82606-5"

SEVERITIES = ("", "mild", "moderate", "severe")
SEVERITY_CODES = {
    "255604002": 1,
    **dict.fromkeys(("371923003", "6736007"), 2),
    **dict.fromkeys(("371924009", "24484000", "399166001", "442452003"), 3),
}
LOCAL_SEVERITIES = {
    **dict.fromkeys(("l", "low", "mild", "mi"), 1),
    **dict.fromkeys(("m", "moderate", "mo"), 2),
    **dict.fromkeys(("h", "high", "severe", "sv"), 3),
}
STATUSES = ("", "resolved", "inactive", "active")
STATUS_CODES = {"55561003": "active", "73425007": "inactive", "413322009": "resolved"}
STATUS_WORDS = {
    "active": {"active", "ongoing", "current", "aktiv", "ativo", "actif", "activo", "attivo"},
    "inactive": {"inactive", "inaktiv", "inativo", "inactif"},
    "resolved": {"resolved", "abgeklungen"},
}
NO_LONGER = re.compile(r"\b(?:no longer|not|nicht mehr|nicht)\b")
# Days that stand for no date.
NO_DAYS = ("19000101", "18991230", "18991231")
CRITICALITIES = {"CRITH": "high", "CRITL": "low", "CRITU": "unable-to-assess"}

# What a negated observation denies: a drug, a food, or anything.
SCOPES = {
    **dict.fromkeys(("416098002", "419511003", "59037007", "410942007"), "drug"),
    **dict.fromkeys(("414285001", "418471000", "235719002", "255620007"), "food"),
    **dict.fromkeys(("419199007", "418038007", "420134006", "105590001"), "any"),
}
INTOLERANCES = {"59037007", "235719002"}
GENERIC = {"105590001", "410942007", "255620007"}
# Codes that say themselves that none is known.
NONE_KNOWN = {
    "716186003": "any",
    "160244002": "any",
    "409137002": "drug",
    "429625007": "food",
    "428607008": "environment",
}
# Texts about the record, and headings.
NO_STATEMENTS = re.compile(
    r"(?:active |known |drug )?allergies|allergen|(?:allergies )?last reviewed on .* by .*"
    r"|documented as of this encounter.*|part \d+"
)
ADMINISTRATIVE = {"author", "recorded by", "date", "noted date"}
NONE_KNOWN_WORDS = re.compile(
    r"(?:patient has )?(?:nka|nkda|nkfa"
    r"|no known (?:(?P<scope>drug|medication|food|environmental) )?allerg(?:y|ies)"
    r"|no known allerg(?:y|ies) to (?P<to>drugs|medications|foods?))"
)
PLACEHOLDERS = {
    *("coded allergy name not available", "unknown", "not available", "see comments", "other"),
    *("n a", "no information", "unspecified", "none", "", "na", "unbekannt"),
}
GRAVE = re.compile(
    r"\b(?:severe|severely|anaph[a-z]*|angio(?:oe|e)?dema|(?<!itchy )throat|airway"
    r"|life threatening)\b"
)
DENIED = re.compile(
    r"\b(?:no|not|without|denies|denied|never)(?: \w+){0,2}? "
    r"(?=(?:severe|anaph|angio|throat|airway|life))\w+"
)
# Of these a document that gives one allergy two names names two substances.
KNOWN_NAMES = {"ibuprofen", "aspirin", "latex", "bee venom", "peanut", "codeine", "cefdinir"}
GRAVE_REACTIONS = {"39579001", "41291007", "T78.2XXA", "T78.3XXA"}

ROLES = (
    ("status", re.compile(r"status")),
    ("severity", re.compile(r"severity")),
    ("reaction", re.compile(r"reactions?|manifestations?")),
    ("substance", re.compile(r"substance|allergen|agent|allergy|allergies|name")),
)


def normal(text: str) -> str:
    """Return the words of a text, in small letters, for comparisons."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def holds(hay: Iterable[str], needle: str) -> bool:
    """Return whether one of the texts has these words."""
    words = f" {normal(needle)} "
    return any(words in f" {normal(text)} " for text in hay)


def is_placeholder(name: str) -> bool:
    return normal(name) in PLACEHOLDERS


def is_grave(texts: Iterable[str]) -> bool:
    """Return whether words say that a reaction was grave, without denying it."""
    return any(GRAVE.search(DENIED.sub("", normal(text))) for text in texts)


def severity_of_words(text: str) -> int:
    """Return the severity that words name, of a range the graver."""
    words = normal(text)
    if words in LOCAL_SEVERITIES:
        return LOCAL_SEVERITIES[words]
    ranks = (("severe", 3), ("life threatening", 3), ("fatal", 3), ("moderate", 2), ("mild", 1))
    return max((rank for word, rank in ranks if holds([words], word)), default=0)


def scope_of_words(text: str) -> str:
    """Return of what a text says that no allergy is known, or an empty text."""
    found = NONE_KNOWN_WORDS.fullmatch(normal(text))
    if not found:
        return ""
    scope = found["scope"] or found["to"] or ""
    if scope.startswith(("drug", "medication")) or normal(text) == "nkda":
        return "drug"
    if scope.startswith("food") or normal(text) == "nkfa":
        return "food"
    return "environment" if scope else "any"


@dataclass
class Reaction:
    """A reaction: its words, its codes, its own severities."""

    words: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    severities: list[int] = field(default_factory=list)
    is_null: bool = False


@dataclass
class Fact:
    """What a document says about one substance of one observation.

    kinds are the readings that are right: of "allergy", "none-known", "not-asked" and
    "no-information" more than one where the source is ambiguous. scope: of what none is known;
    narrow_scope: what the observation's value says of that. is_void: nothing at all stands there.
    The allowed_ ones stand in a row that has the substance, but that nothing points to.
    is_over: it has ended; is_doubtful: it may have, and what else stands there decides. end: the
    year of its end. no_onset: an onset that is a placeholder.
    """

    kinds: set[str] = field(default_factory=set)
    scope: str = ""
    narrow_scope: str = ""
    is_void: bool = False
    is_refuted: bool = False
    # An observation denies what its row alone names.
    is_contradicted: bool = False
    is_error: bool = False
    names: list[str] = field(default_factory=list)
    decoys: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    reactions: list[Reaction] = field(default_factory=list)
    row_reactions: list[str] = field(default_factory=list)
    severities: list[int] = field(default_factory=list)
    row_severities: list[int] = field(default_factory=list)
    severity_words: list[str] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    row_statuses: list[str] = field(default_factory=list)
    allowed_statuses: list[str] = field(default_factory=list)
    allowed_severities: list[int] = field(default_factory=list)
    allowed_words: list[str] = field(default_factory=list)
    status_words: list[str] = field(default_factory=list)
    unclear_statuses: list[str] = field(default_factory=list)
    is_over: bool = False
    is_doubtful: bool = False
    end: str = ""
    criticality: str = ""
    comments: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    linked_texts: list[str] = field(default_factory=list)
    # Cells of columns that are none of an allergy's.
    column_words: list[str] = field(default_factory=list)
    # Names that no more than a row gives.
    row_names: list[str] = field(default_factory=list)
    onset: str = ""
    no_onset: str = ""

    @property
    def is_contradictory(self) -> bool:
        """Whether its names are those of two substances."""
        return len(KNOWN_NAMES & set(map(normal, self.names))) > 1

    @property
    def severity(self) -> int:
        """The gravest severity that the entry itself has."""
        return max(self.severities, default=0)

    @property
    def status(self) -> str:
        """The gravest status, or what follows where none is given."""
        given = [*self.statuses, *self.row_statuses]
        if not given:
            return "resolved" if self.is_over else "active"
        return max(given, key=STATUSES.index)

    @property
    def is_severe(self) -> bool:
        """Whether a code or words say that it is severe."""
        words = [word for reaction in self.reactions for word in reaction.words]
        codes = {code for reaction in self.reactions for code in reaction.codes}
        return (
            self.severity == 3
            or 3 in self.row_severities
            or bool(codes & GRAVE_REACTIONS)
            or is_grave([*words, *self.row_reactions, *self.names])
            or is_grave([*self.comments, *self.severity_words, *self.texts])
            or is_grave(self.column_words)
        )


@dataclass
class Facts:
    """What a document says: its entries, and what stands only in words, each with its words."""

    entries: list[Fact] = field(default_factory=list)
    words: list[list[str]] = field(default_factory=list)
    # A section's words where its entries say nothing: not lost, but not needed as an entry either.
    soft_words: list[list[str]] = field(default_factory=list)
    # Texts beside the rows that have an entry's name: kept with that entry or by themselves.
    beside: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    text: str = ""
    # Why the section says that it is empty: "not-asked", "no-information" or nothing.
    empty_for: str = ""


class _Document:
    """The elements of a document without namespaces, their parents, and what ids name."""

    def __init__(self, document: str | bytes) -> None:
        self.root = ET.fromstring(document)
        for element in self.root.iter():
            if isinstance(element.tag, str):
                element.tag = element.tag.rpartition("}")[2]
        self.parents = {child: parent for parent in self.root.iter() for child in parent}
        self.ids = {key: element for element in self.root.iter() if (key := element.get("ID"))}
        self.pointed = set(self.references(self.root))

    def above(self, element: ET.Element, *tags: str) -> ET.Element | None:
        """Return the nearest element of these names, itself or above."""
        found: ET.Element | None = element
        while found is not None and found.tag not in tags:
            found = self.parents.get(found)
        return found

    def references(self, element: ET.Element) -> list[ET.Element]:
        """Return what the references in an element point to."""
        values = (
            reference.get("value", "").removeprefix("#") for reference in element.iter("reference")
        )
        return [self.ids[value] for value in values if value in self.ids]

    def texts(self, element: ET.Element | None) -> list[str]:
        """Return the text in an element, and each that it points to."""
        if element is None:
            return []
        found = [plain(element), *map(plain, self.references(element))]
        return [text for text in found if normal(text)]

    def heads(self, row: ET.Element) -> list[str]:
        """Return the heads of a row's columns."""
        table = self.above(row, "table")
        if table is None:
            return []
        for head in table.iter("tr"):
            if head is not row and is_head(self, head):
                return [plain(cell) for cell in head]
        return []

    def role(self, cell: ET.Element) -> str:
        """Return what the column of a cell holds, if its head says so."""
        row = self.parents[cell]
        heads, place = self.heads(row), list(row).index(cell)
        head = normal(heads[place]) if place < len(heads) else ""
        return next((role for role, words in ROLES if words.fullmatch(head)), "")

    def other_cells(self, row: ET.Element) -> list[str]:
        """Return the words of a row in columns whose heads are none of an allergy's."""
        heads = self.heads(row)
        found = [
            plain(cell)
            for cell, head in zip(row, heads, strict=False)
            if not self.role(cell) and normal(head) not in ADMINISTRATIVE
        ]
        return [text for text in found if normal(text)]

    def cells(self, row: ET.Element, role: str) -> list[str]:
        """Return the words of a row that stand in the columns of a role."""
        inside = lines if role == "reaction" else lambda cell: [plain(cell)]
        found = (text for cell in row if self.role(cell) == role for text in inside(cell))
        return [text for text in found if normal(text)]


def plain(element: ET.Element) -> str:
    """Return the words in an element."""
    pieces = [element.text or ""]
    for child in element:
        apart = "" if child.tag in ("content", "sub", "sup") else " "
        pieces += [apart, plain(child), apart, child.tail or ""]
    return " ".join("".join(pieces).split())


def lines(cell: ET.Element) -> list[str]:
    """Return the lines of a cell, between its line breaks."""
    found = [cell.text or ""]
    for child in cell:
        if child.tag == "br":
            found.append(child.tail or "")
        elif child.find("br") is not None or child.find(".//br") is not None:
            found += [*lines(child), child.tail or ""]
        else:
            found[-1] += plain(child) + (child.tail or "")
    return [" ".join(line.split()) for line in found]


def is_head(document: _Document, row: ET.Element) -> bool:
    """Return whether a row holds the heads of a table."""
    return document.parents[row].tag == "thead" or bool(
        len(row) and all(cell.tag == "th" for cell in row)
    )


def facts_of(document: str | bytes) -> Facts:
    """Return what a document says about allergies."""
    read = _Document(document)
    facts = Facts(text=_everything(read.root))
    for section in read.root.iter("section"):
        inside = read.above(read.parents[section], "section")
        while inside is not None and not _is_allergies(inside):
            inside = read.above(read.parents[inside], "section")
        if _is_allergies(section) and inside is None:
            _read_section(read, section, facts)
    return facts


def _everything(root: ET.Element) -> str:
    values = (
        value
        for element in root.iter()
        for value in (*element.attrib.values(), element.text, element.tail)
    )
    return " ".join(value for value in values if value)


# Why a section may be empty; NI alone says nothing.
EMPTY_FOR = {"NASK": "not-asked", **dict.fromkeys(("ASKU", "UNK", "NAV"), "no-information")}


def _is_allergies(section: ET.Element) -> bool:
    title = section.find("title")
    is_titled = title is not None and normal(plain(title).partition(":")[0]) in SECTION_TITLES
    is_coded = _code(section.find("code")) in SECTION_CODES
    return (
        is_titled
        or is_coded
        or any(
            template.get("root") in SECTION_TEMPLATES for template in section.findall("templateId")
        )
    )


def _read_section(read: _Document, section: ET.Element, facts: Facts) -> None:
    """Add the facts of a section and of those in it."""
    sections = [section, *(inner for inner in section.iter("section") if inner is not section)]
    found: list[Fact] = []
    linked: set[ET.Element] = set()
    stated = [
        statement
        for each in sections
        for entry in each.findall("entry")
        for statement in _observations(entry)
    ]
    for act, observation in stated:
        linked |= set(_rows(read, observation))
        found += _facts_of_observation(read, act, observation)
    facts.entries += found
    facts.empty_for = EMPTY_FOR.get(section.get("nullFlavor", ""), "")
    for fact in found:
        fact.kinds |= {facts.empty_for} - {""} if fact.is_void else set()
    says_something = any(fact.kinds & {"allergy", "none-known"} for fact in found)
    _read_titles(sections, facts)
    for text in (part.find("text") for part in sections):
        if text is None:
            continue
        facts.heads += [plain(row) for row in text.iter("tr") if is_head(read, row)]
        rows = [
            row
            for row in (*text.iter("tr"), *text.iter("item"))
            if normal(plain(row)) and not (row.tag == "tr" and is_head(read, row))
        ]
        if not says_something:
            _read_words(read, text, rows, facts)
            continue
        for row in rows:
            if row not in linked:
                _read_row(read, row, found, facts)
        for aside in _asides(read, text):
            if aside not in linked:
                _read_aside(read, aside, found, facts)


def _read_titles(sections: Sequence[ET.Element], facts: Facts) -> None:
    """Keep the titles that say something: "Allergies: latex"."""
    titles = [plain(title) for part in sections for title in part.findall("title")]
    facts.words += [[title] for title in titles if ":" in title.rstrip(": ")]


def _asides(read: _Document, text: ET.Element) -> list[ET.Element]:
    """Return what a narrative has beside its rows and items."""
    tags = ("paragraph", "caption", "footnote")
    return [
        element
        for tag in tags
        for element in text.iter(tag)
        if read.above(element, "td", "item") is None
    ]


def _read_aside(read: _Document, aside: ET.Element, found: list[Fact], facts: Facts) -> None:
    """Keep a text beside the rows, unless it is a heading, about the record, or said already."""
    words = plain(aside)
    if is_placeholder(words) or NO_STATEMENTS.fullmatch(normal(words)) or scope_of_words(words):
        return
    if read.pointed & set(aside.iter()):
        return
    if any(set(normal(words).split()) <= _words_in(fact) for fact in found):
        return
    named = [
        fact
        for fact in found
        if any(holds([words], name) or holds([name], words) for name in fact.names)
    ]
    for fact in named:
        fact.allowed_words.append(words)
    if named:
        facts.beside.append(words)
    else:
        facts.words.append([words])


def _words_in(fact: Fact) -> set[str]:
    said = [word for reaction in fact.reactions for word in reaction.words]
    said += [*fact.names, *fact.comments, *fact.texts, *fact.severity_words]
    return set(normal(" ".join(said)).split())


def _read_words(
    read: _Document, text: ET.Element, rows: Sequence[ET.Element], facts: Facts
) -> None:
    """Keep all words of a narrative: no entry says anything."""
    asides = _asides(read, text)
    words = [word for row in rows for word in _words_of_row(read, row)] + list(map(plain, asides))
    if not (asides or any(element.tag in ("table", "list") for element in text.iter())):
        words = [plain(text)]
    kept = [word for word in words if normal(word) and not NO_STATEMENTS.fullmatch(normal(word))]
    real = [word for word in kept if not is_placeholder(word)]
    if real:
        facts.words.append(real)
    elif kept:
        facts.soft_words.append(kept)


def _words_of_row(read: _Document, row: ET.Element) -> list[str]:
    """Return the words of a row; its status alone is none."""
    words = [plain(cell) for cell in _pieces(row)]
    statuses = read.cells(row, "status") if row.tag == "tr" else []
    others = [word for word in words if word not in statuses]
    return others if all(map(is_placeholder, others)) else words


def _pieces(row: ET.Element) -> list[ET.Element]:
    return list(row) if row.tag == "tr" else [row]


def _read_row(read: _Document, row: ET.Element, found: list[Fact], facts: Facts) -> None:
    """Keep the words of a row that no entry points to; let one that has a name of an entry pass."""
    cells = [plain(cell) for cell in _pieces(row) if normal(plain(cell))]
    has_heads = row.tag == "tr" and read.heads(row)
    substances = read.cells(row, "substance") if has_heads else cells
    named = [
        fact
        for fact in found
        if any(holds(substances, name) for name in fact.names)
        or any(holds(fact.names, substance) for substance in substances)
    ]
    if named or any(map(scope_of_words, substances)):
        # Several participants of one observation share its row; so may what names none.
        for fact in found:
            if fact.is_doubtful and not all(map(status_of_words, read.cells(row, "status"))):
                fact.allowed_statuses.append("active")
            fact.allowed_statuses += _known(map(status_of_words, read.cells(row, "status")))
    for fact in named:
        fact.allowed_words += cells
        fact.allowed_severities += map(severity_of_words, read.cells(row, "severity"))
    said = [word for fact in found for reaction in fact.reactions for word in reaction.words]
    said += [name for fact in found for name in fact.names]
    if named or all(holds(said, cell) for cell in cells):
        return
    if not substances:
        # A row that names nothing may be an entry's or not.
        facts.soft_words.append(cells)
        return
    if any(scope_of_words(text) or is_placeholder(text) for text in substances) or any(
        _is_like(name, text) for fact in found for name in fact.names for text in substances
    ):
        facts.soft_words.append(cells)
    else:
        facts.words.append(cells)


def _is_like(name: str, other: str) -> bool:
    """Return whether two names may be of the same, as "Peanut" and "peanuts"."""
    starts = [
        {word[:4] for word in normal(text).split() if len(word) > 3} for text in (name, other)
    ]
    return bool(starts[0] & starts[1])


def _known(statuses: Iterable[str]) -> list[str]:
    return [status for status in statuses if status]


def status_of_words(text: str) -> str:
    """Return the status that words name, or an empty text."""
    words = normal(text)
    bare = NO_LONGER.sub("", words).strip()
    named = next((status for status, known in STATUS_WORDS.items() if bare in known), "")
    if named and bare != words:
        return "inactive" if named == "active" else "active"
    return named or next(
        (status for status in ("inactive", "active", "resolved") if holds([text], status)), ""
    )


def _observations(entry: ET.Element) -> Iterator[tuple[ET.Element | None, ET.Element]]:
    """Yield the observations of an entry that state an allergy, each with its concern act."""
    for act in entry.findall("act"):
        for relation in act.findall("entryRelationship"):
            if relation.get("typeCode") != "MFST":
                yield from ((act, found) for _, found in _observations(relation))
    for organizer in entry.findall("organizer"):
        for component in organizer.findall("component"):
            yield from _observations(component)
    for observation in entry.findall("observation"):
        is_detail = _code(observation.find("code")) in (STATUS, SEVERITY, CRITICALITY)
        if observation.get("moodCode", "EVN") == "EVN" and not is_detail:
            yield None, observation


def _inner(element: ET.Element, code: str) -> Iterator[ET.Element]:
    """Yield the observations of a code that are related to an element."""
    for observation in element.findall("entryRelationship/observation"):
        if _code(observation.find("code")) == code:
            yield observation


def _rows(read: _Document, observation: ET.Element) -> list[ET.Element]:
    """Return the rows and items of the narrative that an observation points to."""
    found = (read.above(target, "tr", "item") for target in read.references(observation))
    return list(dict.fromkeys(row for row in found if row is not None))


def _facts_of_observation(
    read: _Document, act: ET.Element | None, observation: ET.Element
) -> Iterator[Fact]:
    """Yield a fact for each substance of an observation."""
    participants = [
        participant
        for participant in observation.findall("participant")
        if participant.get("typeCode") == "CSM"
    ]
    for participant in participants or [None]:
        fact = Fact()
        _read_details(read, act, observation, fact)
        _read_names(read, observation, participant, fact)
        _read_kind(read, observation, participant, fact)
        # That none is known holds least: what may have ended has.
        fact.is_over |= "none-known" in fact.kinds and fact.is_doubtful
        yield fact


def _read_details(
    read: _Document, act: ET.Element | None, observation: ET.Element, fact: Fact
) -> None:
    """Read all but the substance and what is said of it."""
    for holder in (act, observation):
        if holder is None:
            continue
        fact.is_error |= _code(holder.find("statusCode")) == "nullified"
        for reaction in holder.findall("entryRelationship[@typeCode='MFST']/observation"):
            # A detail is none, whatever it is typed as.
            if _code(reaction.find("code")) not in (SEVERITY, STATUS, CRITICALITY):
                fact.reactions.append(_reaction(read, reaction, fact))
        for comment in holder.findall("entryRelationship/act"):
            fact.comments += read.texts(comment.find("text"))
    _read_severities(read, observation, fact)
    for status in _inner(observation, STATUS):
        for value in status.findall("value"):
            _read_status(read, value, fact)
    for criticality in _inner(observation, CRITICALITY):
        fact.criticality = CRITICALITIES.get(_code(criticality.find("value")), "")
    _read_times(read, act, observation, fact)
    _read_narrative(read, observation, fact)
    fact.is_over &= not (fact.is_doubtful and fact.unclear_statuses)


def _read_times(
    read: _Document, act: ET.Element | None, observation: ET.Element, fact: Fact
) -> None:
    """Read the onset and the end, and whether the concern is still tracked."""
    _read_end(read, observation, fact)
    concern = "" if act is None else _code(act.find("statusCode"))
    if concern in ("active", "suspended") and fact.is_over:
        # The concern is tracked on, the allergy has ended: the graver may count.
        fact.allowed_statuses.append("active")
    low = observation.find("effectiveTime/low")
    onset = "" if low is None else low.get("value", "")
    if onset and _is_no_day(_day(onset)):
        fact.no_onset = onset
    else:
        fact.onset = onset[:10] if "-" in onset else onset[:4]


def _day(time: str) -> str:
    """Return the digits of a day, month or year, written with dashes or without."""
    return re.sub(r"\D", "", time.partition("T")[0])[:8]


def _is_no_day(day: str) -> bool:
    return not "1800" < day[:4] < "2999" or day in NO_DAYS


def _read_end(read: _Document, observation: ET.Element, fact: Fact) -> None:
    """Read whether it has ended by the day on which the document was made."""
    low, high = (observation.find(f"effectiveTime/{end}") for end in ("low", "high"))
    if high is None:
        return
    day, made = _day(high.get("value", "")), read.root.find("effectiveTime")
    if not day:
        fact.is_doubtful = high.get("nullFlavor") == "UNK"
        fact.is_over = fact.is_doubtful and low is not None and bool(low.get("value"))
        return
    fact.end = day[:4]
    written = _day("" if made is None else made.get("value", ""))
    has_come = day <= written[: len(day)]
    fact.is_doubtful = has_come and _is_no_day(day)
    fact.is_over = has_come and not fact.is_doubtful


def _read_narrative(read: _Document, observation: ET.Element, fact: Fact) -> None:
    """Read the rows that an observation points to, and its own text."""
    for row in _rows(read, observation):
        _add_statuses(fact, fact.row_statuses, read.cells(row, "status"))
        fact.row_severities += map(severity_of_words, read.cells(row, "severity"))
        fact.row_reactions += read.cells(row, "reaction")
        fact.column_words += read.other_cells(row)
    text = observation.find("text")
    fact.texts += [plain(text)] if text is not None and normal(plain(text)) else []
    for target in [] if text is None else read.references(text):
        row = read.above(target, "tr")
        if row is None or not read.heads(row):
            fact.linked_texts.append(plain(target))


def _reaction(read: _Document, observation: ET.Element, fact: Fact) -> Reaction:
    found = Reaction(is_null=bool(observation.get("nullFlavor")))
    for value in observation.findall("value"):
        found.codes += _given(value, "code")
        found.words += _given(value, "displayName")
        found.words += read.texts(value.find("originalText"))
    found.words += read.texts(observation.find("text"))
    found.words = [word for word in found.words if not is_placeholder(word)]
    before = len(fact.severities)
    _read_severities(read, observation, fact)
    found.severities = fact.severities[before:]
    return found


def _given(concept: ET.Element, attribute: str) -> list[str]:
    """Return an attribute of a concept and of its translations, where they have it."""
    values = (coded.get(attribute) for coded in (concept, *concept.findall("translation")))
    return [value for value in values if value]


def _code(element: ET.Element | None) -> str:
    return "" if element is None else element.get("code", "")


def _read_severities(read: _Document, observation: ET.Element, fact: Fact) -> None:
    for severity in _inner(observation, SEVERITY):
        texts = read.texts(severity.find("text"))
        for value in severity.findall("value"):
            is_known = value.get("codeSystem") == SNOMED_OID and _code(value) in SEVERITY_CODES
            words = [*_given(value, "displayName"), *read.texts(value.find("originalText")), *texts]
            rank = SEVERITY_CODES[_code(value)] if is_known else severity_of_words(_code(value))
            if not is_known:
                words = words or [_code(value)]
                fact.severity_words += [word for word in words if not is_placeholder(word)]
            fact.severities.append(max(rank, *map(severity_of_words, words), 0))


def _read_status(read: _Document, value: ET.Element, fact: Fact) -> None:
    words = [value.get("displayName", ""), *read.texts(value.find("originalText"))]
    if known := STATUS_CODES.get(value.get("code", "")):
        fact.statuses.append(known)
        words = [text for text in words if status_of_words(text)]
    _add_statuses(fact, fact.statuses, [text for text in words if normal(text)])


def _add_statuses(fact: Fact, statuses: list[str], texts: Sequence[str]) -> None:
    """Add what texts name to statuses, and the words of those that name none."""
    statuses += _known(map(status_of_words, texts))
    fact.status_words += texts
    fact.unclear_statuses += [
        text for text in texts if not (status_of_words(text) or is_placeholder(text))
    ]


def _coded(read: _Document, concept: ET.Element | None) -> tuple[list[str], list[str], list[str]]:
    """Return the codes of a concept, its names, and those that are only a link's."""
    if concept is None:
        return [], [], []
    codes = _given(concept, "code")
    # A name that repeats its code is none.
    names = [name for name in _given(concept, "displayName") if name not in codes]
    # What is only a local code of "none known" is no substance.
    codes = [
        code for code in codes if code in NONE_KNOWN or not all(map(scope_of_words, names or [""]))
    ]
    original = concept.find("originalText")
    if original is not None and normal(plain(original)):
        names.append(plain(original))
    return codes, names, [] if original is None else _linked(read, original)


def _linked(read: _Document, original: ET.Element) -> list[str]:
    """Return what a name's link leads to; of a whole row the substance."""
    found: list[str] = []
    for target in read.references(original):
        if target.tag == "tr":
            first = [plain(cell) for cell in target if normal(plain(cell))][:1]
            found += read.cells(target, "substance") if read.heads(target) else first
        else:
            cell = read.above(target, "td")
            wrong = cell is not None and read.role(cell) == "reaction"
            found.append(f"\0{plain(target)}" if wrong else plain(target))
    return [name for name in found if normal(name)]


def _read_names(
    read: _Document, observation: ET.Element, participant: ET.Element | None, fact: Fact
) -> None:
    """Read the names of a substance: the participant's, else the value's, and the row's."""
    entity = None if participant is None else participant.find("participantRole/playingEntity")
    parts = [] if entity is None else [entity.find("code"), *entity.findall("code")[1:]]
    names: list[str] = []
    links: list[str] = []
    for concept in parts:
        codes, found, links_of = _coded(read, concept)
        fact.codes, names, links = fact.codes + codes, names + found, links + links_of
    if entity is not None:
        for part in (*entity.findall("name"), *entity.findall("desc")):
            names += read.texts(part)
    reactions = {normal(word) for reaction in fact.reactions for word in reaction.words}
    fact.decoys += [link.removeprefix("\0") for link in links if link[0] == "\0"]
    fact.decoys += [link for link in links if normal(link) in reactions]
    names += [link for link in links if link[0] != "\0" and normal(link) not in reactions]
    fact.codes = [code for code in fact.codes if code not in GENERIC]
    value = observation.find("value")
    if value is not None and not fact.codes and all(map(is_placeholder, names)):
        codes, found, links = _coded(read, value)
        concrete = [code for code in codes if code not in SCOPES]
        fact.codes += concrete
        names += [*(found if concrete else ()), *(link for link in links if link[0] != "\0")]
    own = [*names]
    several = len(observation.findall("participant[@typeCode='CSM']")) > 1
    if not several or all(map(is_placeholder, names)):
        for row in _rows(read, observation):
            names += read.cells(row, "substance")
    generic = entity is not None and parts[:1] != [None] and _generic(parts[0])
    if generic and not fact.codes:
        code = parts[0].get("displayName", "") if parts[0] is not None else ""
        names = [name for name in names if name != code]
    names = [_without_code(name, fact.codes) for name in names]
    fact.names = [name for name in dict.fromkeys(names) if not is_placeholder(name)]
    fact.row_names = [name for name in fact.names if name not in own]


def _without_code(name: str, codes: Sequence[str]) -> str:
    """Return a name without a code of its entry before it."""
    first, _, rest = name.partition(" ")
    return rest if first in codes and rest else name


def _generic(code: ET.Element | None) -> bool:
    """Return whether a participant's code means any substance."""
    return code is not None and (code.get("nullFlavor") == "NA" or code.get("code") in GENERIC)


def _read_kind(
    read: _Document, observation: ET.Element, participant: ET.Element | None, fact: Fact
) -> None:
    """Decide what is said of the substance."""
    value = observation.find("value")
    value_code = _code(value)
    code = None if participant is None else participant.find("participantRole/playingEntity/code")
    scopes = [NONE_KNOWN[code] for code in (*fact.codes, value_code) if code in NONE_KNOWN]
    said = [scope for scope in map(scope_of_words, [*fact.names, *fact.texts]) if scope]
    real = [name for name in fact.names if not scope_of_words(name)]
    codes = [code for code in fact.codes if code not in NONE_KNOWN]
    negated = observation.get("negationInd") == "true"
    null = observation.get("nullFlavor")
    if scopes or (said and not real and not codes):
        fact.kinds, fact.scope = {"none-known"}, (scopes or said)[0]
        fact.narrow_scope = SCOPES.get(value_code, "") if fact.scope == "any" and said else ""
    elif null and not (real or codes or _reactions_of(fact, is_null=True)):
        fact.kinds = {"not-asked"} if null == "NASK" else {"no-information"}
    elif negated and (real or codes):
        # What a row alone names, nothing denies: the document contradicts itself.
        fact.kinds = {"allergy"}
        fact.is_refuted = bool(codes) or any(name not in fact.row_names for name in real)
        fact.is_contradicted = not fact.is_refuted
    elif negated:
        _read_denied(value_code, participant, code, fact)
    elif real or codes or _reactions_of(fact):
        fact.kinds = {"allergy"}
    else:
        fact.kinds = {"no-information"}
        fact.is_void = code is None and value is None
        if code is not None and code.get("nullFlavor") == "NASK":
            fact.kinds.add("not-asked")
        if fact.criticality in ("high", "low"):
            fact.kinds.add("allergy")
        if any(fact.severities) or fact.severity_words or fact.comments or fact.texts:
            fact.kinds.add("allergy")


def _reactions_of(fact: Fact, *, is_null: bool = False) -> bool:
    """Return whether there are reactions; is_null: whether the whole observation is null."""
    reactions = [reaction for reaction in fact.reactions if not (is_null and reaction.is_null)]
    return bool(fact.row_reactions) or any(
        reaction.words or reaction.codes for reaction in reactions
    )


def _read_denied(
    value: str, participant: ET.Element | None, code: ET.Element | None, fact: Fact
) -> None:
    """Read a negated observation on nothing in particular: of what none is known, the narrower."""
    own = SCOPES.get(_code(code), "")
    given = SCOPES.get(value, "")
    narrow = next((scope for scope in (own, given) if scope in ("drug", "food")), own or given)
    means_any = participant is None or _generic(code)
    if value in INTOLERANCES and not own:
        # That none is intolerant does not say that none is allergic.
        fact.kinds, fact.is_refuted = {"allergy", "no-information"}, True
    elif narrow and means_any:
        fact.kinds, fact.scope = {"none-known"}, narrow
    elif narrow:
        fact.kinds, fact.scope = {"none-known", "no-information"}, narrow
    else:
        fact.kinds = {"no-information"}
