"""The manual's examples of reverse proxies, each in front of a server, as a browser asks them.

The text is the manual's, with ports and folders of the test. Names are the manual's too: clients
connect to a port of this machine, and ask for the name there. They come from another address than
the proxy.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests import ROOT
from tests.support.balancer import through
from tests.support.cluster import free_port

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PAGE = ROOT / "fhirapp" / "features" / "manual" / "docs" / "deploy.md"
OWN, BELOW = "https://fhir.clinic.example", "https://clinic.example/records"
# Where clients ask from; the proxy asks from 127.0.0.1.
CLIENT = "127.0.0.2"
_UPSTREAM = "127.0.0.1:8000"
_LONGEST_SECONDS = 60


def examples(title: str, language: str) -> list[str]:
    """Return the blocks of a language below a heading of the manual's page."""
    text = PAGE.read_text(encoding="utf-8")
    section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section, title
    return re.findall(rf"^```{language}\n(.*?)^```$", section[1], re.MULTILINE | re.DOTALL)


def program(name: str) -> str:
    """Return the path of a program; fail without it."""
    # Debian has some where only root's path leads.
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.fail(f"needs {name}, as Debian's package brings it")
    return found


class Front(NamedTuple):
    """A proxy that runs: its ports for HTTPS and HTTP, whom clients trust, and what it logs."""

    port: int
    plain_port: int
    context: ssl.SSLContext
    log: Path

    def asked(self, base: str) -> WSGIApplication:
        """Return an application that asks it as clients of an address do, whatever they name."""
        parts = urlsplit(base)

        class Connection(HTTPSConnection):
            def connect(self) -> None:
                plain = socket.socket()
                # As of somebody far away, whom a proxy waits for.
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                plain.settimeout(_LONGEST_SECONDS)
                plain.bind((CLIENT, 0))
                plain.connect(("127.0.0.1", self.port))
                self.sock = context.wrap_socket(plain, server_hostname=parts.hostname)

        context = self.context
        forward = through(self.port, lambda port: Connection("127.0.0.1", port))

        def ask(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            environ["HTTP_HOST"] = parts.netloc
            if not environ["PATH_INFO"].startswith(parts.path):
                environ["PATH_INFO"] = parts.path + environ["PATH_INFO"]
            return forward(environ, start_response)

        return ask


def _with_ports(text: str, server: int) -> str:
    assert _UPSTREAM in text
    return text.replace(_UPSTREAM, f"127.0.0.1:{server}")


@contextmanager
def caddy(folder: Path, own: int, below: int) -> Iterator[Front]:
    """Run Caddy in front of two servers, on these ports."""
    port, plain_port = free_port(), free_port()
    (first,), (second,) = examples("Caddy", "caddy"), examples("Below a path", "caddy")
    config = folder / "Caddyfile"
    # Its own authority for certificates, as none can be had for these names.
    config.write_text(
        f"{{\n admin off\n http_port {plain_port}\n https_port {port}\n default_bind 127.0.0.1\n"
        f" local_certs\n skip_install_trust\n storage file_system {folder}\n}}\n"
        + _with_ports(first, own)
        + _with_ports(second, below)
    )
    command = [program("caddy"), "run", "--config", config, "--adapter", "caddyfile"]
    root = folder / "pki" / "authorities" / "local" / "root.crt"
    with _running(command, folder / "caddy.log", port, {"HOME": str(folder)}):
        yield Front(port, plain_port, ssl.create_default_context(cafile=root), folder / "caddy.log")


@contextmanager
def nginx(folder: Path, own: int, below: int) -> Iterator[Front]:
    """Run nginx in front of two servers, on these ports."""
    port, plain_port = free_port(), free_port()
    (site,) = examples("nginx", "nginx")
    (locations,) = examples("Below a path", "nginx")
    certificate, key = _certificate(folder)
    # The other site's server has the same beginning.
    head = site[site.rindex("server {") : site.index("    location / {")]
    other = head.replace("fhir.clinic.example", "clinic.example") + locations + "}\n"
    text = _with_ports(site, own) + _with_ports(other, below)
    for old, new in (
        ("listen 80;", f"listen 127.0.0.1:{plain_port};"),
        ("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        *(
            (f"/etc/ssl/{kind}/{name}.{ending};", f"{path};")
            for kind, ending, path in (("certs", "pem", certificate), ("private", "key", key))
            for name in ("fhir.clinic.example", "clinic.example")
        ),
    ):
        assert old in text
        text = text.replace(old, new)
    temporary = "".join(
        f" {name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"{'user root;' if os.geteuid() == 0 else ''}\nworker_processes 1;\ndaemon off;\n"
        f"pid {folder}/nginx.pid;\nerror_log {folder}/nginx.log warn;\nevents {{ }}\n"
        f"http {{\n access_log off;\n{temporary}{text}}}\n"
    )
    log = folder / "nginx.log"
    with _running([program("nginx"), "-p", folder, "-c", config, "-e", log], log, port, {}):
        context = ssl.create_default_context(cafile=certificate)
        yield Front(port, plain_port, context, log)


@contextmanager
def _running(
    command: list[str | Path], log: Path, port: int, environ: dict[str, str]
) -> Iterator[None]:
    """Run a program until the end; it listens on a port."""
    with log.open("a") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env={**os.environ, **environ})
    try:
        deadline = time.monotonic() + _LONGEST_SECONDS
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait(_LONGEST_SECONDS)


def _certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate of both names, which signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "the tests")])
    names = [x509.DNSName(urlsplit(base).hostname or "") for base in (OWN, BELOW)]
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths
