"""The search parameters that every type has. Source: FHIR R4 search §3.1.1.3; decisions §3."""

from __future__ import annotations

from fhirapp.search.date import LastUpdated
from fhirapp.search.parameter import Identity
from fhirapp.search.token import Token
from fhirapp.search.uri import Uri
from fhirapp.search.words import Words

RESOURCE = "http://hl7.org/fhir/SearchParameter/Resource-"

COMMON = (
    Identity(),
    LastUpdated(),
    Token("_tag", ("meta.tag",), "Tag of the resource", RESOURCE + "tag"),
    Uri("_profile", ("meta.profile",), "Profile that the resource claims", RESOURCE + "profile"),
    Token("_security", ("meta.security",), "Security label", RESOURCE + "security"),
    Uri("_source", ("meta.source",), "Where the resource comes from", RESOURCE + "source"),
)
# Of types whose words are indexed.
WORDS = (
    Words(
        "_text",
        (),
        "Words of the narrative and of the attached documents",
        "http://hl7.org/fhir/SearchParameter/DomainResource-text",
        column="narrative",
    ),
    Words("_content", (), "Words of the whole, the attached documents too", RESOURCE + "content"),
)
