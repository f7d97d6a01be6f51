"""Practitioner: who wrote or recorded; read only. FHIR R4 practitioner."""
