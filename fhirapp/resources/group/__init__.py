"""Group: patients who are taken together, as for an export. FHIR R4 group."""
