"""The server's own keys: files made at the first start, which only this server's user may read.

Servers on one PostgreSQL derive the same from FHIRAPP_SECRET (auth/server_secrets.py has the rest).
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import tempfile
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken
from flask import Flask, current_app

from fhirapp.config import SECRET_KEY, ConfigurationError, settings_of

_KEY_BYTES = 32
_EXTENSION = "fhirapp.key"


def init_app(app: Flask) -> None:
    """Give the app its key. Raises ConfigurationError.

    Not as Flask's SECRET_KEY: with one Flask would look for a session cookie in every request.
    """
    settings = settings_of(app)
    secret = settings.secret
    app.extensions[_EXTENSION] = derived_key(secret) if secret else secret_key(settings.instance)


def key_of(app: Flask) -> bytes:
    """Return the key that signs what the app gives out and takes back."""
    key: bytes = app.extensions[_EXTENSION]
    return key


def derived_key(secret: str) -> bytes:
    """Return the key that FHIRAPP_SECRET stands for: what it is the base64 of, or its digest."""
    # White space comes of files that the setting is read from.
    text = secret.strip()
    try:
        key = base64.b64decode(text, validate=True)
    except ValueError:
        key = b""
    if len(key) == _KEY_BYTES:
        return key
    return hashlib.blake2b(text.encode(), person=b"secret", digest_size=_KEY_BYTES).digest()


def secret_key(instance: Path) -> bytes:
    """Return the key in the instance folder, making it where there is none.

    Raises ConfigurationError.
    """
    path = instance / SECRET_KEY
    try:
        instance.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_new(path, secrets.token_bytes(_KEY_BYTES))
        key = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"The key {path} can neither be read nor made ({error.strerror}); give this user "
            "the right to write in that folder, or name another in FHIRAPP_INSTANCE_PATH."
        ) from None
    if len(key) != _KEY_BYTES:
        raise ConfigurationError(f"The key {path} is damaged; delete it, and a new one is made.")
    return key


def sealed(secret: str) -> bytes:
    """Return a secret as it is stored: only this server's key opens it again."""
    return _seal().encrypt(secret.encode())


def opened(stored: bytes, key: bytes | None = None) -> str:
    """Return a secret that was sealed with a key, else the app's.

    Raises ValueError where another key sealed it.
    """
    try:
        return _seal(key).decrypt(stored).decode()
    except InvalidToken:
        raise ValueError("sealed with another key") from None


def keyed_digest(purpose: str, text: str) -> str:
    """Return what only this server can work out from a text, 64 hexadecimal digits."""
    person = purpose.encode()
    return hashlib.blake2b(
        text.encode(), key=key_of(current_app), person=person, digest_size=32
    ).hexdigest()


def _seal(key: bytes | None = None) -> Fernet:
    own = key or key_of(current_app)
    derived = hashlib.blake2b(key=own, person=b"sealed", digest_size=32).digest()
    return Fernet(base64.urlsafe_b64encode(derived))


def write_new(path: Path, content: bytes) -> None:
    """Write a private file; if another process was faster, keep its file."""
    draft = _draft(path, content)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def replace_file(path: Path, content: bytes) -> None:
    """Replace a private file."""
    _draft(path, content).replace(path)


def _draft(path: Path, content: bytes) -> Path:
    # mkstemp: only this user may read it, and no other draft has its name.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    return Path(name)
