"""Data in and out: what imports and exports cost, and how long searches take beside an import."""

from __future__ import annotations

import http.client
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles

from tests.bench import records
from tests.bench.database import LEAST, Database, run, start
from tests.bench.questions import ALLERGIES, by_patient
from tests.bench.records import Size
from tests.bench.rows import Row, Section, Target
from tests.bench.servers import ROOT, Server, issue_token, ours

_ALLERGIES = Target(4_000, at_most=False, of_measured=True)
_DOCUMENTS = Target(2_000, at_most=False, of_measured=True)
_FLAT = Target(0.9, at_most=False)
_MEMORY = Target(150, of_measured=True)
_DISK = Target(4, of_measured=True)
_EXPORT = Target(100_000, at_most=False, of_measured=True)
_BESIDE = Target(2)
_CDA_RATE = Target(60, at_most=False, of_measured=True)
# Characters of a document.
_CDA = 90_000


def imports(database: Database) -> list[Section]:
    """Return what importing cost when the database was loaded."""
    imported = database.imported
    rates = [
        Row("allergies", [imported["allergies"]], target=_ALLERGIES),
        Row("documents of 3 kB", [imported["documents"]], target=_DOCUMENTS),
    ]
    flat = [Row(name, one[-1:], one[:1], _FLAT) for name, one in database.tenths.items() if one]
    sections = [Section("Imported per CPU second", "ours", "", rates)]
    if flat:
        sections.append(Section("Imported per CPU second", "last tenth", "first tenth", flat))
    memory = [
        Row(f"import of {name}", [most], target=_MEMORY) for name, most in database.memory.items()
    ]
    disk = [Row("an allergy", [database.allergy_kilobytes], target=_DISK)]
    return [
        *sections,
        Section("RssAnon, MB at the most", "ours", "", memory),
        Section("On disk, kB with indexes", "ours", "", disk),
    ]


def documents_of_cda(folder: Path, count: int) -> Section:
    """Measure what importing C-CDA documents costs, each of 90 kB and of the same patient."""
    source = (ROOT / "tests" / "ccda" / "ccd.xml").read_text()
    sections = re.findall(r"<component>\s*<section.*?</section>\s*</component>", source, re.DOTALL)
    entries = "".join(re.findall(r"<entry.*?</entry>", max(sections, key=len), re.DOTALL))
    # In a section of problems, whose entries are read and not kept.
    problems = '<component><section><code code="11450-4" codeSystem="2.16.840.1.113883.6.1"/>'
    problems += f"<text>-</text>{entries * ((_CDA - len(source)) // len(entries))}"
    large = source.replace(sections[-1], f"{sections[-1]}{problems}</section></component>", 1)
    (identity,) = re.findall(r"<ClinicalDocument.*?<id ([^>]*)/>", source, re.DOTALL)[:1]
    instance, documents = folder / "cda", folder / "documents"
    documents.mkdir()
    for number in range(count):
        another = f'root="2.16.840.1.113883.19.5" extension="{number}"'
        (documents / f"{number}.xml").write_text(large.replace(identity, another, 1))
    start = run("import", ROOT / "tests" / "ccda" / "plain-cda.xml", instance=instance).cpu_seconds
    cost = run("import", documents, instance=instance).cpu_seconds - start
    row = Row("C-CDA documents of 90 kB", [count / max(cost, LEAST)], target=_CDA_RATE)
    return Section("Imported per CPU second", "ours", "", [row])


def exports(database: Database, rounds: int) -> Section:
    """Measure what an export of all allergies costs."""
    rates = []
    with tempfile.TemporaryDirectory(dir=database.instance) as folder:
        beginning = median(
            run(
                "export", Path(folder) / f"none{one}", "--type", "Group", instance=database.instance
            ).cpu_seconds
            for one in range(rounds)
        )
        for one in range(rounds):
            target = Path(folder) / str(one)
            cost = run("export", target, "--type", ALLERGIES, instance=database.instance)
            rates.append(database.size.allergies / max(cost.cpu_seconds - beginning, LEAST))
    return Section("Exported per CPU second", "ours", "", [Row("allergies", rates, target=_EXPORT)])


def beside_an_import(small: Database, folder: Path, seconds: float, burden: int) -> Section:
    """Measure the slowest of a hundred searches, with an import at full speed beside and without.

    In a copy of the smaller database, into which so many other allergies are imported.
    """
    instance = folder / "busy"
    shutil.copytree(small.instance, instance)
    others = folder / "others"
    others.mkdir()
    file = records.write(others, Size(small.size.patients, burden, 1))["allergies"]
    paths = by_patient(ALLERGIES, small.size)
    token = issue_token(instance)
    with ours(instance, folder / "busy.log", FHIRAPP_PROCESSES="1") as server:
        server.first_answer("/fhir/metadata")
        alone = _slowest(server, token, paths, _for(seconds))
        with start("import", file, "--id-prefix", "busy-", instance=instance) as process:
            busy = _slowest(server, token, paths, lambda: process.poll() is None)
    if process.returncode:
        raise SystemExit(f"the import beside searches ended with {process.returncode}")
    row = Row("a search by patient, the slowest of 100", [busy], [alone], _BESIDE)
    return Section("Time of an answer, ms", "with import", "without", [row])


def _for(seconds: float) -> Callable[[], bool]:
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() < end


def _slowest(
    server: Server, token: str, paths: Sequence[str], goes_on: Callable[[], bool]
) -> float:
    """Ask one after the other; return the 99th percentile in milliseconds."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    headers = {"Authorization": f"Bearer {token}"}
    times = []
    number = 0
    while goes_on() or len(times) < 200:
        began = time.perf_counter()
        connection.request("GET", paths[number % len(paths)], headers=headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise SystemExit(f"{paths[number % len(paths)]} answered {answer.status}")
        times.append(1_000 * (time.perf_counter() - began))
        number += 1
    connection.close()
    return quantiles(times, n=100)[98]
