"""Binary: the bytes of attachments. FHIR R4 binary; decisions 2.18."""
