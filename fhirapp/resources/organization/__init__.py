"""Organization: who keeps or sends records. FHIR R4 organization."""
