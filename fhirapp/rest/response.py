"""Requests and answers under /fhir: their parameters, the media type, caching.

The server has two formats of version 4.0 in UTF-8: FHIR JSON, which is made first, and FHIR XML,
made from it. JSON's type is application/fhir+json (service.md 4), without fhirVersion and charset,
whichever of its names the client used: FHIR R4 leaves that open.
Source: FHIR R4 http §3.1.0.1; RFC 9110 §12.5.1, §13; RFC 7240; decisions 2.6, 2.14, §4.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl

from flask import Response, g, request
from werkzeug.datastructures import Headers
from werkzeug.http import http_date, parse_date, parse_list_header, parse_options_header

from fhirapp import urls
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir import outcome, xml_reader
from fhirapp.fhir import xml as fhir_xml
from fhirapp.fhir.elements import InvalidElement
from fhirapp.fhir.temporal import moment_of
from fhirapp.search.values import SHOWN, parse_boolean

FHIR_JSON, FHIR_XML = "application/fhir+json", "application/fhir+xml"
XML_TYPE = f"{FHIR_XML}; charset=utf-8"
FORM = "application/x-www-form-urlencoded"
# What else a client may call it.
_OTHER_JSON = frozenset({"application/json", "text/json"})
_OTHER_XML = frozenset({"application/xml", "text/xml"})
JSON_NAMES, XML_NAMES = _OTHER_JSON | {FHIR_JSON}, _OTHER_XML | {FHIR_XML}
# What `_format` may be, and whether it is XML.
_FORMATS = dict.fromkeys(JSON_NAMES | {"json"}, False) | dict.fromkeys(XML_NAMES | {"xml"}, True)
# The ranges that hold a format: of those in a request, the one with the greatest number decides.
_WIDE = {"application/*": 1, "*/*": 0}
_JSON_RANGES = {FHIR_JSON: 3, **dict.fromkeys(_OTHER_JSON, 2), **_WIDE}
_XML_RANGES = {FHIR_XML: 3, **dict.fromkeys(_OTHER_XML, 2), **_WIDE}
# Who takes one of these is a browser, whose XML is no FHIR.
_PAGES = frozenset({"text/html", "application/xhtml+xml"})
# The parameters of a media type that are heeded, and the values that fit; 4.0.1 is no value of
# fhirVersion, but clients send it.
_HEEDED = {"fhirVersion": ("4.0", "4.0.1"), "charset": ("utf-8", "utf8")}
# The parameters that shape an answer and do not choose what is in it.
FORM_PARAMETERS = ("_format", "_pretty")
MAX_PARAMETERS = 200
_CACHE = "no-cache, private"
# RFC 7240 §2: Prefer, for under strict handling another answer may come.
_VARY = "Accept, Authorization, Prefer"
# Of what is no page: nothing in it runs, and nobody frames it.
POLICY = "default-src 'none'; form-action 'none'; frame-ancestors 'none'"


class Layout(NamedTuple):
    """How a client wants an answer: in which format, and whether it is indented."""

    is_xml: bool = False
    pretty: bool = True


_DEFAULT = Layout()


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
        raise outcome.InvalidParameter("request", "the parameters are not UTF-8") from None
    except ValueError:
        raise outcome.InvalidParameter(
            "request", f"has more than {MAX_PARAMETERS} parameters; that is the most"
        ) from None


def check_known(parameters: Iterable[tuple[str, str]], known: Sequence[str]) -> None:
    """Refuse parameters that an interaction does not know, where the client asks for strictness.

    Else they are ignored: a resource has no place for the warning. Raises UnsupportedParameter.
    """
    if is_strict():
        for name, _ in parameters:
            if name not in known:
                raise outcome.UnsupportedParameter(
                    name, f"is not a parameter here; use {' or '.join(known)}"
                )


def negotiate(parameters: Iterable[tuple[str, str]]) -> Layout:
    """Return what `_format`, Accept and `_pretty` say. Raises NotAcceptable or a ParameterError."""
    values: dict[str, str] = {}
    for name, value in parameters:
        if name in FORM_PARAMETERS and value:
            if name in values:
                raise outcome.RepeatedParameter(name, "may be given once")
            values[name] = value
    media = values.get("_format")
    is_xml = _is_xml_accepted() if media is None else _is_xml_format(media)
    if not (is_xml or values):
        return _DEFAULT
    pretty = "_pretty" not in values or parse_boolean("_pretty", values["_pretty"])
    layout = Layout(is_xml, pretty)
    if is_xml or media is not None:
        g.layout = layout
    return layout


def layout_wanted() -> Layout:
    """Return what was negotiated, or might be: of an error, which cannot be refused for it."""
    layout: Layout | None = g.get("layout")
    if layout is not None:
        return layout
    try:
        return negotiate(arguments())
    except outcome.FhirError:
        return _DEFAULT


def prefers_resource() -> bool:
    """Say whether FHIR is asked for by name, and nothing else more: for Binary.

    FHIR R4 binary §2.41.4: without that the bytes themselves are the answer, which may be XML.
    """
    if request.args.get("_format"):
        return True
    ranges = [(_essence(media), quality) for media, quality in request.accept_mimetypes]
    ours = JSON_NAMES | {FHIR_XML}
    quality = max((quality for media, quality in ranges if media in ours), default=0)
    others = max(
        (quality for media, quality in ranges if media not in ours | _WIDE.keys()), default=0
    )
    return quality > 0 and quality >= others


def handling() -> str | None:
    """Return the handling that the client prefers, strict or lenient; None where it says neither.

    Of several the first counts. Source: RFC 7240 §2, §4.4; FHIR R4 search §3.1.1.1.
    """
    prefer = request.environ.get("HTTP_PREFER")
    if not prefer:
        return None
    # RFC 7240 separates preferences by commas; some clients write semicolons.
    for preference in parse_list_header(prefer.replace(";", ",")):
        name, _, value = preference.partition("=")
        if name.strip().lower() == "handling":
            mode = value.strip().strip('"').lower()
            return mode if mode in ("strict", "lenient") else None
    return None


def is_strict() -> bool:
    """Say whether the client asks for strict handling."""
    return handling() == "strict"


def _is_xml_format(value: str) -> bool:
    """Say whether the `_format` that is asked for is XML. Raises NotAcceptable."""
    essence, _, rest = value.partition(";")
    # A plus sign that the client did not escape arrives as a space.
    media = essence.strip().replace(" ", "+").lower()
    if media not in _FORMATS:
        message = f"_format: {value[:SHOWN]!r} is not supported; use {FHIR_JSON} or {FHIR_XML}"
        raise outcome.NotAcceptable(message, parameter="_format")
    misfit = _misfit(_heeded(f"{media};{rest}"))
    if misfit:
        raise outcome.NotAcceptable(f"_format: {_refusal(misfit)}", parameter="_format")
    return _FORMATS[media]


def _is_xml_accepted() -> bool:
    """Say whether the Accept header likes XML better than JSON. Raises NotAcceptable.

    Where both are liked as much, the one that is named counts, else JSON. A header without a range
    that can be read asks for nothing.
    """
    accept = request.environ.get("HTTP_ACCEPT")
    if accept is None or accept in (FHIR_JSON, "*/*") or not request.accept_mimetypes:
        return False
    accepted = [(_essence(value), value, quality) for value, quality in request.accept_mimetypes]
    misfits: list[str] = []
    json = _best(accepted, _JSON_RANGES, _OTHER_JSON, misfits)
    xml = _best(accepted, _XML_RANGES, _OTHER_XML, misfits)
    if max(json, xml)[0] > 0:
        is_page = xml[1] < _XML_RANGES[FHIR_XML] and any(media in _PAGES for media, *_ in accepted)
        return xml > json and not (is_page and json[0])
    if misfits and json == xml == _NOTHING:
        raise outcome.NotAcceptable(f"The Accept header: {_refusal(misfits[0])}")
    raise outcome.NotAcceptable(
        "The Accept header allows neither FHIR JSON nor FHIR XML; "
        f"this server answers {FHIR_JSON} and {FHIR_XML}."
    )


_NOTHING = (0.0, -1)


def _best(
    accepted: Iterable[tuple[str, str, float]],
    ranges: Mapping[str, int],
    others: Container[str],
    misfits: list[str],
) -> tuple[float, int]:
    """Return the quality of a format, and how closely the range that decides names it.

    misfits receives a parameter of each range that no answer has.
    """
    matching = [(-1, 0, 0.0)]
    for media, value, quality in accepted:
        # To refuse one of the other names does not refuse the format.
        if media not in ranges or (media in others and not quality):
            continue
        parameters = _heeded(value)
        if misfit := _misfit(parameters):
            misfits.append(misfit)
        else:
            matching.append((ranges[media], len(parameters), quality))
    closeness, _, quality = max(matching)
    return quality, closeness


def _essence(media: str) -> str:
    """Return a media type without its parameters."""
    return media.partition(";")[0].strip().lower()


def _heeded(media: str) -> dict[str, str]:
    """Return the parameters of a media type that are heeded, in lower case."""
    parameters = parse_options_header(media)[1]
    return {
        name: parameters[name.lower()].lower() for name in _HEEDED if name.lower() in parameters
    }


def _misfit(parameters: Mapping[str, str]) -> str:
    """Return the first heeded parameter that no answer has, empty where there is none."""
    for name, value in parameters.items():
        if value not in _HEEDED[name]:
            return f"{name}={value}"
    return ""


def _refusal(misfit: str) -> str:
    ours = " and ".join(f"{name}={values[0]}" for name, values in _HEEDED.items())
    formats = f"{FHIR_JSON} and {FHIR_XML}"
    return f"{misfit[:SHOWN]} is not supported; this server answers {formats} with {ours}."


class OwnHeaders(Headers):
    """Headers that are this server's own: none can have the end of a line in it.

    Werkzeug looks for that in each, whenever it is added or copied.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._list = [*pairs]

    def more(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Add headers that are not there yet."""
        self._list += pairs


class VerbatimResponse(Response):
    """An answer that is whole: its body is sent as it is, and so are its headers.

    Werkzeug would copy them, and look for addresses and lengths to be corrected.
    """

    headers: OwnHeaders

    def get_wsgi_headers(self, environ: dict[str, Any]) -> Headers:  # noqa: ARG002
        return self.headers

    def get_app_iter(self, environ: dict[str, Any]) -> Iterable[bytes]:
        if self.direct_passthrough:
            return super().get_app_iter(environ)
        is_bare = environ["REQUEST_METHOD"] == "HEAD" or self.status_code == 304
        return () if is_bare else cast("Iterable[bytes]", self.response)


def respond(
    body: bytes,
    layout: Layout,
    *,
    etag: str,
    last_modified: str | None = None,
    content_type: str = FHIR_JSON,
) -> Response:
    """Return a 200 with this body, or a 304 where the client already has it.

    last_modified is an instant. The entity tag of FHIR, a version, is the same in both formats, so
    that XML is neither kept by a cache nor compared with what one keeps: it would be taken for
    JSON, or JSON for it (RFC 9111 §4.3.4). Raises NotAcceptable for what XML cannot hold.
    """
    headers = OwnHeaders(
        [
            ("Cache-Control", "no-store" if layout.is_xml else _CACHE),
            ("Content-Security-Policy", POLICY),
            ("ETag", etag),
            ("Vary", _VARY),
        ]
    )
    if preferred := handling():
        headers.more([("Preference-Applied", f"handling={preferred}")])
    if not layout.is_xml and _is_known(etag, last_modified):
        response = VerbatimResponse(status=304, headers=headers)
        del response.headers["Content-Type"]
        return response
    if last_modified is not None:
        headers.more([("Last-Modified", http_date(moment_of(last_modified)))])
    content, media = body, content_type if content_type == FHIR_JSON else ""
    if media and layout is not _DEFAULT:
        content, media = rendered(body, layout)
    headers.more([("Content-Length", str(len(content)))])
    if media:
        headers.more([("Content-Type", media)])
    else:
        # Of a Binary it is what the record says, so Werkzeug looks through it.
        headers["Content-Type"] = content_type
    return VerbatimResponse([content], headers=headers)


def rendered(body: bytes, layout: Layout) -> tuple[bytes, str]:
    """Return indented FHIR JSON as a client wants it, and its media type. Raises NotAcceptable."""
    if layout.is_xml:
        return in_xml(fhir_json.loads(body), layout), XML_TYPE
    return (body if layout.pretty else fhir_json.compact(body)), FHIR_JSON


def in_xml(resource: Mapping[str, Any], layout: Layout) -> bytes:
    """Return a resource in FHIR XML. Raises NotAcceptable for what XML cannot hold."""
    try:
        return fhir_xml.dumps(resource, pretty=layout.pretty)
    except InvalidElement as error:
        fault = error.below(resource["resourceType"])
        raise outcome.NotAcceptable(
            f"{fault.path} {fault.message}: this cannot be written in XML; use {FHIR_JSON}."
        ) from None


def parse_resource(parameter: str) -> Any:
    """Return the resource that the body holds.

    Raises InvalidParameter for what is no FHIR XML, ValueError for what is no JSON.
    """
    if request.mimetype not in XML_NAMES:
        return fhir_json.loads(request.get_data())
    try:
        return xml_reader.loads(request.get_data())
    except xml_reader.InvalidXml as error:
        raise outcome.InvalidParameter(parameter, f"line {error.line}: {error}") from None


def accepts_gzip() -> bool:
    """Say whether the answer may be in gzip, and the client wants nothing else more."""
    accepted = request.accept_encodings
    return accepted["gzip"] > 0 and accepted["gzip"] >= accepted["identity"]


def fhir_address(path: str) -> str:
    """Return the absolute address of a path below /fhir."""
    return f"{urls.base_url()}/fhir/{path}"


def with_addresses(body: bytes, attachments: str, address: str = "") -> bytes:
    """Make the attachments' addresses in a stored body absolute (decisions 2.18).

    The pattern cannot stand in text: there its quotes would be escaped. address is what
    fhir_address("") returns, for one who has many bodies.
    """
    if not attachments:
        return body
    address = address or fhir_address("")
    return body.replace(b'"url": "Binary/', b'"url": "%bBinary/' % address.encode())


def _is_known(etag: str, last_modified: str | None) -> bool:
    """Say whether the client's copy still holds; If-None-Match wins (decisions 2.14).

    RFC 9110 §13.1: of GET and HEAD only.
    """
    environ = request.environ
    if environ["REQUEST_METHOD"] == "POST":
        return False
    header = environ.get("HTTP_IF_NONE_MATCH")
    if header is not None:
        opaque = _opaque(etag)
        return header.strip() == "*" or opaque in map(_opaque, header.split(","))
    since = _date(environ.get("HTTP_IF_MODIFIED_SINCE"))
    if since is None or last_modified is None:
        return False
    return moment_of(last_modified).replace(microsecond=0) <= since


def _opaque(etag: str) -> str:
    """Return an entity tag without W/ and quotes: clients also send `W/3` (decisions 2.14)."""
    return etag.strip().removeprefix("W/").strip('"')


def _date(value: str | None) -> datetime | None:
    """Return the moment of an HTTP date; None for what is none (RFC 9110 §13.1.3: ignored)."""
    try:
        return parse_date(value)
    except OverflowError:
        return None


def document_etag(body: bytes) -> str:
    """Return the entity tag of what is made of the declarations and changes with its content."""
    return f'W/"{blake2b(body, digest_size=16).hexdigest()}"'
