"""What the client asks of the answer's form: Accept, `_format`, `_pretty`, Prefer.

Source: FHIR R4 http §3.1.0.1.9, §3.1.0.1.10; decisions 2.6, §4.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import parse_qsl

from flask import request

from fhirapp.fhir.outcome import InvalidParameter, NotAcceptable
from fhirapp.search.values import SHOWN, parse_boolean

FHIR_JSON = "application/fhir+json"
# Names under which a client may ask for FHIR JSON.
_JSON = frozenset({FHIR_JSON, "application/json", "text/json"})
_RANGES = frozenset({"application/*", "*/*"})
_FORMATS = _JSON | {"json"}
MAX_PARAMETERS = 200


class Form(NamedTuple):
    """How the answer is wanted."""

    pretty: bool = True


def arguments() -> list[tuple[str, str]]:
    """Return the parameters of the request's URL, repeated ones in their order.

    Raises InvalidParameter.
    """
    query = request.environ.get("QUERY_STRING", "")
    return parse_form(query.encode("latin-1")) if query else []


def parse_form(text: bytes) -> list[tuple[str, str]]:
    """Read parameters as a form writes them. Raises InvalidParameter.

    What is no UTF-8 is refused: werkzeug would drop it, which would widen the answer.
    """
    try:
        return parse_qsl(
            text.decode(),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_PARAMETERS,
        )
    except UnicodeDecodeError:
        raise InvalidParameter("request", "the parameters are not UTF-8") from None
    except ValueError:
        raise InvalidParameter(
            "request", f"has more than {MAX_PARAMETERS} parameters; that is the most"
        ) from None


def wanted_form(given: Iterable[tuple[str, str]]) -> Form:
    """Read `_format`, `_pretty` and Accept. Raises NotAcceptable or InvalidParameter."""
    pretty, media = True, None
    for name, value in given:
        if name == "_pretty" and value:
            pretty = parse_boolean("_pretty", value)
        elif name == "_format" and value:
            media = value
    if media is not None:
        # A plus sign that the client did not escape arrives as a space.
        if _essence(media.replace(" ", "+", 1)) not in _FORMATS:
            message = f"_format: {media[:SHOWN]!r} is not supported; use {FHIR_JSON}"
            raise NotAcceptable(message, parameter="_format")
    elif not _accepts_json():
        raise NotAcceptable(f"The Accept header allows no JSON; this server answers {FHIR_JSON}.")
    return Form(pretty)


def prefers_json() -> bool:
    """Say whether FHIR JSON is asked for by name, and nothing else more: for Binary.

    FHIR R4 binary §2.41.4: without that the bytes themselves are the answer.
    """
    if request.args.get("_format"):
        return True
    named = [(_essence(media), quality) for media, quality in request.accept_mimetypes]
    wanted = max((quality for media, quality in named if media in _JSON), default=0)
    others = max((quality for media, quality in named if media not in _JSON | _RANGES), default=0)
    return wanted > 0 and wanted >= others


def is_strict() -> bool:
    """Say whether the client asks for strict handling (RFC 7240; FHIR R4 search §3.1.1.1)."""
    prefer = request.environ.get("HTTP_PREFER")
    if not prefer:
        return False
    return any(
        part.strip().replace('"', "").lower() == "handling=strict"
        for part in prefer.replace(";", ",").split(",")
    )


def _accepts_json() -> bool:
    """Say whether the Accept header allows FHIR JSON, whatever parameters stand beside it."""
    accept = request.environ.get("HTTP_ACCEPT")
    if accept is None or accept in (FHIR_JSON, "*/*", ""):
        return True
    offered = {_essence(media): quality for media, quality in request.accept_mimetypes}
    # RFC 9110 §12.5.1: the most specific range decides.
    for names in (_JSON, {"application/*"}, {"*/*"}):
        qualities = [offered[name] for name in names if name in offered]
        if qualities:
            return max(qualities) > 0
    return False


def _essence(media: str) -> str:
    """Return a media type without its parameters: fhirVersion, charset."""
    return media.partition(";")[0].strip().lower()
