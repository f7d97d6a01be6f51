"""Which tests are run against a mutant: those that enter its line, from the nearest module on."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from threading import Lock

from coverage.numbits import nums_to_numbits, register_sqlite_functions

_ENOUGH = 20
_BROAD = 40
_QUICK_SECONDS, _SLOW_SECONDS = 1.5, 20.0
_CODE = "fhirapp"
_DEFINITION = re.compile(r"\s*(?:(?:async )?def (\w+)|(\w+)(?:: .*?)? = )")
_NO_WORDS = {"test", "tests", "fhirapp", "init", "py"}


class Selection:
    """The tests of a checkout, chosen by what the plugin of contexts.py wrote.

    Its files may be of another checkout or of several runs. Without any, tests are chosen by name.
    """

    def __init__(self, root: Path, names: Iterable[Path]) -> None:
        self.root = root
        self.lock = Lock()
        self.seconds: dict[str, float] = {}
        # Each database, with the ids of its files by their path in the checkout.
        self._databases: list[tuple[sqlite3.Connection, dict[str, int]]] = []
        for name in names:
            uri = f"file:{name}.coverage?mode=ro"
            database = sqlite3.connect(uri, uri=True, check_same_thread=False)
            register_sqlite_functions(database)
            files = {
                f"{_CODE}/{path.rpartition(f'/{_CODE}/')[2].removeprefix(f'{_CODE}/')}": number
                for number, path in database.execute("SELECT id, path FROM file")
            }
            self._databases.append((database, files))
            seconds = Path(f"{name}.json")
            if seconds.exists():
                self.seconds |= json.loads(seconds.read_text("utf-8"))
                continue
            # The run was interrupted.
            for (context,) in database.execute("SELECT context FROM context"):
                test, _, phase = context.rpartition("|")
                self.seconds |= {test: 1.0} if phase == "call" else {}

    @cached_property
    def modules(self) -> list[str]:
        """The modules of tests of the checkout."""
        paths = (self.root / "tests").rglob("test_*.py")
        return sorted(path.relative_to(self.root).as_posix() for path in paths)

    def choose(self, file: str, lines: tuple[int, int], limit: int) -> list[str]:
        """Return the tests to run, at most limit.

        Where few enter the lines, as those that run once on import or in a shared fixture, or in
        another process, there follow tests of the fixtures' modules, near by name, and broad ones.
        """
        if not self.seconds:
            return self.nearest(file)[: max(2, limit // 10)]
        calls, fixtures = self._enter(file, range(lines[0], lines[1] + 1))
        if not calls:
            for other, uses in self._uses(file, lines[0]):
                calls |= self._enter(other, uses)[0]
        chosen = self._spread(calls, file, limit)
        if len(chosen) < _ENOUGH:
            mates = {module_of(test) for test in fixtures}
            near = self.nearest(file)
            for further in (
                [test for test in self.seconds if module_of(test) in mates],
                [test for test in self.seconds if module_of(test) in near],
                self._broad,
            ):
                spread = self._spread(further, file, limit // 2)
                chosen += [test for test in spread if test not in chosen]
        return chosen[:limit]

    def _enter(self, file: str, lines: Iterable[int]) -> tuple[set[str], set[str]]:
        """Return the tests that enter one of the lines themselves, and those whose fixtures do."""
        tests: dict[str, set[str]] = defaultdict(set)
        for database, files in self._databases:
            for (context,) in database.execute(
                "SELECT DISTINCT context FROM line_bits JOIN context ON context.id = context_id"
                " WHERE file_id = ? AND numbits_any_intersection(numbits, ?)",
                (files.get(file, -1), nums_to_numbits(lines)),
            ):
                test, _, phase = context.rpartition("|")
                tests[phase].add(test)
        return tests["call"], tests["setup"]

    def _uses(self, file: str, line: int) -> Iterator[tuple[str, list[int]]]:
        """Yield the files and lines that use the function or variable that a line defines."""
        defined = _DEFINITION.match(self._code[file][line - 1])
        if defined is None:
            return
        name = re.compile(rf"\b{defined[1] or defined[2]}\b")
        path = Path(file)
        module_name = path.parent.name if path.stem == "__init__" else path.stem
        module = re.compile(rf"\b{module_name}\b")
        for other, text in self._code.items():
            uses = [number for number, content in enumerate(text, 1) if name.search(content)]
            if uses and (other == file or module.search("\n".join(text))):
                yield other, uses

    @cached_property
    def _code(self) -> dict[str, list[str]]:
        paths = (self.root / _CODE).rglob("*.py")
        return {
            path.relative_to(self.root).as_posix(): path.read_text("utf-8").splitlines()
            for path in paths
        }

    def _spread(self, tests: Iterable[str], file: str, limit: int) -> list[str]:
        """Return some of the tests: many of the nearest modules, a few of all others."""
        slow = _QUICK_SECONDS if limit < _ENOUGH else _SLOW_SECONDS
        modules: dict[str, list[str]] = defaultdict(list)
        for test in tests:
            if self.seconds.get(test, slow) < slow and module_of(test) in self._texts:
                modules[module_of(test)].append(test)
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

    def nearest(self, file: str) -> list[str]:
        """Return the modules whose names and imports are the nearest to those of a file."""
        nearness = {module: self._nearness(module, file) for module in self.modules}
        return sorted(filter(nearness.get, nearness), key=lambda module: -nearness[module])[:8]

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
        return {module: (self.root / module).read_text("utf-8") for module in self.modules}

    @cached_property
    def _broad(self) -> list[str]:
        """Return short tests that together enter as many files as so few can."""
        files: dict[str, set[int]] = defaultdict(set)
        for database, numbers in self._databases:
            names = {number: hash(name) for name, number in numbers.items()}
            for context, number in database.execute(
                "SELECT context, file_id FROM line_bits JOIN context ON context.id = context_id"
            ):
                test, _, phase = context.rpartition("|")
                if phase == "call" and self.seconds.get(test, 1) < 1:
                    files[test].add(names[number])
        found: list[str] = []
        entered: set[int] = set()
        while files and len(found) < _BROAD:
            best = max(sorted(files), key=lambda test: len(files[test] - entered))
            entered |= files.pop(best)
            found.append(best)
        return found


def module_of(test: str) -> str:
    """Return the path of the module of a test's node id."""
    return test.partition("::")[0]


def _words(path: str) -> set[str]:
    return {word.rstrip("s") for word in re.findall(r"[a-z0-9]+", path.lower())} - _NO_WORDS
