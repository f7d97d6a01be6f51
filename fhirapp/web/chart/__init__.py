"""A patient's chart: allergies and notes as a clinician wants them."""
