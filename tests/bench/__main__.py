"""`python -m tests.bench`: fill a database, serve it, and print its costs as a table.

`python -m tests.bench scale` measures costs against records and servers (scale.py),
`python -m tests.bench exchange` imports and exports alone, `python -m tests.bench paint` pages in
a browser (paint.py). `--compare FOLDER` compares this checkout with the one in FOLDER (compare.py).
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from tests.bench import database, measure, scale
from tests.bench.compare import compare
from tests.bench.cpu import MIN_SECONDS, cores
from tests.bench.database import Database
from tests.bench.paint import first_paint
from tests.bench.records import Size
from tests.bench.report import Section, table
from tests.bench.sections import QUICK, Bench, Effort


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark and print its table."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["scale"]:
        scale.main(words[1:])
        return
    options = _options(words)
    size = Size(options.patients, options.allergies, options.documents)
    effort = QUICK if options.quick else Effort(rounds=options.rounds)
    with tempfile.TemporaryDirectory(prefix="fhirapp-bench-") as name:
        folder = Path(name)
        instance = options.keep.absolute() if options.keep else folder / "database"
        if options.compare:
            print(table([compare(options.compare.absolute(), folder)]))
        elif options.only == "paint":
            print(table(first_paint(folder, effort.starts)))
        else:
            run(folder, instance, size, effort, only_exchange=options.only == "exchange")


def run(folder: Path, instance: Path, size: Size, effort: Effort, *, only_exchange: bool) -> None:
    """Fill the database if it is missing, measure, and print."""
    began = time.monotonic()
    _say(f"loading {size}")
    loaded = database.load(instance, size)
    bench = Bench(folder, loaded, effort)
    steps: dict[str, Callable[[], list[Section]]] = {
        "CPU time per request": bench.costs,
        "requests per second": bench.throughput,
        "starts": bench.starts,
        "pages in a browser": lambda: first_paint(folder, effort.starts),
    }
    sections = []
    for name, measure_step in ({} if only_exchange else steps).items():
        _say(f"measuring {name}")
        sections += measure_step()
    _say("measuring imports and exports")
    sections += bench.exchange()
    print(table(sections), _notes(effort, loaded, time.monotonic() - began), sep="\n\n")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("only", nargs="?", choices=["exchange", "paint"])
    parser.add_argument("--allergies", type=int, default=100_000)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--patients", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=Effort.rounds, help="of CPU time")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--compare", type=Path, metavar="FOLDER", help="another checkout")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep and reuse the database")
    return parser.parse_args(arguments)


def _notes(effort: Effort, loaded: Database, seconds: float) -> str:
    packages = ("waitress", "flask", "sqlalchemy", "orjson")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return (
        f"Machine: {_processor()}, {len(cores())} cores; "
        f"Python {platform.python_version()}; {versions}.\n"
        f"Database: {loaded.size}, {loaded.bytes_on_disk / 1e6:,.0f} MB.\n"
        f"CPU time: {effort.rounds} rounds of {MIN_SECONDS} s per server; our server and the bare "
        f"one are one process each, on core {cores()[0]}, the client is on another core with "
        f"{measure.CONNECTIONS} connections; ratios are medians of the ratios of the rounds.\n"
        f"Requests per second: {effort.rate_rounds} rounds of {effort.rate_seconds} s.\n"
        "Imports and exports: CPU time without the start of the process. RssAnon is that of the "
        "largest process; the bare server's includes the responses.\n"
        f"Duration: {seconds:.0f} s."
    )


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
