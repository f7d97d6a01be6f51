"""The code systems and canonical addresses that this server itself writes or binds to."""

CT = "http://terminology.hl7.org/CodeSystem/"

ALLERGY_CLINICAL = CT + "allergyintolerance-clinical"
ALLERGY_VERIFICATION = CT + "allergyintolerance-verification"
DATA_ABSENT_REASON = "http://hl7.org/fhir/StructureDefinition/data-absent-reason"
DOCUMENT_CATEGORY = "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category"
ORIGINAL_TEXT = "http://hl7.org/fhir/StructureDefinition/originalText"
NULL_FLAVOR = CT + "v3-NullFlavor"
OBSERVATION_VALUE = CT + "v3-ObservationValue"
RESTFUL_SECURITY = CT + "restful-security-service"
SNOMED_CT = "http://snomed.info/sct"
NO_KNOWN_DRUG_ALLERGY = "409137002"
# service.md 2.3: the manifestation of a reaction of which nothing more is known.
UNKNOWN_REACTION = "261665006"

US_CORE = "http://hl7.org/fhir/us/core/"
US_CORE_SERVER = US_CORE + "CapabilityStatement/us-core-server"
US_CORE_ALLERGY = US_CORE + "StructureDefinition/us-core-allergyintolerance"
US_CORE_DOCUMENT = US_CORE + "StructureDefinition/us-core-documentreference"
US_CORE_REPORT_NOTE = US_CORE + "StructureDefinition/us-core-diagnosticreport-note"
US_CORE_REPORT_LAB = US_CORE + "StructureDefinition/us-core-diagnosticreport-lab"
SMART_OAUTH_URIS = "http://fhir-registry.smarthealthit.org/StructureDefinition/oauth-uris"
