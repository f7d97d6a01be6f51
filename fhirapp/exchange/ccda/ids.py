"""The ids that a document's people and statements get: the same for the same, whatever comes first.

They are name-based UUIDs (RFC 9562 §5.5) of the type and of what identifies it: an II's root and
extension; what has none is known by its document and its place within.
"""

from __future__ import annotations

from uuid import NAMESPACE_OID, uuid5

# HL7's own root of what CDA R2 defines.
_NAMESPACE = uuid5(NAMESPACE_OID, "2.16.840.1.113883.1.3")


def identity(type_name: str, *parts: str) -> str:
    """Return the id of what these parts identify. No part can be taken for the end of another."""
    written = "".join(f"{len(part)}:{part}" for part in (type_name, *parts))
    return str(uuid5(_NAMESPACE, written))
