"""The shapes that vendors write allergies in, from shapes.toml; generator.py combines them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

FOLDER = Path(__file__).parent
HEADER = (FOLDER / "header.xml").read_text()
DATA: dict[str, Any] = tomllib.loads((FOLDER / "shapes.toml").read_text())
SNOMED, RXNORM, LOCAL = "2.16.840.1.113883.6.96", "2.16.840.1.113883.6.88", "1.2.840.99999.1"
LOINC, TEMPLATE = "2.16.840.1.113883.6.1", "2.16.840.1.113883.10.20.22"
GENERIC_VALUES = {"drug": "416098002", "food": "414285001", "any": "419199007"}
TYPES = ("419511003", "416098002", "418038007", "420134006", "418471000")


class Substance(NamedTuple):
    """A substance under the names that different places of an entry give it."""

    code: str
    display: str
    brand: str
    translation_code: str
    translation: str
    entity: str
    desc: str
    value_code: str
    value: str


SUBSTANCES = [Substance(*names) for names in DATA["substances"]]
SEVERITY = DATA["severity"]
SEVERITIES = (
    *("", *SEVERITY["snomed"], *SEVERITY["local"]),
    *(f"text {words}" for words in SEVERITY["words"]),
    *("display Severe", "display Grade X", *SEVERITY["typed"], *SEVERITY["double"]),
)
# Ends that have come before the document was made, and those that may have.
PAST_ENDS, DOUBTFUL_ENDS = (
    ("high", "high-dashed", "high-unknown"),
    ("high-unknown", "both-unknown", "high-placeholder"),
)
STATUS_WORDS: Mapping[str, str] = {
    **{words: words.casefold() for words in ("Active", "Inactive", "Resolved")},
    **DATA["status"],
    "aktiv": "active",
}
# Reactions without words.
SILENT = ("", "unknown", "icd", "grave-local")
SUBSTANCE_HEADS = ("Substance", "Allergen", "Allergy", "Agent", "Allergies")
# A name that belongs to none of the substances, and a value that names only a kind.
OTHER_NAME = "Ibuprofen"
GENERAL_VALUE = ("282100009", "Adverse reaction to substance")
LINKED_NAMES = ("original-link", "original-doubled", "value-link", "all")
NURSE = "Noted by the school nurse"


class Absence(NamedTuple):
    """A way to say that there is nothing to say: attributes, value, participant, what it means."""

    attributes: str
    value: str
    participant: str | None
    kind: str
    scope: str = ""
    row: str = ""


def coded(tag: str, code: str = "", system: str = SNOMED, display: str = "", **more: str) -> str:
    """Return a coded element; more: nullFlavor, and inner XML as `inner`."""
    inner = more.pop("inner", "")
    values = {"code": code, "codeSystem": system if code else "", "displayName": display, **more}
    attributes = "".join(f" {name}={quoteattr(value)}" for name, value in values.items() if value)
    typed = ' xsi:type="CD"' if tag == "value" else ""
    return f"<{tag}{typed}{attributes}>{inner}</{tag}>"


def original(text: str, link: str = "") -> str:
    """Return an originalText with words, a reference element, or both."""
    return f"<originalText>{escape(text)}{link}</originalText>"


NEGATED = ' negationInd="true"'
# What stands for any substance, and of what it is one.
ANY: Mapping[str, tuple[str | None, str]] = {
    "NA": (coded("code", nullFlavor="NA"), ""),
    "substance": (coded("code", "105590001", display="Substance"), "any"),
    "drug": (coded("code", "410942007", display="Drug or medicament"), "drug"),
    "food": (coded("code", "255620007", display="Food"), "food"),
    "none": (None, ""),
}


def _absences() -> dict[str, Absence]:
    """Return all ways to say that there is nothing to say, by name."""
    drug = coded("value", GENERIC_VALUES["drug"])
    found = _negated()
    for sign, attributes in (("plain", ""), ("negated", NEGATED)):
        for code, (text, scope) in DATA["statement"].items():
            concept = coded("code", code, display=text)
            stated = Absence(attributes, drug, concept, "none-known", scope, text)
            found[f"{sign}-{code}"] = stated
        for text, scope in DATA["phrase"].items():
            for shape, concept in _phrased(text).items():
                stated = Absence(attributes, drug, concept, "none-known", scope, text)
                found[f"{sign}-{shape} {text}"] = stated
    for code, (text, scope) in DATA["statement"].items():
        value = coded("value", code, display=text)
        found[f"value-{code}"] = Absence("", value, None, "none-known", scope, text)
    for flavor in ("NASK", "NI", "UNK", "NAV"):
        kind = "not-asked" if flavor == "NASK" else "no-information"
        null, unknown = f' nullFlavor="{flavor}"', coded("code", nullFlavor=flavor)
        found[f"null-{flavor}"] = Absence(null, "", None, kind)
        found[f"null-{flavor}-value"] = Absence(null, drug, unknown, kind)
        if flavor != "NASK":
            found[f"participant-{flavor}"] = Absence("", drug, unknown, kind)
    found["negated-nothing"] = Absence(NEGATED, "", None, "no-information")
    for name in ("NA", "N/A", "n.a.", "none", "-", "Unbekannt"):
        concept = coded("code", nullFlavor="NA", inner=original(name))
        found[f"named {name}"] = Absence("", drug, concept, "no-information", "", name)
    filler = (
        '<entryRelationship typeCode="MFST" inversionInd="true"><observation classCode="OBS" '
        f'moodCode="EVN" nullFlavor="NI">{coded("value", "183964008", display="Not indicated")}'
        "</observation></entryRelationship>"
    )
    found["null-NI-filler"] = Absence(
        *(' nullFlavor="NI"', drug + filler, coded("code", nullFlavor="NI"), "no-information")
    )
    for text, row in DATA["foreign"].items():
        concept = coded("code", "160244002", display=text, inner=original(row))
        found[f"foreign {text}"] = Absence("", drug, concept, "none-known", "any", row)
    return found


def _negated() -> dict[str, Absence]:
    """Return what is denied of any substance: the narrower of value and participant counts."""
    found = {}
    for scope, code in GENERIC_VALUES.items():
        for name, (participant, own) in ANY.items():
            if {scope, own} == {"drug", "food"}:
                continue
            narrow = own if own in ("drug", "food") else scope
            found[f"negated-{scope}-{name}"] = Absence(
                *(
                    NEGATED,
                    coded("value", code),
                    participant,
                    "none-known",
                    narrow,
                    DATA["row_of"][narrow],
                )
            )
    return found


def _phrased(text: str) -> dict[str, str]:
    """Return the places where a participant can have a phrase."""
    return {
        "text": coded("code", nullFlavor="UNK", inner=original(text)),
        "name": f"{coded('code', nullFlavor='OTH')}<name>{text}</name>",
        "display": coded("code", display=text, nullFlavor="NI"),
        "local": coded("code", "NK1", LOCAL, text),
    }


ABSENCES = _absences()
DOCUMENT: Mapping[str, Sequence[str]] = DATA["document"]
ENTRY = {
    **DATA["entry"],
    "end": list(DATA["end"]),
    "row-status": ["", "Active", "Inactive", "Resolved", *DATA["status"]],
}
ALLERGY = {**DATA["allergy"], "severity": SEVERITIES, "reaction-severity": SEVERITIES}
# Suites: dimensions whose pairs are covered together.
SUITES: tuple[Mapping[str, Sequence[str]], ...] = (
    {**DOCUMENT, **ENTRY, **ALLERGY},
    {**DOCUMENT, **ENTRY, "absence": list(ABSENCES)},
    {**DOCUMENT, **DATA["words"]},
)
