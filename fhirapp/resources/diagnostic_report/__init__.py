"""DiagnosticReport: a view of the documents that are reports. US Core, Clinical Notes."""
