"""/metrics for Prometheus, on an address of its own (FHIRAPP_METRICS): numbers, and no record.

All processes write theirs into one folder; a process of its own adds them up when it is asked, and
looks at jobs, backups and sizes. Without the setting nothing is counted.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Thread
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from flask import Flask, Response, g, request
from sqlalchemy import select

from fhirapp import trail
from fhirapp.audit.write import count_served
from fhirapp.config import ConfigurationError, Settings, settings_of
from fhirapp.db import db
from fhirapp.db.reader import caches_used, database_seconds
from fhirapp.disk import database_path
from fhirapp.features.backups.rotation import Backup, backups
from fhirapp.fhir.temporal import moment_of
from fhirapp.files import shared_files
from fhirapp.jobs import schedule
from fhirapp.jobs import table as jobs
from fhirapp.server.messages import WAITED
from fhirapp.server.readiness import why_not_ready
from fhirapp.store.import_models import ImportRun
from fhirapp.trail.events import ON_EVENT

if TYPE_CHECKING:
    from prometheus_client import Metric

FOLDER = "metrics"
_BEGAN = "metrics_began"
# From an answer of the cache to one that a client waits for no longer.
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 20.0)
_POLL_SECONDS = 0.5
# How often an S3 store is looked at.
_LOOK_SECONDS = 60.0
_log = logging.getLogger(__name__)


def address_of(settings: Settings) -> tuple[str, int]:
    """Return where metrics are asked for. Raises ConfigurationError."""
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
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

    registry = CollectorRegistry()
    labels = ("type", "interaction")
    requests = Counter(
        "fhirapp_requests", "Requests answered", (*labels, "status"), registry=registry
    )
    seconds = Histogram(
        "fhirapp_request_seconds", "Time to answer", labels, buckets=_BUCKETS, registry=registry
    )
    waited = Histogram(
        "fhirapp_queue_seconds", "Time waited for a thread", buckets=_BUCKETS, registry=registry
    )
    in_database = Counter(
        "fhirapp_database_seconds", "Time in the database", labels, registry=registry
    )
    resources = Counter(
        "fhirapp_resources", "Resources answered, of all pages", labels, registry=registry
    )
    cached = Counter(
        "fhirapp_cache", "Cache lookups: hit, miss", ["cache", "result"], registry=registry
    )
    in_flight = Gauge(
        "fhirapp_requests_in_flight",
        "Requests in progress",
        multiprocess_mode="livesum",
        registry=registry,
    )
    events = Counter("fhirapp_events", "Events in the audit trail", ["event"], registry=registry)

    def begin() -> None:
        setattr(g, _BEGAN, time.perf_counter())
        in_flight.inc()
        if (seconds_waited := request.environ.get(WAITED)) is not None:
            waited.observe(seconds_waited)

    def end(response: Response) -> Response:
        name, interaction = _named(request.endpoint or "")
        requests.labels(name, interaction, str(response.status_code)).inc()
        if (began := g.get(_BEGAN)) is not None:
            seconds.labels(name, interaction).observe(time.perf_counter() - began)
        in_database.labels(name, interaction).inc(database_seconds())
        if answered := count_served():
            resources.labels(name, interaction).inc(answered)
        for cache, hit in caches_used().items():
            cached.labels(cache, "hit" if hit else "miss").inc()
        return response

    def leave(_error: BaseException | None) -> None:
        if g.pop(_BEGAN, None) is not None:
            in_flight.dec()

    app.before_request(begin)
    app.after_request(end)
    app.teardown_appcontext(leave)
    app.extensions[ON_EVENT] = lambda event: events.labels(event).inc()


def _named(endpoint: str) -> tuple[str, str]:
    """Return a type and an interaction; of what is no FHIR, whose it is alone.

    So that a stranger who makes up addresses makes no new numbers.
    """
    owner, _dot, view = endpoint.partition(".")
    return (owner, view) if owner[:1].isupper() else ("", owner or "unknown")


def listen(settings: Settings) -> socket.socket | None:
    """Return the listening socket, None where none is wanted. Raises ConfigurationError."""
    if not settings.metrics:
        return None
    host, port = address_of(settings)
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        raise ConfigurationError(
            f"Cannot listen on {settings.metrics} for metrics ({error.strerror or error}); choose "
            "another in FHIRAPP_METRICS."
        ) from None


def clear(settings: Settings) -> None:
    """Forget what processes counted that are gone: those of an earlier start."""
    for path in (settings.instance / FOLDER).glob("*.db"):
        pid = path.stem.rpartition("_")[2]
        if pid.isdecimal() and not _is_alive(int(pid)):
            path.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def forget(settings: Settings, pid: int) -> None:
    """Count a server process that has ended among those at work no more."""
    if settings.metrics:
        from prometheus_client.multiprocess import mark_process_dead

        mark_process_dead(pid, str(settings.instance / FOLDER))  # type: ignore[no-untyped-call]


def serve(app: Flask, listener: socket.socket, still_wanted: Callable[[], bool]) -> None:
    """Answer who asks for metrics, until it is not wanted any more."""
    from prometheus_client import CollectorRegistry, make_wsgi_app, multiprocess

    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    registry.register(_State(app))

    class Handler(WSGIRequestHandler):
        # Who sends nothing keeps the next waiting no longer.
        timeout = 5

        def log_message(self, *_words: object) -> None:
            pass

    server = WSGIServer(listener.getsockname()[:2], Handler, bind_and_activate=False)
    server.socket.close()
    server.socket, server.timeout = listener, _POLL_SECONDS
    server.server_name, server.server_port = listener.getsockname()[:2]
    server.setup_environ()
    server.set_app(_only_metrics(make_wsgi_app(registry)))
    while still_wanted():
        server.handle_request()


def _only_metrics(app: Any) -> Any:
    def answer(environ: Mapping[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"] == "/metrics":
            return app(environ, start_response)
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"Metrics are at /metrics.\n"]

    return answer


class _State:
    """What is looked at when somebody asks."""

    def __init__(self, app: Flask) -> None:
        self._app = app
        # None where they cannot be listed.
        self._backups: Sequence[Backup] | None = ()
        self._looked_at = -_LOOK_SECONDS

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics. What cannot be looked at is left out."""
        with self._app.app_context():
            looks = (self._ready, self._jobs, self._schedules, self._import)
            for look in (*looks, self._sizes, self._backup):
                try:
                    yield from look()
                except Exception as error:  # noqa: BLE001
                    _log.warning("a metric is left out: %s", type(error).__name__)
            db.session.remove()
            db.engine.dispose()

    def _ready(self) -> Iterator[Metric]:
        yield _gauge("ready", "Whether requests can be answered", not why_not_ready())
        writable = not trail.state(self._app)
        yield _gauge("audit_writable", "Whether the audit trail can be written", writable)

    def _jobs(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        metric = GaugeMetricFamily(
            "fhirapp_jobs", "Jobs by kind and state", labels=["kind", "state"]
        )
        counts: dict[tuple[str, str], int] = {}
        for one in jobs.jobs():
            counts[one.kind, one.state] = counts.get((one.kind, one.state), 0) + 1
        for labels, count in sorted(counts.items()):
            metric.add_metric(labels, count)
        yield metric

    def _schedules(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        found = schedule.schedules()
        for name, doc, value in (
            ("success_seconds", "Last successful run, Unix time", "succeeded_at"),
            ("failure_seconds", "Last failed run, Unix time", "failed_at"),
            ("failures", "Consecutive failed runs", "failures"),
        ):
            metric = GaugeMetricFamily(f"fhirapp_schedule_{name}", doc, labels=["schedule"])
            for one in found:
                metric.add_metric([one.name], getattr(one, value) or 0)
            yield metric

    def _import(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        ended = select(ImportRun).where(ImportRun.ended_at.is_not(None))
        last = db.session.scalars(ended.order_by(ImportRun.id.desc()).limit(1)).first()
        if last is None:
            return
        age = time.time() - moment_of(last.ended_at or "").timestamp()
        yield _gauge("import_age_seconds", "Time since the last import ended", age)
        metric = GaugeMetricFamily(
            "fhirapp_import_resources", "What the last import read", labels=["type", "outcome"]
        )
        for name, counts in (last.outcome or {}).items():
            for outcome, count in counts.items():
                metric.add_metric((name, outcome), count)
        yield metric

    def _sizes(self) -> Iterator[Metric]:
        settings = settings_of(self._app)
        database = database_path(settings)
        if database is not None:
            yield _gauge("database_bytes", "Size of SQLite's file", database.stat().st_size)
        free = shutil.disk_usage(settings.instance).free
        yield _gauge("disk_free_bytes", "Free space on the instance folder's disk", free)
        size = trail.trail_of(self._app).size()
        yield _gauge("audit_bytes", "Size of the audit trail", size)

    def _backup(self) -> Iterator[Metric]:
        settings = settings_of(self._app)
        if shared_files(settings).is_folder:
            self._look_for_backups(settings)
        elif time.monotonic() - self._looked_at > _LOOK_SECONDS:
            # A store may take long, and who asks for metrics does not wait: next time it is known.
            self._looked_at = time.monotonic()
            Thread(target=self._look_for_backups, args=(settings,), daemon=True).start()
        if self._backups is None:
            yield _gauge("files_reachable", "Whether shared files can be reached", False)
            return
        yield _gauge("files_reachable", "Whether shared files can be reached", True)
        if self._backups:
            age = time.time() - self._backups[0].taken_at
            yield _gauge("backup_age_seconds", "Age of the newest backup here", age)

    def _look_for_backups(self, settings: Settings) -> None:
        try:
            self._backups = backups(settings)
        except OSError:
            self._backups = None


def _gauge(name: str, doc: str, value: float) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(f"fhirapp_{name}", doc, value=float(value))
