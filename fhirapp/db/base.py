"""The tables' common ground: the base of the models, and how columns are typed.

The only place that knows Flask-SQLAlchemy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import (
    JSON,
    URL,
    BigInteger,
    Index,
    Integer,
    LargeBinary,
    String,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, declared_attr, mapped_column, registry

from fhirapp.fhir import json as fhir_json

# How JSON columns are written and read: decimals keep their digits.
JSON_OPTIONS = {
    "json_serializer": fhir_json.text,
    "json_deserializer": fhir_json.loads,
}

# The schema of the tables on PostgreSQL, unless the address names another search_path.
SCHEMA = "fhirapp"
SEARCH_PATH = f"-c search_path={SCHEMA}"

# In libpq's words: a server that vanished is found out within half a minute, not after hours.
_ALIVE = {
    "connect_timeout": "5",
    "tcp_user_timeout": "10000",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
}


def connect_args(url: URL, **others: str) -> dict[str, str]:
    """Return how PostgreSQL is connected to, beside what an address says itself, which wins."""
    stated = url.query.get("options", ())
    stated = (stated,) if isinstance(stated, str) else stated
    return {
        **{name: one for name, one in {**_ALIVE, **others}.items() if name not in url.query},
        # The last setting of a name wins. JIT compiles a query in a third of a second; our queries
        # run for some milliseconds.
        "options": " ".join((SEARCH_PATH, *stated, "-c jit=off")),
    }


# Text that sorts by its bytes on every database, as SQLite does by default.
Ascii = String().with_variant(String(collation="C"), "postgresql")
# FHIR JSON; on PostgreSQL json, not jsonb, which would reorder keys.
Json = JSON(none_as_null=True)
# A row number: SQLite's rowid where it is a primary key.
RowNumber = BigInteger().with_variant(Integer(), "sqlite")


class _Base(DeclarativeBase):
    registry = registry(type_annotation_map={str: Ascii, Any: Json, bytes: LargeBinary})


db = SQLAlchemy(model_class=_Base, disable_autonaming=True)

if TYPE_CHECKING:

    class Base(_Base):
        """What the models inherit from."""
else:
    Base = db.Model


class Versioned(Base):
    """A resource type's table: a row for each version.

    Written in seed.sql: id, version_id, last_updated, deleted, meta, text, extra and a column for
    each element, named as FHIR names it, in snake_case. Computed by store/: pk, is_current,
    replaced_pk, patient_id, digest, body.
    """

    __abstract__ = True

    pk: Mapped[int] = mapped_column(RowNumber, primary_key=True, sort_order=-9)
    id: Mapped[str] = mapped_column(sort_order=-8)
    version_id: Mapped[int] = mapped_column(sort_order=-7)
    # An instant as it is served, so that its text sorts by time: 2024-03-01T09:00:00.000+00:00
    last_updated: Mapped[str] = mapped_column(sort_order=-6)
    # The version that search answers: the newest, unless that is a deletion.
    is_current: Mapped[bool] = mapped_column(
        default=False, server_default=text("FALSE"), sort_order=-5
    )
    deleted: Mapped[bool] = mapped_column(
        default=False, server_default=text("FALSE"), sort_order=-4
    )
    # The row of the next version, so that a page can be found as it was when paging began.
    replaced_pk: Mapped[int | None] = mapped_column(RowNumber, sort_order=-3)
    # The patient compartment that the resource belongs to.
    patient_id: Mapped[str | None] = mapped_column(sort_order=-3)
    # Which import_source it came from, None where that has no name.
    source_id: Mapped[int | None] = mapped_column(sort_order=-3)
    # The source's profile, tag, security and source.
    meta: Mapped[Any | None] = mapped_column(sort_order=-2)
    # R4 elements without a column of their own, by FHIR's names; extensions; contained resources.
    extra: Mapped[Any | None] = mapped_column(sort_order=7)
    # Of the content, so that the same content makes no new version.
    digest: Mapped[bytes | None] = mapped_column(sort_order=8)
    # The resource as it is served, indented, its own addresses relative.
    body: Mapped[bytes | None] = mapped_column(sort_order=9)

    @declared_attr.directive
    @classmethod
    def __table_args__(cls) -> tuple[Any, ...]:
        name = cls.__tablename__
        current: dict[str, Any] = {
            "sqlite_where": text("is_current"),
            "postgresql_where": text("is_current"),
        }
        return (
            UniqueConstraint("id", "version_id", name=f"uq_{name}_version"),
            Index(f"ix_{name}_current", "id", unique=True, **current),
            Index(f"ix_{name}_newest", "last_updated", "id", **current),
            Index(f"ix_{name}_patient", "patient_id", "last_updated", "id", "is_current"),
            Index(
                f"ix_{name}_source",
                "source_id",
                sqlite_where=text("is_current AND source_id IS NOT NULL"),
                postgresql_where=text("is_current AND source_id IS NOT NULL"),
            ),
            Index(f"ix_{name}_history", "last_updated", "pk"),
            Index(
                f"ix_{name}_replaced",
                "replaced_pk",
                sqlite_where=text("replaced_pk IS NOT NULL"),
                postgresql_where=text("replaced_pk IS NOT NULL"),
            ),
        )


class DomainVersioned(Versioned):
    """The table of a type whose resources carry a narrative."""

    __abstract__ = True

    text: Mapped[Any | None] = mapped_column(sort_order=-1)
