"""What `$summary` returns, as its OperationDefinition tells it: each parameter and its parts."""

from __future__ import annotations

from fhirapp.store.definition import OperationParameter


def _parameter(
    name: str,
    kind: str,
    doc: str,
    *,
    required: bool = False,
    repeats: bool = False,
) -> OperationParameter:
    return OperationParameter(name, kind, doc, required, repeats)


_SOURCE = _parameter("source", "Reference", "A resource that this was made of", repeats=True)
_STATEMENT = (
    _parameter("code", "code", "What is said, for a program", required=True),
    _parameter("text", "string", "What is said, in a sentence", required=True),
    _SOURCE,
)
_REACTION = (
    _parameter("text", "string", "Its manifestations in words", required=True),
    _parameter("description", "string", "What the source says beside them"),
    _parameter("severity", "code", "mild, moderate or severe"),
    _parameter("severityText", "string", "The severity in the source's own words"),
    _parameter("onset", "string", "When it happened, in words"),
)
_ENTRY = (
    _parameter("source", "Reference", "The AllergyIntolerance", required=True),
    _parameter("kind", "code", "allergy, none-known, no-information, not-asked or words-only"),
    _parameter("about", "code", "What a statement that there is none is about"),
    _parameter("substance", "string", "What it is to, in words"),
    _parameter("codedAs", "string", "What its codes are called, where they differ", repeats=True),
    _parameter("type", "code", "allergy or intolerance, as recorded"),
    _parameter(
        "severe",
        "boolean",
        "Whether it is recorded as severe, as anaphylaxis or with high criticality, or in words",
        required=True,
    ),
    _parameter("describedAs", "string", "The words that describe it as severe, if only words do"),
    _parameter("clinicalStatus", "code", "As recorded"),
    _parameter("verificationStatus", "code", "As recorded"),
    _parameter("criticality", "code", "As recorded"),
    _parameter("category", "code", "As recorded", repeats=True),
    OperationParameter("reaction", "", "A reaction to it", repeats=True, parts=_REACTION),
    _parameter("onset", "string", "When it began, in words"),
    _parameter("lastOccurrence", "string", "When it last happened, in words"),
    _parameter("recorded", "string", "When it was recorded, in words"),
    _parameter("comment", "string", "What somebody wrote beside it", repeats=True),
    _parameter("note", "string", "What does not fit in it, or is not told", repeats=True),
)
_GROUP = (
    _parameter("code", "code", "Which group, for a program", required=True),
    _parameter("text", "string", "Which group, in words", required=True),
    OperationParameter("entry", "", "An entry", required=True, repeats=True, parts=_ENTRY),
)

RETURNED = (
    _parameter("patient", "Reference", "Whose allergies these are", required=True),
    _parameter("caveat", "string", "What this is not: decision support", required=True),
    _parameter(
        "limited",
        "boolean",
        "Whether the token may see a part of the allergies only",
        required=True,
    ),
    OperationParameter(
        "conclusion", "", "What the entries come to", required=True, parts=_STATEMENT
    ),
    OperationParameter(
        "finding", "", "What contradicts or does not fit", repeats=True, parts=_STATEMENT
    ),
    OperationParameter(
        "group",
        "",
        "Entries of one standing, the most urgent group first",
        repeats=True,
        parts=_GROUP,
    ),
)
