"""Where the server keeps the secrets that it makes itself: its instance folder, or the database.

On PostgreSQL several servers share them: sealed rows that only FHIRAPP_SECRET opens. What a server
has in its folder from before is taken into the table where that has nothing yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from flask import Flask, current_app
from sqlalchemy import Connection, Select, insert, inspect, select, update

from fhirapp.auth.models import ServerSecret
from fhirapp.config import ConfigurationError, settings_of
from fhirapp.db import db, writing
from fhirapp.keys import key_of, opened, replace_file, sealed, write_new

_EXTENSION = "fhirapp.server_secrets"


class SecretsFolder:
    """Files of the instance folder, each of which a process replaces as a whole."""

    def __init__(self, instance: Path) -> None:
        self._instance = instance

    def read(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return a secret, made where there is none. Raises ConfigurationError."""
        path = self._instance / name
        try:
            if not path.exists():
                write_new(path, make())
            return path.read_bytes()
        except OSError as error:
            raise _unusable(path, error) from None

    def change(self, name: str, make: Callable[[], bytes], to: Callable[[bytes], bytes]) -> None:
        """Replace a secret by what `to` returns for it. Raises ConfigurationError."""
        path = self._instance / name
        content = to(self.read(name, make))
        try:
            replace_file(path, content)
        except OSError as error:
            raise _unusable(path, error) from None

    def check(self) -> None:
        """Raise ConfigurationError where another key sealed it: here nothing is sealed."""

    def changed_at(self, name: str) -> float | None:
        """Return when a secret was made or replaced last, None where there is none."""
        path = self._instance / name
        return path.stat().st_mtime if path.exists() else None


def _unusable(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"The signing keys {path} cannot be read and written ({error.strerror}); run this as the "
        "server's own user."
    )


class Rows:
    """The same in rows of the database, each sealed with the server's key; none stays in memory."""

    def __init__(self, instance: Path) -> None:
        self._instance = instance

    def read(self, name: str, make: Callable[[], bytes]) -> bytes:
        with db.engine.connect() as connection:
            content = connection.execute(_content(name)).scalar()
        if content is not None:
            return _opened(content)
        file = self._instance / name
        # Before other writers have to wait.
        made = file.read_bytes() if file.is_file() else make()
        with writing() as connection:
            content = connection.execute(_content(name)).scalar()
            if content is not None:
                return _opened(content)
            row = {"name": name, "content": _sealed(made), "changed_at": int(time.time())}
            connection.execute(insert(ServerSecret), [row])
        return made

    def change(self, name: str, make: Callable[[], bytes], to: Callable[[bytes], bytes]) -> None:
        self.read(name, make)
        with writing() as connection:
            content = to(_opened(connection.execute(_content(name)).scalar_one()))
            connection.execute(
                update(ServerSecret)
                .where(ServerSecret.name == name)
                .values(content=_sealed(content), changed_at=int(time.time()))
            )

    def check(self) -> None:
        with db.engine.connect() as connection:
            check_key(connection, key_of(current_app))

    def changed_at(self, name: str) -> float | None:
        at = select(ServerSecret.changed_at).where(ServerSecret.name == name)
        with db.engine.connect() as connection:
            return connection.execute(at).scalar()


def check_key(connection: Connection, key: bytes) -> None:
    """Raise ConfigurationError where another key sealed what a database keeps.

    With it lines of the trail would be signed that no server knows, and backups be of use nowhere.
    """
    # An empty database has no tables.
    if inspect(connection).has_table(ServerSecret.__tablename__):
        for (content,) in connection.execute(select(ServerSecret.content)):
            _opened(content, key)


def _content(name: str) -> Select[bytes]:
    return select(ServerSecret.content).where(ServerSecret.name == name)


def _sealed(content: bytes) -> bytes:
    return sealed(content.decode())


def _opened(content: bytes, key: bytes | None = None) -> bytes:
    try:
        return opened(content, key).encode()
    except ValueError:
        raise ConfigurationError(
            "What the database keeps was sealed with another FHIRAPP_SECRET; set the one that the "
            "other servers have."
        ) from None


def init_app(app: Flask) -> None:
    """Give the app the place of its secrets."""
    settings = settings_of(app)
    kind = Rows if settings.is_postgresql else SecretsFolder
    app.extensions[_EXTENSION] = kind(settings.instance)


def server_secrets() -> SecretsFolder | Rows:
    """Return the running app's."""
    secrets: SecretsFolder | Rows = current_app.extensions[_EXTENSION]
    return secrets
