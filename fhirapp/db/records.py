"""Where records are read: from a replica where there is one that can be used, else the primary.

`records()` is a request's snapshot of records; `reader()` is that of the primary, for tokens,
people, jobs and audit. Without replicas they are one. What a replica cannot answer is answered
again from the primary by running the view a second time (rest/errors.py), so only views that write
nothing call `records()`: those under /fhir.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple, TypeVar

from flask import Flask, g
from sqlalchemy import Engine, make_url
from sqlalchemy.exc import ArgumentError

from fhirapp.config import ConfigurationError, settings_of
from fhirapp.current import this_app
from fhirapp.db.base import db
from fhirapp.db.reader import RECORDS, Reader, forget_reader, reader
from fhirapp.db.replicas import LOOK_TAKES, AskPrimary, Replicas, Standing

_EXTENSION = "fhirapp.replicas"
_ONLY_PRIMARY = "only_primary"
Found = TypeVar("Found")


def init_app(app: Flask) -> None:
    """Give the app its replicas, if the settings name any. Raises ConfigurationError."""
    settings = settings_of(app)
    urls = []
    for number, address in enumerate(settings.replicas, 1):
        try:
            url = make_url(address)
        except (ArgumentError, ValueError):
            url = None
        if url is None or url.get_backend_name() != "postgresql" or not url.database:
            # Without the address, which may have a password.
            raise ConfigurationError(
                f"Address {number} of FHIRAPP_REPLICA_URLS is not that of a PostgreSQL database; "
                "use postgresql://user:password@host/name, with commas between several."
            )
        urls.append(url)
    app.extensions[_EXTENSION] = Replicas(urls, settings) if urls else None


def _replicas() -> Replicas | None:
    found: Replicas | None = this_app().extensions[_EXTENSION]
    return found


def records() -> Reader:
    """Return this request's snapshot of records, taken at the first call."""
    replicas = _replicas()
    if replicas is None or g.get(_ONLY_PRIMARY):
        return reader()
    found: Reader | None = g.get(RECORDS)
    if found is None:
        replicas.watch(db.engine)
        found = replicas.open()
        if found is None:
            setattr(g, _ONLY_PRIMARY, True)
            return reader()
        setattr(g, RECORDS, found)
    return found


def are_from_replica() -> bool:
    """Say whether this request has read records from a replica."""
    return RECORDS in g


def use_primary() -> None:
    """Read this request's records anew, and from the primary."""
    forget_reader()
    setattr(g, _ONLY_PRIMARY, True)


def seen() -> int | None:
    """Return what a later page must have seen too, the data's generation; None without replicas."""
    return None if _replicas() is None else records().generation()


def need(generation: int | None) -> None:
    """Make sure that this request's records are of a generation, or a later one.

    None stands for one that is not known. Raises AskPrimary.
    """
    if _replicas() is None:
        return
    snapshot = records()
    if are_from_replica() and (generation is None or snapshot.generation() < generation):
        raise AskPrimary("the replica has not seen yet what the page before has")


class Source(NamedTuple):
    """Where records are read piece by piece outside of a request, a snapshot for each piece."""

    primary: Engine
    replicas: Replicas | None

    @classmethod
    def current(cls) -> Source:
        """Return the running app's."""
        return cls(db.engine, _replicas())

    def read(self, task: Callable[[Reader], Found], generation: int = 0) -> Found:
        """Return what a task reads where this generation is, or a later one."""
        replica = self.replicas.open() if self.replicas else None
        if replica is not None:
            try:
                with closing(replica):
                    if not generation or replica.generation() >= generation:
                        return task(replica)
            except (AskPrimary, LookupError):
                # It is gone, or has not yet what another had.
                pass
        with closing(Reader(self.primary)) as snapshot:
            return task(snapshot)


@contextmanager
def watched_replicas(app: Flask) -> Iterator[None]:
    """Look at the app's replicas meanwhile, if it has any."""
    with app.app_context():
        if replicas := _replicas():
            replicas.watch(db.engine)
    try:
        yield
    finally:
        if replicas:
            replicas.end()


def replica_standings(seconds: float = LOOK_TAKES) -> list[Standing]:
    """Return how each replica is, after waiting up to seconds for a first look."""
    replicas = _replicas()
    if replicas is None:
        return []
    replicas.watch(db.engine)
    return replicas.standings(seconds)
