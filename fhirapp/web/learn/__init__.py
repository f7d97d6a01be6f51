"""Lessons: short exercises that check themselves by the learner's requests.

lessons/ has a Markdown file for each, lesson.py reads them, checks.py decides when a check is met,
expected.py by which traits of a request, interaction.py reads a request of the audit trail,
progress.py keeps each person's progress. classes.py has classes, class_pages.py a teacher's pages;
recap.py shows what was done.
"""
