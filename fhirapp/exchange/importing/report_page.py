"""A report as a file: JSON for a program, a page of HTML for a person."""

from __future__ import annotations

import json
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from fhirapp.config import ConfigurationError
from fhirapp.exchange.importing.report import OUTCOMES, Report


def write_report(report: Report, path: Path) -> None:
    """Write a report; the name's end says in which form. Raises ConfigurationError."""
    text = page(report) if path.suffix == ".html" else json.dumps(report.content(), indent=2) + "\n"
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigurationError(
            f"The report {path} cannot be written ({error.strerror}); the import is done."
        ) from None


def page(report: Report) -> str:
    """Return a page that needs nothing else."""
    environment = Environment(
        loader=PackageLoader("fhirapp.exchange.importing"),
        autoescape=True,
        undefined=StrictUndefined,
    )
    return environment.get_template("report.html").render(report=report, outcomes=OUTCOMES)
