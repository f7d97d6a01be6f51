"""The FHIR JSON of DocumentReference. Source: FHIR R4 documentreference; service.md 2.2."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from marshmallow import missing, post_load

from fhirapp.fhir import datatypes, document_date, fields, narrative, terminology
from fhirapp.fhir.elements import many
from fhirapp.fhir.resource import DomainResourceSchema

# decisions 2.13: service.md 1 names these two for DocumentReference; they are profiles of
# DiagnosticReport, so no document may claim them.
_NEVER_CLAIMED = frozenset({terminology.US_CORE_REPORT_NOTE, terminology.US_CORE_REPORT_LAB})

Content = datatypes.backbone(
    required=("attachment",), attachment=datatypes.Attachment, format=datatypes.Coding
)
RelatesTo = datatypes.backbone(
    required=("code", "target"),
    code=datatypes.one_of("replaces", "transforms", "signs", "appends"),
    target=datatypes.Reference,
)
Context = datatypes.backbone(
    summary=("period",),
    encounter=many(datatypes.Reference),
    event=many(datatypes.CodeableConcept),
    period=datatypes.Period,
    facilityType=datatypes.CodeableConcept,
    practiceSetting=datatypes.CodeableConcept,
    sourcePatientInfo=datatypes.Reference,
    related=many(datatypes.Reference),
)


class DocumentMeta(fields.Meta):
    """Resource.meta of a document."""

    def claims(self, meta: Mapping[str, Any], source: fields.Source) -> Mapping[str, Any]:
        """Leave out profiles that the document, as it is served, does not meet.

        decisions 2.12: one without content does not claim US Core, which requires content. Its
        profile of advance directives requires their category too.
        """
        profiles = meta.get("profile")
        if not profiles:
            return meta
        refused = _NEVER_CLAIMED
        if not source.elements.get("content"):
            refused |= {terminology.US_CORE_DOCUMENT, terminology.US_CORE_ADVANCE_DIRECTIVE}
        elif not _has_coding(
            source.elements.get("category") or (), terminology.LOINC, terminology.ADVANCE_DIRECTIVES
        ):
            refused |= {terminology.US_CORE_ADVANCE_DIRECTIVE}
        kept = [
            place
            for place, profile in enumerate(profiles)
            if profile is None or profile.partition("|")[0] not in refused
        ]
        claimed = {
            name: [values[place] for place in kept if place < len(values)]
            for name, values in meta.items()
            if name in ("profile", "_profile")
        }
        rest = {name: value for name, value in meta.items() if name not in claimed}
        return {name: values for name, values in claimed.items() if any(values)} | rest


class DateElement(fields.Element):
    """DocumentReference.date: an instant; a partial date is served in an extension beside it."""

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        return missing if document_date.is_partial(value) else value


class ContentElement(fields.List):
    """DocumentReference.content: small attachments also carry their bytes (decisions 2.18)."""

    def serialize(self, attr: str, obj: fields.Source, *_: Any, **_options: Any) -> Any:  # noqa: ARG002
        content = obj.elements.get("content")
        if content is not None:
            return [_with_data(item, obj.blobs) for item in content] if obj.blobs else content
        if obj.empty_content != "dar":
            return missing
        # decisions 2.12: FHIR R4 requires content; this says that there is none.
        absent = {"url": terminology.DATA_ABSENT_REASON, "valueCode": "unknown"}
        return [{"attachment": {"_url": {"extension": [absent]}}}]


class CategoryElement(fields.List):
    """DocumentReference.category: every document has clinical-note.

    service.md 2.2; decisions 2.11.
    """

    def serialize(self, attr: str, obj: fields.Source, *_: Any, **_options: Any) -> Any:  # noqa: ARG002
        categories: list[Any] = obj.elements.get("category") or []
        has_it = _has_coding(categories, terminology.DOCUMENT_CATEGORY, "clinical-note")
        return categories if has_it else [*categories, _CLINICAL_NOTE]


def _has_coding(concepts: Iterable[Mapping[str, Any]], system: str, code: str) -> bool:
    return any(
        coding.get("system") == system and coding.get("code") == code
        for concept in concepts
        for coding in concept.get("coding", ())
    )


_CLINICAL_NOTE = {
    "coding": [
        {
            "system": terminology.DOCUMENT_CATEGORY,
            "code": "clinical-note",
            "display": "Clinical Note",
        }
    ]
}


def _with_data(content: Mapping[str, Any], blobs: Mapping[str, bytes]) -> Mapping[str, Any]:
    attachment = content.get("attachment", {})
    data = blobs.get(attachment.get("url", "").removeprefix("Binary/"))
    if not data:
        # No bytes: FHIR JSON has no empty strings.
        return content
    return {**content, "attachment": {**attachment, "data": base64.b64encode(data).decode()}}


class DocumentReferenceSchema(DomainResourceSchema):
    """DocumentReference."""

    resource_type = "DocumentReference"
    narrative = (
        ("Document", "type", narrative.concept),
        ("Status", "status", narrative.plain),
        ("Date", "date", narrative.plain),
        ("Author", "author", narrative.references),
        ("Custodian", "custodian", narrative.reference),
        ("Description", "description", narrative.plain),
    )

    meta = DocumentMeta(datatypes.Meta, summary=True)
    master_identifier = fields.Identifier(summary=True)
    identifier = fields.List(fields.Identifier, summary=True)
    status = fields.Code(
        *("current", "superseded", "entered-in-error"),
        required=True,
        summary=True,
        modifier=True,
    )
    doc_status = fields.Code("preliminary", "final", "amended", "entered-in-error", summary=True)
    type = fields.CodeableConcept(summary=True)
    category = CategoryElement(datatypes.CodeableConcept, summary=True)
    subject = fields.Reference(summary=True)
    # R4 has an instant here; service.md 2.2 has a dateTime. decisions 2.23
    date = DateElement(datatypes.date_time, summary=True)
    author = fields.List(fields.Reference, summary=True)
    authenticator = fields.Reference()
    custodian = fields.Reference()
    relates_to = fields.List(RelatesTo, summary=True)
    description = fields.String(summary=True)
    security_label = fields.List(fields.CodeableConcept, summary=True)
    # R4 requires content; decisions 2.12: laboratory results may have none
    content = ContentElement(Content, expected=True, summary=True)
    context = fields.Element(Context, summary=True)

    @post_load(pass_original=True)
    def with_siblings(
        self, elements: Mapping[str, Any], data: Mapping[str, Any], **options: Any
    ) -> dict[str, Any]:
        """Return the elements; a partial date that is in an extension is the date."""
        return document_date.without_partial_date(super().with_siblings(elements, data, **options))

    def siblings(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the siblings that a row holds; that of a partial date has it in an extension."""
        siblings = super().siblings(row)
        if not document_date.is_partial(row.get("date")):
            return siblings
        partial = document_date.sibling_of(row["date"], siblings.get("_date") or {})
        return {**siblings, "_date": partial}

    def searched(self, resource: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a served resource with its date where the search parameter looks for it."""
        date = document_date.date_of(resource)
        return {**resource, "date": date} if date else resource
