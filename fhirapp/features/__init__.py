"""The features of this server. Each folder has all of one, and declares it (fhirapp/feature.py).

To remove a feature, delete its folder and its name in this list.
"""

FEATURES = (
    "accounts",
    "imports",
    "pull",
    "exports",
    "backups",
    "apps",
    "patients",
    "chart",
    "notes",
    "explore",
    "learn",
    "manual",
    "demo",
)
