"""Chained parameters: `patient.identifier`, `author:Practitioner.name`, in up to two steps.

What a reference must lead to is searched for first, as by itself: it takes the permission to search
its type, and what the token may not see is not there. Where too much fits, each row is asked.
Source: FHIR R4 search §3.1.1.4.11; decisions §3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from fhirapp.auth.protector import insufficient_scope
from fhirapp.auth.scopes import Access
from fhirapp.db import Reader
from fhirapp.definition import Definition, types
from fhirapp.fhir.outcome import ParameterError, UnsupportedParameter
from fhirapp.rest.access import NOTHING, check_not_merged, reaches, visible
from fhirapp.rest.include import included_types, references
from fhirapp.search.index import ReferenceRow
from fhirapp.search.page import Run
from fhirapp.search.parameter import Context
from fhirapp.search.query import Chained, select
from fhirapp.search.reference import Reference
from fhirapp.search.values import AnyCondition, Condition, IndexCondition, all_of, any_of, is_in
from fhirapp.search.words import Words
from fhirapp.store.merge import merged_among

MAX_STEPS = 2
# So many targets of a chain are listed, and of a search: SQLite takes 32,766 values in a statement.
# Where there are more, each row is asked.
MOST, _MOST_OF_SEARCH = 1_000, 10_000
# So many patients' rows are few.
_FEW = 10


class Chains:
    """Reads the chained parameters of a search, in its snapshot and for its token."""

    def __init__(
        self, reader: Reader, run: Run, definition: Definition, access: Access, base_url: str
    ) -> None:
        self._reader, self._run, self._definition = reader, run, definition
        self._access, self._base_url = access, base_url
        self._left = _MOST_OF_SEARCH

    def __call__(self, name: str, values: Sequence[str]) -> Chained:
        """Return what one asks, a condition for each repetition. Raises FhirError."""
        steps, parameter = name.rpartition(".")[::2]
        leads = self._leads(self._definition, name)
        leaf, _, modifier = parameter.partition(":")
        conditions: list[AnyCondition] = []
        for value in dict.fromkeys(values):
            conditions += self._conditions(leads, name, leaf, modifier, value)
        holder = leads[-1].targets[0]
        return Chained(
            tuple(conditions),
            holder.params.by_name[leaf],
            modifier,
            Context(holder.tables, self._base_url),
            steps,
            [target.name for lead in leads for target in lead.targets],
        )

    def _leads(self, definition: Definition, name: str) -> list[_Lead]:
        """Return the steps of a chain. Raises UnsupportedParameter or Forbidden."""
        *steps, last = name.split(".")
        if not all((*steps, last)):
            raise UnsupportedParameter(name, "has a dot without a parameter beside it")
        if len(steps) > MAX_STEPS:
            raise UnsupportedParameter(name, f"has more than {MAX_STEPS} steps")
        leads: list[_Lead] = []
        for place, step in enumerate(steps):
            following = [*steps, last][place + 1].partition(":")[0]
            lead = _lead(definition, name, step, following)
            if len(lead.targets) > 1 and place + 1 < len(steps):
                choices = " or ".join(f"{step}:{one.name}" for one in lead.targets)
                raise UnsupportedParameter(name, f"leads to several types; name one: {choices}")
            for target in lead.targets:
                if not reaches(target, self._access, "s"):
                    raise insufficient_scope(
                        f"{name}: the token's scope does not cover search of {target.name}.",
                        f"system/{target.name}.s",
                        name,
                    )
            leads.append(lead)
            definition = lead.targets[0]
        return leads

    def _conditions(
        self, leads: Sequence[_Lead], name: str, leaf: str, modifier: str, value: str
    ) -> list[AnyCondition]:
        """Return what must hold for one repetition of a chain."""
        lead, *further = leads
        found: list[tuple[str, Sequence[str]]] = []
        asked: list[Condition] = []
        for target in lead.targets:
            if further:
                conditions = self._conditions(further, name, leaf, modifier, value)
            else:
                context = Context(target.tables, self._base_url)
                try:
                    conditions = target.params.by_name[leaf].conditions(modifier, [value], context)
                except ParameterError as error:
                    reason = error.diagnostics.partition(": ")[2]
                    raise type(error)(name, reason) from None
            limit = visible(target, self._access, "s")
            if limit is not None:
                conditions = [*conditions, limit]
            asked.append(_row_by_row(target, conditions))
            ids = self._ids(target, conditions)
            if ids is not None:
                found.append((target.name, ids))
        if len(found) < len(lead.targets):
            return [lead.where(any_of(asked).where())]
        patients = dict(found).get("Patient", ())
        for patient_id, into in merged_among(self._reader, patients).items():
            if into not in patients:
                check_not_merged(self._reader, patient_id, name)
        return [lead.to(found)]

    def _ids(self, target: Definition, conditions: Sequence[AnyCondition]) -> list[str] | None:
        """Return the ids of what fits, None where that may be too many to list."""
        selection = select(target.sql_table, conditions, self._reader.all)
        if not (selection.is_gathered or selection.narrows):
            return None
        rows = self._run(
            f"SELECT r.id FROM {target.sql_table} r WHERE {selection.current} LIMIT {MOST + 1}",
            selection.values,
        )
        if len(rows) > min(MOST, self._left):
            return None
        self._left -= len(rows)
        return [row[0] for row in rows]


class _Lead(NamedTuple):
    """A step of a chain: a reference, its index table, and the types that it is followed to."""

    reference: Reference
    table: str
    targets: Sequence[Definition]

    def to(self, found: Sequence[tuple[str, Sequence[str]]]) -> AnyCondition:
        """Return the condition that it leads to one of these: ids by their type."""
        listed = [(name, ids) for name, ids in found if ids]
        if not listed:
            return NOTHING
        if self.reference.compartment and len(listed[0][1]) <= _FEW:
            return replace(is_in("r.patient_id", listed[0][1]), narrows=True)
        choices = [is_in("k.target_id", ids).where() for _, ids in listed]
        sql = " OR ".join(f"k.target_type = ? AND {one.sql}" for one in choices)
        values = [
            value
            for (name, _), one in zip(listed, choices, strict=True)
            for value in (name, *one.values)
        ]
        return self._indexed(f"({sql})", values)

    def where(self, asked: Condition) -> Condition:
        """Return the condition that what it leads to fits, asked of each row."""
        return self._indexed(asked.sql, asked.values).where()

    def _indexed(self, sql: str, values: Sequence[object]) -> IndexCondition:
        return IndexCondition(self.table, f"k.param = ? AND {sql}", (self.reference.name, *values))


def _lead(definition: Definition, name: str, step: str, following: str) -> _Lead:
    """Read a step of a chain, and what follows it. Raises UnsupportedParameter."""
    base, _, wanted = step.partition(":")
    reference = references(definition).get(base)
    if reference is None:
        raise UnsupportedParameter(name, f"{base} is no reference of {definition.name}")
    served = included_types()
    targets = [one for one in reference.targets or sorted(served) if one in served]
    if wanted:
        targets = [one for one in targets if one == wanted]
    elif not reference.targets:
        raise UnsupportedParameter(name, f"{base} leads to any type; name one: {base}:Patient")
    holders = [types()[one] for one in targets]
    holders = [
        one
        for one in holders
        if following in one.params.by_name and not isinstance(one.params.by_name[following], Words)
    ]
    if not holders:
        where = " or ".join(targets) or f"{wanted or base}, which is not served"
        raise UnsupportedParameter(name, f"{following} cannot be searched of {where}")
    context = Context(definition.tables, "")
    return _Lead(reference, context.table(ReferenceRow), holders)


def _row_by_row(target: Definition, conditions: Sequence[AnyCondition]) -> Condition:
    """Return the condition that the index row `k` of a reference leads to what fits."""
    holds = all_of(conditions)
    return Condition(
        f"(k.target_type = ? AND EXISTS (SELECT 1 FROM {target.sql_table} r"
        f" WHERE r.id = k.target_id AND r.is_current AND {holds.sql}))",
        (target.name, *holds.values),
    )
