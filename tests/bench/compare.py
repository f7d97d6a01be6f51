"""`python -m tests.bench --compare FOLDER`: what a request costs here against another checkout.

Each imports the same records with its own command, and they are asked in turn, round by round, so
that the effect of a change is known within a minute.
"""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

from tests.bench import measure, questions, records
from tests.bench.measure import Candidate
from tests.bench.records import Size
from tests.bench.rows import Row, Section
from tests.bench.servers import ROOT, command, environment, issue_token, ours, recorded

_SIZE = Size(patients=50, allergies=500, documents=500)
_ROUNDS, _SECONDS = 7, 0.1


def compare(other: Path, folder: Path) -> Section:
    """Return what each row's request costs here and there. Raises SystemExit."""
    if not (other / "app.py").exists():
        raise SystemExit(f"{other} is no checkout: it has no app.py")
    files = records.write(folder, _SIZE).values()
    rows = questions.questions(_SIZE, {}) | questions.kinds_of_search(_SIZE)
    sides: list[dict[str, Candidate]] = []
    with ExitStack() as stack:
        for name, checkout in (("here", ROOT), ("there", other)):
            instance, log = folder / name, folder / f"{name}.log"
            words = command("import", *map(str, files))
            environ = environment(instance)
            subprocess.run(words, cwd=checkout, env=environ, check=True, capture_output=True)
            token = issue_token(instance, checkout)
            server = ours(instance, log, checkout, FHIRAPP_PROCESSES="1")
            stack.enter_context(server).first_answer("/fhir/metadata")
            answers = recorded(server, token, rows)
            sides.append(
                {
                    row: Candidate(server, token, questions.asked(row, paths, answers))
                    for row, paths in rows.items()
                }
            )
        alternating = [side[name] for name in rows for side in sides]
        measure.cpu_rounds(alternating, _ROUNDS, _SECONDS)
    return Section(
        "CPU time per request, µs",
        "here",
        "there",
        [Row(name, *(side[name].costs for side in sides)) for name in rows],
    )
