"""Backups: taken while the server runs, tried out, and brought back."""
