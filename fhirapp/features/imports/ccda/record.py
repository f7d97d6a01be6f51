"""The resources of one document while it is read, each once, and their ids.

The same person or statement has the same id in every version of a document.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from fhirapp.features.imports.ccda.narrative import Texts
from fhirapp.fhir.identity import ranked

# HL7's own root of what CDA R2 defines.
_NAMESPACE = uuid5(NAMESPACE_OID, "2.16.840.1.113883.1.3")


def identity(type_name: str, *parts: str) -> str:
    """Return the id of what these parts identify. No part can be taken for the end of another."""
    written = "".join(f"{len(part)}:{part}" for part in (type_name, *parts))
    return str(uuid5(_NAMESPACE, written))


@dataclass
class CcdaRecord:
    """The resources of a document; key is what identifies it, also in its next version.

    made is when the document was made, as dateTime; "" where that is not known. patient is
    Patient/id, patient_keys what the patient's own identifiers are, remarks what an import reports
    of the document.
    """

    key: str
    texts: Texts
    made: str = ""
    patient: str = ""
    patient_keys: set[tuple[str, str]] = field(default_factory=set)
    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def remark(self, text: str) -> None:
        """Have an import report something, once."""
        if text not in self.remarks:
            self.remarks.append(text)

    def add(self, resource: dict[str, Any]) -> str:
        """Keep a resource and return its Type/id; of one that is there, what was not yet known."""
        name = f"{resource['resourceType']}/{resource['id']}"
        known = self.resources.setdefault(name, resource)
        for element, value in resource.items():
            known.setdefault(element, value)
        for identifier in resource.get("identifier", ()):
            if identifier not in known["identifier"]:
                known["identifier"].append(identifier)
        return name

    def identity(self, type_name: str, identified: list[dict[str, Any]], *otherwise: str) -> str:
        """Return the id of what has these identifiers; of what has none, by the document."""
        keys = ranked(identified)
        return identity(type_name, *keys[0]) if keys else identity(type_name, self.key, *otherwise)

    def own_identity(self, type_name: str, *parts: str) -> str:
        """Return the id of what is the patient's: another's cannot have it, whatever was sent."""
        return identity(type_name, self.patient, *parts)
