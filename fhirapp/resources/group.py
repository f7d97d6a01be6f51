"""Group: patients who are taken together, as for an export. FHIR R4 group."""

from __future__ import annotations

from fhirapp.config import Marked
from fhirapp.db.versioned import versioned_table
from fhirapp.definition import Definition, Labels, TableColumn
from fhirapp.fhir import datatypes, fields, narrative
from fhirapp.fhir.elements import boolean, choice
from fhirapp.fhir.resource import DomainResourceSchema
from fhirapp.rest.blueprint import ResourceBlueprint
from fhirapp.search.parameter import Parameters
from fhirapp.search.query import COMMON
from fhirapp.search.reference import Reference
from fhirapp.search.token import HL7, SPECIAL_VALUES, Identifier, Token

Characteristic = datatypes.backbone(
    required=("code", "exclude"),
    choices=("value",),
    summary=None,
    code=datatypes.CodeableConcept,
    **choice(
        "value",
        CodeableConcept=datatypes.CodeableConcept,
        Boolean=boolean,
        Quantity=datatypes.Quantity,
        Range=datatypes.Range,
        Reference=datatypes.Reference,
    ),
    exclude=boolean,
    period=datatypes.Period,
)
Member = datatypes.backbone(
    required=("entity",), entity=datatypes.Reference, period=datatypes.Period, inactive=boolean
)


class GroupSchema(DomainResourceSchema):
    """Group."""

    resource_type = "Group"
    narrative = (("Name", "name", narrative.plain), ("Type", "type", narrative.plain))

    identifier = fields.List(fields.Identifier, summary=True)
    active = fields.Boolean(summary=True)
    type = fields.Code(
        "person",
        "animal",
        "practitioner",
        "device",
        "medication",
        "substance",
        required=True,
        summary=True,
    )
    actual = fields.Boolean(required=True, summary=True)
    code = fields.CodeableConcept(summary=True)
    name = fields.String(summary=True)
    quantity = fields.UnsignedInt(summary=True)
    managing_entity = fields.Reference(summary=True)
    characteristic = fields.List(Characteristic)
    member = fields.List(Member)


_MEMBERS = "Patient | Practitioner | PractitionerRole | Device | Medication | Substance | Group"

# Of R4's, `characteristic-value` is not here.
PARAMS = Parameters(
    "Group",
    *COMMON,
    Identifier("identifier", "identifier", "Identifier of the group"),
    Reference("member", "member.entity", "Who or what is a member", _MEMBERS),
    Token("type", "type", "person, animal, practitioner, device, medication or substance",
          system=HL7 + "group-type"),
    Token("actual", "actual", "Whether the members are listed, or only described",
          system=SPECIAL_VALUES),
    Token("code", "code", "What the members have in common"),
    Reference("managing-entity", "managingEntity", "Who is responsible for the group",
              "Organization | RelatedPerson | Practitioner | PractitionerRole"),
    Token("characteristic", "characteristic.code", "Characteristic of the members"),
    Token("value", "characteristic.valueCodeableConcept | characteristic.valueBoolean",
          "Value of a characteristic, a code or true or false", system=SPECIAL_VALUES),
    Token("exclude", "characteristic.exclude", "Whether members with a characteristic are excluded",
          system=SPECIAL_VALUES),
)  # fmt: skip


blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="Group",
        schema=GroupSchema(),
        # GROUP is a word of SQL: seed.sql would have to quote it.
        table=versioned_table(GroupSchema, name="fhir_group"),
        params=PARAMS,
        # Its members, and who manages it, come first.
        rank=1,
        searchable=True,
        doc="Groups of patients, for example for an export.",
        labels=Labels(
            singular=Marked("a list of patients"),
            plural=Marked("lists of patients"),
            scope=Marked("lists of patients"),
        ),
        table_columns=(
            TableColumn(Marked("Name"), ("name",), Marked("name not recorded")),
            TableColumn(Marked("Type"), ("type",), Marked("type not recorded")),
            TableColumn(Marked("Members"), ("quantity",), Marked("number not recorded")),
            TableColumn(Marked("Managed by"), ("managingEntity",), Marked("manager not recorded")),
        ),
    ),
)
