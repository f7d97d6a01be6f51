"""A file encrypted with a passphrase, in the age format (https://age-encryption.org/v1).

First a key in armored age, which the passphrase opens; then, after its last line, the content in
age, which that key opens: so the content is streamed, whatever its size. The program `age` opens
both, one after the other.
"""

from __future__ import annotations

from typing import Any, BinaryIO

# It has no types of its own.
import pyrage  # type: ignore[import-untyped]

from fhirapp.config import ConfigurationError
from fhirapp.ops.backups.archive import InvalidBackup

BEGIN = b"-----BEGIN AGE ENCRYPTED FILE-----\n"
_END = b"-----END AGE ENCRYPTED FILE-----\n"
# The key takes about 400 bytes.
_HEAD_BYTES = 4096


class WrongPassphrase(ConfigurationError):
    """The passphrase does not open the file."""


class _Writer:
    """A file that keeps the first error of its own: of the last piece the library tells none."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: Exception | None = None

    def write(self, piece: bytes) -> int:
        try:
            return self._file.write(piece)
        except Exception as error:
            self.error = self.error or error
            raise

    def flush(self) -> None:
        """Do nothing: the file is flushed at its end."""


def seal(plain: BinaryIO, out: BinaryIO, passphrase: str) -> None:
    """Encrypt what a file holds into another. Raises OSError."""
    identity = pyrage.x25519.Identity.generate()
    out.write(pyrage.passphrase.encrypt(str(identity).encode(), passphrase, armored=True))
    writer = _Writer(out)
    _run(pyrage.encrypt_io, writer, plain, [identity.to_public()])


def unseal(sealed: BinaryIO, name: str, out: BinaryIO, passphrase: str) -> None:
    """Decrypt a file into another. Raises InvalidBackup, WrongPassphrase, OSError.

    name is the sealed file's, for what is said of it. Where an error comes, what was written until
    then is not to be believed.
    """
    head = sealed.read(_HEAD_BYTES)
    end = head.find(_END) + len(_END)
    if end < len(_END):
        raise InvalidBackup(f"{name} is no backup, or its beginning is damaged.")
    try:
        key = pyrage.passphrase.decrypt(head[:end], passphrase)
    except pyrage.DecryptError:
        raise WrongPassphrase(
            f"The passphrase does not open {name}: it is another one, or the file's beginning is "
            "damaged."
        ) from None
    sealed.seek(end)
    writer = _Writer(out)
    try:
        identity = pyrage.x25519.Identity.from_str(key.decode())
        _run(pyrage.decrypt_io, writer, sealed, [identity])
    except (pyrage.DecryptError, pyrage.IdentityError, ValueError) as error:
        raise InvalidBackup(f"{name} is damaged ({error}).") from None
    except OSError as error:
        if writer.error is None and error.errno is None:
            raise InvalidBackup(f"{name} is damaged: {error}, or its end is missing.") from None
        raise


def _run(work: Any, writer: _Writer, source: BinaryIO, keys: list[Any]) -> None:
    """Have the library stream; an error of the writer's is raised as it came."""
    try:
        work(source, writer, keys)
    except Exception:
        if writer.error is not None:
            raise writer.error from None
        raise
    if writer.error is not None:
        raise writer.error
