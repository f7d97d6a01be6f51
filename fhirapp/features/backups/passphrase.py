"""A backup's key under a passphrase, in the format of age, with less memory than its library takes.

The library derives by scrypt with 256 MB and more, of a clinic's small machine too much. Here it is
64 MB, which age says in the file and every reader of the format follows.

Source: age-encryption.org/v1 (the scrypt recipient, the header's MAC, STREAM), RFC 7468 for armor.
"""

from __future__ import annotations

import base64
import hmac
import os
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from fhirapp.config import ConfigurationError

# The environment that may have a passphrase.
VARIABLE = "FHIRAPP_BACKUP_PASSPHRASE"
_INTRO = b"age-encryption.org/v1\n"
_LABEL = b"age-encryption.org/v1/scrypt"
# 2 to the power of this, times 1 kB, is what each guess takes too.
LOG_N = 16
_BLOCK = 8
# Of one piece of the stream, which is all that a key takes.
_MOST = 64 * 1024
_COLUMNS = 64


def read_passphrase(file: Path) -> str:
    """Return the first line of a file. Raises ConfigurationError."""
    try:
        first = file.read_text("utf-8").partition("\n")[0].removesuffix("\r")
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError(f"The passphrase file {file} cannot be read.") from None
    if not first:
        raise ConfigurationError(
            f"The first line of {file} is empty, where the passphrase should be."
        )
    return first


def sealed(text: bytes, passphrase: str) -> bytes:
    """Return a short text that a passphrase opens, as an armored age file."""
    assert len(text) <= _MOST
    file_key, salt, nonce = os.urandom(16), os.urandom(16), os.urandom(16)
    derived = Scrypt(salt=_LABEL + salt, length=32, n=1 << LOG_N, r=_BLOCK, p=1)
    wrapped = ChaCha20Poly1305(derived.derive(passphrase.encode())).encrypt(
        bytes(12), file_key, None
    )
    head = b"%s-> scrypt %s %d\n%s\n---" % (_INTRO, _plain(salt), LOG_N, _plain(wrapped))
    mac = hmac.digest(_expanded(file_key, b"", b"header"), head, "sha256")
    # The first and last piece: eleven bytes that count, and one that says it is the last.
    body = ChaCha20Poly1305(_expanded(file_key, nonce, b"payload")).encrypt(
        bytes(11) + b"\1", text, None
    )
    return _armored(head + b" " + _plain(mac) + b"\n" + nonce + body)


def _expanded(file_key: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=salt or None, info=info).derive(file_key)


def _plain(value: bytes) -> bytes:
    """Return base64 as age's header has it: without padding."""
    return base64.b64encode(value).rstrip(b"=")


def _armored(content: bytes) -> bytes:
    text = base64.b64encode(content)
    lines = [text[at : at + _COLUMNS] for at in range(0, len(text), _COLUMNS)]
    label = b"AGE ENCRYPTED FILE"
    return b"\n".join([b"-----BEGIN %s-----" % label, *lines, b"-----END %s-----" % label, b""])
