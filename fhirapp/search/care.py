"""When the care was that a resource tells of: operations are asked for a time of care.

Source: US Core 6.1.0 OperationDefinition docref, FHIR R4 operation-patient-everything.
"""

from __future__ import annotations

from collections.abc import Sequence

from fhirapp.db import quoted
from fhirapp.fhir.temporal import EARLIEST, LATEST, Interval
from fhirapp.search.condition import Condition, IndexCondition
from fhirapp.search.index import IndexTables

# A period without start and end does not tell when it was.
_TOLD = "k.param = ? AND (k.low > ? OR k.high < ?)"
_ALWAYS = (EARLIEST, LATEST)


def cared_for(
    tables: IndexTables, names: Sequence[str], time: Interval, *, undated: bool
) -> Condition:
    """Return the condition that a resource's care overlaps a time.

    names are date parameters, of which the first that a resource has tells its care; undated says
    whether a resource that has none of them fulfils the condition.
    """
    table = quoted(tables.date.name)
    choices: list[Condition] = []
    lacks: list[Condition] = []
    for name in names:
        told = IndexCondition(
            table, f"{_TOLD} AND k.low < ? AND k.high > ?", (name, *_ALWAYS, time.high, time.low)
        )
        choices.append(_all([*lacks, told.where()]))
        lacks.append(IndexCondition(table, _TOLD, (name, *_ALWAYS), negated=True).where())
    if undated:
        choices.append(_all(lacks))
    return Condition(
        "(" + " OR ".join(one.sql for one in choices) + ")",
        tuple(value for one in choices for value in one.values),
    )


def _all(conditions: Sequence[Condition]) -> Condition:
    return Condition(
        "(" + " AND ".join(one.sql for one in conditions) + ")",
        tuple(value for one in conditions for value in one.values),
    )
