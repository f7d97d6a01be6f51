"""ConceptMap: what codes of one system are in another. FHIR R4 conceptmap."""

from __future__ import annotations

from fhirapp.config import Marked
from fhirapp.db import CanonicalVersioned
from fhirapp.definition import Definition, Labels, TableColumn, Visibility
from fhirapp.fhir.datatypes import Identifier, backbone, code, one_of, string, uri
from fhirapp.fhir.elements import many
from fhirapp.fhir.resource import CanonicalSchema, Element, Elements
from fhirapp.rest.blueprint import ResourceBlueprint
from fhirapp.search.parameter import Parameters
from fhirapp.search.query import CANONICAL, COMMON
from fhirapp.search.string import Uri


class ConceptMap(CanonicalVersioned):
    """A map, a row for each version."""

    __tablename__ = "concept_map"


DependsOn = backbone(
    required=("property", "value"), property=uri, system=uri, value=string, display=string
)
Target = backbone(
    required=("equivalence",),
    code=code,
    display=string,
    equivalence=one_of(
        *("relatedto", "equivalent", "equal", "wider", "subsumes", "narrower", "specializes"),
        *("inexact", "unmatched", "disjoint"),
    ),
    comment=string,
    dependsOn=many(DependsOn),
    product=many(DependsOn),
)
Group = backbone(
    required=("element",),
    source=uri,
    sourceVersion=string,
    target=uri,
    targetVersion=string,
    element=many(backbone(code=code, display=string, target=many(Target))),
    unmapped=backbone(
        required=("mode",),
        mode=one_of("provided", "fixed", "other-map"),
        code=code,
        display=string,
        url=uri,
    ),
)


class ConceptMapSchema(CanonicalSchema):
    """ConceptMap."""

    resource_type = "ConceptMap"

    identifier = Element(Identifier, summary=True)
    source_uri = Element(uri, choice="source", summary=True)
    source_canonical = Element(uri, choice="source", summary=True)
    target_uri = Element(uri, choice="target", summary=True)
    target_canonical = Element(uri, choice="target", summary=True)
    group = Elements(Group)


CONCEPT_MAP = "http://hl7.org/fhir/SearchParameter/ConceptMap-"

# Of R4's, those of single codes, of what maps depend on, and of source and target as references
# are not here.
PARAMS = Parameters(
    (
        *COMMON,
        *CANONICAL,
        Uri(
            "source-system",
            ("group.source",),
            "Code system that is mapped from",
            CONCEPT_MAP + "source-system",
        ),
        Uri(
            "target-system",
            ("group.target",),
            "Code system that is mapped to",
            CONCEPT_MAP + "target-system",
        ),
    )
)


blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="ConceptMap",
        model=ConceptMap,
        schema=ConceptMapSchema(),
        params=PARAMS,
        searchable=True,
        visibility=Visibility.ANY_SCOPE,
        doc="Concept maps: what codes of one system are in another, to read.",
        labels=Labels(
            one=Marked("a concept map"),
            plural=Marked("concept maps"),
            scope=Marked("concept maps"),
        ),
        table_columns=(
            TableColumn(Marked("Title"), ("title", "name"), Marked("title not recorded")),
            TableColumn(Marked("Address"), ("url",), Marked("address not recorded")),
            TableColumn(Marked("Version"), ("version",), Marked("version not recorded")),
            TableColumn(Marked("Status"), ("status",), Marked("status not recorded")),
        ),
    ),
)
