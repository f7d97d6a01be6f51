"""Run the probes that the features declare."""

from __future__ import annotations

import logging
from typing import NamedTuple

from fhirapp.config import ConfigurationError
from fhirapp.db import db
from fhirapp.disk import reason_of
from fhirapp.feature import N_, features, imported
from fhirapp.probe import WRONG, Cost, Finding, Gauge, Probe
from fhirapp.store.migrate import redact_url, schema_version

_log = logging.getLogger(__name__)


class Result(NamedTuple):
    """What probes found: findings by the titles of probes, and gauges."""

    findings: dict[str, list[Finding]]
    gauges: list[Gauge]

    def has(self, state: str) -> bool:
        """Return whether a finding has a state."""
        return any(finding.state == state for found in self.findings.values() for finding in found)


def probes() -> list[Probe]:
    """Return the probes of all features, in the order of the features."""
    references = [reference for feature in features() for reference in feature.probes]
    return [probe for reference in references for probe in imported(reference)]


def examine(*costs: Cost) -> Result:
    """Run the probes of these costs, within the app's context.

    A probe that fails is a finding too, so that it hides no other.
    """
    fault = _database_fault()
    result = Result({"Database": [fault]} if fault else {}, [])
    for probe in probes():
        if probe.cost not in costs or (fault and probe.reads_database):
            continue
        found = result.findings.setdefault(probe.title, [])
        try:
            for item in probe.look():
                if isinstance(item, Gauge):
                    result.gauges.append(item)
                else:
                    found.append(item)
        except Exception as error:  # noqa: BLE001
            _log.warning("the probe %s failed", probe.title, exc_info=True)
            reason = reason_of(error) if isinstance(error, OSError) else type(error).__name__
            text, advice = N_("This cannot be checked (%(reason)s)."), N_("See the server's log.")
            found.append(Finding(WRONG, text, advice, values={"reason": reason}))
        finally:
            db.session.close()
    return result


def _database_fault() -> Finding | None:
    """Return why the database cannot be read, None if it can."""
    try:
        is_empty = schema_version(db.engine) is None
    except ConfigurationError as error:
        advice = N_("Until this is fixed, what is in the database is not checked.")
        return Finding(WRONG, "%(reason)s", advice, values={"reason": str(error)})
    if is_empty:
        values = {"database": redact_url(db.engine)}
        advice = N_("Start the server: it creates the tables.")
        return Finding(WRONG, N_("%(database)s is empty."), advice, values=values)
    return None
