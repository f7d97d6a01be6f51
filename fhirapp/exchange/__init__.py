"""Data in and out."""

from fhirapp.exchange import models as models  # Declares its tables.
