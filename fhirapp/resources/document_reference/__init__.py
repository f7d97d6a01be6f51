"""DocumentReference: clinical notes and documents of a patient. service.md 2.2 and 4.1."""
