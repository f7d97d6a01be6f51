"""Encounter: a visit or stay of a patient; read only. FHIR R4 encounter."""
