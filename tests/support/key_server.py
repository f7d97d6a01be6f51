"""A server of a client's keys, on this machine, that answers whatever a test wants."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Event, Thread
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


def ok(content: Any, *headers: str) -> bytes:
    """Return the answer 200 with this content, bytes or something for JSON."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return reply("200 OK", body, "Content-Type: application/json", *headers)


def reply(status: str, body: bytes = b"", *headers: str) -> bytes:
    """Return an answer of HTTP."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


class KeyServer(ThreadingTCPServer):
    """Answers each request with `answer`, after `before` was called; keeps what was asked."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.context = context
        self.port: int = self.server_address[1]
        self.asked: list[str] = []
        self.answer = b""
        self.before: Callable[[], None] = lambda: None
        # Sent over and over after the answer, a piece every hundredth of a second.
        self.drip = b""
        # Set to let go of whoever waits here.
        self.over = Event()

    @property
    def url(self) -> str:
        scheme = "http" if self.context is None else "https"
        return f"{scheme}://localhost:{self.port}/jwks.json"

    def hold(self) -> Event:
        """Let whoever asks wait until it is over; return what is set as soon as somebody does."""
        asked = Event()

        def wait() -> None:
            asked.set()
            self.over.wait()

        self.before = wait
        return asked

    def handle_error(self, *_of: Any) -> None:
        """Say nothing: whoever fetches hangs up when it has seen enough."""


class _Handler(BaseRequestHandler):
    server: KeyServer

    def handle(self) -> None:
        server = self.server
        line = self.request
        if server.context is not None:
            line = server.context.wrap_socket(line, server_side=True)
        with line, suppress(OSError):
            asked = b""
            while b"\r\n\r\n" not in asked:
                if not (received := line.recv(4096)):
                    return
                asked += received
            server.asked.append(asked.decode())
            server.before()
            line.sendall(server.answer)
            while server.drip and not server.over.wait(0.01):
                line.sendall(server.drip)


@contextmanager
def running(context: ssl.SSLContext | None = None) -> Iterator[KeyServer]:
    """Run a server, with TLS where there is a context."""
    with KeyServer(context) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()


class Authority:
    """Issues certificates; `file` is what those who trust it read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Authority of the tests")])
        certificate = (
            self._builder(self._name, self._key, timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_SIGNS, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = folder / "authority.pem"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def context(self, *names: str, lives: timedelta = timedelta(days=1)) -> ssl.SSLContext:
        """Return what a server of these names shows; a negative life is over."""
        key = ec.generate_private_key(ec.SECP256R1())
        known = x509.SubjectAlternativeName([_general_name(name) for name in names])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            self._builder(x509.Name([]), key, lives)
            .add_extension(known, critical=True)
            .add_extension(issuer, critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        path = self._folder / f"{certificate.serial_number}.pem"
        path.write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def _builder(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, lives: timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=2))
            .not_valid_after(now + lives)
            .add_extension(own, critical=False)
        )


_SIGNS = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
