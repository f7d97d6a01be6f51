"""What an administrator has the server do that takes its time: imports, exports, backups, drills.

Each is a process of its own, which outlives the one that began it, and a folder (folder.py), which
outlives both. start.py begins and stops it; `python -m fhirapp.jobs` is the process.
"""
