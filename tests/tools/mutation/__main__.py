"""`python -m tests.tools.mutation`: do the tests still catch small mistakes in the code?

`mutants.json` is a list of mutants of `fhirapp`, each with the tests that caught it when it was
judged. Tests may be rewritten, merged or deleted as long as `check` finds that others catch the
mutants. `freeze` draws and judges a new list, `replace` one mutant, and `contexts` runs the suite
once to note which tests enter which line. Without contexts, tests are chosen by name.

mutmut 3 changes only functions, all of them at once, and cosmic-ray runs one command for every
mutant of every file: neither draws a sample, and for each mutant runs the tests of its line alone.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

import coverage

from tests import ROOT
from tests.tools.mutation import frozen as lists
from tests.tools.mutation.frozen import Frozen
from tests.tools.mutation.judge import Copy, Judge, Verdict
from tests.tools.mutation.mutants import Mutant
from tests.tools.mutation.selection import Selection, module_of

# They measure, kill and race processes, or read the checkout as git has it.
_LEFT_OUT = (
    "adding_a_type",
    "auth_races",
    "bench",
    "mutants",
    "packaging",
)
_CONTEXTS = Path(".mutation/contexts")

Task = tuple[Mutant, Frozen]


def _judge_all(
    options: argparse.Namespace, tasks: list[Task], modules: Iterable[str], *, recorded: bool
) -> Iterator[tuple[Task, Verdict]]:
    """Judge mutants, as many at once as there are jobs; print a line for each.

    Each job has a copy of the checkout, where the modules of tests are compiled first.
    """
    judges: SimpleQueue[Judge] = SimpleQueue()
    copies: list[Copy] = []

    def start(folder: str) -> Judge:
        copies.append(Copy(options.root, Path(tempfile.mkdtemp(dir=folder))))
        judge = Judge(copies[-1], options.selection, options.tests)
        judge.prepare(modules)
        return judge

    def run(task: Task, folder: str) -> tuple[Task, Verdict, float]:
        judge = start(folder) if judges.empty() else judges.get()
        begin = time.monotonic()
        mutant, frozen = task
        try:
            verdict = judge.judge(frozen.file, mutant, frozen.by if recorded else ())
        finally:
            judges.put(judge)
        return task, verdict, time.monotonic() - begin

    with (
        tempfile.TemporaryDirectory(prefix="mutation-", ignore_cleanup_errors=True) as folder,
        ThreadPoolExecutor(options.j) as pool,
    ):
        try:
            waiting = [pool.submit(run, task, folder) for task in tasks]
            for number, future in enumerate(as_completed(waiting), 1):
                task, verdict, seconds = future.result()
                _, frozen = task
                word = "timeout" if verdict.timeout else "caught" if verdict.caught else "SURVIVED"
                print(
                    f"{number:4}/{len(tasks)} {word:8} {seconds:5.1f} s, {verdict.ran:2} tests:",
                    f"{frozen.id} {frozen.file}:{frozen.line} {frozen.kind}",
                    *verdict.by[:1],
                    flush=True,
                )
                yield task, verdict
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for copy in copies:
                copy.close()


def freeze(options: argparse.Namespace) -> int:
    """Draw a list of mutants, judge those that the state file does not have, and write the list."""
    drawn = lists.draw(options.root, options.count, options.seed)
    options.state.parent.mkdir(parents=True, exist_ok=True)
    judged = {frozen.id: frozen for frozen in lists.load_lines(options.state)}
    pending = [
        (mutant, frozen)
        for mutant, frozen in drawn
        if frozen.id not in judged or (options.again and not judged[frozen.id].caught)
    ]
    print(f"{len(drawn)} mutants, {len(drawn) - len(pending)} of them judged before", flush=True)
    modules = options.selection.modules
    with options.state.open("a", encoding="utf-8") as state:
        for (_, frozen), verdict in _judge_all(options, pending, modules, recorded=False):
            judged[frozen.id] = frozen.judged(verdict.caught, verdict.by)
            state.write(lists.dump(judged[frozen.id]) + "\n")
            state.flush()
    listed = [judged[frozen.id] for _, frozen in drawn]
    lists.save(options.list, listed)
    print(f"{sum(frozen.caught for frozen in listed)} of {len(listed)} mutants caught")
    return 0


def check(options: argparse.Namespace) -> int:
    """Judge the mutants of the list that were caught; print those that no test catches now."""
    listed = lists.load(options.list)
    paths = [path.strip("/") for path in options.paths]
    tasks, gone = [], []
    for frozen in listed:
        wanted = not paths or any(f"{frozen.file}/".startswith(f"{path}/") for path in paths)
        if frozen.caught and wanted:
            mutant = _find(options.root, frozen)
            if mutant is None:
                gone.append(frozen)
            else:
                tasks.append((mutant, frozen))
    survivors = []
    updated = {frozen.id: frozen for frozen in listed}
    modules = {module_of(test) for _, frozen in tasks for test in frozen.by}
    for (mutant, frozen), verdict in _judge_all(options, tasks, modules, recorded=True):
        if verdict.caught:
            text = (options.root / frozen.file).read_text("utf-8")
            updated[frozen.id] = frozen.moved(text, mutant).judged(True, verdict.by)
        else:
            survivors.append((mutant, frozen))
    if options.update:
        lists.save(options.list, updated.values())
    for mutant, frozen in survivors:
        print(f"\nno longer caught: {frozen.id} {frozen.kind}, before by {', '.join(frozen.by)}")
        print(_diff(options.root, frozen.file, mutant))
    for frozen in gone:
        print(f"\ngone: {frozen.id} {frozen.file}:{frozen.line} {frozen.function}: {frozen.text}")
    print(f"\n{len(tasks) - len(survivors)} caught, {len(survivors)} no longer, {len(gone)} gone")
    return 1 if survivors or gone else 0


def replace(options: argparse.Namespace) -> int:
    """Put a new mutant in the place of one, if the tests catch it: of its function or of a file."""
    listed = {frozen.id: frozen for frozen in lists.load(options.list)}
    old = listed[options.id]
    file = options.file or old.file
    near = [
        *lists.draw_near(options.root, file, None if options.file else old.function, options.seed)
    ]
    near = near or [*lists.draw_near(options.root, file, None, options.seed)]
    new = next(frozen for frozen in near if frozen.id not in listed)
    mutant = _find(options.root, new)
    assert mutant is not None
    for _, verdict in _judge_all(options, [(mutant, new)], [], recorded=False):
        print(_diff(options.root, file, mutant))
        if verdict.caught:
            listed[options.id] = new.judged(True, verdict.by)
            lists.save(options.list, listed.values())
            return 0
    print(f"No test catches {new.id}. Another --seed draws another mutant.")
    return 1


def contexts(options: argparse.Namespace) -> int:
    """Run the tests once, with the plugin that notes which lines each enters."""
    name = (options.contexts or [options.root / _CONTEXTS])[0]
    name.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="contexts-") as folder:
        environ = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(options.root), str(Path(__file__).parent)]),
            "FHIRAPP_CONTEXTS": str(Path(folder, "part-")),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "contexts", "-p", "no:cacheprovider"]
        command += ["-n", str(options.j if options.j > 1 else 0)]
        command += [f"--ignore-glob=*/test_{left_out}.py" for left_out in _LEFT_OUT]
        subprocess.run([*command, *options.paths], cwd=options.root, env=environ, check=False)
        combined = coverage.Coverage(data_file=f"{name}.coverage", config_file=False)
        combined.set_option("run:relative_files", True)
        combined.combine([str(path) for path in Path(folder).glob("*.coverage")], strict=True)
        combined.save()
        seconds = {}
        for path in Path(folder).glob("*.json"):
            seconds |= json.loads(path.read_text("utf-8"))
        Path(f"{name}.json").write_text(json.dumps(seconds, indent=0), "utf-8")
    return 0


def _find(root: Path, frozen: Frozen) -> Mutant | None:
    path = root / frozen.file
    return frozen.find(path.read_text("utf-8")) if path.exists() else None


def _diff(root: Path, file: str, mutant: Mutant) -> str:
    text = (root / file).read_text("utf-8")
    lines = text.splitlines(), mutant.apply(text).splitlines()
    return "\n".join(difflib.unified_diff(*lines, file, file, n=1, lineterm=""))


def main() -> None:
    """Read the command line and run a command."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    common.add_argument("--list", type=Path, default=Path(__file__).with_name("mutants.json"))
    common.add_argument("--contexts", type=Path, nargs="+", help="files, without .json/.coverage")
    common.add_argument("-j", type=int, default=1, help="how many at once")
    common.add_argument("--tests", type=int, default=60, help="run for one mutant at most")
    common.add_argument("--seed", type=int, default=1, help="what is drawn")
    parser = argparse.ArgumentParser(prog="python -m tests.tools.mutation")
    commands = parser.add_subparsers(required=True)
    for command in (freeze, check, replace, contexts):
        added = commands.add_parser(command.__name__, parents=[common], help=command.__doc__)
        added.set_defaults(command=command)
        if command is freeze:
            added.add_argument("--count", type=int, default=360, help="how many mutants")
            added.add_argument("--state", type=Path, help="what has been judged so far")
            added.add_argument("--again", action="store_true", help="judge survivors once more")
        if command is check:
            added.add_argument("--update", action="store_true", help="write what caught them now")
        if command is replace:
            added.add_argument("id", help="of the mutant to replace")
            added.add_argument("--file", help="of the new mutant")
        if command in (check, contexts):
            added.add_argument("paths", nargs="*", help="only these files or folders")
    options = parser.parse_args()
    options.root = options.root.resolve()
    options.contexts = options.contexts and [path.resolve() for path in options.contexts]
    if options.command is not contexts:
        made = options.root / _CONTEXTS
        names = options.contexts or [made] * Path(f"{made}.json").exists()
        options.selection = Selection(options.root, names)
    if options.command is freeze and options.state is None:
        options.state = options.root / f".mutation/freeze-{options.count}-{options.seed}.jsonl"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(options.command(options))


if __name__ == "__main__":
    main()
