"""The search parameters of DocumentReference. Source: service.md 4.1; FHIR R4; decisions 2.10."""

from __future__ import annotations

from fhirapp.search.date import Date
from fhirapp.search.parameter import Parameters
from fhirapp.search.query import COMMON, WORDS
from fhirapp.search.reference import Reference, TokenReference
from fhirapp.search.string import String, Uri
from fhirapp.search.token import MediaType, Token

SPEC = "http://hl7.org/fhir/SearchParameter/"
DOCUMENT = SPEC + "DocumentReference-"
CLINICAL = SPEC + "clinical-"

_RELATIONS = "http://hl7.org/fhir/document-relationship-type"
_SUBJECTS = ("Patient", "Practitioner", "Group", "Device")

PARAMS = Parameters(
    (
        *COMMON,
        *WORDS,
        Reference(
            "patient",
            ("subject",),
            "The patient that the document is about",
            CLINICAL + "patient",
            targets=("Patient",),
            compartment=True,
        ),
        Reference(
            "subject",
            ("subject",),
            "Who or what the document is about",
            DOCUMENT + "subject",
            targets=_SUBJECTS,
            compartment=True,
        ),
        Date(
            "date",
            ("date",),
            "When the document was made available",
            DOCUMENT + "date",
            closed_range=True,
        ),
        Token(
            "category",
            ("category",),
            "Discipline or department that created the document; every one has clinical-note",
            DOCUMENT + "category",
        ),
        Token("type", ("type",), "Kind of document, in LOINC", CLINICAL + "type"),
        # service.md 4.1 and decisions 2.10: not in R4, the same as type
        Token("code", ("type",), "Code of the report: the same as type", searches=("type",)),
        Token(
            "status",
            ("status",),
            "current, superseded or entered-in-error",
            DOCUMENT + "status",
            system="http://hl7.org/fhir/document-reference-status",
        ),
        Token(
            "identifier",
            ("masterIdentifier", "identifier"),
            "Identifier of the document",
            CLINICAL + "identifier",
            of_identifier=True,
        ),
        MediaType(
            "contenttype",
            ("content.attachment.contentType",),
            "Media type of an attachment",
            DOCUMENT + "contenttype",
        ),
        Token("format", ("content.format",), "Format code of a rendering", DOCUMENT + "format"),
        Token(
            "language",
            ("content.attachment.language",),
            "Language of an attachment",
            DOCUMENT + "language",
            system="urn:ietf:bcp:47",
        ),
        Token("event", ("context.event",), "Main clinical acts documented", DOCUMENT + "event"),
        Token("facility", ("context.facilityType",), "Kind of facility", DOCUMENT + "facility"),
        Token("setting", ("context.practiceSetting",), "Clinical specialty", DOCUMENT + "setting"),
        Token("security-label", ("securityLabel",), "Security tags", DOCUMENT + "security-label"),
        Token(
            "relation",
            ("relatesTo.code",),
            "replaces, transforms, signs or appends",
            DOCUMENT + "relation",
            system=_RELATIONS,
        ),
        Date("period", ("context.period",), "Time of the service documented", DOCUMENT + "period"),
        Reference(
            "author",
            ("author",),
            "Who or what wrote the document",
            DOCUMENT + "author",
            targets=(
                "Practitioner",
                "PractitionerRole",
                "Organization",
                "Device",
                "Patient",
                "RelatedPerson",
            ),
        ),
        Reference(
            "authenticator",
            ("authenticator",),
            "Who authenticated the document",
            DOCUMENT + "authenticator",
            targets=("Practitioner", "PractitionerRole", "Organization"),
        ),
        Reference(
            "custodian",
            ("custodian",),
            "Custodian of the document",
            DOCUMENT + "custodian",
            targets=("Organization",),
        ),
        Reference(
            "encounter",
            ("context.encounter",),
            "Encounter of the document",
            CLINICAL + "encounter",
            targets=("Encounter", "EpisodeOfCare"),
        ),
        Reference(
            "relatesto",
            ("relatesTo.target",),
            "Document that this one relates to",
            DOCUMENT + "relatesto",
            targets=("DocumentReference",),
        ),
        Reference("related", ("context.related",), "Related resources", DOCUMENT + "related"),
        TokenReference(
            "relationship",
            ("relatesTo",),
            "How it relates to another document: replaces$DocumentReference/d1",
            DOCUMENT + "relationship",
            code=Token("relation", ("code",), "", system=_RELATIONS),
            target=Reference("relatesto", ("target",), "", targets=("DocumentReference",)),
        ),
        String("description", ("description",), "Human-readable text", DOCUMENT + "description"),
        Uri(
            "location",
            ("content.attachment.url",),
            "Address of an attachment",
            DOCUMENT + "location",
            local="Binary/",
        ),
    )
)
