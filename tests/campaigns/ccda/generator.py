"""C-CDA documents with allergies in the shapes that vendors write, the same for the same number.

    python -m tests.campaigns.ccda.generator NUMBER

prints a document. The first numbers cover every pair of values of the dimensions below; after them
come random documents with one to three entries. Each document comes with what was planted in it,
which tests the oracle that reads it (tests/campaigns/ccda/oracle.py).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from random import Random
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from tests.campaigns.ccda.shapes import (
    ABSENCES,
    DATA,
    DOCUMENT,
    DOUBTFUL_ENDS,
    GENERAL_VALUE,
    GENERIC_VALUES,
    HEADER,
    LINKED_NAMES,
    LOCAL,
    LOINC,
    NURSE,
    OTHER_NAME,
    PAST_ENDS,
    RXNORM,
    SEVERITY,
    SILENT,
    SNOMED,
    STATUS_WORDS,
    SUBSTANCE_HEADS,
    SUBSTANCES,
    SUITES,
    TEMPLATE,
    TYPES,
    Substance,
    coded,
    original,
)

Choice = dict[str, str]
_UNKNOWN = '<value xsi:type="CD" nullFlavor="UNK"/>'


@dataclass
class Planted:
    """What a document says about one substance, known to who wrote it."""

    kind: str = "allergy"
    scope: str = ""
    names: set[str] = field(default_factory=set)
    severity: int = 0
    status: str = "active"
    is_error: bool = False
    is_refuted: bool = False
    reactions: set[str] = field(default_factory=set)
    comments: set[str] = field(default_factory=set)
    criticality: str = ""


class Generated(NamedTuple):
    """A document, what is planted in it, and the words that stand in no entry."""

    choices: Sequence[Choice]
    document: str
    planted: Sequence[Planted]
    words: Sequence[str]


def effective(choice: Choice) -> Choice:
    """Return a choice whose values can stand beside each other: the later ones give way."""
    made = dict(choice)
    headed = made["narrative"] in ("thead", "th")
    if not headed:
        made["column"] = ""
    if made["narrative"] == "empty":
        made.update({"ids": "td", "extra": "", "beside": ""})
    if made["narrative"] == "paragraphs":
        made["extra"] = ""
        made["beside"] = "" if made["beside"] == "caption" else made["beside"]
        made["ids"] = "td" if made["ids"] == "tr" else made["ids"]
    if "words" in made:
        return {**made, "nesting": "act", "extra": "", "beside": "", "column": ""}
    if not headed:
        made["row-status"] = ""
    if made["nesting"] in ("entry", "organizer") and made["concern"] != "observation-nullified":
        made["concern"] = ""
    if "absence" in made:
        made["column"] = ""
        made["beside"] = "" if made["beside"] == "own" else made["beside"]
        return made
    if not headed:
        made["row-severity"] = ""
    if made["nesting"] in ("entry", "organizer"):
        made["reaction-place"] = "observation"
        made["comment"] = "inline" if made["comment"] == "act" else made["comment"]
    return _effective_allergy(made, headed=headed)


def _effective_allergy(made: Choice, *, headed: bool) -> Choice:
    """Return the choice of an allergy without links to what is not in the narrative."""
    rows = made["narrative"] != "empty"
    cells = rows and made["ids"] != "tr"
    made["names"] = names = _effective_names(made, headed=headed, rows=rows, cells=cells)
    if names in ("", "code"):
        made["denied"] = ""
        # Where there is no name, no text can repeat it.
        made["beside"] = "" if made["beside"] == "own" else made["beside"]
    _limit_reactions(made, cells=cells)
    linked = made["reactions"] in ("text-link", "doubled") or names.startswith("reaction-link")
    # Only a head tells that more of a row is about the reaction.
    if linked and (not headed or not made["row-reaction"]):
        made["row-reaction"] = "same"
    elif not rows or made["reactions"] in SILENT or (not headed and made["row-reaction"] != "same"):
        made["row-reaction"] = ""
    if not rows:
        made["comment"] = "inline" if made["comment"] == "link" else made["comment"]
        made["text"] = "" if made["text"] == "row" else made["text"]
    elif names in ("row", "placeholder+row", "code", "reaction-link+row"):
        made["text"] = "row"
    elif not names and (made["text"], made["ids"]) == ("row", "content"):
        made["text"] = ""
    return made


def _limit_reactions(made: Choice, *, cells: bool) -> None:
    """Leave out the reactions that the names and the narrative of an allergy do not allow."""
    if made["names"].startswith("reaction-link") and made["reactions"] in SILENT:
        made["reactions"] = "coded"
    if (
        made["narrative"] == "list"
        and DATA["reaction"].get(made["reactions"], "").lower()[:4] == "anap"
    ):
        # The item that names the substance has the extra row's reaction.
        made["extra"] = made["extra"] and "row"
    if not cells and made["reactions"] in ("text-link", "doubled"):
        made["reactions"] = "text"
    if made["reactions"] in ("", "unknown"):
        made.update({"reaction-severity": "", "reaction-place": "observation"})


def _effective_names(made: Choice, *, headed: bool, rows: bool, cells: bool) -> str:
    """Return how the substance can be named in a narrative of this form."""
    names = made["names"]
    if made["nesting"] == "participants" and names in ("value", "value-link", ""):
        return "display"
    if not rows and names in ("original-link", "original-doubled", "value-link", "row"):
        return "original"
    if not cells and names == "reaction-link+row":
        names = "placeholder+row"
    if not cells and names.startswith("reaction-link"):
        return "placeholder+entity"
    if not headed and names in ("row", "placeholder+row", "reaction-link+row"):
        return "reaction-link+entity" if cells else "placeholder+entity"
    return names


def pairs(choice: Choice) -> set[tuple[str, str, str, str]]:
    """Return the values of a choice that stand beside each other, each with its dimension."""
    return {(*first, *other) for first, other in combinations(sorted(choice.items()), 2)}


@cache
def covering(suite: int) -> Sequence[Choice]:
    """Return choices in which each pair of values that can stand together does so."""
    dimensions, random = SUITES[suite], Random(suite)
    names = sorted(dimensions)
    missing = set()
    for name, other in combinations(names, 2):
        for value in dimensions[name]:
            for beside in dimensions[other]:
                # Several tries: what gives way depends on the other values too.
                for _ in range(60):
                    tried = {dimension: random.choice(dimensions[dimension]) for dimension in names}
                    made = effective({**tried, name: value, other: beside})
                    if (made[name], made[other]) == (value, beside):
                        missing.add((name, value, other, beside))
                        break
    found: list[Choice] = []
    while missing:
        pair = min(missing) if len(found) % 2 else max(missing)
        best: tuple[int, Choice] = (-1, {})
        tries = 0
        while tries < 12 or best[0] < 1:
            tries += 1
            tried = {dimension: random.choice(dimensions[dimension]) for dimension in names}
            made = effective({**tried, pair[0]: pair[1], pair[2]: pair[3]})
            gain = len(pairs(made) & missing) if pair in pairs(made) else -1
            best = max(best, (gain, made), key=lambda candidate: candidate[0])
        found.append(best[1])
        missing -= pairs(best[1])
    return found


def covered() -> int:
    """Return how many documents it takes to cover all pairs."""
    return sum(len(covering(suite)) for suite in range(len(SUITES)))


def generate(number: int) -> Generated:
    """Return the document of a number."""
    random, left = Random(number), number
    for suite in range(len(SUITES)):
        if left < len(covering(suite)):
            return _Writer(random).document([covering(suite)[left]])
        left -= len(covering(suite))
    shared = {name: random.choice(values) for name, values in DOCUMENT.items()}
    choices = []
    for _ in range(random.choice((1, 1, 2, 3))):
        kinds = SUITES[0] if random.random() < 0.75 else SUITES[1]
        picked = {name: random.choice(values) for name, values in kinds.items()}
        choices.append(effective({**picked, **shared}))
    if random.random() < 0.08:
        picked = {name: random.choice(values) for name, values in SUITES[2].items()}
        choices = [effective({**picked, **shared})]
    return _Writer(random).document(choices)


class _Row(NamedTuple):
    """A row of the narrative; number: of the entry, in its ids."""

    number: int
    substance: str
    reaction: str = ""
    severity: str = ""
    status: str = ""
    more: str = ""


class _Reaction(NamedTuple):
    """A reaction as it is written, its words, and how severe it is."""

    xml: str
    words: set[str]
    severity: int


class _Writer:
    """Writes one document, entry by entry."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.substances = random.sample(SUBSTANCES, len(SUBSTANCES))
        self.planted: list[Planted] = []
        self.rows: list[_Row] = []
        self.paragraphs: list[str] = []
        self.of_act: list[_Reaction] = []
        self.made = 0

    def document(self, choices: Sequence[Choice]) -> Generated:
        """Return a document with an entry for each choice."""
        first = choices[0]
        if "words" in first:
            entries, narrative, words = self._words(first)
        else:
            entries = "".join(map(self._entry, choices))
            words = [*DATA["extra"][first["extra"]], "Active"] if first["extra"] else []
            words = words if first["narrative"] in ("thead", "th") else words[:2]
            if first["beside"] in ("paragraph", "caption", "footnote", "title"):
                words.append(DATA["beside"][first["beside"]])
            says_nothing = not {"allergy", "none-known"} & {
                planted.kind for planted in self.planted
            }
            if first["beside"] == "none-known" and says_nothing:
                words.append(DATA["beside"]["none-known"])
            narrative = self._narrative(first)
        document = _around(first, narrative, entries)
        return Generated(choices, document, self.planted, words)

    def _words(self, choice: Choice) -> tuple[str, str, list[str]]:
        """Return entries that say nothing, a narrative, and the words in it."""
        entries = {
            "none": "",
            "act-only": _act(choice, ""),
            "empty-observation": _act(choice, _observation(choice, "", "")),
            "null-act": '<entry><act classCode="ACT" moodCode="EVN" nullFlavor="NI"/></entry>',
            "null-observation": _act(choice, _observation(choice, ' nullFlavor="NI"', "")),
        }[choice["entries"]]
        if choice["entries"] == "empty-observation" or choice["entries"] == "null-observation":
            self.planted.append(Planted("no-information"))
        text = choice["words"]
        if not text or choice["narrative"] == "empty":
            return entries, "", []
        if text == "table":
            self.rows.append(_Row(1, "Sesame", "swollen lips", "Severe", "Active"))
            headed = choice["narrative"] in ("thead", "th")
            words = ["Sesame", "swollen lips", *(("Severe", "Active") if headed else ())]
            return entries, self._narrative(choice), words
        plain = {"list": f"<list><item>{text}</item></list>", "paragraphs": f"<paragraph>{text}"
                 "</paragraph>", "th": f"<content>{text}</content>"}  # fmt: skip
        return entries, plain.get(choice["narrative"], text), [text]

    def _entry(self, choice: Choice) -> str:
        """Return an entry: an observation where the choice wants it, or two in one act."""
        self.made += 1
        build = self._absence if "absence" in choice else self._allergy
        observation, beside, planted = build(choice, self.made)
        self.planted += planted
        if choice["nesting"] == "entry":
            return f'<entry typeCode="DRIV">{observation}</entry>'
        if choice["nesting"] == "organizer":
            return f"<entry>{_organizer(observation)}</entry>"
        if choice["nesting"] == "act-organizer":
            observation = _organizer(observation)
        if choice["nesting"] != "together":
            return _act(choice, observation, beside=beside)
        return _act(choice, observation, self._companion(choice, planted[0]), beside=beside)

    def _companion(self, choice: Choice, first: Planted) -> str:
        """Return a second observation of the same act, and plant it."""
        substance = self.substances.pop()
        planted = Planted(names={substance.display}, severity=1)
        planted.is_error = "nullified" in choice["concern"]
        for reaction in self.of_act:
            planted.reactions |= reaction.words
            planted.severity = max(planted.severity, reaction.severity)
        if choice.get("comment") == "act":
            planted.comments = set(first.comments)
        self.planted.append(planted)
        content = _value(self.random) + _participant(
            coded("code", substance.code, RXNORM, substance.display)
        )
        return _observation(choice, "", content + _severity("mild")[0])

    def _absence(self, choice: Choice, number: int) -> tuple[str, str, list[Planted]]:
        """Return an observation that says that there is nothing to say."""
        self.of_act = []
        absence = ABSENCES[choice["absence"]]
        status, given = _status(choice)
        content = _times(choice) + absence.value
        if absence.participant is not None:
            content += _participant(absence.participant)
        if choice["narrative"] != "empty" and absence.row:
            self.rows.append(_Row(number, absence.row, status=choice["row-status"]))
            if choice["row-status"] and choice["ids"] != "content":
                content = f"<text>{_reference(choice, number, 's')}</text>{content}"
                given.append(STATUS_WORDS[choice["row-status"]])
        is_denial = absence.kind == "none-known"
        planted = Planted(
            absence.kind, absence.scope, status=_gravest(given, choice, is_denial=is_denial)
        )
        planted.is_error = "nullified" in choice["concern"]
        found = [planted]
        if choice["nesting"] == "participants" and absence.participant is not None:
            content += _participant(absence.participant)
            found.append(planted)
        return _observation(choice, absence.attributes, content + status), "", found

    def _allergy(self, choice: Choice, number: int) -> tuple[str, str, list[Planted]]:
        """Return an observation of an allergy, what stands in the act beside it, what it says."""
        substance = self.substances.pop()
        planted = Planted(is_error="nullified" in choice["concern"])
        planted.criticality = choice["criticality"]
        # What only the row names, nothing denies: the document contradicts itself.
        by_row = choice["names"] in ("row", "placeholder+row", "reaction-link+row")
        planted.is_refuted = bool(choice["denied"]) and not by_row
        reactions, cell = _reactions(choice, number)
        for reaction in reactions:
            planted.reactions |= reaction.words
            planted.severity = max(planted.severity, reaction.severity)
        value, participant, row_name = _names(choice, number, substance, planted)
        status, statuses = _status(choice)
        own, rank = _severity(choice["severity"])
        planted.severity = max(planted.severity, rank)
        text = {"row": _reference(choice, number, "s"), "inline": NURSE}.get(choice["text"], "")
        parts = [f"<text>{text}</text>" if text else "", _times(choice)]
        parts += [value or _value(self.random), participant]
        inside = {"observation": len(reactions), "act": 0, "both": 1}[choice["reaction-place"]]
        parts += [
            own,
            status,
            *(reaction.xml for reaction in reactions[:inside]),
            _criticality(choice),
        ]
        self.of_act = reactions[inside:]
        beside = "".join(reaction.xml for reaction in self.of_act)
        comment = self._comment(choice, number, planted)
        if choice["comment"] == "act":
            beside += comment
        else:
            parts.append(comment)
        if choice["narrative"] != "empty":
            more = DATA["column"].get(choice["column"], "")
            row = _Row(number, row_name, cell, choice["row-severity"], choice["row-status"], more)
            self.rows.append(row)
            texts = {"s": row_name, "r": cell, "v": row.severity, "row": row_name or cell}
            # An id in the content of a cell is only there if the cell is not empty.
            targets = [part for part, text in texts.items() if text or choice["ids"] != "content"]
            if any(f'"#{part}{number}"' in "".join(parts) for part in targets):
                statuses += [STATUS_WORDS[row.status]] if row.status else []
                if row_name and choice["narrative"] in ("thead", "th"):
                    planted.names.add(row_name)
        planted.status = _gravest(statuses, choice)
        is_item = (choice["narrative"], choice["ids"]) == ("list", "tr")
        if is_item and cell and choice["names"] in LINKED_NAMES:
            planted.names.add(f"{row_name}: {cell}")
        if not choice["names"] and choice["reactions"] in ("", "unknown"):
            planted.kind = "no-information"
        found = [planted]
        if choice["nesting"] == "participants":
            other = self.substances.pop().display
            parts.append(_participant(coded("code", display=other, nullFlavor="OTH")))
            is_refuted = bool(choice["denied"])
            changed = {"names": {other}, "is_refuted": is_refuted}
            found.append(Planted(**{**vars(planted), **changed}))
        attributes = ' negationInd="true"' if choice["denied"] else ""
        return _observation(choice, attributes, "".join(parts)), beside, found

    def _comment(self, choice: Choice, number: int, planted: Planted) -> str:
        words = DATA["comment"].get(choice["comment"])
        if not words:
            return ""
        planted.comments.add(words)
        text = escape(words)
        if choice["comment"] == "link":
            self.paragraphs.append(
                f'<paragraph><content ID="c{number}">{text}</content></paragraph>'
            )
            text = f'<reference value="#c{number}"/>'
        return (
            '<entryRelationship typeCode="SUBJ" inversionInd="true">'
            f'<act classCode="ACT" moodCode="EVN">{_template(choice, "4.64")}'
            f"{coded('code', '48767-8', LOINC)}<text>{text}</text></act></entryRelationship>"
        )

    def _narrative(self, choice: Choice) -> str:
        """Return the narrative of the rows, in a vendor's form."""
        form = choice["narrative"]
        if form == "empty":
            return ""
        rows = list(self.rows)
        if choice.get("extra"):
            rows.append(_Row(0, *DATA["extra"][choice["extra"]], status="Active"))
        beside = self._beside(choice)
        caption = f"<caption>{beside}</caption>" if choice.get("beside") == "caption" else ""
        more = "".join(self.paragraphs)
        if beside and not caption:
            tag = "footnote" if choice["beside"] == "footnote" else "paragraph"
            more += f"<{tag}>{beside}</{tag}>"
        if form == "paragraphs":
            return "".join(_line(row, choice, "paragraph") for row in rows) + more
        if form == "list":
            items = "".join(_line(row, choice, "item") for row in rows)
            return f"<list>{caption or '<caption>Allergies</caption>'}{items}</list>{more}"
        heads = [self.random.choice(SUBSTANCE_HEADS), "Reaction"]
        if form != "headless":
            heads += ["Severity", "Status", *([choice["column"]] if choice.get("column") else ())]
        # The columns stand in any order, but for a table that does not name them.
        order = list(range(len(heads)))
        if form != "headless":
            self.random.shuffle(order)
        body = "".join(_table_row(row, choice, order) for row in rows)
        head = "<tr>" + "".join(f"<th>{heads[place]}</th>" for place in order) + "</tr>"
        if form == "thead":
            table = f'<table border="1">{caption}<thead>{head}</thead><tbody>{body}</tbody></table>'
            return table + more
        head = head if form == "th" else ""
        return f"<table>{caption}<tbody>{head}{body}</tbody></table>{more}"

    def _beside(self, choice: Choice) -> str:
        """Return what stands beside the rows; a title stands elsewhere."""
        shape = choice.get("beside", "")
        if shape in ("", "title"):
            return ""
        names = [row.substance for row in self.rows if row.substance]
        name = names[0] if names else "Something"
        return escape(DATA["beside"][shape].format(name=name))


def _table_row(row: _Row, choice: Choice, order: Sequence[int]) -> str:
    texts = (row.substance, row.reaction, row.severity, row.status, row.more)
    cells = []
    for place in order:
        name, text = (
            f"{'srvxo'[place]}{row.number}",
            "<br/>".join(escape(line) for line in texts[place].split("\n")),
        )
        if choice["ids"] == "content" and text and row.number:
            cells.append(f'<td><content ID="{name}">{text}</content></td>')
        else:
            named = f' ID="{name}"' if choice["ids"] == "td" and row.number else ""
            cells.append(f"<td{named}>{text}</td>")
    named = f' ID="row{row.number}"' if choice["ids"] == "tr" and row.number else ""
    return f"<tr{named}>{''.join(cells)}</tr>"


def _line(row: _Row, choice: Choice, tag: str) -> str:
    """Return a row as an item of a list, or as a paragraph."""
    parts = (("s", row.substance), ("r", row.reaction))
    if choice["ids"] == "tr":
        text = ": ".join(escape(text) for _, text in parts if text)
        return f'<{tag} ID="row{row.number}">{text}</{tag}>'
    named = [
        f'<content ID="{part}{row.number}">{escape(text)}</content>' for part, text in parts if text
    ]
    return f"<{tag}>{': '.join(named)}</{tag}>"


def _reference(choice: Choice, number: int, part: str) -> str:
    """Return a reference to a part of a row, or to the row where only that has an id."""
    if choice["narrative"] == "empty":
        return ""
    name = f"row{number}" if choice["ids"] == "tr" else f"{part}{number}"
    return f'<reference value="#{name}"/>'


def _template(choice: Choice, number: str) -> str:
    if choice["templates"] == "none":
        return ""
    plain = f'<templateId root="{TEMPLATE}.{number}"/>'
    if choice["templates"] == "1.1":
        return plain
    return plain + f'<templateId root="{TEMPLATE}.{number}" extension="2014-06-09"/>'


def _organizer(observation: str) -> str:
    return (
        '<organizer classCode="CLUSTER" moodCode="EVN"><statusCode code="completed"/>'
        f"<component>{observation}</component></organizer>"
    )


def _act(choice: Choice, *observations: str, beside: str = "") -> str:
    """Return a concern with observations, and what stands beside them."""
    status = choice.get("concern", "active")
    status = "active" if status == "observation-nullified" else status
    relations = "".join(
        f'<entryRelationship typeCode="SUBJ">{observation}</entryRelationship>'
        for observation in observations
        if observation
    )
    return (
        f'<entry typeCode="DRIV"><act classCode="ACT" moodCode="EVN">{_template(choice, "4.30")}'
        f"{coded('code', '48765-2', LOINC)}"
        f"{f'<statusCode code={quoteattr(status)}/>' if status else ''}"
        f"{relations}{beside}</act></entry>"
    )


def _observation(choice: Choice, attributes: str, content: str) -> str:
    state = "nullified" if choice.get("concern") == "observation-nullified" else "completed"
    return (
        f'<observation classCode="OBS" moodCode="EVN"{attributes}>{_template(choice, "4.7")}'
        f"{coded('code', 'ASSERTION', '2.16.840.1.113883.5.4')}"
        f'<statusCode code="{state}"/>{content}</observation>'
    )


def _participant(entity: str) -> str:
    return (
        '<participant typeCode="CSM"><participantRole classCode="MANU">'
        f'<playingEntity classCode="MMAT">{entity}</playingEntity>'
        "</participantRole></participant>"
    )


def _related(content: str, type_code: str = "SUBJ") -> str:
    return (
        f'<entryRelationship typeCode="{type_code}" inversionInd="true">'
        f'<observation classCode="OBS" moodCode="EVN">{content}</observation></entryRelationship>'
    )


def _reaction(choice: Choice, content: str) -> str:
    code = coded("code", "ASSERTION", "2.16.840.1.113883.5.4")
    return _related(_template(choice, "4.9") + code + content, "MFST")


def _reactions(choice: Choice, number: int) -> tuple[list[_Reaction], str]:
    """Return the reactions of an allergy, and what the narrative has in their column."""
    shape = choice["reactions"]
    if not shape:
        return [], ""
    words = DATA["reaction"].get(shape, "Hives")
    more = {"more": ", blistering feet", "grave": "; throat tightness"}
    more["lines"] = "\ncold sweat\n- pallor"
    cell = words + more.get(choice["row-reaction"], "") if choice["row-reaction"] else ""
    written, *said = DATA["reaction_value"].get(shape, DATA["reaction_value"]["text"])
    content = written.format(
        words=escape(words),
        to_r=_reference(choice, number, "r"),
        hives=f'xsi:type="CD" code="247472004" codeSystem="{SNOMED}" displayName="Hives"',
        other='xsi:type="CD" nullFlavor="OTH"',
        unknown=_UNKNOWN,
        snomed=f'codeSystem="{SNOMED}"',
        local=f'codeSystem="{LOCAL}"',
    )
    severity, rank = _severity(choice["reaction-severity"])
    own = {text.format(words=words, cell=cell) for text in said}
    found = [_Reaction(_reaction(choice, content + severity), own, rank)]
    if shape == "two":
        severity, rank = _severity("mild")
        wheezing = "wheezing at night"
        content = f"<text>{wheezing}</text>{_UNKNOWN}{severity}"
        found.append(_Reaction(_reaction(choice, content), {wheezing}, rank))
    if choice["reaction-place"] == "both":
        nausea = coded("value", "422587007", display="Nausea")
        found.append(_Reaction(_reaction(choice, nausea), {"Nausea"}, 0))
    return found, cell


def _value(random: Random) -> str:
    return coded("value", random.choice(TYPES))


def _times(choice: Choice) -> str:
    low, high = DATA["end"][choice["end"]]
    end = f"<high {high}/>" if high else ""
    return f"<effectiveTime><low {low}/>{end}</effectiveTime>" if low else ""


def _severity(shape: str) -> tuple[str, int]:
    """Return a severity observation of a shape, and how grave that is."""
    if not shape:
        return "", 0
    first, _, words = shape.partition(" ")
    code_of_severity = coded("code", "SEV", "2.16.840.1.113883.5.4")
    graded = SEVERITY["snomed"]
    if shape in SEVERITY["double"]:
        found = [graded[name] for name in SEVERITY["double"][shape]]
        values = "".join(coded("value", code) for code, _ in found)
        return _related(code_of_severity + values), max(rank for _, rank in found)
    if shape in SEVERITY["typed"]:
        name = SEVERITY["typed"][shape]
        value = coded("value", graded[name][0], display=name.title())
        return _related(code_of_severity + value, "MFST"), graded[name][1]
    if shape in graded:
        code, rank = graded[shape]
        value = coded("value", code)
    elif shape in SEVERITY["local"]:
        rank, value = SEVERITY["local"][shape], coded("value", shape, LOCAL)
    else:
        rank = SEVERITY["words"][words]
        by_text = coded("value", nullFlavor="OTH", inner=original(words))
        value = by_text if first == "text" else coded("value", "S7", LOCAL, words)
    return _related(code_of_severity + value), rank


def _status(choice: Choice) -> tuple[str, list[str]]:
    """Return the status observations of an entry, and what they say."""
    shape = choice["status"]
    codes = {"active": "55561003", "inactive": "73425007", "resolved": "413322009"}
    first, _, words = shape.partition(" ")
    if words:
        value = (
            coded("value", "ST1", LOCAL, words)
            if first == "word"
            else coded("value", nullFlavor="OTH", inner=original(words))
        )
        values, said = [value], [STATUS_WORDS[words]]
    else:
        said = [status for status in shape.split("+") if status]
        values = [coded("value", codes[status], display=status.title()) for status in said]
    code = coded("code", "33999-4", LOINC)
    return "".join(_related(code + value, "REFR") for value in values), said


def _gravest(given: Sequence[str], choice: Choice, *, is_denial: bool = False) -> str:
    """Return the gravest status; without one that is understood, what the end says.

    What may have ended has not, but for a statement that none is known.
    """
    for status in ("active", "inactive", "resolved"):
        if status in given:
            return status
    end = choice["end"]
    if end in DOUBTFUL_ENDS and (is_denial or "" in given):
        return "resolved" if is_denial else "active"
    return "resolved" if end in PAST_ENDS else "active"


def _criticality(choice: Choice) -> str:
    if not choice["criticality"]:
        return ""
    value = coded("value", choice["criticality"], "2.16.840.1.113883.5.1063")
    return _related(_template(choice, "4.145") + coded("code", "82606-5", LOINC) + value)


def _names(choice: Choice, number: int, about: Substance, planted: Planted) -> tuple[str, str, str]:
    """Return a value that names the substance, a participant, and the name in the narrative."""
    shape = choice["names"]
    names = {**about._asdict(), "other": OTHER_NAME}
    to_substance = _reference(choice, number, "s")
    written, given, row_name = DATA["name"][shape]
    content = written.format(
        **{name: escape(text) for name, text in names.items()},
        to_s=to_substance,
        to_r=_reference(choice, number, "r"),
        drug=f'code="{about.code}" codeSystem="{RXNORM}"',
        displayed=f"displayName={quoteattr(about.display)}",
        placeholder=original("Coded Allergy Name Not Available"),
        translated=coded("translation", about.translation_code, SNOMED, about.translation),
        local=f'codeSystem="{LOCAL}"',
    )
    planted.names |= {names[name] for name in given.split()}
    value = ""
    if shape == "value":
        value = coded("value", about.value_code, SNOMED, about.value)
    elif shape == "general-value":
        code, display = GENERAL_VALUE
        value = coded("value", code, SNOMED, display)
    elif shape == "value-link":
        bare = f"<originalText>{to_substance}</originalText>"
        value = coded("value", GENERIC_VALUES["drug"], inner=bare)
    return value, _participant(content) if content else "", names.get(row_name, "")


def _around(choice: Choice, narrative: str, entries: str) -> str:
    """Return a document around a section."""
    template = "".join(f'<templateId root="{TEMPLATE}.2.6{end}"/>' for end in ("", ".1"))
    code = coded("code", "10155-0" if choice["section"] == "history" else "48765-2", LOINC)
    title = DATA["beside"]["title"] if choice.get("beside") == "title" else "Allergies"
    content = f"<title>{title}</title><text>{narrative}</text>{entries}"
    inner, depth = content, {"subsection": 1, "deep": 2}.get(choice["nesting"], 0)
    for level in range(depth):
        # Only its title says what a section of another code is.
        is_named = choice["section"] == "title" and level == depth - 1
        name = "Allergien" if is_named else f"Part {level}"
        inner = f"<title>{name}</title><text/><component><section>{inner}</section></component>"
    local = coded("code", "ALL", LOCAL)
    head = {"both": template + code, "template": template, "title": local}.get(
        choice["section"], code
    )
    null = f' nullFlavor="{choice["null"]}"' if choice.get("null") else ""
    return (
        f"{HEADER}<component><structuredBody><component><section{null}>{head}{inner}</section>"
        "</component></structuredBody></component></ClinicalDocument>"
    )


if __name__ == "__main__":
    sys.stdout.write(generate(int(sys.argv[1])).document + "\n")
