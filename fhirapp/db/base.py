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
    Integer,
    LargeBinary,
    String,
)
from sqlalchemy.orm import DeclarativeBase, registry

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
