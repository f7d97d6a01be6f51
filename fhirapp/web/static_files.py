"""The files that pages load: scripts, styles and Swagger UI, each compressed once.

A page names a file with a digest of its content, so that a browser asks for it once and keeps it.
Asked for without it, or with that of another version, a file is kept only until it is asked for
again, by its entity tag. Source: RFC 9110 §8.8.3, §12.5.3; RFC 9111 §5.2.2; RFC 8246.
"""

from __future__ import annotations

import gzip
import os
from functools import lru_cache
from hashlib import blake2b
from mimetypes import guess_type
from pathlib import Path

from flask import Blueprint, Flask, Response, abort, request
from werkzeug.security import safe_join

from fhirapp.config import LOGO_TYPES, settings
from fhirapp.rest.response import accepts_gzip

# Of the package: these are no pages, nor addresses of the API.
blueprint = Blueprint("static_files", "fhirapp.web")
_FOLDER = Path(__file__).parent / "static"
_UNCHANGING = "public, max-age=31536000, immutable"
_POLICY_OF_LOGO = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
# Files that are remembered, each compressed; there are fewer.
_MOST = 64


def init_app(app: Flask) -> None:
    """Serve the files, and give the templates their addresses."""
    app.register_blueprint(blueprint)
    app.add_template_global(static_address, "static")
    app.add_template_global(logo_address)


def static_address(name: str) -> str:
    """Return the address of a file for pages. Raises OSError where there is none."""
    return f"/static/{name}?v={_digest(*_version(_FOLDER / name))}"


def logo_address() -> str:
    """Return the address of the clinic's logo, empty where there is none."""
    path = Path(settings().clinic_logo)
    return f"/clinic-logo?v={_digest(*_version(path))}" if path.is_file() else ""


@blueprint.get("/clinic-logo")
def logo() -> Response:
    """Send the clinic's logo; 404 where there is none."""
    path = Path(settings().clinic_logo)
    if not path.is_file():
        abort(404)
    response = Response(path.read_bytes(), mimetype=LOGO_TYPES[path.suffix.lower()])
    is_current = request.args.get("v") == _digest(*_version(path))
    response.headers["Cache-Control"] = _UNCHANGING if is_current else "no-cache"
    # An SVG may have scripts, which run where it is opened by itself.
    response.headers["Content-Security-Policy"] = _POLICY_OF_LOGO
    return response


@blueprint.get("/static/<path:name>")
def static_file(name: str) -> Response:
    """Send a file, in gzip to who accepts it; 404 where there is none."""
    joined = safe_join(str(_FOLDER), name)
    # Path.is_file raises where a name is too long for the file system.
    if joined is None or not os.path.isfile(joined):  # noqa: PTH113
        abort(404)
    version = _version(Path(joined))
    digest = _digest(*version)
    is_compressed = accepts_gzip()
    content = _compressed(*version) if is_compressed else Path(joined).read_bytes()
    response = Response(content, mimetype=guess_type(name)[0] or "application/octet-stream")
    if is_compressed:
        response.content_encoding = "gzip"
    response.vary.add("Accept-Encoding")
    is_current = request.args.get("v") == digest
    response.headers["Cache-Control"] = _UNCHANGING if is_current else "no-cache"
    response.set_etag(f"{digest}-gzip" if is_compressed else digest)
    response.make_conditional(request, accept_ranges=True, complete_length=len(content))
    return response


def _version(path: Path) -> tuple[Path, int, int]:
    """Return what changes with a file's content, which is read anew when this does."""
    status = path.stat()
    return path, status.st_mtime_ns, status.st_size


@lru_cache(_MOST)
def _digest(path: Path, _changed: int, _size: int) -> str:
    return blake2b(path.read_bytes(), digest_size=8).hexdigest()


@lru_cache(_MOST)
def _compressed(path: Path, _changed: int, _size: int) -> bytes:
    return gzip.compress(path.read_bytes(), compresslevel=9, mtime=0)
