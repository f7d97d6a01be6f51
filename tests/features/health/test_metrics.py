"""Metrics: the address that they are served on, and the labels of requests."""

from __future__ import annotations

import pytest
from flask import Flask

from fhirapp.audit.events import ON_EVENT
from fhirapp.config import ConfigurationError
from fhirapp.environment import load_settings
from fhirapp.features.health import metrics


def test_nothing_is_counted_without_the_setting(make_app):
    app: Flask = make_app(seed=False)
    assert ON_EVENT not in app.extensions
    assert metrics.listen(load_settings({})) is None


def test_invalid_metrics_address_is_refused():
    for address in ("9464", "127.0.0.1", "127.0.0.1:x", ":9464", "h:99999"):
        with pytest.raises(ConfigurationError, match="is no address; use for example"):
            metrics.address_of(load_settings({"FHIRAPP_METRICS": address}))


def test_labels_of_requests_are_types_and_interactions():
    labels = {
        "AllergyIntolerance.search_type": ("AllergyIntolerance", "search_type"),
        "oauth.token": ("", "oauth"),
        "": ("", "unknown"),
    }
    assert {endpoint: metrics._named(endpoint) for endpoint in labels} == labels
