"""Lessons: short exercises that check themselves by the learner's requests.

lessons/ has a Markdown file for each, lesson.py reads them, checks.py decides when a check is met,
expected.py by which traits of a request, interaction.py reads a request of the audit trail,
progress.py keeps each person's progress. classes.py has classes, class_pages.py a teacher's pages;
recap.py shows what was done.
"""

from __future__ import annotations

from fhirapp.feature import MAIN, N_, Feature, MenuLink, Via

FEATURE = Feature(
    name="learn",
    requires=("demo", "explore"),
    blueprints=(
        "fhirapp.features.learn.routes:blueprint",
        "fhirapp.features.learn.class_pages:blueprint",
        "fhirapp.features.learn.recap:blueprint",
    ),
    vias=(Via("learn", N_("the lessons")),),
    navigation=(MenuLink(MAIN, 10, "/learn", N_("Learn"), demo_only=True),),
)
