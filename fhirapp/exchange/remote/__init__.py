"""Fetch what another FHIR server exports: Bulk Data from its client's side.

address    addresses, and what may be sent where        wire           one request, bounded
patience   when to try again                            authorization  backend services: tokens
manifest   what a server says that there is             place          the folder, and how far it is
file       one file, continued where it stopped         download       the whole of it

Source: FHIR Bulk Data Access 2.0; SMART App Launch 2.2, Backend Services.
"""
