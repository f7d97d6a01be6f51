"""AllergyIntolerance: allergies and intolerances of a patient. service.md 2.3 and 4.2."""
