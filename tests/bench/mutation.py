"""`python -m tests.bench.mutation`: how many small mistakes in the code do the tests catch?

Lines of code are drawn at random; on each, one mistake is made in a copy of the checkout, and tests
that enter the line run until one fails (selection.py). A mutant that passes them survives: either
it behaves as the original does, or a test is missing; which of these, a reader decides.

The first run notes which tests enter which line (contexts.py): 20 minutes of one core, 43 on a busy
machine, where a mutant takes about 25 seconds. The results are written to a file after each mutant:
the same command goes on where it was stopped. `--again` runs the survivors against more tests, and
against all cases of these. Lines that only other processes run, or that run once on import, are
tried with the tests that are near by name.

The first edition (667415e, seed 1) was stopped early: 4 of the first 4 mutants were caught, of 100.

mutmut 3 changes only functions, all of them at once, and cosmic-ray runs one command for every
mutant of every file: neither draws a sample, and for each mutant runs the tests of its line alone.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from tests import ROOT
from tests.bench.mutants import Mutant, mutants
from tests.bench.selection import Selection

# They measure, kill and race processes, or read the checkout as git has it.
_LEFT_OUT = (
    "adding_a_type",
    "auth_races",
    "bench",
    "figures",
    "first_minute",
    "import_killed",
    "import_memory",
    "mutants",
    "packaging",
    "restore_interrupted",
    "vendored",
)
_LEAST_SECONDS = 180
_NOT_COPIED = (".git", ".venv", "__pycache__", "node_modules", ".*_cache")
_CAUGHT, _SURVIVED = "caught", "survived"


class Pick(NamedTuple):
    """A mutant of a file of the checkout."""

    file: str
    mutant: Mutant

    @property
    def key(self) -> str:
        return f"{self.file}:{self.mutant.line}"


class Outcome(NamedTuple):
    """What the tests said: passed, the failed ones, and the end of what pytest printed."""

    passed: bool
    failed: list[str]
    end: str


class Copy:
    """A copy of the checkout, beside a link to the folder that some tests read there."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = folder / root.name
        shutil.copytree(root, self.root, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        shared = root.parent / "shared"
        if shared.is_dir():
            (folder / shared.name).symlink_to(shared)
        self._cache, self._temporary = folder / "cache", folder / "temporary"
        # The mutants' own byte code is not kept: it would be taken for the original's.
        self._environ = {**os.environ, "PYTHONPATH": str(self.root)}
        self.run(["--collect-only", "tests"], None)
        self._environ["PYTHONDONTWRITEBYTECODE"] = "1"

    def run_mutant(self, pick: Pick, tests: list[str], seconds: float) -> Outcome:
        path = self.root / pick.file
        text, times = path.read_text("utf-8"), path.stat()
        path.write_text(pick.mutant.apply(text), "utf-8")
        try:
            return self.run(["-x", *tests], seconds)
        finally:
            path.write_text(text, "utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def run(self, arguments: list[str], seconds: float | None) -> Outcome:
        """Run pytest in the copy; a run that takes longer than these seconds fails."""
        shutil.rmtree(self._cache, ignore_errors=True)
        options = f"-q -n 0 --dist no --no-header --tb=short -o cache_dir={self._cache}"
        command = [sys.executable, "-m", "pytest", *options.split(), "-m", "not postgresql"]
        pytest = subprocess.Popen(
            [*command, f"--basetemp={self._temporary}", *arguments],
            cwd=self.root,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
            errors="replace",
        )
        try:
            output = pytest.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            return Outcome(False, [], f"no end within {seconds:.0f} seconds")
        finally:
            _end_group(pytest)
        # 5: the mutant left none of these tests.
        return Outcome(pytest.returncode in (0, 5), self._failed(), output[-600:])

    def _failed(self) -> list[str]:
        noted = self._cache / "v" / "cache" / "lastfailed"
        return list(json.loads(noted.read_text("utf-8"))) if noted.exists() else []


def _end_group(process: subprocess.Popen[str]) -> None:
    """End a process and all that it has left in its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Check:
    """A sample of mutants, and what has become of them so far, in a file."""

    def __init__(self, options: argparse.Namespace, selection: Selection) -> None:
        self.options, self.selection = options, selection
        self.root: Path = options.root
        self.picks = sample(self.root, options.package, options.lines, options.seed)
        self.results: dict[str, dict[str, Any]] = {}
        if options.results.exists():
            self.results = json.loads(options.results.read_text("utf-8"))

    def judge(self, picks: Iterable[Pick], folder: Path) -> None:
        """Run the tests of each mutant, some side by side, and keep what they say."""
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(self.options.j):
            place = folder / str(number)
            place.mkdir()
            copies.put(Copy(self.root, place))

        def run(pick: Pick, tests: list[str]) -> Outcome:
            copy = copies.get()
            try:
                return self._run(copy, pick, tests)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(self.options.j) as pool:
            waiting = []
            for pick in picks:
                tests, entering = self._tests(pick)
                waiting.append((pick, entering, len(tests), pool.submit(run, pick, tests)))
            for pick, entering, count, future in waiting:
                self._keep(pick, entering, count, future.result())

    def _tests(self, pick: Pick) -> tuple[list[str], int]:
        limit = self.options.tests * (5 if self.options.again else 1)
        tests, entering = self.selection.choose(pick.file, pick.mutant.statement, limit)
        if self.options.again:
            # Without what stands in brackets: all cases.
            tests = list(dict.fromkeys(test.partition("[")[0] for test in tests))
        return tests, entering

    def _run(self, copy: Copy, pick: Pick, tests: list[str]) -> Outcome:
        """Run the tests of a mutant, without those that fail in the unchanged copy too."""
        expected = sum(self.selection.seconds.get(test, 1) for test in tests)
        seconds = _LEAST_SECONDS + 10 * expected
        while tests:
            outcome = copy.run_mutant(pick, tests, seconds)
            if outcome.passed or not outcome.failed:
                return outcome
            if copy.run(outcome.failed, seconds).passed:
                return outcome
            tests = [test for test in tests if test not in outcome.failed]
        return Outcome(True, [], "no test left")

    def _keep(self, pick: Pick, entering: int, count: int, outcome: Outcome) -> None:
        text = (self.root / pick.file).read_text("utf-8")
        changed = difflib.unified_diff(
            text.splitlines(), pick.mutant.apply(text).splitlines(), n=1, lineterm=""
        )
        self.results[pick.key] = {
            "outcome": _SURVIVED if outcome.passed else _CAUGHT,
            "kind": pick.mutant.kind,
            "diff": list(changed)[2:],
            "entering": entering,
            "tests": count,
            "failed": outcome.failed,
            "end": outcome.end,
        }
        written = self.options.results.with_suffix(".new")
        written.write_text(json.dumps(self.results, indent=1), "utf-8")
        written.replace(self.options.results)
        print(f"{len(self.results):4} {self.results[pick.key]['outcome']:8} {pick.key}", flush=True)


def sample(root: Path, package: str, lines: int, seed: int) -> list[Pick]:
    """Return a mutant on each of so many lines; the same ones for the same seed and code."""
    texts = {
        path.relative_to(root).as_posix(): path.read_text("utf-8")
        for path in sorted((root / package).rglob("*.py"))
    }
    places = [
        (file, found) for file, text in texts.items() for _, found in sorted(mutants(text).items())
    ]
    random.Random(seed).shuffle(places)
    picks: list[Pick] = []
    for file, found in places:
        random.Random(f"{seed}:{file}:{found[0].line}").shuffle(found)
        picks += [Pick(file, mutant) for mutant in found if mutant.compiles(texts[file])][:1]
        if len(picks) == lines:
            break
    return picks


def note_contexts(root: Path, name: Path) -> None:
    """Run the tests once, with the plugin that writes which lines they enter."""
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root), str(Path(__file__).parent)]),
        "FHIRAPP_CONTEXTS": str(name),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--dist", "no", "-p", "contexts"]
    command += ["-p", "no:cacheprovider", "-m", "not postgresql"]
    command += [f"--ignore-glob=*/test_{left_out}.py" for left_out in _LEFT_OUT]
    subprocess.run(command, cwd=root, env=environ, check=False)


def report(results: dict[str, dict[str, Any]]) -> None:
    """Print the survivors, and how many were caught."""
    survivors = {key: found for key, found in results.items() if found["outcome"] == _SURVIVED}
    for key, found in survivors.items():
        entered = f"{found['entering']} tests enter it" if found["entering"] else "not entered"
        print(f"\n{key}: {found['kind']}; {entered}", *found["diff"], sep="\n")
    print(f"\n{len(results) - len(survivors)} of {len(results)} mutants caught")


def main() -> None:
    """Draw the mutants, run their tests, and print what survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.mutation")
    parser.add_argument("--lines", type=int, default=100, help="how many mutants")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--package", default="fhirapp", help="the folder of the code")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    parser.add_argument("--tests", type=int, default=60, help="run for one mutant at most")
    parser.add_argument("-j", type=int, choices=(1, 2), default=1, help="mutants side by side")
    parser.add_argument("--again", action="store_true", help="run the survivors once more")
    parser.add_argument("--results", type=Path, default=Path("mutation.json"))
    parser.add_argument("--contexts", type=Path, default=Path("mutation-contexts"))
    options = parser.parse_args()
    options.root, options.contexts = options.root.resolve(), options.contexts.resolve()
    if not Path(f"{options.contexts}.json").exists():
        note_contexts(options.root, options.contexts)
    check = Check(options, Selection(options.root, options.contexts))
    pending = [
        pick
        for pick in check.picks
        if pick.key not in check.results
        or (options.again and check.results[pick.key]["outcome"] == _SURVIVED)
    ]
    with tempfile.TemporaryDirectory(prefix="fhirapp-mutation-") as folder:
        check.judge(pending, Path(folder))
    report({pick.key: check.results[pick.key] for pick in check.picks})


if __name__ == "__main__":
    main()
