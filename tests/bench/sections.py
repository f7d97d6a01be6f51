"""The sections of the table: what is started, asked and measured for each, and the targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench import database, exchange, measure, questions
from tests.bench.cores import FEW, MANY, MANY_OF_ONE, Cores
from tests.bench.database import Database
from tests.bench.guarded import PLAIN, PROTECTED
from tests.bench.load import Question, throughput_tool
from tests.bench.measure import Candidate
from tests.bench.questions import (
    ALLERGIES,
    BY_PATIENT,
    COMMON,
    COMMON_RANKED,
    DOCUMENTS,
    FIRST_PAGE,
    LABELS,
    PUBLIC,
    READ,
    REVINCLUDE,
    asked,
    deep_page,
    label,
)
from tests.bench.rows import Row, Section, Target
from tests.bench.servers import Server, bare, guarded, issue_token, ours, recorded

# The targets are about allergies; documents are there to compare.
_COST = {
    label(ALLERGIES, READ): Target(3),
    label(ALLERGIES, BY_PATIENT): Target(4.5),
    label(ALLERGIES, REVINCLUDE): Target(6.5),
    **{label(name, FIRST_PAGE): Target(5) for name in LABELS},
    **dict.fromkeys(PUBLIC, Target(1.5)),
}
_KIND = Target(1.5)
_DEEP_PAGE = Target(1.2)
_GROWTH = Target(1.15)
_MANY_CONNECTIONS = Target(0.95, at_most=False)
_COMMON = Target(1.3)
_PROTECTION = Target(1.15)
_IDLE, _LATER = Target(60, of_measured=True), Target(75, of_measured=True)
_START = Target(0.7, of_measured=True)

Costs = dict[tuple[str, str], list[float]]


@dataclass(frozen=True)
class Effort:
    """How long is measured: rounds, and seconds a side in each."""

    rounds: int = 15
    cpu_seconds: float = 0.25
    rate_rounds: int = 5
    rate_seconds: float = 2
    starts: int = 7
    # Allergies that are imported beside searches.
    burden: int = 6_000
    # Of C-CDA, imported.
    documents: int = 100


class Bench:
    """A run: the two databases, a token for each, and a folder for what servers say."""

    def __init__(self, folder: Path, full: Database, small: Database, effort: Effort) -> None:
        self._folder = folder
        self._full = full
        self._small = small
        self._effort = effort
        self._token = issue_token(full.instance)
        self._small_token = issue_token(small.instance)

    def costs(self) -> tuple[list[Section], list[Row]]:
        """Measure CPU time per request; return its sections, and memory before and after that."""
        alone = {"FHIRAPP_PROCESSES": "1"}
        with (
            ours(self._full.instance, self._log("full"), **alone) as server,
            ours(self._small.instance, self._log("small"), **alone) as small,
        ):
            for one in (server, small):
                one.first_answer("/fhir/metadata")
            memory = [_memory("idle", _IDLE, server)]
            size, small_size = self._full.size, self._small.size
            rows = questions.questions(size, self._deep_pages(server)) | PUBLIC
            kinds = questions.kinds_of_search(size)
            answers = recorded(server, self._token, rows | kinds)
            small_rows = questions.questions(small_size, {}) | questions.kinds_of_search(small_size)
            small_answers = recorded(small, self._small_token, small_rows)
            candidates = {}
            with bare(answers, self._log("bare"), measure.cores()[:1]) as bare_server:
                bare_server.first_answer(rows[label(ALLERGIES, READ)][0])
                for name, paths in (rows | kinds).items():
                    known = asked(name, paths, answers)
                    candidates[name, "ours"] = Candidate(server, self._token, known)
                    if name in rows:
                        candidates[name, "bare"] = Candidate(bare_server, self._token, known)
                    if name in small_rows:
                        known = asked(name, small_rows[name], small_answers)
                        candidates[name, "small"] = Candidate(small, self._small_token, known)
                measure.cpu_rounds(
                    list(candidates.values()), self._effort.rounds, self._effort.cpu_seconds
                )
                memory.append(_memory("after the rows of CPU time", _LATER, server, bare_server))
        costs = {key: candidate.costs for key, candidate in candidates.items()}
        sections = [
            _against_bare(costs),
            _against_patient(costs, list(kinds)),
            self._depth(costs),
            self._growth(costs),
        ]
        return sections, memory

    def protection(self) -> Section:
        """Measure what a protected route costs more than the same without protection."""
        with guarded(self._full.instance, self._log("guarded")) as server:
            server.first_answer(PLAIN)
            answers = recorded(server, self._token, {PLAIN: [PLAIN], PROTECTED: [PROTECTED]})
            plain, protected = (
                Candidate(server, self._token, asked(path, [path], answers))
                for path in (PLAIN, PROTECTED)
            )
            measure.cpu_rounds([plain, protected], self._effort.rounds, self._effort.cpu_seconds)
        row = Row("a route of 30 kB", protected.costs, plain.costs, _PROTECTION)
        return Section("CPU time per request, µs", "protected", "plain", [row])

    def rates(self) -> tuple[Section, Row]:
        """Measure requests per second; return their section, and memory after that."""
        rows = []
        with ours(self._full.instance, self._log("rates"), **MANY_OF_ONE) as server:
            server.first_answer("/fhir/metadata")
            searches = {name: questions.by_patient(name, self._full.size) for name in LABELS}
            answers = recorded(server, self._token, searches)
            with bare(answers, self._log("bare-rates"), measure.cores()) as bare_server:
                bare_server.first_answer(searches[ALLERGIES][0])
                for type_name, paths in searches.items():
                    rates = measure.rate_rounds(
                        (server, bare_server),
                        self._token,
                        asked(type_name, paths, answers),
                        (FEW, MANY),
                        rounds=self._effort.rate_rounds,
                        seconds=self._effort.rate_seconds,
                        folder=self._folder,
                    )
                    rows += _rate_rows(type_name, rates)
                memory = _memory("after the rows of requests", _LATER, server, bare_server)
        tool = throughput_tool(self._effort.rate_seconds)
        return Section(f"Requests per second ({tool})", "ours", "bare", rows), memory

    def cores(self) -> list[Section]:
        """Measure what processes, a busy core and many connections change."""
        paths = questions.by_patient(ALLERGIES, self._full.size)

        def known(server: Server) -> Sequence[Question]:
            return asked(BY_PATIENT, paths, recorded(server, self._token, {BY_PATIENT: paths}))

        effort = self._effort
        return Cores(
            self._full.instance,
            self._token,
            known,
            self._folder,
            effort.rate_seconds,
            effort.rate_rounds,
        ).sections()

    def exchange(self) -> list[Section]:
        """Measure data in and out."""
        return [
            *exchange.imports(self._full),
            exchange.documents_of_cda(self._folder, self._effort.documents),
            exchange.exports(self._full, self._effort.rate_rounds),
            exchange.beside_an_import(
                self._small, self._folder, self._effort.rate_seconds, self._effort.burden
            ),
        ]

    def starts(self) -> Section:
        """Measure how soon a server answers."""
        search = questions.by_patient(ALLERGIES, self._full.size)[0]
        found = measure.starts(
            self._full.instance, self._token, search, self._effort.starts, self._log("starts")
        )
        rows = [
            Row("GET /fhir/metadata", found["metadata"], found["bare"], _START),
            Row("then a search by patient", found["search"], found["bare"], _START),
        ]
        return Section("Start to first 200, s", "ours", "bare", rows)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _deep_pages(self, server: Server) -> dict[str, str]:
        size = self._full.size
        return {
            name: database.page_address(
                self._full, server, self._token, name, questions.deep_page_number(size, name)
            )
            for name in LABELS
        }

    def _depth(self, costs: Costs) -> Section:
        rows = []
        for type_name in LABELS:
            page = deep_page(self._full.size, type_name)
            row = Row(
                label(type_name, f"{page} against page 1"),
                costs[label(type_name, page), "ours"],
                costs[label(type_name, FIRST_PAGE), "ours"],
                _DEEP_PAGE if type_name == ALLERGIES else None,
            )
            rows.append(row)
        return Section("CPU time per request, µs", "far back", "page 1", rows)

    def _growth(self, costs: Costs) -> Section:
        rows = [
            Row(name, costs[name, "ours"], cost, _GROWTH if _is_of_allergies(name) else None)
            for (name, side), cost in costs.items()
            if side == "small"
        ]
        sides = [f"{one.size.allergies:,} rows" for one in (self._full, self._small)]
        return Section("CPU time per request, µs", *sides, rows)


def _against_bare(costs: Costs) -> Section:
    rows = [
        Row(name, cost, costs[name, "bare"], _COST.get(name))
        for (name, side), cost in costs.items()
        if side == "ours" and (name, "bare") in costs
    ]
    return Section("CPU time per request, µs", "ours", "bare", rows)


def _against_patient(costs: Costs, names: list[str]) -> Section:
    """Return the rows of the kinds of search, beside the search by patient of the same type."""
    rows = []
    for name in names:
        type_name = ALLERGIES if _is_of_allergies(name) else DOCUMENTS
        by_patient = costs[label(type_name, BY_PATIENT), "ours"]
        # Ranking looks at each of up to 20,000 matches: it is bounded, and not by this target.
        target = None if name.endswith(COMMON_RANKED) else _KIND
        if name.endswith(COMMON):
            target = _COMMON
        rows.append(Row(name, costs[name, "ours"], by_patient, target))
    return Section("CPU time per request, µs", "this search", "by patient", rows)


def _rate_rows(type_name: str, rates: dict[tuple[int, int], list[float]]) -> list[Row]:
    """Return a type's rows; rates are by the side's place and the number of connections."""
    rows = [
        Row(
            label(type_name, f"{BY_PATIENT}, {count} connections"),
            rates[0, count],
            rates[1, count],
        )
        for count in (FEW, MANY)
    ]
    name = label(type_name, f"{MANY} connections against {FEW}")
    target = _MANY_CONNECTIONS if type_name == ALLERGIES else None
    return [*rows, Row(name, rates[0, MANY], rates[0, FEW], target)]


def _memory(name: str, target: Target, *servers: Server) -> Row:
    used = [server.private_megabytes() for server in servers]
    return Row(name, *used, target=target, sums_up=max)


def _is_of_allergies(name: str) -> bool:
    return name.startswith(LABELS[ALLERGIES])
