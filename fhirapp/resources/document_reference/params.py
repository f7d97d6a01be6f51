"""The search parameters of DocumentReference. Source: service.md 4.1; FHIR R4; decisions 2.10."""

from __future__ import annotations

from fhirapp.search.date import Date
from fhirapp.search.parameter import CLINICAL, Parameters
from fhirapp.search.query import COMMON, WORDS
from fhirapp.search.reference import Reference, Subject, TokenReference
from fhirapp.search.string import String, Uri
from fhirapp.search.token import HL7, Identifier, MediaType, Token

_RELATIONS = HL7 + "document-relationship-type"

PARAMS = Parameters(
    "DocumentReference",
    *COMMON,
    *WORDS,
    Subject("patient", "subject", "The patient that the document is about"),
    Subject("subject", "subject", "Who or what the document is about",
            "Patient | Practitioner | Group | Device"),
    Date("date", "date", "When the document was made available", closed_range=True,
         spec="http://hl7.org/fhir/SearchParameter/DocumentReference-date"),
    Token("category", "category",
          "Discipline or department that created the document; every one has clinical-note"),
    Token("type", "type", "Kind of document, in LOINC"),
    # service.md 4.1 and decisions 2.10: not in R4, the same as type
    Token("code", "type", "Code of the report: the same as type",
          searches=("type",), is_in_fhir=False),
    Token("status", "status", "current, superseded or entered-in-error",
          system=HL7 + "document-reference-status"),
    Identifier("identifier", "masterIdentifier | identifier", "Identifier of the document"),
    MediaType("contenttype", "content.attachment.contentType", "Media type of an attachment"),
    Token("format", "content.format", "Format code of a rendering"),
    Token("language", "content.attachment.language", "Language of an attachment",
          system="urn:ietf:bcp:47"),
    Token("event", "context.event", "Main clinical acts documented"),
    Token("facility", "context.facilityType", "Kind of facility"),
    Token("setting", "context.practiceSetting", "Clinical specialty"),
    Token("security-label", "securityLabel", "Security tags"),
    Token("relation", "relatesTo.code", "replaces, transforms, signs or appends",
          system=_RELATIONS),
    Date("period", "context.period", "Time of the service documented"),
    Reference("author", "author", "Who or what wrote the document",
              "Practitioner | PractitionerRole | Organization | Device | Patient | RelatedPerson"),
    Reference("authenticator", "authenticator", "Who authenticated the document",
              "Practitioner | PractitionerRole | Organization"),
    Reference("custodian", "custodian", "Custodian of the document", "Organization"),
    Reference("encounter", "context.encounter", "Encounter of the document",
              "Encounter | EpisodeOfCare"),
    Reference("relatesto", "relatesTo.target", "Document that this one relates to",
              "DocumentReference"),
    Reference("related", "context.related", "Related resources"),
    TokenReference("relationship", "relatesTo",
                   "How it relates to another document: replaces$DocumentReference/d1",
                   code=Token("relation", "code", "", system=_RELATIONS),
                   target=Reference("relatesto", "target", "", "DocumentReference")),
    String("description", "description", "Human-readable text"),
    Uri("location", "content.attachment.url", "Address of an attachment", local="Binary/"),
    shared=CLINICAL,
)  # fmt: skip
