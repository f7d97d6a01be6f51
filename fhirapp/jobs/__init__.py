"""The background work of administrators: imports, exports, backups and drills.

Each job is a process of its own, which outlives the server process that started it, and a folder
(files.py), which outlives both. start.py starts and stops it; `python -m fhirapp.jobs` is the
process.
"""
