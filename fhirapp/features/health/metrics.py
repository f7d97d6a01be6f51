"""/metrics for Prometheus, on an address of its own (FHIRAPP_METRICS): numbers, and no records.

All processes write their counts into one folder. A process of its own adds them up on request, and
runs the probes for their gauges. Without the setting nothing is counted.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Thread
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from flask import Flask, Response, g, request

from fhirapp.audit.events import ON_EVENT
from fhirapp.config import ConfigurationError, Settings, settings_of
from fhirapp.db import db
from fhirapp.db.reader import caches_used, database_seconds
from fhirapp.features.health.examine import examine
from fhirapp.files import shared_files
from fhirapp.probe import Cost, Gauge
from fhirapp.rest.recorder import count_served
from fhirapp.server.messages import WAITED

if TYPE_CHECKING:
    from prometheus_client import Metric

FOLDER = "metrics"
_BEGAN = "metrics_began"
# From an answer of the cache to one that a client waits for no longer.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 20.0)
_POLL_SECONDS = 0.5
# How often the probes of a shared store run.
_REMOTE_SECONDS = 60.0


def address_of(settings: Settings) -> tuple[str, int]:
    """Return the host and port of FHIRAPP_METRICS. Raises ConfigurationError."""
    host, colon, port = settings.metrics.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise ConfigurationError(
            f"FHIRAPP_METRICS={settings.metrics!r} is no address; use for example 127.0.0.1:9464."
        )
    return host.strip("[]"), int(port)


def init_app(app: Flask) -> None:
    """Count requests and events, where the settings want it. Raises ConfigurationError."""
    settings = settings_of(app)
    if not settings.metrics:
        return
    address_of(settings)
    folder = settings.instance / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The library looks for it when it is imported.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    counts = _Counts()
    app.before_request(counts.begin)
    app.after_request(counts.end)
    app.teardown_appcontext(counts.leave)
    app.extensions[ON_EVENT] = counts.note_event


class _Counts:
    """What a process counts, each number declared once."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram
        from prometheus_client import Gauge as PrometheusGauge

        of: dict[str, Any] = {"registry": CollectorRegistry()}
        labels = ("type", "interaction")
        timed = {**of, "buckets": _BUCKETS}
        requests, resources = "Requests answered", "Resources answered, of all pages"
        in_database, cached = "Time in the database", "Cache lookups: hit, miss"
        self._requests = Counter("fhirapp_requests", requests, (*labels, "status"), **of)
        self._seconds = Histogram("fhirapp_request_seconds", "Time to answer", labels, **timed)
        self._waited = Histogram("fhirapp_queue_seconds", "Time waited for a thread", **timed)
        self._in_database = Counter("fhirapp_database_seconds", in_database, labels, **of)
        self._resources = Counter("fhirapp_resources", resources, labels, **of)
        self._cached = Counter("fhirapp_cache", cached, ["cache", "result"], **of)
        self._in_flight = PrometheusGauge(
            "fhirapp_requests_in_flight", "Requests in progress", multiprocess_mode="livesum", **of
        )
        self._events = Counter("fhirapp_events", "Events in the audit trail", ["event"], **of)

    def begin(self) -> None:
        """Count a request that begins."""
        setattr(g, _BEGAN, time.perf_counter())
        self._in_flight.inc()
        if (seconds_waited := request.environ.get(WAITED)) is not None:
            self._waited.observe(seconds_waited)

    def end(self, response: Response) -> Response:
        """Count a request that is answered."""
        name, interaction = _named(request.endpoint or "")
        self._requests.labels(name, interaction, str(response.status_code)).inc()
        if (began := g.get(_BEGAN)) is not None:
            self._seconds.labels(name, interaction).observe(time.perf_counter() - began)
        self._in_database.labels(name, interaction).inc(database_seconds())
        if answered := count_served():
            self._resources.labels(name, interaction).inc(answered)
        for cache, hit in caches_used().items():
            self._cached.labels(cache, "hit" if hit else "miss").inc()
        return response

    def leave(self, _error: BaseException | None) -> None:
        """Count a request that is over, whether it was answered or not."""
        if g.pop(_BEGAN, None) is not None:
            self._in_flight.dec()

    def note_event(self, event: str) -> None:
        """Count an event of the audit trail."""
        self._events.labels(event).inc()


def _named(endpoint: str) -> tuple[str, str]:
    """Return the type and interaction of an endpoint; of pages and OAuth, the blueprint only.

    Unknown addresses therefore add no series.
    """
    owner, _dot, view = endpoint.partition(".")
    return (owner, view) if owner[:1].isupper() else ("", owner or "unknown")


def listen(settings: Settings) -> MetricsServer | None:
    """Listen at the address for metrics; None if there is none. Raises ConfigurationError."""
    if not settings.metrics:
        return None
    host, port = address_of(settings)
    try:
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        raise ConfigurationError(
            f"Cannot listen on {settings.metrics} for metrics ({error.strerror or error}); choose "
            "another in FHIRAPP_METRICS."
        ) from None
    return MetricsServer(settings, listener)


class MetricsServer:
    """Serves /metrics: what all processes have counted, and the gauges of the probes."""

    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        self._listener = listener
        self._folder = settings.instance / FOLDER
        host, port = listener.getsockname()[:2]
        self.announcement = f"Metrics for Prometheus are at http://{host}:{port}/metrics"
        self._remove_old_counts()

    def _remove_old_counts(self) -> None:
        """Remove what the processes of an earlier start counted."""
        for path in self._folder.glob("*.db"):
            pid = path.stem.rpartition("_")[2]
            if pid.isdecimal() and not _is_alive(int(pid)):
                path.unlink(missing_ok=True)

    def forget(self, pid: int) -> None:
        """Remove the requests in progress of a server process that has ended."""
        from prometheus_client.multiprocess import mark_process_dead

        mark_process_dead(pid, str(self._folder))  # type: ignore[no-untyped-call]

    def serve(self, app: Flask, is_wanted: Callable[[], bool]) -> None:
        """Answer requests for metrics as long as that is wanted."""
        from prometheus_client import CollectorRegistry, make_wsgi_app, multiprocess

        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        registry.register(_ProbeCollector(app))

        class Handler(WSGIRequestHandler):
            # A client that sends nothing keeps the next one waiting no longer.
            timeout = 5

            def log_message(self, *_words: object) -> None:
                pass

        address = self._listener.getsockname()[:2]
        server = WSGIServer(address, Handler, bind_and_activate=False)
        server.socket.close()
        server.socket, server.timeout = self._listener, _POLL_SECONDS
        server.server_name, server.server_port = address
        server.setup_environ()
        server.set_app(_only_metrics(make_wsgi_app(registry)))
        while is_wanted():
            server.handle_request()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _only_metrics(app: Any) -> Any:
    def answer(environ: Mapping[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"] == "/metrics":
            return app(environ, start_response)
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"Metrics are at /metrics.\n"]

    return answer


class _ProbeCollector:
    """Runs the probes when metrics are requested.

    If files are in a shared store, which may take long to answer, its probes run in a thread, and
    the next request gets their gauges. Old ones are left out.
    """

    def __init__(self, app: Flask) -> None:
        self._app = app
        self._remote: Sequence[Gauge] = ()
        self._remote_at = -2 * _REMOTE_SECONDS
        self._thread: Thread | None = None

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges."""
        from prometheus_client.core import GaugeMetricFamily

        if shared_files(settings_of(self._app)).is_folder:
            gauges = self._gauges(Cost.FAST, Cost.REMOTE)
        else:
            age = time.monotonic() - self._remote_at
            if age > _REMOTE_SECONDS and not (self._thread and self._thread.is_alive()):
                self._thread = Thread(target=self._run_remote_probes, daemon=True)
                self._thread.start()
            remote = self._remote if age < 2 * _REMOTE_SECONDS else ()
            gauges = [*self._gauges(Cost.FAST), *remote]
        families: dict[str, GaugeMetricFamily] = {}
        for gauge in gauges:
            if gauge.name not in families:
                name = f"fhirapp_{gauge.name}"
                families[gauge.name] = GaugeMetricFamily(
                    name, gauge.description, labels=[*gauge.labels]
                )
            families[gauge.name].add_metric([*gauge.labels.values()], float(gauge.value))
        yield from families.values()

    def _gauges(self, *costs: Cost) -> Sequence[Gauge]:
        with self._app.app_context():
            try:
                return examine(*costs).gauges
            finally:
                db.session.remove()
                db.engine.dispose()

    def _run_remote_probes(self) -> None:
        self._remote = self._gauges(Cost.REMOTE)
        self._remote_at = time.monotonic()
