"""Requests that nobody would send: valid ones, changed byte by byte; the same for the same seed.

They reach the app as WSGI has them, past every client that would not send them so.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from flask import Flask

from tests.support.helpers import FHIR_JSON
from tests.support.operations import FORM

# What parsers, databases and people stumble over.
HOSTILE = [
    *(b"", b"%00", b"%FF", b"%C0%80", b"%ED%A0%80", b"%F4%90%80%80", b"\xff", b"%", b"%2", b"%zz"),
    *(b"&", b"=", b"&&", b"=&", b";", b"+", b"%2B", b",", b"%2C", b",,", b"|", b"||", b"$", b"\\"),
    *(b"\\,", b"%5C", b'"', b'"a', b"*", b"a*", b"NEAR(", b"(", b")", b"'", b"';--", b"/*", b"%25"),
    *(b"_", b"%s", b"{0}", b"{{1}}", b"?", b":", b"::", b".", b"..", b"/", b"//", b"#", b"~", b"!"),
    *(b"0", b"-1", b"-0", b"1e309", b"99999999999999999999", b"0x1", b"NaN", b"null", b"true"),
    *(b"%C3%A9", b"\xc3\xa9", b"%F0%9F%92%8A", b"%E2%80%A8", b"%CC%81", b"%EF%BB%BF", b"%E2%80%AE"),
    *(b"%0D%0A", b"%0A", b"%09", b"%20", b"%7F", b"%1B", b"%C2%85", b"a" * 300, b"%F0%9D%9F%99"),
    *(b":missing=true", b":not=", b":text=a", b":of-type=", b":identifier=", b":exact=", b":x="),
    *(b":contains=a", b":below=http://a", b":above=http://a/b", b":Patient=p1", b":iterate="),
    *(b"ge", b"ap", b"sa2024", b"ne", b"2024-02-30", b"9999-12-31", b"0001-01-01", b"0000"),
    *(b"9999-12-31T23:59:59.999-14:00", b"0001-01-01T00:00+14:00", b"2024-01-01T23:59:60Z"),
    *(b"_count=0", b"_count=1", b"_cursor=", b"_sort=-date", b"_total=none", b"_summary=text"),
    *(b"_elements=id", b"_include=*", b"_revinclude=Provenance:target", b"_revinclude=*"),
    *(
        b"_explain=true",
        b"_has:Provenance:target:agent=x",
        b"patient.name=x",
        b"_format=json",
        b"_format=xml",
        b"_pretty=false",
    ),
    *(b"Patient/p1", b"Patient/p2", b"https://fhir.example/fhir/Patient/p1", b"urn:uuid:x"),
    *(b"http://snomed.info/sct|", b"http://loinc.org|18842-5", b"replaces$DocumentReference/x"),
    *(
        b"\\ud800",
        b"\\u0000",
        b"{",
        b"[" * 200,
        b"]",
        b"1e9999",
        b'"valueString":',
        b'"part":[{}],',
    ),
    *(b"/_history", b"/_search", b"/$everything", b"/$docref", b"_history/1", b"/..%2f", b"%2F"),
]
# Headers that change an answer, and values for them.
HEADERS: dict[str, Sequence[str]] = {
    "Accept": (
        *("application/fhir+json", "application/json;q=0", "*/*;q=0", "text/html", "a/b;q=x", ""),
        *("application/fhir+json;fhirVersion=4.0", "application/*;q=0.5, */*;q=1e400", "*", "é/é"),
        *("application/fhir+xml", "text/xml;q=0.9", "text/html, application/xml, */*", "*/*;q=0.1"),
        *(", , ,", ";;;=", "application/fhir+json;charset=utf-16", 'a/b;q="', "a" * 500),
    ),
    "Prefer": (
        *("handling=strict", "handling=lenient", 'handling="strict"', "handling=", "=", ";", ","),
        *("return=minimal; handling=strict", "respond-async", '"', "handling=strict" * 50),
    ),
    "If-None-Match": ("*", 'W/"1"', "W/1", '"', 'W/"', ",", "*,*", "é", "a" * 500, 'W/"1", "2"'),
    "If-Modified-Since": (
        *("Thu, 01 Jan 2026 00:00:00 GMT", "Thu, 01 Jan 99999 00:00:00 GMT", "x", "2024", "0"),
        *("Thu, 01 Jan 0000 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 -2400", "Thu, 01 Jan 1970"),
    ),
    "If-Match": ("*", 'W/"1"', '"9"', '"', "", ","),
    "If-Unmodified-Since": ("Thu, 01 Jan 1970 00:00:00 GMT", "Thu, 01 Jan 99999 00:00:00 GMT", "x"),
    "If-Range": ('"1"', 'W/"1"', "Thu, 01 Jan 2026 00:00:00 GMT", "x"),
    "Range": (
        *("bytes=0-", "bytes=-1", "bytes=0-0", "bytes=5-1", "bytes=-0", "bytes=-", "bytes", "0-1"),
        *("bytes=0-1,3-4", "bytes=99999999999999999999-", "bytes=0-99999999999999999999", "x=0-1"),
        *(
            "bytes=" + "0-1," * 100,
            "bytes=" + "9" * 700 + "-",
            "bytes=²-",
            "BYTES=0-1",
            "bytes=a-b",
        ),
    ),
    "Content-Type": (
        *(
            FORM,
            FHIR_JSON,
            "application/json",
            "application/fhir+xml",
            "text/xml",
            "text/plain",
            "",
        ),
        *(";", "multipart/form-data", "é"),
        *(
            f"{FORM}; charset=utf-16",
            f"{FORM};charset=x",
            "multipart/form-data; boundary=x",
            "a" * 500,
        ),
    ),
    "Content-Encoding": ("gzip", "identity", "x"),
    "Authorization": (
        *(
            "",
            "Bearer",
            "Bearer ",
            "Bearer x",
            "Basic Og==",
            "Basic x",
            "bearer x",
            "é é",
            "=",
            "x",
        ),
        *(
            "Basic " + "A" * 500,
            "Bearer " + "x" * 500,
            "Basic ZGVtby1iYWNrZW5kOmRlbW8=",
            "Basic /w==",
        ),
    ),
    "Host": ("evil.example", "localhost", "", "[", "[::1", "a:b", "a" * 500, "fhir.example:99999"),
    "X-Forwarded-For": ("1.2.3.4", "x"),
    "X-Forwarded-Host": ("evil.example",),
    "X-HTTP-Method-Override": ("DELETE",),
    "Transfer-Encoding": ("chunked",),
    "Expect": ("100-continue", "x"),
    "Cookie": ("session=x", "=", "é"),
    "X-Long": ("x" * 33_000,),
}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get", "X", "É")
# So long that an address is no longer refused for its length alone; a few are left longer.
MOST = 2_000


@dataclass(frozen=True)
class Request:
    """A request: path and query as they stand in its first line, percent-encoded or not."""

    method: str
    path: bytes
    query: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def address(self) -> str:
        """The path as WSGI has it: its bytes, decoded one by one."""
        return unquote_to_bytes(self.path).decode("latin-1")

    def with_headers(self, **headers: str) -> Request:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return replace(self, headers={**self.headers, **named})


class Answer(NamedTuple):
    """An answer: its status, headers in their order, and body."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for one, value in self.headers if one.lower() == name.lower()), None)


def asking(method: str, path: str, query: str = "", body: str = "", media: str = "") -> Request:
    """Return a request as a good client writes it."""
    headers = {"Content-Type": media} if media else {}
    return Request(
        method,
        quote(path, safe="/$:").encode(),
        quote(query, safe='=&:/|$,%+;*"\\()').encode(),
        headers,
        body.encode(),
    )


def send(app: Flask, request: Request, address: str = "192.0.2.99") -> Answer:
    """Return the answer of the app. An exception that leaves it leaves this too."""
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": request.address,
        "QUERY_STRING": request.query.decode("latin-1"),
        "SERVER_NAME": "fhir.example",
        "SERVER_PORT": "443",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": address,
        "HTTP_HOST": "fhir.example",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "https",
        "wsgi.input": io.BytesIO(request.body),
        "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    if request.body:
        environ["CONTENT_LENGTH"] = str(len(request.body))
    for name, value in request.headers.items():
        key = name.upper().replace("-", "_")
        environ[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = value
    started: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], *_: Any) -> Any:
        started.append((status, headers))

    parts: Iterable[bytes] = app(environ, start_response)
    try:
        body = b"".join(parts)
    finally:
        close = getattr(parts, "close", None)
        if close:
            close()
    status, headers = started[-1]
    return Answer(int(status[:3]), headers, body)


def mutated(chance: Random, request: Request, others: Sequence[Request]) -> Request:
    """Return a request that is like this one, and in places like others, or like nothing."""
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 5))):
        mutation = chance.choices(_MUTATIONS, _WEIGHTS)[0]
        request = mutation(chance, request, chance.choice(others))
    return request


def _query(chance: Random, request: Request, other: Request) -> Request:
    return replace(request, query=_line(_changed(chance, request.query, other.query)))


def _body(chance: Random, request: Request, other: Request) -> Request:
    if not request.body:
        # What was asked in the address, in a form.
        request = replace(request, method="POST", query=b"", body=request.query)
        return request.with_headers(Content_Type=FORM)
    return replace(request, body=_changed(chance, request.body, other.body))


def _path(chance: Random, request: Request, other: Request) -> Request:
    segments, theirs = request.path.split(b"/"), other.path.split(b"/")
    at = chance.randrange(1, len(segments) + 1)
    segments[at : at + chance.randrange(2)] = [
        chance.choice((chance.choice(theirs), chance.choice(HOSTILE), b""))
    ]
    path = b"/".join(segments)
    if chance.random() < 0.3:
        path = _changed(chance, path, other.path)
    # What follows these would be no path.
    path = _line(path).translate(None, b"?#")
    return replace(request, path=b"/" + path.lstrip(b"/"))


def _header(chance: Random, request: Request, _other: Request) -> Request:
    name = chance.choice([*HEADERS, *request.headers])
    value = chance.choice(HEADERS.get(name, ("",)))
    if chance.random() < 0.5:
        held = request.headers.get(name, value).encode("latin-1")
        changed = _changed(chance, held, chance.choice(HOSTILE))
        # No server passes these on.
        value = changed.decode("latin-1").translate({10: None, 13: None, 0: None})
    return replace(request, headers={**request.headers, name: value})


def _method(chance: Random, request: Request, _other: Request) -> Request:
    return replace(request, method=chance.choice(METHODS))


_MUTATIONS: Sequence[Callable[[Random, Request, Request], Request]] = (
    *(_query, _body, _path, _header, _method),
)
_WEIGHTS = (54, 20, 7, 18, 1)


def _line(text: bytes) -> bytes:
    """Return what can stand in the first line of a request."""
    return text.translate(None, b"\r\n ")


def _changed(chance: Random, text: bytes, other: bytes) -> bytes:
    """Return a text changed somewhere."""
    change = chance.choice(_CHANGES)
    start = chance.randrange(len(text) + 1)
    end = min(len(text), start + chance.choice((1, 1, 2, 4, 8, 32, 128)))
    text = change(chance, text, start, end, other)
    return text if chance.random() < 0.01 else text[:MOST]


def _flipped(chance: Random, text: bytes, start: int, end: int, _other: bytes) -> bytes:
    return text[:start] + bytes([chance.randrange(256)]) + text[end:]


def _inserted(chance: Random, text: bytes, start: int, _end: int, _other: bytes) -> bytes:
    return text[:start] + chance.choice(HOSTILE) + text[start:]


def _replaced(chance: Random, text: bytes, start: int, end: int, _other: bytes) -> bytes:
    return text[:start] + chance.choice(HOSTILE) + text[end:]


def _removed(_chance: Random, text: bytes, start: int, end: int, _other: bytes) -> bytes:
    return text[:start] + text[end:]


def _repeated(chance: Random, text: bytes, start: int, end: int, _other: bytes) -> bytes:
    return text[:start] + text[start:end] * chance.choice((2, 3, 50)) + text[end:]


def _crossed(chance: Random, text: bytes, start: int, _end: int, other: bytes) -> bytes:
    return text[:start] + other[chance.randrange(len(other) + 1) :]


def _paired(chance: Random, text: bytes, _start: int, _end: int, other: bytes) -> bytes:
    """Change what is between ampersands: a parameter more or less, another value, another name."""
    pairs, theirs = text.split(b"&"), other.split(b"&")
    at = chance.randrange(len(pairs))
    name, _, value = pairs[at].partition(b"=")
    their_name, _, their_value = chance.choice(theirs).partition(b"=")
    hostile = chance.choice(HOSTILE)
    pairs[at : at + 1] = chance.choice(
        (
            [],
            [pairs[at]] * chance.choice((2, 250)),
            [pairs[at], chance.choice(theirs)],
            [name + b"=" + their_value],
            [their_name + b"=" + value],
            [name + b"=" + hostile],
            [name + b"=" + value + b"," + hostile],
            [name + b":" + hostile + b"=" + value],
        )
    )
    return b"&".join(pairs)


_CHANGES: Sequence[Callable[[Random, bytes, int, int, bytes], bytes]] = (
    *(_flipped, _inserted, _replaced, _removed, _repeated, _crossed, _paired, _paired, _paired),
)
