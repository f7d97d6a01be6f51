"""The features of this server. Each folder has all of one, and declares it (fhirapp/feature.py).

To remove a feature, delete its folder and its name in this list, and those that require it.
"""

FEATURES = (
    "health",
    "accounts",
    "backups",
    "imports",
    "pull",
    "exports",
    "apps",
    "patients",
    "chart",
    "notes",
    "explore",
    "learn",
    "manual",
    "demo",
)
