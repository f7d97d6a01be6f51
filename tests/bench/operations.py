"""Run an import or exports in this process, and print their cost as JSON.

    python -m tests.bench.operations import WARM_UP PATH [--prefix PREFIX] [--no-provenance]
    python -m tests.bench.operations export TYPE FOLDER

The CPU time excludes the start of the interpreter and the application: an import of WARM_UP, or a
first export, loads all modules before. Exports are repeated until they can be measured. The line
"started" precedes the measured work. The process ends with its standard input.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from fhirapp.cli.common import opened_app
from fhirapp.config import settings_of
from fhirapp.definition import types
from fhirapp.features.exports.export import ExportOptions, export_to, types_to_export
from fhirapp.features.imports.importer import import_paths
from fhirapp.features.imports.runs import Options
from tests.bench.cpu import MIN_SECONDS


def main() -> None:
    """Run the operation and print its cost."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["import", "export"])
    parser.add_argument("arguments", nargs=2)
    parser.add_argument("--prefix", default="")
    parser.add_argument("--no-provenance", dest="provenance", action="store_false")
    options = parser.parse_args()
    with opened_app(None) as app:
        if options.verb == "import":
            warm_up, path = map(Path, options.arguments)
            how = Options(prefix=options.prefix, provenance=options.provenance)

            def load(file: Path) -> None:
                report = import_paths([file], types(), settings_of(app), how)
                assert report.complete, report

            load(warm_up)
            repeat(lambda _run: load(path), 0)
        else:
            type_name, folder = options.arguments
            export(type_name, Path(folder, "warm-up"))
            repeat(lambda run: export(type_name, Path(folder, str(run))), MIN_SECONDS)
        sys.stdin.read()


def repeat(operation: Callable[[int], object], least: float) -> None:
    """Repeat an operation until it took so many CPU seconds; print the cost."""
    print("started", flush=True)
    start, runs, spent = cpu_seconds(), 0, 0.0
    while not runs or spent < least:
        operation(runs)
        runs += 1
        spent = cpu_seconds() - start
    print(json.dumps({"cpu_seconds": spent, "runs": runs}), flush=True)


def export(type_name: str, folder: Path) -> None:
    """Export all resources of a type."""
    options = ExportOptions(types_to_export(types(), [type_name]))
    export_to(folder, options, types()["Binary"], request="fhirapp export")


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()
