"""Patient: whom the records are about; read only. FHIR R4 patient."""
