"""`python -m tests.bench --compare FOLDER`: cost per request here and in another checkout.

Each checkout imports the same records with its own command. The requests alternate between the
two, round by round.
"""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

from tests.bench import queries, records
from tests.bench.measure import Candidate, cpu_rounds
from tests.bench.records import Size
from tests.bench.report import Row, Section
from tests.bench.servers import ROOT, command, environment, issue_token, ours, record

_SIZE = Size(patients=50, allergies=500, documents=500)
_ROUNDS = 5


def compare(other: Path, folder: Path) -> Section:
    """Return the cost of each row's request in both checkouts. Raises SystemExit."""
    if not (other / "app.py").exists():
        raise SystemExit(f"{other} is not a checkout: it has no app.py")
    files = records.write(folder, _SIZE).values()
    rows = queries.queries(_SIZE, {}) | queries.search_kinds(_SIZE)
    sides: list[dict[str, Candidate]] = []
    with ExitStack() as stack:
        for name, checkout in (("here", ROOT), ("there", other)):
            instance, log = folder / name, folder / f"{name}.log"
            words = command("import", *map(str, files))
            environ = environment(instance)
            subprocess.run(words, cwd=checkout, env=environ, check=True, capture_output=True)
            token = issue_token(instance, checkout)
            server = ours(instance, log, checkout, FHIRAPP_PROCESSES="1")
            stack.enter_context(server).wait_for("/fhir/metadata")
            responses = record(server, token, rows)
            candidates = {
                row: Candidate(server, token, queries.requests(row, paths, responses))
                for row, paths in rows.items()
            }
            sides.append(candidates)
        cpu_rounds([side[name] for name in rows for side in sides], _ROUNDS)
    compared = [Row(name, *(side[name].costs for side in sides)) for name in rows]
    return Section("CPU time per request, µs", "here", "there", compared)
