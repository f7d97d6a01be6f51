"""The benchmark: `python -m tests.bench`. What it measures against which target is in rows.py."""
