"""Which tests are run against a mutant: those that enter its line, from the nearest module on."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from coverage.numbits import nums_to_numbits, register_sqlite_functions

_ENOUGH = 20
_BROAD = 40
_SLOW_SECONDS = 20.0
_NO_WORDS = {"test", "tests", "fhirapp", "init", "py"}


class Selection:
    """The tests of a checkout, chosen by what the plugin of contexts.py wrote."""

    def __init__(self, root: Path, name: Path) -> None:
        self.root = root
        self.seconds: dict[str, float] = json.loads(Path(f"{name}.json").read_text("utf-8"))
        self._database = sqlite3.connect(f"{name}.coverage", check_same_thread=False)
        register_sqlite_functions(self._database)
        if not self._knows(f"{root}{os.sep}"):
            raise SystemExit(f"{name}.coverage is of another checkout than {root}")

    def _knows(self, folder: str) -> bool:
        found = self._database.execute(
            "SELECT 1 FROM file WHERE substr(path, 1, ?) = ?", (len(folder), folder)
        )
        return found.fetchone() is not None

    def choose(self, file: str, lines: tuple[int, int], limit: int) -> tuple[list[str], int]:
        """Return the tests to run, at most limit, and how many tests enter these lines at all.

        Where few enter them, as those that run once on import or in a shared fixture, or in another
        process, there follow the tests of fixtures' modules, those near by name, and broad ones.
        """
        calls, fixtures = self._enter(file, range(lines[0], lines[1] + 1))
        chosen = self._spread(calls, file, limit)
        if len(chosen) < _ENOUGH:
            mates = {_module(test) for test in fixtures}
            near = self._nearest(file)
            for further in (
                [test for test in self.seconds if _module(test) in mates],
                [test for test in self.seconds if _module(test) in near],
                self._broad,
            ):
                spread = self._spread(further, file, limit // 2)
                chosen += [test for test in spread if test not in chosen]
        return chosen[:limit], len(calls)

    def _enter(self, file: str, lines: Iterable[int]) -> tuple[set[str], set[str]]:
        """Return the tests that enter one of the lines themselves, and those whose fixtures do."""
        found = self._database.execute(
            "SELECT DISTINCT context FROM line_bits JOIN context ON context.id = context_id"
            " JOIN file ON file.id = file_id"
            " WHERE path = ? AND numbits_any_intersection(numbits, ?)",
            (str(self.root / file), nums_to_numbits(lines)),
        )
        tests: dict[str, set[str]] = defaultdict(set)
        for (context,) in found:
            test, _, phase = context.rpartition("|")
            tests[phase].add(test)
        return tests["call"], tests["setup"]

    def _spread(self, tests: Iterable[str], file: str, limit: int) -> list[str]:
        """Return some of the tests: many of the nearest modules, a few of all others."""
        modules: dict[str, list[str]] = defaultdict(list)
        for test in tests:
            if self.seconds.get(test, _SLOW_SECONDS) < _SLOW_SECONDS:
                modules[_module(test)].append(test)
        nearest = sorted(modules, key=lambda module: (-self._nearness(module, file), module))
        ordered = [self._varied(modules[module]) for module in nearest]
        shares = [max(2, limit // 4 >> rank) for rank in range(len(ordered))]
        first, rest = [], []
        for tests_of_module, share in zip(ordered, shares, strict=True):
            first += tests_of_module[:share]
            rest += tests_of_module[share:]
        return [*first, *rest][:limit]

    def _varied(self, tests: list[str]) -> list[str]:
        """Return tests with the shortest first, but one case of each before a second one."""
        cases: Counter[str] = Counter()
        order = {}
        for test in sorted(tests, key=lambda test: (self.seconds[test], test)):
            function = test.partition("[")[0]
            order[test] = cases[function]
            cases[function] += 1
        return sorted(order, key=order.__getitem__)

    def _nearest(self, file: str) -> set[str]:
        modules = sorted({_module(test) for test in self.seconds})
        modules.sort(key=lambda module: -self._nearness(module, file))
        return {module for module in modules[:8] if self._nearness(module, file)}

    def _nearness(self, module: str, file: str) -> int:
        """Return how many words two names have in common; importing a module counts as three."""
        path = Path(file).with_suffix("")
        package, name = ".".join(path.parts[:-1]), path.parts[-1]
        imported = rf"{package}\.{name}\b|from {package} import [^\n]*\b{name}\b"
        return len(_words(module) & _words(file)) + 3 * bool(
            re.search(imported, self._texts[module])
        )

    @cached_property
    def _texts(self) -> dict[str, str]:
        return {
            module: (self.root / module).read_text("utf-8")
            for module in {_module(test) for test in self.seconds}
        }

    @cached_property
    def _broad(self) -> list[str]:
        """Return short tests that together enter as many files as so few can."""
        files: dict[str, set[int]] = defaultdict(set)
        for context, file in self._database.execute(
            "SELECT context, file_id FROM line_bits JOIN context ON context.id = context_id"
        ):
            test, _, phase = context.rpartition("|")
            if phase == "call" and self.seconds.get(test, 1) < 1:
                files[test].add(file)
        found: list[str] = []
        entered: set[int] = set()
        while files and len(found) < _BROAD:
            best = max(sorted(files), key=lambda test: len(files[test] - entered))
            entered |= files.pop(best)
            found.append(best)
        return found


def _module(test: str) -> str:
    return test.partition("::")[0]


def _words(path: str) -> set[str]:
    return {word.rstrip("s") for word in re.findall(r"[a-z0-9]+", path.lower())} - _NO_WORDS
