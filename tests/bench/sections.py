"""The sections of the table: what each starts and measures, and its targets."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench import exchange, queries
from tests.bench.cpu import cores
from tests.bench.database import Database
from tests.bench.load import Load
from tests.bench.measure import Candidate, cpu_rounds
from tests.bench.queries import (
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
    deep_page,
    label,
    page_path,
    requests,
)
from tests.bench.report import Row, Section, Target
from tests.bench.servers import Server, bare, issue_token, ours, record

# Most targets are for allergies; documents are measured for comparison.
_COST = {
    label(ALLERGIES, READ): Target(3),
    label(ALLERGIES, BY_PATIENT): Target(4.5),
    label(ALLERGIES, REVINCLUDE): Target(6.5),
    **{label(name, FIRST_PAGE): Target(5) for name in LABELS},
    **dict.fromkeys(PUBLIC, Target(1.5)),
}
_KIND, _COMMON = Target(1.5), Target(1.3)
_DEEP_PAGE = Target(1.2)
_IDLE, _LATER = Target(60, is_absolute=True), Target(75, is_absolute=True)
_PROCESSES = Target(1.8, at_most=False)
_MANY = Target(0.95, at_most=False)
_CROWD = Target(0.9, at_most=False)
_BUSY = Target(0.7, at_most=False)
_START = Target(0.7, is_absolute=True)
_COST_TITLE = "CPU time per request, µs"

FEW, MANY, CROWD = 8, 64, 512
_BUSY_LOOP = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"

# CPU µs per request in each round, by the row and "ours" or "bare".
Costs = dict[tuple[str, str], list[float]]


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    # Of CPU time; each takes half a second of CPU time per server.
    rounds: int = 9
    rate_rounds: int = 5
    rate_seconds: float = 2
    starts: int = 7
    # Of exports.
    exports: int = 3
    # Allergies that are imported during searches.
    burden: int = 6_000
    ccda_documents: int = 100


QUICK = Effort(1, 1, 0.5, starts=1, exports=1, burden=500, ccda_documents=5)


class Bench:
    """The database, a token for it, and a folder for logs and further databases."""

    def __init__(self, folder: Path, database: Database, effort: Effort) -> None:
        self._folder, self._database, self._effort = folder, database, effort
        self._token = issue_token(database.instance)

    def costs(self) -> list[Section]:
        """Measure CPU time per request, and memory before and after it."""
        size = self._database.size
        with ours(self._database.instance, self._log("ours"), FHIRAPP_PROCESSES="1") as server:
            server.wait_for("/fhir/metadata")
            memory = [_memory("idle", _IDLE, server)]
            rows = queries.queries(size, self._deep_pages(server)) | PUBLIC
            kinds = queries.search_kinds(size)
            responses = record(server, self._token, rows | kinds)
            candidates = {}
            with bare(responses, self._log("bare"), cores()[:1]) as bare_server:
                bare_server.wait_for(rows[label(ALLERGIES, READ)][0])
                for name, paths in (rows | kinds).items():
                    sent = requests(name, paths, responses)
                    candidates[name, "ours"] = Candidate(server, self._token, sent)
                    if name in rows:
                        candidates[name, "bare"] = Candidate(bare_server, self._token, sent)
                cpu_rounds(list(candidates.values()), self._effort.rounds)
                memory.append(_memory("after these requests", _LATER, server, bare_server))
        costs = {key: candidate.costs for key, candidate in candidates.items()}
        return [
            _against_bare(costs),
            _against_patient(costs, list(kinds)),
            self._against_first_page(costs),
            Section("RssAnon of a process, MB", "ours", "bare", memory),
        ]

    def throughput(self) -> list[Section]:
        """Measure requests per second of one process, and of a process per core, in turn."""
        instance = self._database.instance
        paths = queries.by_patient(ALLERGIES, self._database.size)
        rates: dict[str, list[float]] = defaultdict(list)
        with (
            ours(instance, self._log("one"), FHIRAPP_PROCESSES="1") as one_process,
            ours(instance, self._log("all")) as server,
        ):
            for started in (one_process, server):
                started.wait_for("/fhir/metadata")
            responses = record(server, self._token, {BY_PATIENT: paths})
            asked = requests(BY_PATIENT, paths, responses)

            def measure(name: str, server: Server, connections: int) -> None:
                with Load(server.port, self._token, asked, connections) as load:
                    rates[name].append(load.rate(self._effort.rate_seconds))

            for _ in range(self._effort.rate_rounds):
                measure("one process", one_process, FEW)
                for count in (FEW, MANY, CROWD):
                    measure(str(count), server, count)
                with _busy_first_core():
                    measure("busy", server, MANY)
        few, many = rates[str(FEW)], rates[str(MANY)]
        rows = [
            Row(f"a process per core, against one, {FEW}", few, rates["one process"], _PROCESSES),
            Row(f"{MANY} connections, against {FEW}", many, few, _MANY),
            Row(f"{CROWD} connections, against {FEW}", rates[str(CROWD)], few, _CROWD),
            Row(f"first core busy, against idle, {MANY}", rates["busy"], many, _BUSY),
        ]
        return [Section("Requests per second, search by patient", "this", "against", rows)]

    def exchange(self) -> list[Section]:
        """Measure imports and exports."""
        effort = self._effort
        return [
            *exchange.imports(self._database, self._folder, effort.ccda_documents),
            exchange.exports(self._database, effort.exports),
            exchange.searches_during_import(self._folder, effort.rate_seconds, effort.burden),
        ]

    def starts(self) -> list[Section]:
        """Measure the seconds from the start of a process to its first 200."""
        path = queries.by_patient(ALLERGIES, self._database.size)[0]
        metadata, search = [], []
        for _ in range(self._effort.starts):
            with ours(self._database.instance, self._log("starts")) as server:
                metadata.append(server.wait_for("/fhir/metadata"))
                search.append(server.wait_for(path, self._token))
        rows = [
            Row("GET /fhir/metadata", metadata, target=_START),
            Row("then a search by patient", search, target=_START),
        ]
        return [Section("Start to first 200, s", "ours", "", rows)]

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _deep_pages(self, server: Server) -> dict[str, str]:
        pages = {name: queries.deep_page_number(self._database.size, name) for name in LABELS}
        return {name: page_path(server, self._token, name, page) for name, page in pages.items()}

    def _against_first_page(self, costs: Costs) -> Section:
        rows = []
        for type_name in LABELS:
            page = deep_page(self._database.size, type_name)
            deep, first = (costs[label(type_name, name), "ours"] for name in (page, FIRST_PAGE))
            target = _DEEP_PAGE if type_name == ALLERGIES else None
            rows.append(Row(label(type_name, f"{page} against page 1"), deep, first, target))
        return Section(_COST_TITLE, "far back", "page 1", rows)


def _against_bare(costs: Costs) -> Section:
    rows = [
        Row(name, cost, costs[name, "bare"], _COST.get(name))
        for (name, side), cost in costs.items()
        if side == "ours" and (name, "bare") in costs
    ]
    return Section(_COST_TITLE, "ours", "bare", rows)


def _against_patient(costs: Costs, names: list[str]) -> Section:
    """Compare the kinds of search with the search by patient of the same type."""
    # Ranking scores up to 20,000 matches: it has a bound of its own and no target here.
    targets = {label(DOCUMENTS, COMMON): _COMMON, label(DOCUMENTS, COMMON_RANKED): None}
    rows = []
    for name in names:
        type_name = ALLERGIES if name.startswith(LABELS[ALLERGIES]) else DOCUMENTS
        by_patient = costs[label(type_name, BY_PATIENT), "ours"]
        rows.append(Row(name, costs[name, "ours"], by_patient, targets.get(name, _KIND)))
    return Section(_COST_TITLE, "this search", "by patient", rows)


def _memory(name: str, target: Target, *servers: Server) -> Row:
    """Return RssAnon of the largest process of each server."""
    return Row(name, *([max(server.private_megabytes())] for server in servers), target=target)


@contextmanager
def _busy_first_core() -> Iterator[None]:
    """Keep the first core busy with another program."""
    words = [sys.executable, "-c", _BUSY_LOOP, str(cores()[0])]
    with subprocess.Popen(words) as program:
        try:
            yield
        finally:
            program.kill()
