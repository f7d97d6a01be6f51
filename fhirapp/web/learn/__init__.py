"""Lessons: short exercises that check themselves by what the learner's requests did.

lessons/ has a Markdown file for each, lesson.py reads them, checks.py says what counts as done,
asked.py what a request of the audit trail asked for, progress.py keeps how far each person is.
"""
