"""Start a worker: `python -P …/fhirapp/text/start.py SECONDS MEGABYTES`."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

if __name__ == "__main__":
    # fhirapp/__init__.py is the whole application, and `-m` would import it first: ten times the
    # time and three times the memory. So the package is one that has a place and nothing else.
    package = ModuleType("fhirapp")
    package.__path__ = [str(Path(__file__).parents[1])]
    sys.modules["fhirapp"] = package

    from fhirapp.documents.worker import main

    main(seconds=float(sys.argv[1]), megabytes=int(sys.argv[2]))
