"""What cannot be done, said to the person who asked for it."""

from __future__ import annotations

from fhirapp.config import ConfigurationError


class RefusedCommand(ConfigurationError):
    """What was asked on the shell or on a page cannot be done; str() says why."""
