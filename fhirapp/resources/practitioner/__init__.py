"""Practitioner: who wrote or recorded. FHIR R4 practitioner."""
