"""`python -m tests.bench`: load a database, serve it, and print what that costs as a table.

`python -m tests.bench scale` is another: cost against rows and against servers (scale.py), and
`python -m tests.bench paint` only that of pages in a browser (paint.py). With `--compare FOLDER`
requests are asked of this checkout and of the one in that folder, in turn (compare.py).
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from tests.bench import database, measure, scale
from tests.bench.compare import compare
from tests.bench.database import Database
from tests.bench.paint import first_paint
from tests.bench.records import Size
from tests.bench.rows import Section, table
from tests.bench.sections import Bench, Effort

_QUICK = Effort(
    rounds=1, cpu_seconds=0.01, rate_rounds=1, rate_seconds=0.2, starts=1, burden=100, documents=3
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its table."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["scale"]:
        scale.main(words[1:])
        return
    if words == ["paint"]:
        with tempfile.TemporaryDirectory(prefix="fhirapp-bench-") as folder:
            print(table(first_paint(Path(folder), Effort.rounds)))
        return
    options = _options(words)
    if options.compare:
        with tempfile.TemporaryDirectory(prefix="fhirapp-bench-") as folder:
            print(table([compare(options.compare.absolute(), Path(folder))]))
        return
    size = Size(options.patients, options.allergies, options.documents)
    effort = _QUICK if options.quick else Effort(rounds=options.rounds)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        run(options.keep.absolute(), size, effort)
    else:
        with tempfile.TemporaryDirectory(prefix="fhirapp-bench-") as folder:
            run(Path(folder), size, effort)


def run(folder: Path, size: Size, effort: Effort) -> None:
    """Load what is not loaded yet, measure, print."""
    began = time.monotonic()
    _say(f"loading {size}")
    full = database.load(folder / "full", size, timed=True)
    small = database.load(folder / "small", size.hundredth(), timed=False)
    bench = Bench(folder, full, small, effort)
    _say("measuring CPU time per request")
    costs, memory = bench.costs()
    costs.append(bench.protection())
    _say("measuring requests per second")
    rates, memory_later = bench.rates()
    of_cores = bench.cores()
    _say("measuring starts")
    starts = bench.starts()
    private = Section("RssAnon, MB a process", "ours", "bare", [*memory, memory_later])
    _say("measuring data in and out")
    in_and_out = bench.exchange()
    _say("measuring pages in a browser")
    painted = first_paint(folder, effort.starts)
    print(table([*costs, rates, *of_cores, *in_and_out, private, starts, *painted]))
    print()
    print(_notes(effort, full, small, time.monotonic() - began))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--allergies", type=int, default=100_000)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--patients", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=Effort.rounds, help="of CPU time")
    parser.add_argument("--quick", action="store_true", help="a trial: one short round")
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="FOLDER",
        help="ask another checkout too, request by request",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the databases here, and use them again"
    )
    return parser.parse_args(arguments)


def _notes(effort: Effort, full: Database, small: Database, seconds: float) -> str:
    kinds = ", ".join(
        f"{name} {version(name)}" for name in ("waitress", "flask", "sqlalchemy", "orjson")
    )
    cores = measure.cores()
    return (
        f"Machine: {_processor()}, {len(cores)} cores; "
        f"Python {platform.python_version()}; {kinds}.\n"
        f"Database: {full.size}, {full.megabytes:,.0f} MB; the smaller one: {small.size}.\n"
        f"CPU time: {effort.rounds} rounds of {effort.cpu_seconds} s a side; server and bare "
        f"application are one process each, on core {cores[0]}, asked from another core over "
        f"{measure.CONNECTIONS} connections; ratios are medians of the rounds' ratios.\n"
        f"Requests per second: {effort.rate_rounds} rounds of {effort.rate_seconds} s; one process "
        "for each core on either side.\n"
        "Imports: one process for all of a type, the start of the command taken off. RssAnon: of "
        "the largest process; the bare one's holds the answers that it repeats.\n"
        f"The whole took {seconds:.0f} s."
    )


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
