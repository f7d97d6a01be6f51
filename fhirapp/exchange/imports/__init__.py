"""Records in: inputs of every kind become versions of resources, with a report.

The road of a record: inputs (files and archives) → reader (records) → admission (id, references,
check) → batches (one transaction each) → store. importer.py runs it from start to end.
"""
