"""The app without its pages: database, access, types. What the shell and background tasks use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, tzinfo
from typing import Any

from flask import Flask, Request, Response, current_app
from flask.sessions import NullSession, SessionInterface
from werkzeug.routing import MapAdapter, Rule

from fhirapp import auth, resources, rest, trail
from fhirapp import db as database
from fhirapp.config import Settings, settings
from fhirapp.current import this_request
from fhirapp.db import db
from fhirapp.fhir.temporal import init_zone


def bare_app(settings: Settings) -> Flask:
    """Return an app that knows its settings, and no address."""
    app = _App("fhirapp", instance_path=str(settings.instance), static_folder=None)
    app.config["FHIRAPP"] = settings
    app.url_rule_class = _Rule
    app.session_interface = _NoSession()
    init_zone(_clinic_zone)
    # A redirect would name whatever host the client named.
    app.url_map.merge_slashes = False
    app.json.sort_keys = False  # type: ignore[attr-defined]
    return app


# What of a request's environment the addresses that are made in it begin with; how many of these
# are remembered, since a client may name any host.
_PLACE = ("wsgi.url_scheme", "HTTP_HOST", "SERVER_NAME", "SERVER_PORT", "SCRIPT_NAME")
_MOST_PLACES = 256


class _App(Flask):
    """Flask without what nobody uses here, and what a read would pay for with a fifth of its calls.

    That is: coroutines, signals, Flask's own sessions, `after_this_request`, `teardown_request`,
    and functions that look at a view's arguments. The host of an address is looked through once for
    all requests; so is what is called before and after the view of an endpoint.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._places: dict[tuple[Any, ...], MapAdapter] = {}
        self._around: dict[str | None, tuple[list[Any], list[Any]]] = {}

    def ensure_sync(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return func

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        if request is None:
            return super().create_url_adapter(request)
        place = tuple(map(request.environ.get, _PLACE))
        known = self._places.get(place)
        if known is None:
            known = super().create_url_adapter(request)
            assert known is not None
            if len(self._places) >= _MOST_PLACES:
                self._places.clear()
            self._places[place] = known
        return MapAdapter(
            known.map,
            known.server_name,
            known.script_name,
            known.subdomain,
            # There are no websockets: Upgrade is ignored, as RFC 9110 §7.8 allows.
            request.scheme,
            request.path,
            request.method,
            request.environ.get("QUERY_STRING", ""),
        )

    def full_dispatch_request(self) -> Response:
        self._got_first_request = True
        try:
            answer = self.preprocess_request()
            if answer is None:
                answer = self.dispatch_request()
        except Exception as error:  # noqa: BLE001
            answer = self.handle_user_exception(error)
        return self.process_response(self.make_response(answer))

    def preprocess_request(self) -> Any:
        for function in self._functions()[0]:
            answer = function()
            if answer is not None:
                return answer
        return None

    def process_response(self, response: Response) -> Response:
        for function in self._functions()[1]:
            response = function(response)
        return response

    def _functions(self) -> tuple[list[Any], list[Any]]:
        """Return what is called before the view of the request, and after it."""
        asked = this_request()
        found = self._around.get(asked.endpoint)
        if found is None:
            parts = [*asked.blueprints, None]
            before = [one for name in reversed(parts) for one in self.before_request_funcs[name]]
            after = [one for name in parts for one in reversed(self.after_request_funcs[name])]
            found = self._around[asked.endpoint] = (before, after)
        return found

    def do_teardown_request(self, *_errors: Any) -> None:
        assert not self.teardown_request_funcs

    def do_teardown_appcontext(self, *errors: Any) -> None:
        for function in reversed(self.teardown_appcontext_funcs):
            function(*errors or (None,))


class _NoSession(SessionInterface):
    def open_session(self, app: Flask, request: Request) -> NullSession:  # noqa: ARG002
        return _NO_SESSION


_NO_SESSION = NullSession()


class _Rule(Rule):
    """A route that compiles its two functions for addresses when one is first made by it.

    Of 213 routes few are ever asked for one; compiled at once, they took half of `create_app`.
    """

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        compile_builder = super()._compile_builder
        compiled: Callable[..., tuple[str, str]] | None = None

        def build(rule: Rule, **values: Any) -> tuple[str, str]:
            nonlocal compiled
            compiled = compiled or compile_builder(append_unknown)
            return compiled(rule, **values)

        return build


def core_app(settings: Settings) -> Flask:
    """Return an app that is not served; its database is not opened yet. Raises ConfigurationError.

    Commands ask for no page, and do not wait until all are imported.
    """
    app = bare_app(settings)
    for part in (database, auth, trail, rest, resources):
        part.init_app(app)
    return app


def _clinic_zone() -> tzinfo:
    return settings().zone if current_app else UTC


@contextmanager
def current_core(settings: Settings) -> Iterator[Flask]:
    """Return such an app, current meanwhile, on a database that was made ready."""
    app = core_app(settings)
    with app.app_context():
        try:
            yield app
        finally:
            db.engine.dispose()
