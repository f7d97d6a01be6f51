"""Provenance: who made or sent a resource. FHIR R4 provenance; US Core Provenance."""
