"""The benchmark: `python -m tests.bench`. Each section states its targets (sections.py)."""
