"""FHIR R4's datatypes, declared: element by element, with cardinality and required bindings.

Each name is a check (elements.py). Read `Period = Complex({"start": date_time, …})` as the table in
the specification. Source: FHIR R4 datatypes §2.24, references §2.3, narrative §2.4.
"""

from __future__ import annotations

import base64
from decimal import Decimal
from functools import partial
from typing import Any

from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.elements import (
    Binding,
    Bound,
    Check,
    Complex,
    InvalidElement,
    boolean,
    choice,
    decimal,
    many,
    parsed_by,
    text_of,
    whole_number,
)
from fhirapp.fhir.narrative import sanitise
from fhirapp.fhir.temporal import check_date, normalise_date_time

ID_PATTERN = r"[A-Za-z0-9\-.]{1,64}"
ID_RULE = "an id has 1 to 64 characters: letters, digits, - and . only"


def _check_base64(value: str) -> str:
    if not value.strip():
        raise ValueError("is not valid base64Binary: leave out what is empty")
    try:
        try:
            base64.b64decode(value, validate=True)
        except ValueError:
            # FHIR allows white space in it.
            base64.b64decode("".join(value.split()), validate=True)
    except ValueError:
        raise ValueError("is not valid base64Binary") from None
    return value


def bytes_of(value: Any) -> bytes:
    """Check a base64Binary and return its bytes."""
    return base64.b64decode(base64_binary(value))


def _check_instant(value: str) -> str:
    if len(value) <= 10:
        raise ValueError("is not an instant; use YYYY-MM-DDThh:mm:ss with a zone")
    return normalise_date_time(value)


# FHIR R4 datatypes §2.24.0.1. Not blank, no control characters but tab and line ends, and no half
# of a surrogate pair, which is no character and has no place in UTF-8.
string = text_of(r"(?s:(?=.*\S)[^\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]+)", "string")
markdown = string
_WORD = r"[^\s\x00-\x1f\x7f\ud800-\udfff]+"
code = text_of(f"{_WORD}(?: {_WORD})*", "code")
# In ASCII: it becomes a Content-Type header.
media_type = text_of(r"[!-~]+(?: [!-~]+)*", "media type")
uri = text_of(_WORD, "uri")
oid = text_of(r"urn:oid:[0-2](\.(0|[1-9][0-9]*))+", "oid")
uuid = text_of(r"urn:uuid:[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", "uuid")
identity = text_of(ID_PATTERN, "id", rule=ID_RULE)
date = parsed_by(check_date, "date")
date_time = parsed_by(normalise_date_time, "dateTime")
instant = parsed_by(_check_instant, "instant")
time = text_of(r"([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?", "time")
base64_binary = parsed_by(_check_base64, "base64Binary")
unsigned = whole_number(0)
positive = whole_number(1)
integer = whole_number(-2_147_483_648)


# The primitives, each with the type of its values as they are stored.
PRIMITIVES: dict[Check, type] = {
    **dict.fromkeys((string, markdown, code, media_type, uri, oid, uuid, identity), str),
    **dict.fromkeys((date, date_time, instant, time, base64_binary), str),
    **dict.fromkeys((unsigned, positive, integer), int),
    bytes_of: bytes,
    boolean: bool,
    decimal: Decimal,
}


def one_of(*codes: str) -> Check:
    """Return the check of a code with a required binding to these codes."""
    check = Bound(Binding(codes))
    PRIMITIVES[check] = str
    return check


def _any_extension(value: Any) -> Any:
    return EXTENSIONS(value)


_BASE: dict[str, Check] = {"id": string, "extension": _any_extension}


def datatype(
    base: dict[str, Check] = _BASE,
    /,
    required: tuple[str, ...] = (),
    choices: tuple[str, ...] = (),
    summary: tuple[str, ...] | None = None,
    **elements: Check,
) -> Complex:
    """Return a complex datatype: these elements beside id and extension."""
    # Without the underscore of names that Python reserves: `class_` is FHIR's `class`.
    named = {name.rstrip("_"): check for name, check in elements.items()}
    return Complex(
        base | named,
        required=required,
        choices=choices,
        summary=summary,
        primitives=PRIMITIVES,
        sibling=primitive_extension,
    )


# A BackboneElement: a datatype that may also carry modifierExtension.
backbone = partial(datatype, {**_BASE, "modifierExtension": _any_extension})


def primitive_extension(value: Any) -> Any:
    """Check the `_name` beside a primitive: an object with its id, its extensions or both."""
    return _PRIMITIVE(value)


_PRIMITIVE = datatype()
Period = datatype(start=date_time, end=date_time)
Coding = datatype(system=uri, version=string, code=code, display=string, userSelected=boolean)
CodeableConcept = datatype(coding=many(Coding), text=string)
_comparator = one_of("<", "<=", ">=", ">")
Quantity = datatype(value=decimal, comparator=_comparator, unit=string, system=uri, code=code)
SimpleQuantity = datatype(value=decimal, unit=string, system=uri, code=code)
Range = datatype(low=SimpleQuantity, high=SimpleQuantity)
Ratio = datatype(numerator=Quantity, denominator=Quantity)
Money = datatype(value=decimal, currency=code)


def _reference(value: Any) -> Any:
    return Reference(value)


Identifier = datatype(
    use=one_of("usual", "official", "temp", "secondary", "old"),
    type=CodeableConcept,
    system=uri,
    value=string,
    period=Period,
    assigner=_reference,
)
Reference = datatype(reference=string, type=uri, identifier=Identifier, display=string)
Attachment = datatype(
    summary=("contentType", "language", "url", "size", "hash", "title", "creation"),
    contentType=media_type,
    language=code,
    data=base64_binary,
    url=uri,
    size=unsigned,
    hash=base64_binary,
    title=string,
    creation=date_time,
)
Annotation = datatype(
    required=("text",),
    choices=("author",),
    **choice("author", Reference=Reference, String=string),
    time=date_time,
    text=markdown,
)
HumanName = datatype(
    use=one_of("usual", "official", "temp", "nickname", "anonymous", "old", "maiden"),
    text=string,
    family=string,
    given=many(string),
    prefix=many(string),
    suffix=many(string),
    period=Period,
)
Address = datatype(
    use=one_of("home", "work", "temp", "old", "billing"),
    type=one_of("postal", "physical", "both"),
    text=string,
    line=many(string),
    city=string,
    district=string,
    state=string,
    postalCode=string,
    country=string,
    period=Period,
)
ContactPoint = datatype(
    system=one_of("phone", "fax", "email", "pager", "url", "sms", "other"),
    value=string,
    use=one_of("home", "work", "temp", "old", "mobile"),
    rank=positive,
    period=Period,
)
ContactDetail = datatype(name=string, telecom=many(ContactPoint))
UsageContext = datatype(
    required=("code",),
    choices=("value",),
    code=Coding,
    **choice(
        "value",
        CodeableConcept=CodeableConcept,
        Quantity=Quantity,
        Range=Range,
        Reference=Reference,
    ),
)
Signature = datatype(
    required=("type", "when", "who"),
    type=many(Coding),
    when=instant,
    who=Reference,
    onBehalfOf=Reference,
    targetFormat=code,
    sigFormat=code,
    data=base64_binary,
)
Meta = datatype(
    versionId=identity,
    lastUpdated=instant,
    source=uri,
    profile=many(uri),
    security=many(Coding),
    tag=many(Coding),
)


Narrative = datatype(
    required=("status", "div"),
    status=one_of("generated", "extensions", "additional", "empty"),
    div=parsed_by(sanitise, "xhtml"),
)


def _object(value: Any) -> Any:
    """Check a datatype that occurs only in extensions, which is kept as it is."""
    if type(value) is not dict or not value:
        raise InvalidElement("must be an object with at least one element")
    return _writable(value)


def _writable(value: Any) -> Any:
    """Check what is kept as it is: that it can be written again as JSON."""
    try:
        fhir_json.dumps(value)
    except (TypeError, RecursionError):
        raise InvalidElement("is nested too deeply, or has text that is not Unicode") from None
    return value


# FHIR R4 extensibility §2.5.0.1 and §2.24.0.1: what value[x] may be.
Extension = datatype(
    required=("url",),
    choices=("value",),
    url=uri,
    **choice(
        "value",
        Base64Binary=base64_binary,
        Boolean=boolean,
        Canonical=uri,
        Code=code,
        Date=date,
        DateTime=date_time,
        Decimal=decimal,
        Id=identity,
        Instant=instant,
        Integer=integer,
        Markdown=markdown,
        Oid=oid,
        PositiveInt=positive,
        String=string,
        Time=time,
        UnsignedInt=unsigned,
        Uri=uri,
        Url=uri,
        Uuid=uuid,
        Address=Address,
        Age=Quantity,
        Annotation=Annotation,
        Attachment=Attachment,
        CodeableConcept=CodeableConcept,
        Coding=Coding,
        ContactPoint=ContactPoint,
        Count=Quantity,
        Distance=Quantity,
        Duration=Quantity,
        HumanName=HumanName,
        Identifier=Identifier,
        Money=Money,
        Period=Period,
        Quantity=Quantity,
        Range=Range,
        Ratio=Ratio,
        Reference=Reference,
        Signature=Signature,
        Meta=Meta,
        SampledData=_object,
        Timing=_object,
        ContactDetail=ContactDetail,
        **dict.fromkeys(
            ("Contributor", "DataRequirement", "Expression", "ParameterDefinition"), _object
        ),
        **dict.fromkeys(("RelatedArtifact", "TriggerDefinition"), _object),
        UsageContext=UsageContext,
        Dosage=_object,
    ),
)
EXTENSIONS = many(Extension)


def contained_resource(value: Any) -> Any:
    """Check a contained resource: its type and id; the rest is kept as it is.

    Source: FHIR R4 references §2.3.0.3 (contained resources have an id and contain no others).
    """
    if type(value) is not dict or type(value.get("resourceType")) is not str:
        raise InvalidElement("must be a resource with a resourceType")
    if "contained" in value:
        raise InvalidElement("must not contain resources itself", "contained")
    try:
        identity(value.get("id"))
    except InvalidElement as error:
        raise error.below("id") from None
    return _writable(value)


def bound_to(system: str, *codes: str) -> Check:
    """Return the check of a CodeableConcept with a required binding to these codes of a system."""
    return BoundConcept(Binding(codes, system))


class BoundConcept(Bound):
    """The check of a CodeableConcept with a required binding: one of its codings is of it."""

    def __call__(self, value: Any) -> Any:
        concept = CodeableConcept(value)
        codes, system = self.binding
        for coding in concept.get("coding", ()):
            if coding.get("system") == system and coding.get("code") in codes:
                return concept
        raise InvalidElement(f"must have a coding of {system}: {', '.join(codes)}", "coding")
