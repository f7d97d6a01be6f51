"""The other server of a download, asked with a token where one belongs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse

from fhirapp.exchange.remote.address import place
from fhirapp.exchange.remote.authorization import Authorization
from fhirapp.exchange.remote.faults import RemoteError
from fhirapp.exchange.remote.wire import Wire


class Server:
    """The other server, asked with a token where one belongs."""

    def __init__(self, wire: Wire, authorization: Authorization | None) -> None:
        self.wire, self.bounds = wire, wire.bounds
        self.authorization = authorization
        self.requires_token: bool | None = None

    @contextmanager
    def open(
        self, method: str, address: str, headers: dict[str, str], *, with_token: bool = True
    ) -> Iterator[HTTPResponse]:
        """Open an answer; a token that is not taken is renewed once.

        Raises Passing, RemoteError.
        """
        authorization = self.authorization if with_token else None
        authorize = authorization.header if authorization else _nothing
        for is_last in (False, True):
            with self.wire.open(method, address, headers, authorize=authorize) as answer:
                if authorization and answer.status == 401 and not is_last:
                    authorization.forget()
                    continue
                yield answer
                return

    @contextmanager
    def get(self, address: str, headers: dict[str, str]) -> Iterator[HTTPResponse]:
        """Open a file, with a token where the manifest wants one. Raises Passing, RemoteError."""
        # False: the address is the proof, and a token beside it is too much (Bulk Data §2.5.6).
        wanted = self.requires_token is not False
        authorization = self.authorization
        if self.requires_token and authorization and not authorization.goes_to(address):
            raise RemoteError(
                f"{place(address)} wants a token, which only goes to the server of the export; "
                "if it may, name the origin of that address too."
            )
        with self.open("GET", address, headers, with_token=wanted) as answer:
            yield answer

    def fault(self, what: str, address: str, answer: HTTPResponse) -> Exception:
        """Return what to raise for an answer that is none of those that were hoped for."""
        if answer.status == 401 and self.authorization is None:
            what += "; the server wants a client that it knows (--client-id and --key)"
        return self.wire.fault(what, address, answer)


def _nothing(_address: str) -> None:
    return None
