"""The search parameters that Patient, Practitioner and RelatedPerson share in FHIR R4."""

from __future__ import annotations

from fhirapp.search.date import Date
from fhirapp.search.parameter import Parameter
from fhirapp.search.string import Phonetic, String
from fhirapp.search.token import SPECIAL_VALUES, ContactToken, Token

_INDIVIDUAL = "http://hl7.org/fhir/SearchParameter/individual-"

# Of Patient and Practitioner alone.
NAMES: tuple[Parameter, ...] = (
    String("family", ("name.family",), "Family name", _INDIVIDUAL + "family"),
    String("given", ("name.given",), "Given name", _INDIVIDUAL + "given"),
)
# Of Patient and RelatedPerson alone.
BIRTHDATE = Date("birthdate", ("birthDate",), "Date of birth", _INDIVIDUAL + "birthdate")


def person(prefix: str, what: str, *more: Parameter) -> tuple[Parameter, ...]:
    """Return the parameters that all three have, with more after the name.

    prefix begins the canonical URLs of the type's own parameters; what is "the patient".
    """
    return (
        Token("identifier", ("identifier",), f"Identifier of {what}", prefix + "identifier",
              of_identifier=True),
        String("name", ("name",), "Any part of a name", prefix + "name"),
        *more,
        Phonetic("phonetic", ("name",), "Word of a name, by its sound", _INDIVIDUAL + "phonetic"),
        Token("gender", ("gender",), "male, female, other or unknown", _INDIVIDUAL + "gender",
              system="http://hl7.org/fhir/administrative-gender"),
        Token("active", ("active",), "Whether the record is in active use", prefix + "active",
              system=SPECIAL_VALUES),
        Token("telecom", ("telecom",), "Phone number, e-mail address …", _INDIVIDUAL + "telecom"),
        ContactToken("email", (), "E-mail address", _INDIVIDUAL + "email", system="email"),
        ContactToken("phone", (), "Phone number", _INDIVIDUAL + "phone", system="phone"),
        String("address", ("address",), "Any part of an address", _INDIVIDUAL + "address"),
        String("address-city", ("address.city",), "City", _INDIVIDUAL + "address-city"),
        String("address-state", ("address.state",), "State", _INDIVIDUAL + "address-state"),
        String("address-postalcode", ("address.postalCode",), "Postal code",
               _INDIVIDUAL + "address-postalcode"),
        String("address-country", ("address.country",), "Country", _INDIVIDUAL + "address-country"),
        Token("address-use", ("address.use",), "home, work, temp, old or billing",
              _INDIVIDUAL + "address-use", system="http://hl7.org/fhir/address-use"),
    )  # fmt: skip
