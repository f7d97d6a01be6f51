"""Renders every error under /fhir and /api as an OperationOutcome. decisions §4."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from flask import Flask, Response, current_app, request
from werkzeug.exceptions import HTTPException
from werkzeug.exceptions import MethodNotAllowed as WerkzeugMethodNotAllowed

from fhirapp.audit import Unwritable
from fhirapp.auth import refusals
from fhirapp.auth.protector import request_id, used_token
from fhirapp.db import is_busy
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir import outcome
from fhirapp.files import FilesUnavailable
from fhirapp.rest.middleware import MAX_BODY
from fhirapp.rest.recorder import REFUSE
from fhirapp.rest.response import FHIR_JSON, layout_wanted, rendered

_log = logging.getLogger(__name__)

# What shows an error to people, where there are pages: web/ puts it here.
ERROR_PAGE = "fhirapp.error_page"
RETRY_SECONDS = 2
# An administrator must free the disk first.
_UNWRITABLE_SECONDS = 60
_OAUTH_ERRORS = {
    401: "invalid_token",
    403: "insufficient_scope",
    500: "server_error",
    503: "temporarily_unavailable",
}


def init_app(app: Flask) -> None:
    """Register the handlers."""
    app.register_error_handler(outcome.FhirError, render)
    app.register_error_handler(HTTPException, render_http)
    app.register_error_handler(Exception, render_unexpected)
    app.register_error_handler(Unwritable, lambda error: unavailable(str(error)))
    app.register_error_handler(FilesUnavailable, _without_files)
    app.extensions[REFUSE] = unavailable


def is_fhir_path() -> bool:
    """Say whether errors of this request are OperationOutcomes."""
    return request.path.startswith(("/fhir", "/api"))


def _is_oauth_path() -> bool:
    """Say whether errors of this request are OAuth's: people see /oauth/authorize, as a page."""
    return request.path.startswith("/oauth/") and not request.path.startswith("/oauth/authorize")


def render(error: outcome.FhirError) -> Response:
    """Return the answer that an error is; to OAuth clients as RFC 6749 §5.2, 6750 §3.1 say."""
    if request.path.startswith("/oauth"):
        name = _OAUTH_ERRORS.get(error.status, "invalid_request")
        content: dict[str, Any] = {"error": name, "error_description": error.diagnostics}
        response = Response(
            fhir_json.dumps(content), status=error.status, content_type="application/json"
        )
    else:
        body = fhir_json.dumps_indented(error.outcome())
        try:
            body, media = rendered(body, layout_wanted())
        except outcome.NotAcceptable:
            # What it repeats of the request may be no XML.
            media = FHIR_JSON
        response = Response(body, status=error.status, content_type=media)
    response.headers["Cache-Control"] = "no-store"
    response.headers.extend(error.headers)
    _record(error)
    return response


def _record(error: outcome.FhirError) -> None:
    """Keep why the request is refused, where it came with a token that is or was valid."""
    token = used_token()
    if token is not None and error.status in (401, 403):
        refusals.record_denied(token, error)


def unavailable(why: str) -> Response:
    """Return 503: an OperationOutcome, OAuth's JSON, or a page; why tells the reason."""
    show: Callable[[int, str], Response] | None = current_app.extensions.get(ERROR_PAGE)
    if show is None or is_fhir_path() or _is_oauth_path():
        headers = {"Retry-After": str(_UNWRITABLE_SECONDS)}
        return render(outcome.Unavailable(why, headers=headers))
    return show(503, why)


def _without_files(error: FilesUnavailable) -> Response:
    _log.warning("files: %s", error.strerror)
    return unavailable("Files cannot be reached now; try again later.")


def render_http(error: HTTPException) -> Response | HTTPException:
    """Return what Flask itself refuses: as an OperationOutcome, OAuth's JSON, or a page."""
    if not is_fhir_path() and not _is_oauth_path():
        show: Callable[[int], Response] | None = current_app.extensions.get(ERROR_PAGE)
        if show is None or error.code is None:
            return error
        page = show(error.code)
        if isinstance(error, WerkzeugMethodNotAllowed):
            page.headers["Allow"] = _allowed(error)
        return page
    if isinstance(error, WerkzeugMethodNotAllowed):
        is_read = request.method in ("GET", "HEAD")
        reads = "" if is_read or _is_oauth_path() else "; this server only reads"
        return render(
            outcome.MethodNotAllowed(
                f"{request.method} is not supported here{reads}.",
                headers={"Allow": _allowed(error)},
            )
        )
    if error.code == 413:
        return render(outcome.BodyTooLong(f"The body is longer than {MAX_BODY} bytes."))
    if error.code == 404:
        return render(
            outcome.UnknownInteraction("There is no such resource type or operation here.")
        )
    if error.code is not None and error.code < 500:
        return render(outcome.InvalidParameter("request", "cannot be read"))
    return render_unexpected(error)


def _allowed(error: WerkzeugMethodNotAllowed) -> str:
    return ", ".join(sorted(error.valid_methods or ()))


def render_unexpected(error: Exception) -> Response:
    """Return 503 for a busy database; for a bug 500 with a request id and nothing else."""
    if is_busy(error):
        _log.warning("database busy: %s", type(error).__name__)
        return render(
            outcome.Unavailable(
                "The database is busy; try again shortly.",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        )
    _log.error("request %s failed", request_id(), exc_info=error)
    return render(outcome.InternalError(f"Something went wrong here; request id {request_id()}."))
