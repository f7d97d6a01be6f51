"""How secrets are stored."""

from __future__ import annotations

import hashlib


def digest(secret: str) -> bytes:
    """Return the SHA-256 under which a token or secret is stored."""
    return hashlib.sha256(secret.encode()).digest()
