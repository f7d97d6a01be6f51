"""Registered apps and programs: how they come in, are approved, shown, tested and changed."""
