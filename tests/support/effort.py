"""How much the tests try: a sample by default, the whole campaign with FHIRAPP_TEST_LONG=1."""

from __future__ import annotations

import os

LONG = os.environ.get("FHIRAPP_TEST_LONG") == "1"


def sample(usual: int, campaign: int) -> int:
    """Return how many of a thing to try."""
    return campaign if LONG else usual
