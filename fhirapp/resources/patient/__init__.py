"""Patient: whom the records are about. FHIR R4 patient."""
