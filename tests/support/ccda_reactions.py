"""C-CDA reaction observations."""

from __future__ import annotations

from tests.support.ccda_allergies import (
    snomed,
    substance,
)

PENICILLIN = '<code code="7980" codeSystem="2.16.840.1.113883.6.88" displayName="Penicillin G"/>'


def uncoded(link: str = "", name: str = "", text: str = "") -> str:
    """Return a substance without a code: a link into the narrative, a name, an original text."""
    reference = f'<reference value="#{link}"/>' if link else ""
    original = f"<originalText>{text}{reference}</originalText>" if text or link else ""
    named = f"<name>{name}</name>" if name else ""
    return substance(f'<code nullFlavor="OTH">{original}</code>{named}')


RASH = snomed("271807003")
