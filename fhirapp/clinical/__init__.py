"""The clinical reading of AllergyIntolerance: assertion, severity, contradictions, summary."""
