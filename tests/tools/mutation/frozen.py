"""The frozen list of mutants: how they are drawn, stored, and found again in changed code."""

from __future__ import annotations

import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.tools.mutation.mutants import Mutant, mutants

_LEAST_OF_PACKAGE = 3
_EXCLUDED = ("migrations", "vendor")
# A replaced text of this length is found in its function even when the rest of its line changes.
_DISTINCT = 20


@dataclass(frozen=True)
class Frozen:
    """A mutant of a file: where it was, what it replaces, and the tests that caught it."""

    id: str
    file: str
    line: int
    column: int
    function: str
    kind: str
    text: str
    before: str
    after: str
    caught: bool = False
    by: tuple[str, ...] = ()

    @classmethod
    def of(cls, file: str, text: str, mutant: Mutant) -> Frozen:
        """Describe a mutant of a file's text."""
        line = text.splitlines()[mutant.line - 1]
        place = {
            "file": file,
            "line": mutant.line,
            "column": mutant.column - (len(line.encode()) - len(line.lstrip().encode())),
            "function": mutant.function,
            "kind": mutant.kind,
            "text": line.strip(),
            "before": _squeezed(mutant.replaced(text)),
            "after": mutant.replacement,
        }
        digest = hashlib.sha256(json.dumps(place).encode()).hexdigest()
        return cls(id=digest[:8], **place)

    def find(self, text: str) -> Mutant | None:
        """Find the mutant in the present text of its file: the nearest place like the first one.

        The rest of the line may differ if the function is the same and the replaced text is long.
        If there is no such function any more, it may have another name and the same line.
        """
        described = _described(self.file, text)
        renamed = all(found.function != self.function for _, found in described)
        similar = [
            (mutant, found)
            for mutant, found in described
            if (found.kind, found.after) == (self.kind, self.after)
            and _bare(found.before) == _bare(self.before)
            and (renamed or found.function == self.function)
        ]
        same_line = [pair for pair in similar if pair[1].text == self.text]
        if not same_line and (renamed or len(self.before) < _DISTINCT):
            return None
        near = same_line or similar
        return min(near, key=lambda pair: self._distance(pair[1]))[0] if near else None

    def _distance(self, found: Frozen) -> tuple[int, int]:
        return abs(found.line - self.line), abs(found.column - self.column)

    def judged(self, caught: bool, by: Iterable[str]) -> Frozen:
        """Return the mutant with what the tests said."""
        return replace(self, caught=caught, by=tuple(by))

    def moved(self, text: str, mutant: Mutant) -> Frozen:
        """Return the mutant at its present place, with its id."""
        found = Frozen.of(self.file, text, mutant)
        return replace(found, id=self.id, caught=self.caught, by=self.by)


@lru_cache(maxsize=4)
def _described(file: str, text: str) -> list[tuple[Mutant, Frozen]]:
    return [
        (mutant, Frozen.of(file, text, mutant))
        for same in mutants(text).values()
        for mutant in same
    ]


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _bare(text: str) -> str:
    """Return a text without what a formatter changes."""
    return "".join(text.split()).replace(",)", ")").replace(",]", "]").replace(",}", "}")


def load(path: Path) -> list[Frozen]:
    """Read a list."""
    return [_parsed(entry) for entry in json.loads(path.read_text("utf-8"))]


def load_lines(path: Path) -> list[Frozen]:
    """Read what was appended to a file; an incomplete last line is not read."""
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    return [_parsed(json.loads(line)) for line in lines if line.endswith("\n")]


def _parsed(entry: dict[str, Any]) -> Frozen:
    return Frozen(**{**entry, "by": tuple(entry["by"])})


def dump(frozen: Frozen) -> str:
    """Return a mutant as a line of JSON."""
    return json.dumps(asdict(frozen), ensure_ascii=False)


def save(path: Path, listed: Iterable[Frozen]) -> None:
    """Write a list, a line for each mutant, in the order of the code."""
    lines = [
        dump(frozen)
        for frozen in sorted(listed, key=lambda f: (f.file, f.line, f.column, f.after, f.id))
    ]
    new = path.with_suffix(".new")
    new.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")
    new.replace(path)


def draw(root: Path, count: int, seed: int) -> list[tuple[Mutant, Frozen]]:
    """Draw mutants on lines of all packages: by their size, and a few at least of each."""
    packages: dict[str, list[tuple[str, str, list[Mutant]]]] = defaultdict(list)
    for path in sorted((root / "fhirapp").rglob("*.py")):
        file = path.relative_to(root)
        if not set(file.parts) & set(_EXCLUDED):
            text = path.read_text("utf-8")
            places = [(str(file), text, same) for _, same in sorted(mutants(text).items())]
            packages["/".join(file.parts[:-1][:3])] += places
    sizes = {package: len(places) for package, places in packages.items() if places}
    drawn: list[tuple[Mutant, Frozen]] = []
    for package, share in shares(sizes, count).items():
        chance = random.Random(f"{seed}:{package}")
        places = packages[package]
        chance.shuffle(places)
        drawn += _first_valid(places, share, chance)
    # Whoever stops early has some of each package.
    random.Random(seed).shuffle(drawn)
    return drawn


def _first_valid(
    places: Iterable[tuple[str, str, list[Mutant]]], count: int, chance: random.Random
) -> Iterator[tuple[Mutant, Frozen]]:
    for file, text, same in places:
        if not count:
            return
        chance.shuffle(same)
        for mutant in same:
            if mutant.compiles(text):
                yield mutant, Frozen.of(file, text, mutant)
                count -= 1
                break


def shares(sizes: dict[str, int], count: int) -> dict[str, int]:
    """Divide a count by size; no share is below the least one, or above the size."""
    total = sum(sizes.values())
    divided = {
        name: min(size, max(_LEAST_OF_PACKAGE, count * size // total))
        for name, size in sizes.items()
    }
    while (missing := min(count, total) - sum(divided.values())) > 0:
        name = max(
            sizes,
            key=lambda name: sizes[name] / (divided[name] + 1) * (divided[name] < sizes[name]),
        )
        divided[name] += min(missing, 1)
    while sum(divided.values()) > count and max(divided.values()) > _LEAST_OF_PACKAGE:
        divided[max(divided, key=lambda name: divided[name])] -= 1
    return divided


def draw_near(root: Path, file: str, function: str | None, seed: int) -> Iterator[Frozen]:
    """Yield mutants of a function, or of a whole file without one, in an order of chance."""
    text = (root / file).read_text("utf-8")
    described = [pair for pair in _described(file, text) if function in (None, pair[1].function)]
    random.Random(f"{seed}:{file}").shuffle(described)
    yield from (frozen for mutant, frozen in described if mutant.compiles(text))
