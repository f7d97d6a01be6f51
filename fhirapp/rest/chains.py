"""Chained parameters, and `_has`, which are chains the other way; in up to two steps of either.

`patient.identifier` searches by the referenced resource, `_has:AllergyIntolerance:patient:code` by
a referring one. Both need the permission to search the other type; resources that the token may not
see do not match. Parsing reads no data. After access is checked, the ids of the other resources are
listed; where there are too many, the condition is evaluated for each row.
Source: FHIR R4 search §3.1.1.4.11, §3.1.1.4.12; decisions §3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from fhirapp.db import reader
from fhirapp.definition import Definition, Visibility, types
from fhirapp.fhir.outcome import InvalidParameter, ParameterError, UnsupportedParameter
from fhirapp.rest.access import NONE, Reach, check_not_merged, check_reaches, reach_of
from fhirapp.rest.include_parameters import included_types
from fhirapp.search.index import ReferenceRow
from fhirapp.search.page import Run
from fhirapp.search.parameter import Context
from fhirapp.search.query import HAS, ChainedParameter, select
from fhirapp.search.reference import Reference
from fhirapp.search.values import AnyCondition, Condition, IndexCondition, all_of, any_of, is_in
from fhirapp.search.words import Words
from fhirapp.store.merge import merged_among

MAX_STEPS = 2
# So many targets of a chain are listed, and of a search: SQLite takes 32,766 values in a statement.
# Where there are more, each row is asked.
MOST, _MOST_OF_SEARCH = 1_000, 10_000
# So many patients' rows are few.
_FEW_PATIENTS = 10


# A type that a step leads to, and what must hold of its rows.
_Branch = tuple[Definition, list[AnyCondition]]


class Chains:
    """Reads the chained parameters of a search, for its token.

    statements, if given, run and keep the SELECTs.
    """

    def __init__(self, statements: Run | None, reach: Reach, context: Context) -> None:
        self._statements, self._definition, self._access = (
            statements,
            reach.definition,
            reach.access,
        )
        self._context = context
        self._ids_left = _MOST_OF_SEARCH

    def _run(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return (self._statements or reader().all)(sql, values)

    def __call__(self, name: str, values: Sequence[str]) -> ChainedParameter:
        """Read a chained parameter. Raises FhirError, Forbidden for another patient's id."""
        steps, last = self._steps(name)
        self._check_patients(steps[-1], last, values, name)
        leaf, _, modifier = last.partition(":")
        holder = steps[-1].targets[0]
        wanted = [
            [(target, self._leaf(target, name, last, value)) for target in steps[-1].targets]
            for value in dict.fromkeys(values)
        ]
        return ChainedParameter(
            partial(self._resolved, name, steps, wanted),
            holder.params.by_name[leaf],
            modifier,
            replace(self._context, tables=holder.tables),
            name.removesuffix(last),
            [target.name for step in steps for target in step.targets],
        )

    def _check_patients(
        self, step: _ForwardStep | _ReverseStep, last: str, values: Sequence[str], name: str
    ) -> None:
        """Raises Forbidden for a chain that names another patient than the token's."""
        for target in step.targets:
            if len(step.targets) == 1 or (
                target.compartment == "id" and step.reference.compartment
            ):
                context = replace(self._context, tables=target.tables)
                applied = [(last, value) for value in values]
                reach_of(target, self._access, "s").check_patients(applied, context, chain=name)

    def _resolved(
        self,
        name: str,
        steps: Sequence[_ForwardStep | _ReverseStep],
        wanted: Sequence[Sequence[_Branch]],
    ) -> list[AnyCondition]:
        """Return what must hold of a row: a condition for each distinct value. Raises FhirError."""
        holders = [self._definition, *(step.targets[0] for step in steps[:-1])]
        conditions: list[AnyCondition] = []
        for branches in wanted:
            for holder, step in reversed([*zip(holders, steps, strict=True)]):
                if isinstance(step, _ReverseStep):
                    condition = self._reverse_condition(step, holder, branches[0][1], name)
                else:
                    condition = self._forward_condition(step, branches, name)
                branches = [(holder, [condition])]
            conditions.append(condition)
        return conditions

    def _steps(self, name: str) -> tuple[list[_ForwardStep | _ReverseStep], str]:
        """Return the steps, and the last parameter with its modifier.

        Raises UnsupportedParameter or Forbidden.
        """
        steps: list[_ForwardStep | _ReverseStep] = []
        definition, rest = self._definition, name
        while (is_has := rest.partition(":")[0] == HAS) or "." in rest:
            step: _ForwardStep | _ReverseStep
            if is_has:
                _, type_name, base, rest = (*rest.split(":", 3), "", "", "")[:4]
                if len(steps) == MAX_STEPS or not rest:
                    reason = f"is {HAS}:Type:reference:parameter, in up to {MAX_STEPS} steps"
                    raise UnsupportedParameter(name, reason)
                step = _referrer(definition, name, type_name, base)
            else:
                written, _, rest = rest.partition(".")
                if not written or not rest or rest.startswith("."):
                    raise UnsupportedParameter(name, "has a dot without a parameter beside it")
                if len(steps) == MAX_STEPS:
                    raise UnsupportedParameter(name, f"has more than {MAX_STEPS} steps")
                step = _lead(definition, name, written, rest.partition(".")[0].partition(":")[0])
                if len(step.targets) > 1 and (rest.startswith(f"{HAS}:") or "." in rest):
                    choices = " or ".join(f"{written}:{target.name}" for target in step.targets)
                    raise UnsupportedParameter(name, f"leads to several types; name one: {choices}")
            for target in step.targets:
                check_reaches(target, self._access, name)
            steps.append(step)
            definition = step.targets[0]
        leaf = rest.partition(":")[0]
        if isinstance(definition.params.by_name.get(leaf), Words | None):
            raise UnsupportedParameter(name, f"{leaf} cannot be searched of {definition.name}")
        return steps, rest

    def _reverse_condition(
        self,
        step: _ReverseStep,
        target: Definition,
        conditions: Sequence[AnyCondition],
        name: str,
    ) -> AnyCondition:
        """Return the condition that a row of target's type is what fitting resources refer to."""
        definition = step.definition
        conditions = reach_of(definition, self._access, "s").limit(conditions)
        refers = "k.param = ? AND k.target_type = ?"
        values = (step.reference.name, target.name)
        selection = select(definition.sql_table, conditions, reader().all)
        if selection.is_gathered or selection.narrows:
            rows = self._run(
                f"SELECT DISTINCT k.target_id FROM {definition.sql_table} r"
                f" JOIN {step.table} k ON k.pk = r.pk"
                f" WHERE {refers} AND {selection.current} LIMIT {MOST + 1}",
                (*values, *selection.values),
            )
            if (ids := self._ids_within_limit(rows)) is not None:
                return replace(is_in("r.id", ids), narrows=True) if ids else NONE
        _check_depth(definition, name)
        holds = all_of(conditions)
        return Condition(
            f"EXISTS (SELECT 1 FROM {step.table} k WHERE {refers} AND k.target_id = r.id"
            f" AND EXISTS (SELECT 1 FROM {definition.sql_table} r"
            f" WHERE r.pk = k.pk AND r.is_current AND {holds.sql}))",
            (*values, *holds.values),
        )

    def _leaf(self, definition: Definition, name: str, last: str, value: str) -> list[AnyCondition]:
        """Return what a chain's last parameter asks. Raises FhirError, which names the chain."""
        context = replace(self._context, tables=definition.tables)
        leaf, _, modifier = last.partition(":")
        try:
            return definition.params.by_name[leaf].conditions(modifier, [value], context)
        except ParameterError as error:
            raise type(error)(name, error.diagnostics.partition(": ")[2]) from None

    def _forward_condition(
        self, lead: _ForwardStep, branches: Sequence[_Branch], name: str
    ) -> AnyCondition:
        """Return the condition that a reference leads to what fits."""
        listed: list[tuple[str, Sequence[str]]] = []
        limited: list[tuple[Definition, Sequence[AnyCondition]]] = []
        for target, fitting in branches:
            conditions = reach_of(target, self._access, "s").limit(fitting)
            limited.append((target, conditions))
            ids = self._ids(target, conditions)
            if ids is not None:
                listed.append((target.name, ids))
        if len(listed) < len(lead.targets):
            for target in lead.targets:
                _check_depth(target, name)
            holds = any_of([_row_by_row(*branch) for branch in limited])
            return lead.condition_per_row(holds.where())
        patients = dict(listed).get("Patient", ())
        for patient_id, into in merged_among(reader(), patients).items():
            if into not in patients:
                check_not_merged(reader(), patient_id, name)
        return lead.condition_for_ids(listed)

    def _ids(self, target: Definition, conditions: Sequence[AnyCondition]) -> list[str] | None:
        """Return the ids of what fits, None where that may be too many to list."""
        selection = select(target.sql_table, conditions, reader().all)
        if not (selection.is_gathered or selection.narrows):
            return None
        rows = self._run(
            f"SELECT r.id FROM {target.sql_table} r WHERE {selection.current} LIMIT {MOST + 1}",
            selection.values,
        )
        return self._ids_within_limit(rows)

    def _ids_within_limit(self, rows: Sequence[tuple[Any, ...]]) -> list[str] | None:
        if len(rows) > min(MOST, self._ids_left):
            return None
        self._ids_left -= len(rows)
        return [row[0] for row in rows]


class _ForwardStep(NamedTuple):
    """A step of a chain: a reference, its index table, and the types that it is followed to."""

    reference: Reference
    table: str
    targets: Sequence[Definition]

    def condition_for_ids(self, ids_by_type: Sequence[tuple[str, Sequence[str]]]) -> AnyCondition:
        """Return the condition that it leads to one of these: ids by their type."""
        listed = [(name, ids) for name, ids in ids_by_type if ids]
        if not listed:
            return NONE
        name, ids = listed[0]
        is_of_patients = self.reference.compartment and len(listed) == 1 and name == "Patient"
        if is_of_patients and len(ids) <= _FEW_PATIENTS:
            return replace(is_in("r.patient_id", ids), narrows=True)
        choices = [is_in("k.target_id", ids).where() for _, ids in listed]
        sql = " OR ".join(f"k.target_type = ? AND {choice.sql}" for choice in choices)
        values = [
            value
            for (name, _), choice in zip(listed, choices, strict=True)
            for value in (name, *choice.values)
        ]
        return self._indexed(f"({sql})", values)

    def condition_per_row(self, condition: Condition) -> Condition:
        """Return the condition that what it leads to fits, asked of each row."""
        return self._indexed(condition.sql, condition.values).where()

    def _indexed(self, sql: str, values: Sequence[object]) -> IndexCondition:
        return IndexCondition(self.table, f"k.param = ? AND {sql}", (self.reference.name, *values))


def _check_depth(definition: Definition, name: str) -> None:
    """Raises InvalidParameter where each row cannot be asked: SQLite reads no deeper conditions.

    That of what may be seen of a TARGETS type is deep already.
    """
    if definition.visibility is Visibility.TARGETS:
        reason = f"may lead to more than {MOST} {definition.name}; ask for less"
        raise InvalidParameter(name, reason)


class _ReverseStep(NamedTuple):
    """A step of `_has`: the type that refers, the reference, and its index table."""

    definition: Definition
    reference: Reference
    table: str

    @property
    def targets(self) -> Sequence[Definition]:
        """Where the step leads, as of a _ForwardStep."""
        return (self.definition,)


def _referrer(target: Definition, name: str, type_name: str, base: str) -> _ReverseStep:
    """Read a step of `_has`. Raises UnsupportedParameter."""
    definition = types().get(type_name)
    reference = definition.references.get(base) if definition else None
    if definition is None or reference is None or not definition.searchable:
        raise UnsupportedParameter(name, f"{base} is no reference of {type_name} here")
    if reference.targets and target.name not in reference.targets:
        raise UnsupportedParameter(name, f"{type_name}:{base} does not lead to {target.name}")
    table = Context(definition.tables, "").table(ReferenceRow)
    return _ReverseStep(definition, reference, table)


def _lead(definition: Definition, name: str, step: str, following: str) -> _ForwardStep:
    """Read a step of a chain, and what follows it. Raises UnsupportedParameter."""
    base, _, type_name = step.partition(":")
    reference = definition.references.get(base)
    if reference is None:
        raise UnsupportedParameter(name, f"{base} is no reference of {definition.name}")
    if type_name and reference.targets and type_name not in reference.targets:
        raise UnsupportedParameter(name, f"{definition.name}:{base} does not lead to {type_name}")
    served = included_types()
    targets = [target for target in reference.targets or sorted(served) if target in served]
    if type_name:
        targets = [target for target in targets if target == type_name]
    elif not reference.targets:
        raise UnsupportedParameter(name, f"{base} leads to any type; name one: {base}:Patient")
    holders = [types()[target] for target in targets]
    # Whether `_has` leads on from it is its own question.
    holders = [
        holder
        for holder in holders
        if following == HAS or not isinstance(holder.params.by_name.get(following), Words | None)
    ]
    if not holders:
        where = " or ".join(targets) or f"{type_name or base}, which is not served"
        raise UnsupportedParameter(name, f"{following} cannot be searched of {where}")
    context = Context(definition.tables, "")
    return _ForwardStep(reference, context.table(ReferenceRow), holders)


def _row_by_row(target: Definition, conditions: Sequence[AnyCondition]) -> Condition:
    """Return the condition that the index row `k` of a reference leads to what fits."""
    holds = all_of(conditions)
    return Condition(
        f"(k.target_type = ? AND EXISTS (SELECT 1 FROM {target.sql_table} r"
        f" WHERE r.id = k.target_id AND r.is_current AND {holds.sql}))",
        (target.name, *holds.values),
    )
