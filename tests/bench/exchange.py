"""Imports and exports: their cost, and searches during an import."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles

from tests.bench import records
from tests.bench.cpu import rates
from tests.bench.database import Database, Operation, load, run
from tests.bench.load import Load
from tests.bench.queries import ALLERGIES, BY_PATIENT, by_patient, requests
from tests.bench.records import Size
from tests.bench.report import Row, Section, Target
from tests.bench.servers import ROOT, issue_token, ours, record

_ALLERGIES = Target(4_000, at_most=False, is_absolute=True)
_DOCUMENTS = Target(2_000, at_most=False, is_absolute=True)
_CCDA_RATE = Target(60, at_most=False, is_absolute=True)
_EXPORT = Target(100_000, at_most=False, is_absolute=True)
_MEMORY = Target(150, is_absolute=True)
_DISK = Target(4, is_absolute=True)
_LATENCY = Target(2)
_CCDA_CHARACTERS = 90_000
# A 99th percentile of fewer responses is that of one or two.
_MIN_RESPONSES = 300


def imports(database: Database, folder: Path, ccda_documents: int) -> list[Section]:
    """Return the cost of the imports that filled the database, and of C-CDA documents."""
    size, costs = database.size, database.imports
    allergies = rates(size.allergies, costs["allergies"].cpu_seconds)
    notes = rates(size.documents, costs["documents"].cpu_seconds)
    rows = [
        Row("allergies", allergies, target=_ALLERGIES),
        Row("notes of 1 to 3 kB", notes, target=_DOCUMENTS),
        Row("C-CDA documents of 90 kB", _ccda_rates(folder, ccda_documents), target=_CCDA_RATE),
    ]
    memory = [
        Row(f"import of {name}", [costs[name].megabytes], target=_MEMORY)
        for name in ("documents", "allergies")
    ]
    disk = [Row("an allergy", [database.allergy_kilobytes], target=_DISK)]
    return [
        Section("Imported per CPU second", "ours", "", rows),
        Section("Peak RssAnon, MB", "ours", "", memory),
        Section("On disk with indexes, kB", "ours", "", disk),
    ]


def _ccda_rates(folder: Path, count: int) -> list[float]:
    """Return how many C-CDA documents, all of one patient, a CPU second imports."""
    source = (ROOT / "tests" / "ccda" / "ccd.xml").read_text()
    sections = re.findall(r"<component>\s*<section.*?</section>\s*</component>", source, re.DOTALL)
    entries = "".join(re.findall(r"<entry.*?</entry>", max(sections, key=len), re.DOTALL))
    # A section of problems, whose entries are parsed and not stored.
    problems = '<component><section><code code="11450-4" codeSystem="2.16.840.1.113883.6.1"/>'
    problems += f"<text>-</text>{entries * ((_CCDA_CHARACTERS - len(source)) // len(entries))}"
    large = source.replace(sections[-1], f"{sections[-1]}{problems}</section></component>", 1)
    (identity,) = re.findall(r"<ClinicalDocument.*?<id ([^>]*)/>", source, re.DOTALL)[:1]
    documents = folder / "documents"
    documents.mkdir()
    for number in range(count):
        own_identity = f'root="2.16.840.1.113883.19.5" extension="{number}"'
        (documents / f"{number}.xml").write_text(large.replace(identity, own_identity, 1))
    warm_up = ROOT / "tests" / "ccda" / "plain-cda.xml"
    cost = run("import", warm_up, documents, instance=folder / "ccda")
    return rates(count, cost.cpu_seconds)


def exports(database: Database, rounds: int) -> Section:
    """Measure exports of all allergies."""
    count, found = database.size.allergies, []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=database.instance) as folder:
            cost = run("export", ALLERGIES, folder, instance=database.instance)
        found += rates(count * cost.runs, cost.cpu_seconds)
    row = Row(f"allergies, {count:,} in an export", found, target=_EXPORT)
    return Section("Exported per CPU second", "ours", "", [row])


def searches_during_import(folder: Path, seconds: float, burden: int) -> Section:
    """Measure the latency of searches during an import, and without one.

    The import loads so many further allergies.
    """
    instance, files = folder / "busy", folder / "others"
    size = Size(patients=100, allergies=1_000, documents=1)
    load(instance, size)
    files.mkdir()
    written = records.write(files, Size(size.patients, burden, 1))
    paths = by_patient(ALLERGIES, size)
    token = issue_token(instance)
    with ours(instance, folder / "busy.log", FHIRAPP_PROCESSES="1") as server:
        server.wait_for("/fhir/metadata")
        searches = requests(BY_PATIENT, paths, record(server, token, {BY_PATIENT: paths}))
        end = time.perf_counter() + seconds
        with Load(server.port, token, searches, 1) as client:
            alone = _latencies(
                client, lambda count: count < _MIN_RESPONSES or time.perf_counter() < end
            )
        words = ("import", written["one"], written["allergies"], "--prefix", "busy-")
        with (
            Operation(*words, instance=instance) as operation,
            Load(server.port, token, searches, 1) as client,
        ):
            during = _latencies(client, lambda _count: operation.is_running())
            operation.cost()
    row = Row("99th percentile of a search by patient", during, alone, _LATENCY)
    return Section("Latency, ms", "with import", "without", [row])


def _latencies(client: Load, goes_on: Callable[[int], bool]) -> list[float]:
    """Send one request after the other; return the 99th percentile in ms if it is reliable.

    goes_on tells by the number of responses whether to send another request.
    """
    found: list[float] = []
    while goes_on(len(found)):
        began = time.perf_counter()
        client.run(1)
        found.append(1_000 * (time.perf_counter() - began))
    return quantiles(found, n=100)[98:] if len(found) >= _MIN_RESPONSES else []
