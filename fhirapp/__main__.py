"""`python -m fhirapp`: the same as the command `fhirapp`."""

from __future__ import annotations

from fhirapp.cli import main

main()
