"""Organization: who keeps or sends records; read only. FHIR R4 organization."""
