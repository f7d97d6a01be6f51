"""C-CDA documents with given allergy entries, and the AllergyIntolerance read from them."""

from __future__ import annotations

from typing import Any

from tests.support.ccda_samples import only, read, sample

DRUG = '<value xsi:type="CD" code="416098002" codeSystem="2.16.840.1.113883.6.96"/>'


LATEX = '<code code="1003755004" codeSystem="2.16.840.1.113883.6.96" displayName="Latex"/>'


def substance(code: str) -> str:
    return (
        '<participant typeCode="CSM"><participantRole><playingEntity>'
        f"{code}</playingEntity></participantRole></participant>"
    )


def inner(code: str, value: str, type_code: str = "SUBJ") -> str:
    """Return an observation that stands in another."""
    return (
        f'<entryRelationship typeCode="{type_code}"><observation classCode="OBS" moodCode="EVN">'
        f'<code code="{code}"/>{value}</observation></entryRelationship>'
    )


def snomed(code: str) -> str:
    return f'<value xsi:type="CD" code="{code}" codeSystem="2.16.840.1.113883.6.96"/>'


def document_with(
    *observations: str, concern: str = '<statusCode code="active"/>', text: str = ""
) -> str:
    """Return a document whose Allergies section has these observations, each in a concern."""
    entries = "".join(
        f'<entry><act classCode="ACT" moodCode="EVN">{concern}'
        f'<entryRelationship typeCode="SUBJ">{one}</entryRelationship></act></entry>'
        for one in observations
    )
    section = (
        '<component><structuredBody><component><section><code code="48765-2"/>'
        f"<text>{text}</text>{entries}</section></component></structuredBody></component>"
    )
    head = sample("progress-note").partition("<component>\n")[0].rpartition("<component>")[0]
    return f"{head}{section}</ClinicalDocument>"


def observation(content: str, attributes: str = "") -> str:
    """Return an Allergy - Intolerance Observation."""
    return (
        f'<observation classCode="OBS" moodCode="EVN"{attributes}>'
        f'<templateId root="2.16.840.1.113883.10.20.22.4.7"/>{content}</observation>'
    )


def allergy_of(content: str, attributes: str = "", **others: str) -> dict[str, Any]:
    """Return the allergy of an observation."""
    document = document_with(observation(content, attributes), **others)
    return only(read(document), "AllergyIntolerance")


def code_of(concept: dict[str, Any]) -> str:
    return str(concept["coding"][0]["code"])


def notes_of(allergy: dict[str, Any]) -> str:
    return "; ".join(note["text"] for note in allergy.get("note", ()))
