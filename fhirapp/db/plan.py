"""How the database runs a SELECT: the steps of its plan as values.

SQLite has its steps in sentences (https://sqlite.org/eqp.html), PostgreSQL in a tree of JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

# What a step does: looks up rows by an index, reads all of them, or sorts.
SEARCH, SCAN, SORT = "search", "scan", "sort"


class PlanStep(NamedTuple):
    """A step as the database has it, how deep below the step that needs it, and what it does.

    access is SEARCH, SCAN, SORT or empty; table, and by, the index, are empty where it reads none.
    """

    depth: int
    text: str
    access: str = ""
    table: str = ""
    by: str = ""


_ACCESS = re.compile(
    r"(SEARCH|SCAN) (\w+)(?: VIRTUAL TABLE INDEX .*)?"
    r"(?: USING (?:COVERING |AUTOMATIC |PARTIAL )*(?:INDEX (\w+)|((?:INTEGER )?PRIMARY KEY)))?"
)
_TABLE = re.compile(r'"(\w+)" (\w+)\b')


def sqlite_steps(rows: Iterable[tuple[Any, ...]], sql: str) -> list[PlanStep]:
    """Return the steps of EXPLAIN QUERY PLAN, which names tables as the statement abbreviates them.

    Of several tables with one abbreviation it is the one that the index belongs to.
    """
    tables: dict[str, set[str]] = {}
    for table, short in _TABLE.findall(sql):
        tables.setdefault(short, set()).add(table)
    depths: dict[int, int] = {}
    steps = []
    for number, parent, _unused, text in rows:
        depth = depths[number] = depths.get(parent, -1) + 1
        access = table = index = ""
        if match := _ACCESS.match(text):
            index = match[3] or match[4] or ""
            known = tables.get(match[2], set())
            if not known:
                # Of rows that a step before has listed.
                steps.append(PlanStep(depth, text))
                continue
            fitting = known if len(known) == 1 else {name for name in known if name in index}
            table = max(fitting, key=len, default=match[2])
            # The index of words is a table of its own.
            is_search = match[1] == "SEARCH" or "VIRTUAL TABLE INDEX" in text
            access = SEARCH if is_search else SCAN
        elif "TEMP B-TREE" in text:
            access = SORT
        steps.append(PlanStep(depth, text, access, table, index))
    return steps


_CONDITIONS = ("Index Cond", "Recheck Cond", "Hash Cond", "Join Filter", "Filter", "Sort Key")


def postgresql_steps(plan: Mapping[str, Any], depth: int = 0) -> Iterator[PlanStep]:
    """Yield the steps of EXPLAIN (FORMAT JSON), a step before those that it needs."""
    kind = str(plan["Node Type"])
    table, index = str(plan.get("Relation Name", "")), str(plan.get("Index Name", ""))
    text = f"{plan['Subplan Name']}: {kind}" if "Subplan Name" in plan else kind
    text += f" using {index}" if index else ""
    text += f" on {table} {plan.get('Alias', '')}".rstrip() if table else ""
    found = [(name, plan[name]) for name in _CONDITIONS if name in plan]
    conditions = [
        f"{name}: {', '.join(value) if isinstance(value, list) else value}" for name, value in found
    ]
    text += f" ({'; '.join(conditions)})" if conditions else ""
    access = SCAN if kind == "Seq Scan" else SORT if "Sort" in kind else ""
    if index or kind == "Bitmap Heap Scan":
        access = SEARCH
    yield PlanStep(depth, text, access, table, index)
    for part in plan.get("Plans", ()):
        yield from postgresql_steps(part, depth + 1)
