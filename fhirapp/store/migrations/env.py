"""Runs the numbered steps on the connection that store/migrate.py opened."""

from __future__ import annotations

from alembic import context

from fhirapp.db import db

# Batch mode: SQLite changes a table by making it anew.
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=db.metadata,
    render_as_batch=True,
    version_table="alembic_version",
)
context.run_migrations()
