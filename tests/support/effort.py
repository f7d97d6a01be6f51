"""How much the tests try: a sample by default, the whole campaign with FHIRAPP_TEST_LONG=1."""

from __future__ import annotations

import os

import pytest

LONG = os.environ.get("FHIRAPP_TEST_LONG") == "1"
only_long = pytest.mark.skipif(not LONG, reason="a long campaign: FHIRAPP_TEST_LONG=1 runs it")


def sample(usual: int, campaign: int) -> int:
    """Return how many of a thing to try."""
    return campaign if LONG else usual
