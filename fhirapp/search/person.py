"""The search parameters that Patient, Practitioner and RelatedPerson share in FHIR R4."""

from __future__ import annotations

from fhirapp.search.date import Date
from fhirapp.search.parameter import Parameter
from fhirapp.search.string import Phonetic, String
from fhirapp.search.token import HL7, SPECIAL_VALUES, ContactToken, Identifier, Token

# R4 defines these once for the three types, for Parameters(shared=…).
INDIVIDUAL = dict.fromkeys(
    (
        *("family", "given", "birthdate", "phonetic", "gender", "telecom", "email", "phone"),
        *("address", "address-city", "address-state", "address-postalcode", "address-country"),
        "address-use",
    ),
    "individual",
)

# Of Patient and Practitioner alone.
NAMES: tuple[Parameter, ...] = (
    String("family", "name.family", "Family name"),
    String("given", "name.given", "Given name"),
)
# Of Patient and RelatedPerson alone.
BIRTHDATE = Date("birthdate", "birthDate", "Date of birth")

ADDRESS: tuple[Parameter, ...] = (
    String("address", "address", "Any part of an address"),
    String("address-city", "address.city", "City"),
    String("address-state", "address.state", "State"),
    String("address-postalcode", "address.postalCode", "Postal code"),
    String("address-country", "address.country", "Country"),
    Token("address-use", "address.use", "home, work, temp, old or billing",
          system=HL7 + "address-use"),
)  # fmt: skip


def person(noun: str, *more: Parameter) -> tuple[Parameter, ...]:
    """Return the parameters that all three have, with more after the name; noun: "the patient"."""
    return (
        Identifier("identifier", "identifier", f"Identifier of {noun}"),
        String("name", "name", "Any part of a name"),
        *more,
        Phonetic("phonetic", "name", "Word of a name, by its sound"),
        Token("gender", "gender", "male, female, other or unknown",
              system=HL7 + "administrative-gender"),
        Token("active", "active", "Whether the record is in active use", system=SPECIAL_VALUES),
        Token("telecom", "telecom", "Phone number, e-mail address …"),
        ContactToken("email", "", "E-mail address", system="email"),
        ContactToken("phone", "", "Phone number", system="phone"),
        *ADDRESS,
    )  # fmt: skip
