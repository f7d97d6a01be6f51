"""Read replicas: what is read there, and what happens where one is behind, gone or another's.

Each test has a database of its own on a primary that a real replica streams from. To pause that
is to be behind: what the primary has and the replica has not shows where an answer comes from.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from flask import Flask
from sqlalchemy import event

from fhirapp import create_app
from fhirapp.auth.models import digest
from fhirapp.auth.tokens import revoke_access_token
from fhirapp.config import ConfigurationError, load_settings
from fhirapp.db import db
from fhirapp.db.records import Source, records, replica_standings, watched_replicas
from fhirapp.db.replicas import AWAY, BEHIND, REFUSED, USED, ReplicaReader, Standing
from fhirapp.ops import metrics
from fhirapp.ops.doctor import GOOD, WRONG, examine
from fhirapp.ops.prepare import prepare
from fhirapp.rest.stream import PIECE
from tests import ROOT
from tests.support.bulk import Exports
from tests.support.helpers import BASE_URL, SECRET, Fhir, ids, link, token_for
from tests.support.importing import ALLERGY, PATIENT, lines, load, write
from tests.support.replication import Postgres, binaries, primary_and_replica, wait_for_replica
from tests.support.trails import noted

pytestmark = pytest.mark.postgres

# None is left out for being behind within a test, unless that is what it is about.
PATIENT_LAG = 600
NUTS = "AllergyIntolerance/nuts"


class Pair(NamedTuple):
    primary: Postgres
    replica: Postgres


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that another user may enter, with a short name: the sockets lie in it."""
    assert binaries(), "needs PostgreSQL's programs initdb and pg_basebackup"
    with TemporaryDirectory(prefix="fhirapp-", ignore_cleanup_errors=True) as made:
        yield Path(made)


@pytest.fixture(scope="module")
def pair(folder: Path) -> Iterator[Pair]:
    with primary_and_replica(folder) as made:
        yield Pair(*made)


class Site(NamedTuple):
    """A database of its own on the pair, and a maker of apps on it."""

    pair: Pair
    name: str
    folder: Path
    apps: list[Flask]

    def close(self) -> None:
        """Close the connections of its apps."""
        for app in self.apps:
            with watched_replicas(app):
                # What looks at them ends with this.
                pass
            with app.app_context():
                db.engine.dispose()

    def app(self, *, lag: int = PATIENT_LAG, replicas: str | None = None) -> Flask:
        """Return an app; its replica is the pair's unless others are named."""
        app = create_app(
            load_settings(
                {},
                database_url=self.pair.primary.url(self.name),
                replica_urls=self.pair.replica.url(self.name) if replicas is None else replicas,
                replica_lag=lag,
                secret=SECRET,
                instance_path=str(self.folder / "instance"),
                base_url=BASE_URL,
            )
        )
        self.apps.append(app)
        prepare(app, lambda _message: None, serving=True)
        return app

    def put(self, app: Flask, *resources: dict[str, Any]) -> None:
        """Import resources, as the primary has them then."""
        load(app, write(self.folder, lines(*resources), f"{uuid4().hex}.ndjson"))


@pytest.fixture
def site(pair: Pair, tmp_path: Path) -> Iterator[Site]:
    name = f"fhirapp_{uuid4().hex[:12]}"
    pair.primary.ask(f"CREATE DATABASE {name} TEMPLATE template0")
    made = Site(pair, name, tmp_path, [])
    try:
        yield made
    finally:
        made.close()
        if not pair.replica.is_running:
            pair.replica.start()
        pair.replica.ask("SELECT pg_wal_replay_resume()")
        pair.primary.ask(f"DROP DATABASE {name} WITH (FORCE)")


def pause(site: Site) -> None:
    """Let the replica take what the primary writes and show none of it."""
    site.pair.replica.ask("SELECT pg_wal_replay_pause()")


def resume(site: Site) -> None:
    site.pair.replica.ask("SELECT pg_wal_replay_resume()")


def until(holds: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it does not come to hold"
        time.sleep(0.02)


def standing(app: Flask, number: int = 0) -> Standing:
    with app.app_context():
        return replica_standings()[number]


def until_it_is(app: Flask, state: str) -> None:
    until(lambda: standing(app).state == state)


@pytest.fixture
def app(site: Site) -> Flask:
    """An app whose replica has a patient with an allergy and is used."""
    app = site.app()
    site.put(app, PATIENT, ALLERGY)
    wait_for_replica(*site.pair)
    until_it_is(app, USED)
    return app


def fhir(app: Flask, scope: str = "system/*.rs") -> Fhir:
    return Fhir(app, token_for(app, scope))


def changed(**elements: Any) -> dict[str, Any]:
    return {**ALLERGY, **elements}


def version(answer: Any) -> str:
    assert answer.status_code == 200
    found: str = answer.get_json(force=True)["meta"]["versionId"]
    return found


def test_records_are_read_from_the_replica_and_tokens_from_the_primary(site, app):
    pause(site)
    site.put(app, changed(criticality="high"), {**ALLERGY, "id": "new"})
    # Of a token that the replica does not know.
    client = fhir(app)
    assert version(client.get(NUTS)) == "1"
    assert client.ids("AllergyIntolerance") == ["nuts"]
    assert client.read(f"{NUTS}/_history")["total"] == 1
    assert ids(client.read("Patient/one/$everything")) == ["one", "nuts"]
    resume(site)
    until(lambda: version(client.get(NUTS)) == "2")
    until(lambda: len(client.ids("AllergyIntolerance")) == 2)


def test_a_revoked_token_is_refused_at_once_though_the_replica_is_paused(site, app):
    token = token_for(app, "system/*.rs")
    wait_for_replica(*site.pair)
    pause(site)
    assert Fhir(app, token).get(NUTS).status_code == 200
    with app.app_context():
        revoke_access_token(digest(token))
    assert Fhir(app, token).get(NUTS).status_code == 401


def test_what_a_replica_lacks_is_looked_up_at_the_primary_before_it_is_refused(site, app):
    pause(site)
    site.put(app, changed(criticality="high"), {**ALLERGY, "id": "new"})
    client = fhir(app)
    assert version(client.get("AllergyIntolerance/new")) == "1"
    assert version(client.get(f"{NUTS}/_history/2")) == "2"
    assert client.get("AllergyIntolerance/none").status_code == 404
    assert version(client.get(NUTS)) == "1"


def test_a_client_that_has_seen_the_newer_is_not_led_back(site, app):
    client = fhir(app)
    etag = client.get("AllergyIntolerance").headers["ETag"]
    pause(site)
    site.put(app, changed(criticality="high"))
    # What it holds is what the replica has: nothing newer was shown to it.
    known = client.get("AllergyIntolerance", headers={"If-None-Match": etag})
    assert known.status_code == 304
    assert client.get(NUTS, headers={"If-None-Match": 'W/"1"'}).status_code == 304
    assert client.get(NUTS, headers={"If-None-Match": 'W/"2"'}).status_code == 304
    assert version(client.get(NUTS, headers={"If-None-Match": 'W/"9"'})) == "2"
    assert version(client.get(NUTS)) == "1"


def test_an_answer_that_was_begun_twice_is_audited_once(site, app):
    client = fhir(app)
    pause(site)
    site.put(app, changed(criticality="high"))
    client.get(NUTS, headers={"If-None-Match": 'W/"9"'})
    served = [line["served"] for line in noted(app) if "served" in line]
    assert served == [[f"{NUTS}/2"]]


def walk(*clients: Fhir, path: str) -> list[str]:
    """Return what the pages of a walk hold; each is asked of the next client, the last goes on."""
    found: list[str] = []
    servers, address = iter(clients), path
    client = next(servers)
    while True:
        bundle = client.read(address)
        for entry in bundle.get("entry", ()):
            if entry.get("search", {"mode": "match"})["mode"] != "match":
                continue
            meta = entry["resource"]["meta"] if "resource" in entry else {"versionId": "0"}
            found.append(f"{entry['fullUrl'].rpartition('/')[2]}/{meta['versionId']}")
        following = link(bundle, "next")
        if following is None:
            return found
        address = following.removeprefix(f"{BASE_URL}/fhir/")
        client = next(servers, client)


@pytest.mark.parametrize(
    "path",
    [
        "AllergyIntolerance?_count=2",
        "AllergyIntolerance?_count=2&_sort=date",
        "AllergyIntolerance/_history?_count=2",
        f"{NUTS}/_history?_count=2",
        "Patient/one/$everything?_count=2",
    ],
)
def test_a_page_walk_does_not_fall_back_behind_its_first_page(site, app, path):
    # Its only replica cannot be reached, so its first page is the primary's.
    other = site.app(replicas=f"postgresql://postgres@/{site.name}?host={site.folder}")
    pause(site)
    site.put(app, *({**ALLERGY, "id": f"new-{number}"} for number in range(5)))
    for level in ("low", "high", "unable-to-assess"):
        site.put(app, changed(criticality=level))
    whole = walk(fhir(other), path=path)
    assert len(whole) == len(set(whole)) > 3
    assert walk(fhir(other), fhir(app), path=path) == whole
    # By itself it shows what the replica has, on all pages.
    assert len(walk(fhir(app), path=path)) < len(whole)


def test_a_walk_that_a_server_without_replicas_began_goes_on_at_the_primary(site, app):
    alone = site.app(replicas="")
    pause(site)
    site.put(app, *({**ALLERGY, "id": f"new-{number}"} for number in range(5)))
    path = "AllergyIntolerance?_count=2"
    assert len(walk(fhir(alone), fhir(app), path=path)) == 6
    assert len(walk(fhir(app), fhir(alone), path=path)) == 1


def test_a_replica_that_is_behind_is_left_out_and_used_again(site, app):
    strict = site.app(lag=1)
    until_it_is(strict, USED)
    client = fhir(strict)
    pause(site)
    site.put(app, changed(criticality="high"))
    written = time.monotonic()
    until(lambda: version(client.get(NUTS)) == "2", seconds=5)
    # Not sooner than it is looked at, nor later than the setting permits and a look takes.
    assert time.monotonic() - written < 4
    until_it_is(strict, BEHIND)
    first = standing(strict)
    assert first.lag is not None
    assert first.lag > 1
    until(lambda: (standing(strict).lag or 0) > first.lag + 0.5)
    resume(site)
    until_it_is(strict, USED)
    assert standing(strict).lag == 0


def test_a_replica_of_an_idle_primary_is_not_behind(site, app):
    strict = site.app(lag=1)
    until_it_is(strict, USED)
    # The primary writes, but no records; and the last transaction that was replayed is older.
    pause(site)
    site.pair.primary.ask("CREATE TABLE other (number int)", site.name)
    ((before,),) = site.pair.replica.ask("SELECT pg_last_xact_replay_timestamp()")
    until(
        lambda: site.pair.primary.ask("SELECT now() - %s > interval '2.5 s'", values=(before,))[0][
            0
        ]
    )
    assert standing(strict).state == USED


def test_a_stopped_replica_fails_no_request_and_is_used_when_it_is_back(site, app):
    client = fhir(app)
    answers: list[int] = []
    ended = Event()

    def ask() -> None:
        while not ended.is_set():
            answers.append(client.get("AllergyIntolerance?_count=1").status_code)

    threads = [Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        site.pair.replica.stop()
        until_it_is(app, AWAY)
        site.pair.replica.start()
        until_it_is(app, USED)
        count = len(answers)
        until(lambda: len(answers) > count + 10)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert set(answers) == {200}
    pause(site)
    site.put(app, changed(criticality="high"))
    assert version(client.get(NUTS)) == "1"


def test_connections_that_the_replica_has_closed_fail_no_request(site, app):
    client = fhir(app)
    assert client.get(NUTS).status_code == 200
    site.pair.replica.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
        values=(site.name,),
    )
    pause(site)
    site.put(app, changed(criticality="high"))
    assert client.get(NUTS).status_code == 200
    until_it_is(app, USED)
    assert version(client.get(NUTS)) == "1"


def test_a_replica_that_ends_each_new_connection_is_tried_no_longer_than_twice(site, app):
    client = fhir(app)
    assert client.get(NUTS).status_code == 200
    tried: list[None] = []

    def end(connection: Any, _record: object) -> None:
        tried.append(None)
        # As a pooler does that cannot reach the server behind it.
        connection.close()

    with app.app_context():
        (replica,) = (one._replica for one in [records()] if isinstance(one, ReplicaReader))
    replica.engine.dispose()
    event.listen(replica.engine, "connect", end)
    asked = Thread(target=client.get, args=(NUTS,), daemon=True)
    asked.start()
    asked.join(10)
    assert not asked.is_alive()
    assert standing(app).state == AWAY
    event.remove(replica.engine, "connect", end)
    until_it_is(app, USED)
    assert tried


def test_a_replica_that_hangs_holds_up_no_request_for_long(site, app):
    client = fhir(app)
    try:
        site.pair.replica.freeze()
        began = time.monotonic()
        # It is still thought to answer, so that the request waits for it until it is cut off.
        assert version(client.get(NUTS)) == "1"
        assert time.monotonic() - began < 10
        assert standing(app).state == AWAY
    finally:
        site.pair.replica.thaw()
    until_it_is(app, USED)


def test_what_fails_in_the_middle_of_a_request_is_read_again_from_the_primary(site, app):
    with app.test_request_context():
        snapshot = records()
        assert isinstance(snapshot, ReplicaReader)
        ((pid,),) = snapshot.all("SELECT pg_backend_pid()")

    @app.get("/fhir/twice")
    def twice() -> str:
        snapshot = records()
        ((pid, is_replica),) = snapshot.all("SELECT pg_backend_pid(), pg_is_in_recovery()")
        if is_replica:
            site.pair.replica.ask("SELECT pg_terminate_backend(%s)", values=(pid,))
        return f"{is_replica} {snapshot.first('SELECT 1')}"

    assert pid
    assert fhir(app).get("twice").text == "False (1,)"


def test_a_long_answer_goes_on_from_the_primary(site, app):
    data = "A" * (4 * PIECE // 3 * 4)
    note = {
        "resourceType": "DocumentReference",
        "id": "large",
        "status": "current",
        "subject": {"reference": "Patient/one"},
        "content": [{"attachment": {"contentType": "text/plain", "data": data}}],
    }
    site.put(app, note)
    wait_for_replica(*site.pair)
    client = fhir(app)
    url = client.read("DocumentReference/large")["content"][0]["attachment"]["url"]
    answer = client.get(url.removeprefix(f"{BASE_URL}/fhir/"), buffered=False)
    chunks = iter(answer.iter_encoded())
    received = len(next(chunks))
    site.pair.replica.stop()
    received += sum(map(len, chunks))
    assert received == int(answer.headers["Content-Length"]) > 2 * PIECE


def test_an_export_has_what_there_was_when_it_began_though_the_replica_is_paused(site, app):
    bulk = Exports(app)
    pause(site)
    site.put(app, changed(criticality="high"), {**ALLERGY, "id": "new"})
    exported = bulk.exported()
    assert exported["AllergyIntolerance", "nuts"]["meta"]["versionId"] == "2"
    assert ("AllergyIntolerance", "new") in exported


def test_pieces_are_read_where_their_generation_is(site, app):
    with app.app_context():
        source = Source.current()

        def recovers(generation: int) -> bool:
            found = source.read(lambda one: one.all("SELECT pg_is_in_recovery()"), generation)
            return bool(found[0][0])

        now = records().generation()
        assert recovers(now)
        assert not recovers(now + 1)


def test_two_replicas_are_read_in_turn(site, pair, app):
    address = pair.replica.url(site.name)
    both = site.app(replicas=f"{address}, {address}")
    until(lambda: {standing(both, 0).state, standing(both, 1).state} == {USED})
    used = []
    for _ in range(4):
        with both.test_request_context():
            snapshot = records()
            assert isinstance(snapshot, ReplicaReader)
            used.append(id(snapshot._replica))
    assert used[0] == used[2] != used[1] == used[3]


def test_the_options_of_a_replicas_address_hold(site, app):
    address = f"{site.pair.replica.url(site.name)}&options=-csearch_path%3Dother%2Cpublic"
    chosen = site.app(replicas=address)
    until_it_is(chosen, USED)
    with chosen.test_request_context():
        assert isinstance(records(), ReplicaReader)
        assert records().all("SHOW search_path") == [("other,public",)]


def test_another_server_is_refused_and_the_primary_answers(site, app, folder, caplog):
    other_database = site.pair.primary.url("postgres")
    with caplog.at_level(logging.WARNING):
        wrong = site.app(replicas=other_database)
        until_it_is(wrong, REFUSED)
    assert standing(wrong).words.startswith("cannot be read as a replica of this database")
    itself = site.app(replicas=site.pair.primary.url(site.name))
    until_it_is(itself, REFUSED)
    assert standing(itself).words == "is not a replica: it can be written to"
    other = Postgres(folder, 5434)
    other.make()
    other.start()
    try:
        name = f"{site.name}_b"
        other.ask(f"CREATE DATABASE {name} TEMPLATE template0")
        elsewhere = Site(Pair(other, site.pair.replica), name, site.folder / "elsewhere", site.apps)
        elsewhere.app(replicas="")
        with caplog.at_level(logging.WARNING):
            strange = site.app(replicas=other.url(name))
            until_it_is(strange, REFUSED)
        assert standing(strange).words == "is not a replica of this database, but has another"
        assert version(fhir(strange).get(NUTS)) == "1"
        site.close()
    finally:
        other.stop("immediate")
    told = [one.getMessage() for one in caplog.records if "is left out" in one.getMessage()]
    assert len(told) == 3


def test_an_unreachable_replica_is_a_line_in_the_log_and_a_state(site, app, caplog):
    with caplog.at_level(logging.WARNING):
        lone = site.app(replicas=f"postgresql://postgres:hush@/{site.name}?host={site.folder}")
        client = fhir(lone)
        assert version(client.get(NUTS)) == "1"
        until(lambda: "looked at" not in standing(lone).words)
        first = standing(lone)
        assert first.state == AWAY
        assert first.lag is None
        until(lambda: client.get(NUTS).status_code == 200)
    told = [one.getMessage() for one in caplog.records if "replica" in one.getMessage()]
    assert len(told) == 1
    ready = lone.test_client().get("/health/ready")
    assert ready.status_code == 200
    assert ready.get_json() == {
        "status": "ready",
        "replicas": [{"number": 1, "state": AWAY, "lag": None}],
    }
    with lone.app_context():
        (finding,) = [one for one in examine(lone, quick=True) if one.what == "Replicas"]
    assert finding.state == WRONG
    assert "does not answer" in finding.words
    assert "hush" not in f"{told} {finding}"


def test_readiness_doctor_and_metrics_tell_of_a_replica_that_is_used(site, app):
    ready = app.test_client().get("/health/ready").get_json()
    assert ready["replicas"] == [{"number": 1, "state": USED, "lag": 0.0}]
    with app.app_context():
        (finding,) = [one for one in examine(app, quick=True) if one.what == "Replicas"]
    assert finding.state == GOOD
    assert finding.words.endswith(f"/{site.name} is used, 0.0 s behind")
    samples = {
        one.name: one.value
        for metric in metrics._State(app).collect()
        for one in metric.samples
        if one.labels.get("replica", "").endswith(f"/{site.name}")
    }
    assert samples == {"fhirapp_replica_used": 1, "fhirapp_replica_lag_seconds": 0}


@pytest.mark.parametrize(
    "address",
    ["nonsense", "mysql://h/d", "sqlite:///x.db", "postgresql://host:port/d", "postgresql://host"],
)
def test_what_is_no_address_of_postgresql_is_refused_with_a_sentence(tmp_path, address):
    pytest.importorskip("psycopg")
    with pytest.raises(ConfigurationError) as refused:
        create_app(
            load_settings(
                {},
                database_url="postgresql://h/d",
                secret=SECRET,
                replica_urls=f"postgresql://u:hush@h/d,{address}",
                instance_path=str(tmp_path),
            )
        )
    assert str(refused.value).startswith("Address 2 of FHIRAPP_REPLICA_URLS is not that of")


def test_only_what_answers_under_fhir_and_writes_nothing_reads_records():
    """A view that reads them may run twice."""
    readers = {
        path.relative_to(ROOT / "fhirapp").parts[0]
        for path in (ROOT / "fhirapp").rglob("*.py")
        if re.search(r"import (\w+, )*records\b|\brecords\(\)", path.read_text(encoding="utf-8"))
    }
    assert readers == {"db", "rest", "resources"}


def test_replicas_need_postgresql():
    with pytest.raises(ConfigurationError, match="name that one in FHIRAPP_DATABASE_URL"):
        load_settings({}, replica_urls="postgresql://h/d")
