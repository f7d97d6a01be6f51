"""The application: WSGI servers find `app` here; `python app.py` serves it."""

from __future__ import annotations

import sys

from fhirapp import create_app
from fhirapp.cli import main

if __name__ == "__main__":
    # `python app.py --demo` is `fhirapp serve --demo`.
    sys.argv.insert(1, "serve")
    main()
else:
    app = create_app()
