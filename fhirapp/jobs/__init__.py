"""Background jobs: `$export`, imports, exports, backups and their verifications.

Each job is a row of one table (table.py), which any process can show. Jobs of some kinds are queued
and run by a thread of a server process (worker.py); the others are processes of their own
(process.py), which outlive the server that started them. Each has a folder for what it makes.
"""
