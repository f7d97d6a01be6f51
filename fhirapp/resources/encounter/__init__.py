"""Encounter: a visit or stay of a patient. FHIR R4 encounter."""
