"""The shapes that vendors write allergies in: dimensions, and what stands for each value.

tests/campaigns/ccda/generator.py combines them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

SNOMED, RXNORM, LOCAL = "2.16.840.1.113883.6.96", "2.16.840.1.113883.6.88", "1.2.840.99999.1"
ICD10, LOINC = "2.16.840.1.113883.6.90", "2.16.840.1.113883.6.1"
UNII = "2.16.840.1.113883.4.9"
TEMPLATE = "2.16.840.1.113883.10.20.22"
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


SUBSTANCES = (
    Substance(
        *("7980", "Penicillin G", "Pen VK tablets", "764146007", "Penicillin", "PENICILLINS"),
        *("Antibiotics like amoxicillin", "91936005", "Allergy to penicillins"),
    ),
    Substance(
        *("1191", "Aspirin", "Bayer low dose", "387458008", "Acetylsalicylic acid", "ASA 81 MG"),
        *("Salicylates", "293586001", "Allergy to salicylate"),
    ),
    Substance(
        *("1314891", "Latex", "Rubber gloves", "111088007", "Natural rubber", "LATEX STRAP"),
        *("Surgical rubber", "300916003", "Latex allergy"),
    ),
    Substance(
        *("1362025", "Bee venom", "Honey bee sting", "288328004", "Apis toxin", "BEE VENOM"),
        *("Insects: bees & wasps", "424213003", "Allergy to stinging insect"),
    ),
    Substance(
        *("891092", "Peanut", "Erdnüsse / groundnut", "762952008", "Arachis", "PEANUT (FOOD)"),
        *("Legumes <all>", "91935009", "Allergy to goobers"),
    ),
    Substance(
        *("10180", "Sulfamethoxazole", "Bactrim® DS", "387406002", "Sulfonamide", "SULFA DRUGS"),
        *("Antibacterials, sulfa type", "91939003", "Allergy to thiazides"),
    ),
    Substance(
        *("2670", "Codeine", "Tylenol #3", "387494007", "Methylmorphine", "OPIOIDS (CODEINE)"),
        *("Analgesics", "292055008", "Allergy to opium product"),
    ),
    Substance(
        *("25037", "Cefdinir", "Omnicef 300 mg", "373270004", "Cephem", "CEPHALOSPORINS"),
        *("Third generation", "294532003", "Allergy to cefs"),
    ),
)
EXTRA_ROWS = {
    "row": ("Kiwi fruit", "Itching", "Mild"),
    "grave": ("Shrimp", "Anaphylaxis", "Severe"),
}

# Each: the value's attributes, what stands in it, the gravity it has, the words that must be kept.
SNOMED_SEVERITIES = {
    "mild": ("255604002", 1),
    "moderate": ("6736007", 2),
    "severe": ("24484000", 3),
    "mild-to-moderate": ("371923003", 2),
    "moderate-to-severe": ("371924009", 3),
    "fatal": ("399166001", 3),
}
LOCAL_SEVERITIES = {
    "H": 3,
    "HIGH": 3,
    "SEVERE": 3,
    "SV": 3,
    "M": 2,
    "MODERATE": 2,
    "MO": 2,
    "L": 1,
    "MILD": 1,
    "MI": 1,
}
SEVERITY_WORDS = {
    "Severe": 3,
    "moderate to severe": 3,
    "Life threatening": 3,
    "fatal": 3,
    "Mild": 1,
    "Grade X": 0,
}
# Severities whose observation is typed as a manifestation, or has two values.
TYPED_SEVERITIES = {"typed severe": "severe", "typed mild": "mild"}
DOUBLE_SEVERITIES = {
    "values mild+severe": ("mild", "severe"),
    "values severe+mild": ("severe", "mild"),
}
SEVERITIES = (
    "",
    *SNOMED_SEVERITIES,
    *LOCAL_SEVERITIES,
    *(f"text {words}" for words in SEVERITY_WORDS),
    *("display Severe", "display Grade X", *TYPED_SEVERITIES, *DOUBLE_SEVERITIES),
)

DOCUMENT: Mapping[str, Sequence[str]] = {
    "narrative": ("thead", "th", "headless", "list", "paragraphs", "empty"),
    "ids": ("td", "tr", "content"),
    "templates": ("1.1", "2.1", "none"),
    "section": ("both", "code", "template", "history", "title"),
    "nesting": (
        *("act", "entry", "organizer", "subsection", "deep", "together", "participants"),
        "act-organizer",
    ),
    "extra": ("", "row", "grave"),
    "beside": (
        *("", "paragraph", "caption", "footnote", "title", "own", "remark", "heading"),
        "none-known",
    ),
    "column": ("", "Risk", "Onset", "Author"),
}
# What stands beside the rows; of an entry's substance, {name} is what the narrative calls it.
BESIDE = {
    "paragraph": "Also allergic to wasps: her throat closed",
    "caption": "Quinsy after a dose of lupin in 2011",
    "footnote": "Carries an adrenaline pen",
    "title": "Allergies: mugwort pollen",
    "own": "{name} gave her blisters",
    "remark": "Last reviewed on 3 May 2020 by Nora Quill RN",
    "heading": "Active allergies",
    "none-known": "No known allergies",
}
# Cells of columns that are none of an allergy's.
COLUMN_WORDS = {
    "Risk": "LIFE-THREATENING if eaten",
    "Onset": "as a toddler",
    "Author": "Doctor Foxglove",
}
# The low and the high of an allergy, by name.
ENDS: Mapping[str, tuple[str, str]] = {
    "": ("", ""),
    "low": ('value="2008"', ""),
    "low-dashed": ('value="2008-05-10"', ""),
    "low-dashed-time": ('value="2008-05-10T12:30:00+01:00"', ""),
    "low-placeholder": ('value="00010101"', ""),
    "high": ('value="2008"', 'value="20200630"'),
    "high-dashed": ('value="2008-05-10"', 'value="2020-06-30"'),
    "high-unknown": ('value="2008"', 'nullFlavor="UNK"'),
    "both-unknown": ('nullFlavor="UNK"', 'nullFlavor="UNK"'),
    "ahead": ('value="2008"', 'value="20990101"'),
    "ahead-dashed": ('value="2008-05-10"', 'value="2024-03-02"'),
    "never": ('value="2008"', 'value="99991231"'),
    "high-placeholder": ('value="2008"', 'value="00010101"'),
}
# Those that have come before the document was made, and those that may have.
PAST_ENDS, DOUBTFUL_ENDS = (
    ("high", "high-dashed", "high-unknown"),
    ("high-unknown", "both-unknown", "high-placeholder"),
)
# What statuses mean; "" where nobody knows.
FURTHER_STATUSES = {
    "Ongoing": "active",
    "ATIVO": "active",
    "no longer active": "inactive",
    "inaktiv": "inactive",
    "Abgeklungen": "resolved",
    "Under review": "",
}
STATUS_WORDS: Mapping[str, str] = {
    **{words: words.casefold() for words in ("Active", "Inactive", "Resolved")},
    **FURTHER_STATUSES,
    "aktiv": "active",
}
ENTRY: Mapping[str, Sequence[str]] = {
    "status": (
        *("", "active", "inactive", "resolved", "active+resolved", "resolved+inactive"),
        *("word Inactive", "text Active", "text Resolved", "word Ongoing", "text aktiv"),
        *("word inaktiv", "text no longer active", "word Under review"),
    ),
    "concern": (
        *("active", "completed", "suspended", "aborted", "", "nullified"),
        "observation-nullified",
    ),
    "end": tuple(ENDS),
    "row-status": ("", "Active", "Inactive", "Resolved", *FURTHER_STATUSES),
}
ALLERGY: Mapping[str, Sequence[str]] = {
    "names": (
        *("display", "original", "original-link", "original-doubled", "translation", "entity"),
        *("desc", "placeholder+entity", "placeholder+row", "placeholder+translation"),
        *("reaction-link+entity", "reaction-link+row", "reaction-link+display", "value"),
        *("value-link", "row", "local", "code", "all", ""),
        *("placeholder-code", "code-name", "code-before-name", "other-name", "general-value"),
    ),
    "denied": ("", "denied"),
    "severity": SEVERITIES,
    "reaction-severity": SEVERITIES,
    "row-severity": ("", "Severe", "Mild"),
    "reactions": (
        *("", "coded", "coded+text", "original", "text", "text-link", "doubled", "same-twice"),
        *("two", "grave-text", "grave-code", "grave-local", "icd", "misspelled", "angiodema"),
        *("throat", "no-anaphylaxis", "translation", "unknown", "itchy-throat"),
        *("values", "values-grave", "values-null"),
    ),
    "reaction-place": ("observation", "act", "both"),
    "row-reaction": ("", "same", "more", "grave", "lines"),
    "criticality": ("", "CRITH", "CRITL", "CRITU"),
    "comment": ("", "inline", "link", "grave", "no-anaphylaxis", "act"),
    "text": ("", "row", "inline"),
}


# Reactions without words.
SILENT = ("", "unknown", "icd", "grave-local")


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
ROW_OF = {
    "drug": "No known drug allergies",
    "food": "No known food allergies",
    "any": "No known allergies",
}
STATEMENTS = {
    "716186003": ("No known allergy", "any"),
    "409137002": ("No known drug allergy", "drug"),
    "429625007": ("No known food allergy", "food"),
    "428607008": ("No known environmental allergy", "environment"),
    "160244002": ("No known allergies", "any"),
}
FOREIGN = {
    "Pas d'allergie connue": "Aucune allergie connue",
    "Keine bekannten Allergien": "Keine Allergie bekannt",
    "Ingen kjente allergier": "Ingen allergi",
}
PHRASES = {"No Known Allergies": "any", "NKDA": "drug", "No known drug allergies": "drug"}


def _absences() -> dict[str, Absence]:
    """Return all ways to say that there is nothing to say, by name."""
    drug = coded("value", GENERIC_VALUES["drug"])
    found = _negated()
    for sign, attributes in (("plain", ""), ("negated", NEGATED)):
        for code, (text, scope) in STATEMENTS.items():
            concept = coded("code", code, display=text)
            stated = Absence(attributes, drug, concept, "none-known", scope, text)
            found[f"{sign}-{code}"] = stated
        for text, scope in PHRASES.items():
            for shape, concept in _phrased(text).items():
                stated = Absence(attributes, drug, concept, "none-known", scope, text)
                found[f"{sign}-{shape} {text}"] = stated
    for code, (text, scope) in STATEMENTS.items():
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
    for text, row in FOREIGN.items():
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
                *(NEGATED, coded("value", code), participant, "none-known", narrow, ROW_OF[narrow])
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
ABSENCE: Mapping[str, Sequence[str]] = {"absence": tuple(ABSENCES)}
WORDS: Mapping[str, Sequence[str]] = {
    "words": (
        *("Penicillin: anaphylaxis, severe", "Peanuts cause hives", "No Known Allergies", ""),
        *("Allergies were not reviewed", "Denies allergy to penicillin; bees: swelling", "table"),
    ),
    "entries": ("none", "act-only", "empty-observation", "null-act", "null-observation"),
    "null": ("", "NI", "NASK"),
}

# Suites: dimensions whose pairs are covered together.
SUITES: tuple[Mapping[str, Sequence[str]], ...] = (
    {**DOCUMENT, **ENTRY, **ALLERGY},
    {**DOCUMENT, **ENTRY, **ABSENCE},
    {**DOCUMENT, **WORDS},
)

SUBSTANCE_HEADS = ("Substance", "Allergen", "Allergy", "Agent", "Allergies")
# A name that belongs to none of the substances, and a value that names only a kind.
OTHER_NAME = "Ibuprofen"
GENERAL_VALUE = ("282100009", "Adverse reaction to substance")
LINKED_NAMES = ("original-link", "original-doubled", "value-link", "all")
NURSE = "Noted by the school nurse"
REACTION_WORDS = {
    "coded+text": "raised welts on both arms",
    "original": "tingling lips",
    "text": "stomach cramps",
    "text-link": "itchy palms",
    "doubled": "watery eyes",
    "grave-text": "Anaphylaxis",
    "grave-code": "Anaphylaxis",
    "misspelled": "anaphalaxis at age four",
    "angiodema": "angiodema",
    "throat": "throat closing up",
    "no-anaphylaxis": "a rash, no anaphylaxis",
    "translation": "red blotches",
    "itchy-throat": "itchy throat",
}
COMMENTS = {
    "inline": "Tolerated cefalexin in 2019",
    "link": "Reported by the mother",
    "grave": "Needed epinephrine, airway swelling",
    "no-anaphylaxis": "Denies anaphylaxis",
    "act": "Confirmed by the allergist",
}

HEADER = """<?xml version="1.0" encoding="UTF-8"?>
<ClinicalDocument xmlns="urn:hl7-org:v3" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
<realmCode code="US"/><typeId root="2.16.840.1.113883.1.3" extension="POCD_HD000040"/>
<templateId root="2.16.840.1.113883.10.20.22.1.2"/>
<id root="2.16.840.1.113883.19.5.99999.1" extension="generated"/>
<code code="34133-9" codeSystem="2.16.840.1.113883.6.1"/><title>Summary</title>
<effectiveTime value="20240301153000+0100"/>
<confidentialityCode code="N" codeSystem="2.16.840.1.113883.5.25"/><languageCode code="en-US"/>
<recordTarget><patientRole><id extension="MRN-1" root="2.16.840.1.113883.19.5.99999.2"/><patient>
<name><given>Ida</given><family>Fenwick</family></name>
<administrativeGenderCode code="F" codeSystem="2.16.840.1.113883.5.1"/>
<birthTime value="19710412"/></patient></patientRole></recordTarget>
<author><time value="20240301153000+0100"/><assignedAuthor>
<id extension="1234567893" root="2.16.840.1.113883.4.6"/>
<assignedPerson><name><given>Nora</given><family>Quill</family></name></assignedPerson>
</assignedAuthor></author>
<custodian><assignedCustodian><representedCustodianOrganization>
<id extension="1555001019" root="2.16.840.1.113883.4.6"/><name>Lakeside Clinic</name>
</representedCustodianOrganization></assignedCustodian></custodian>
"""
