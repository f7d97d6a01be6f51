"""The substance of an allergy, or that no allergy is known.

All names that a source has are kept: the best as the text of the code, the others as its codings.
Sources: C-CDA R2.1, Allergy - Intolerance Observation; HL7 C-CDA on FHIR 2.0.0,
CF-NoKnownAllergies; service.md 2.3; decisions 2.19: NI never means "no allergy".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fhirapp.clinical.assertion import (
    About,
    AssertionKind,
    about_none_known,
    assertion_of,
    is_placeholder,
    says_nothing,
)
from fhirapp.clinical.identity import is_general, is_kind
from fhirapp.clinical.severity import grade
from fhirapp.features.imports.ccda.narrative import (
    Block,
    Column,
    Narrative,
    Texts,
    covers,
    plain,
    shortened,
    tidy,
    unique,
)
from fhirapp.features.imports.ccda.tree import NOTHING, CcdaElement
from fhirapp.features.imports.ccda.values import (
    MAPS,
    codings,
    concept,
    has_code,
    is_negated,
    null_coding,
)
from fhirapp.fhir.terminology import NO_KNOWN_DRUG_ALLERGY, SNOMED_CT
from fhirapp.search.string import fold

_NKA, _NKFA, _NKEA = "716186003", "429625007", "428607008"
_NONE_KNOWN: Mapping[str, str] = MAPS["none_known"]
_BY_ABOUT = {
    About.ANY: _NKA,
    About.DRUG: NO_KNOWN_DRUG_ALLERGY,
    About.FOOD: _NKFA,
    About.ENVIRONMENT: _NKEA,
}
# The statement that none is known: by the value of an observation that is negated, and by a
# participant that names no substance but any, or any of a kind.
_NEGATED: Mapping[str, str] = MAPS["negated"]
_GENERIC: Mapping[str, str] = MAPS["generic"]
_GENERIC_NAMES = frozenset(
    {
        *("substance", "any", "any substance", "all", "allergen", "drug", "drugs", "any drug"),
        *("drug or medicament", "medication", "medications", "food", "foods", "edible substance"),
        *("pharmaceutical / biologic product", "pharmaceutical/biologic product"),
    }
)
# Codes that mean it by themselves, whatever is beside them; some systems negate these too.
_SAY_NONE = frozenset({*_NONE_KNOWN, "160244002"})
# A value that only says of what kind it is: the substance has to be named elsewhere.
_KINDS = frozenset({*_NEGATED, "235719002", "59037007"})
# A code that may stand in the place of a name: of ATC, or digits.
_CODE = re.compile(r"[A-Z]\d{2}[A-Z]{2}\d{2}|\d[\d.-]{4,}")
# Columns of the narrative without substances.
_NO_NAME = (Column.REACTION, Column.SEVERITY, Column.STATUS, Column.CRITICALITY)


def substance_of(
    participant: CcdaElement | None,
    values: list[CcdaElement],
    texts: Texts,
    narrative: Narrative,
    *,
    cell: str,
    is_only: bool,
    reactions: list[str],
) -> dict[str, Any]:
    """Return the substance as a CodeableConcept; empty where nothing names one.

    values are those of the observation, cell is the name that the narrative has; is_only: whether
    no other allergy shares it. A name that leads into another column, or is that of the reaction,
    does not name the substance where something else does.
    """
    entity = (participant or NOTHING).first("participantRole/playingEntity") or NOTHING
    codes = _own_codes([*entity.all("code"), *values])
    words = _Words(texts, narrative, codes)
    general = [value for value in values if _says_kind(value, words)]
    naming = [value for value in values if value not in general]
    listed = [coding for code in entity.all("code") for coding in codings(code)]
    coded = [coding for value in naming if value.get("code") for coding in codings(value)]
    if coded and not any(map(_is_concrete, listed)):
        # The value names the substance: "allergy to penicillin".
        listed = coded
    names = list(_names(entity, words))
    displays = [
        coding["display"] for coding in listed if "display" in coding and _is_concrete(coding)
    ]
    of_reactions = {fold(name) for name in reactions}
    others = [
        *map(words.without_code, displays),
        *(name for value in naming for name in _value_names(value, words)),
    ]
    real = [name for name in (*names, *others) if is_name(name) and not _is_code(name, codes)]
    real = [name for name in real if fold(name) not in of_reactions] or real
    cell = words.without_code(cell)
    if (is_only or not real) and is_name(cell) and not _is_code(cell, codes):
        real.append(cell)
    if not real:
        real += [name for value in values for name in _named_kind(value, words)]
    if not real and not any(map(_is_concrete, listed)):
        unnamed = [value for value in general if not has_code(value, *_KINDS)]
        listed = [coding for value in unnamed for coding in codings(value)] or listed
        real += [name for value in unnamed for name in _value_names(value, words) if name]
    substance: dict[str, Any] = {"coding": listed} if listed else {}
    if text := next(iter(real), "") or next(
        (name for name in (*names, *others) if name and not _is_listed(name, listed)), ""
    ):
        substance["text"] = text
    kept = [text, *displays]
    for name in real:
        if not covers(kept, name):
            substance.setdefault("coding", []).append({"display": name})
            kept.append(name)
    return substance


def names_in(code: dict[str, Any]) -> list[str]:
    """Return the names in a code, without placeholders."""
    listed = (coding for coding in code.get("coding", ()) if _is_concrete(coding))
    names = [code.get("text", ""), *(coding.get("display", "") for coding in listed)]
    return list(filter(is_name, names))


def names_substance(substance: dict[str, Any]) -> bool:
    """Say whether what an observation has names a substance, and not any or none."""
    listed = [coding for coding in substance.get("coding", ()) if _is_concrete(coding)]
    if not all(map(_is_generic, listed)):
        return True
    name = substance.get("text", "")
    return is_name(name) and fold(name) not in _GENERIC_NAMES and about_none_known(name) is None


def named_by(participant: CcdaElement | None, texts: Texts) -> dict[str, Any] | None:
    """Return the code and the first name of a participant as written; None if it has none."""
    entity = (participant or NOTHING).first("participantRole/playingEntity") or NOTHING
    code = concept(entity.first("code"), texts) or {}
    if "text" not in code:
        listed = (coding for coding in code.get("coding", ()) if _is_concrete(coding))
        displays = (coding["display"] for coding in listed if "display" in coding)
        if name := next(filter(None, [*map(plain, entity.all("name")), *displays]), ""):
            code["text"] = name
    return code if says_something(code) else None


def code_of(
    substance: dict[str, Any],
    observation: CcdaElement,
    concern: CcdaElement | None,
    texts: Texts,
) -> dict[str, Any]:
    """Return the code of an allergy: the substance, that none is known, or why there is none."""
    if none_known := _none_known(substance, observation, concern, texts):
        return none_known
    if says_something(substance):
        return substance
    coded = [value for value in observation.all("value") if value.get("code")]
    if coded and _negated(observation, concern):
        return {"coding": [coding for value in coded for coding in codings(value)]}
    # Such as "N/A", or "no information about allergies".
    words = {"text": substance["text"]} if "text" in substance else {}
    listed = substance.get("coding", ())
    for reason in (observation.null_flavor, *(coding["code"] for coding in listed)):
        if coding := null_coding(reason):
            return {"coding": [coding], **words}
    return {"coding": [null_coding("NI")], **words}


def is_refuted(
    observation: CcdaElement, concern: CcdaElement | None, allergy: dict[str, Any]
) -> bool:
    """Say whether the observation denies what the allergy's code says."""
    code = allergy["code"]
    if not _negated(observation, concern) or not says_something(code):
        return False
    return not (_snomed(code) & _SAY_NONE or about_none_known(code.get("text", "")))


def is_none_known(code: dict[str, Any]) -> bool:
    """Say whether a code says that no allergy is known, and nothing else."""
    return assertion_of({"code": code}).kind is AssertionKind.NONE_KNOWN


def says_something(code: dict[str, Any]) -> bool:
    """Say whether a code names something, and not only why it does not."""
    listed = code.get("coding", ())
    is_named = "text" in code and not says_nothing(code["text"])
    return is_named or any(map(_is_concrete, listed))


def is_name(words: str) -> bool:
    """Say whether words name a substance, and do not only hold the place of a name."""
    return bool(words) and not is_placeholder(words) and not says_nothing(words)


class _Words(NamedTuple):
    """Finds the words that name a substance; codes are those of its entry, in small letters."""

    texts: Texts
    narrative: Narrative
    codes: frozenset[str]

    def of(self, element: CcdaElement | None) -> str:
        """Return the name in an element and where it points: of a whole row, its substance."""
        if element is None:
            return ""
        pointed = [self._at(target) for target in self.texts.targets(element)]
        names = (self.without_code(name) for name in (plain(element), *pointed))
        return shortened(" ".join(unique(list(names))))

    def _at(self, target: CcdaElement) -> str:
        rows = self.narrative.rows_of(target)
        if not rows:
            return plain(target)
        # Of several rows nothing tells which one it is; they stay in the narrative.
        return _name_in(rows[0], self.codes) if len(rows) == 1 else ""

    def without_code(self, name: str) -> str:
        """Return a name without a code of the entry before or after it."""
        first, _, rest = name.partition(" ")
        if first.strip("()[]:|,-").casefold() in self.codes and any(map(str.isalpha, rest)):
            return rest.lstrip("-:|, ")
        before, _, last = name.rpartition(" ")
        if last.strip("()[]:|,-").casefold() in self.codes and any(map(str.isalpha, before)):
            return before.rstrip("-:|, ")
        return name


def _name_in(row: Block, codes: frozenset[str]) -> str:
    """Return the cell of a row that names the substance: by its head, else the first that may."""
    if name := row.cells.get(Column.SUBSTANCE):
        return name
    cells = [plain(cell) for cell in row.element.elements if cell not in row.columns]
    names = [cell for cell in cells if any(map(str.isalpha, cell)) and not _is_code(cell, codes)]
    likely = [name for name in names if not (is_placeholder(name) or is_kind(name) or grade(name))]
    return next(iter([*likely, *names]), "")


def _own_codes(coded: list[CcdaElement]) -> frozenset[str]:
    """Return the codes of elements and their translations, in small letters."""
    listed = (coding for element in coded for coding in codings(element))
    return frozenset(coding["code"].casefold() for coding in listed if _is_concrete(coding))


def _is_code(name: str, codes: frozenset[str]) -> bool:
    """Say whether a name is only a code: one of its entry, of ATC, or digits."""
    return name.casefold() in codes or _CODE.fullmatch(name) is not None


def _is_listed(name: str, listed: list[dict[str, Any]]) -> bool:
    """Say whether a name is one of these codes; a nullFlavor, such as NA, is none."""
    codes = (coding.get("code", "") for coding in filter(_is_concrete, listed))
    return name.casefold() in map(str.casefold, codes)


def _names(entity: CcdaElement, words: _Words) -> Iterator[str]:
    """Yield the names of a substance, save those that lead into the column of something else."""
    code = entity.first("code") or NOTHING
    for coded in (code, *code.all("translation")):
        original = coded.first("originalText") or NOTHING
        targets = words.texts.targets(original)
        columns = [words.narrative.column_of(target) for target in targets]
        is_elsewhere = any(column in _NO_NAME for column in columns)
        yield plain(original) if is_elsewhere else words.of(original)
    for name in entity.all("name"):
        yield words.of(name)
    for coded in (code, *code.all("translation")):
        if not coded.get("code"):
            yield tidy(coded.get("displayName"))
    for desc in entity.all("desc"):
        yield words.of(desc)


def _value_names(value: CcdaElement, words: _Words) -> Iterator[str]:
    """Yield the names of a value that names the substance: "allergy to penicillin"."""
    yield words.of(value.first("originalText"))
    yield words.without_code(tidy(value.get("displayName")))
    if not value.all("originalText"):
        yield words.without_code(plain(value))


def _says_kind(value: CcdaElement, words: _Words) -> bool:
    """Say whether a value only says of what kind an allergy is, by its code or by its words."""
    coded = [coding for coding in codings(value) if _is_concrete(coding)]
    if has_code(value, *_KINDS) or (coded and all(map(is_general, coded))):
        return True
    names = list(filter(None, _value_names(value, words)))
    return bool(names) and all(map(is_kind, names))


def _named_kind(value: CcdaElement, words: _Words) -> Iterator[str]:
    """Yield the original text of a value that is a kind by its code, and more in words."""
    text = words.of(value.first("originalText"))
    if text and not is_kind(text) and not is_placeholder(text):
        yield text


def _none_known(
    substance: dict[str, Any], observation: CcdaElement, concern: CcdaElement | None, texts: Texts
) -> dict[str, Any] | None:
    """Return that no allergy is known, where an observation says so; None where it does not."""
    listed = [coding for coding in substance.get("coding", ()) if _is_concrete(coding)]
    if _snomed(substance) & _SAY_NONE:
        return substance
    generic = [_GENERIC[code] for code in _snomed(substance) & _GENERIC.keys()]
    is_generic = all(map(_is_generic, listed))
    text = substance.get("text", "")
    # Beside a name of a substance no other name says that none is known.
    is_generic = is_generic and (not text or is_placeholder(text) or _is_generic_name(text))
    values = observation.all("value")
    kinds = {
        code for kind, code in _NEGATED.items() if any(has_code(value, kind) for value in values)
    } | set(generic)
    # Of two kinds the narrower; of two that differ, neither.
    narrower = kinds - {_NKA} or kinds
    names = names_in(substance)
    if is_generic:
        names += [name for value in values for name in _words_of_value(value, texts)]
    if is_generic and not text:
        names.append(texts.of(observation.first("text")))
    for name in filter(None, names):
        about = about_none_known(name)
        if about is not None and is_generic:
            code = _BY_ABOUT.get(about, "")
            # "No known allergies", written about drug allergies, is about these alone.
            is_wider = code == _NKA and len(narrower) == 1
            return _none_known_code(next(iter(narrower)) if is_wider else code, name)
    if not _negated(observation, concern) or not is_generic:
        return None
    if text and fold(text) not in _GENERIC_NAMES and not is_placeholder(text):
        return None
    if any(value.get("code") and not has_code(value, *_NEGATED) for value in values):
        return None
    return _none_known_code(narrower.pop(), "") if len(narrower) == 1 else None


def _is_generic_name(text: str) -> bool:
    """Say whether a name is that of no substance: any, a kind of allergy, or that none is known."""
    return fold(text) in _GENERIC_NAMES or is_kind(text) or about_none_known(text) is not None


def none_known_about(about: About, words: str) -> dict[str, Any]:
    """Return the code of a statement in words that none is known of a kind."""
    return _none_known_code(_BY_ABOUT.get(about, ""), words)


def _none_known_code(code: str, words: str) -> dict[str, Any]:
    if not code:
        return {"text": words}
    coding = {"system": SNOMED_CT, "code": code, "display": _NONE_KNOWN[code]}
    return {"coding": [coding], "text": words or _NONE_KNOWN[code]}


def _words_of_value(value: CcdaElement, texts: Texts) -> list[str]:
    original = texts.of(value.first("originalText"))
    return [original, tidy(value.get("displayName")), plain(value)]


def _negated(observation: CcdaElement, concern: CcdaElement | None) -> bool:
    return is_negated(observation) or is_negated(concern)


def _is_generic(coding: dict[str, Any]) -> bool:
    """Say whether a coding means any substance, or none."""
    display = coding.get("display", "")
    return (
        coding.get("code") in _GENERIC
        or (coding.get("system") == SNOMED_CT and is_general(coding))
        or fold(display) in _GENERIC_NAMES
        or ("code" not in coding and about_none_known(display) is not None)
    )


def _is_concrete(coding: dict[str, Any]) -> bool:
    """Say whether a coding is no nullFlavor."""
    return "code" not in coding or coding != null_coding(coding["code"])


def _snomed(code: dict[str, Any]) -> set[str]:
    listed = code.get("coding", ())
    return {
        coding["code"]
        for coding in listed
        if coding.get("system") == SNOMED_CT and "code" in coding
    }


_GROUPING = frozenset({"entryRelationship", "component", "organizer"})


def inner(statement: CcdaElement) -> Iterator[tuple[CcdaElement, CcdaElement]]:
    """Yield the observations in a statement, also in an organizer, each with its relationship."""
    for related in statement.all("entryRelationship"):
        for observation in _observations(related):
            yield related, observation


def _observations(holder: CcdaElement) -> Iterator[CcdaElement]:
    for child in holder.elements:
        if child.name == "observation":
            yield child
        elif child.name in _GROUPING:
            yield from _observations(child)


def observations_of(statements: list[CcdaElement], template: str, *codes: str) -> list[CcdaElement]:
    """Return the observations in statements that have a template or one of these codes."""
    return [
        observation
        for statement in statements
        for _, observation in inner(statement)
        if template in observation.templates() or has_code(observation.first("code"), *codes)
    ]
