"""The vocabulary of FHIR R4: datatypes, resources, bundles, outcomes, times.

Knows neither the web framework nor the database.
"""
