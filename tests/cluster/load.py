"""A steady load through the balancer: each answer is held against what it must be."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from random import Random
from threading import Event, Thread
from typing import Any, NamedTuple

from werkzeug.test import TestResponse

from fhirapp.auth.models import CLINICIAN
from tests.cluster.conftest import ALLERGIES
from tests.support.authorizing import Flow, add_backend
from tests.support.browsing import add_person, id_of
from tests.support.bulk import Exports
from tests.support.cluster import SOON, Cluster
from tests.support.helpers import Fhir, ids, link, token_for

ALLERGY = "AllergyIntolerance"
# What a client hears of a server, or of a database, that is away: it comes back later.
AWAY = frozenset({502, 503, 504})
# Backend clients that export, each as often as it may at once.
_EXPORTERS = 4
_FORM = {"grant_type": "client_credentials", "scope": "system/*.rs"}
SEARCHES = (
    f"{ALLERGY}?patient=p1&_count=50",
    f"{ALLERGY}?code=c3&_sort=-date&_count=20",
    f"{ALLERGY}?patient=p2&_include=AllergyIntolerance:patient&_count=20",
    "DocumentReference?patient=p1&_revinclude=Provenance:target",
    "Patient/p3/$everything?_count=50",
)


class Refused(NamedTuple):
    """No answer: when in seconds of time.monotonic(), to what; a status of AWAY, 0 if cut off."""

    at: float
    kind: str
    status: int


class Away(Exception):
    """A request was answered so."""


class Load:
    """What was asked since it began, by kind, and what was not answered or not answered rightly."""

    def __init__(self, running: Cluster) -> None:
        self.running = running
        self.reads = [f"{ALLERGY}/a{number:05}" for number in range(0, ALLERGIES, 97)]
        self._fhir = Fhir(running.app, token_for(running.app, "system/*.rs"))
        self.expected = {path: content(self._fhir.get(path)) for path in (*self.reads, *SEARCHES)}
        self.walked = walk(self._fhir.get)
        self.answered: Counter[str] = Counter()
        self.refused: list[Refused] = []
        self.wrong: list[str] = []
        # The exports that were accepted: who asks, and the path of the status.
        self.exports: list[tuple[Exports, str]] = []
        self._exporters = [Exports(running.app) for _ in range(_EXPORTERS)]
        person = id_of(running.app, add_person(running.app, CLINICIAN))
        self._flow = Flow(running.app, add_backend(running.app), person)
        self._stopping = Event()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Ask while within, each kind in threads of its own."""
        kinds: list[Callable[[Random], None]] = [
            *(self._read, self._read, self._search, self._search),
            *(self._walk, self._token, self._export),
        ]
        threads = [
            Thread(target=self._repeat, args=(kind, Random(number)))
            for number, kind in enumerate(kinds)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join(60)
        assert not any(thread.is_alive() for thread in threads)

    def wait_for_rounds(self, count: int) -> None:
        """Wait until so many more tokens were issued, used and given back, which takes longest."""
        wanted = self.answered["revoked token"] + count
        deadline = time.monotonic() + 60
        while self.answered["revoked token"] < wanted:
            told = Counter((refused.kind, refused.status) for refused in self.refused)
            assert time.monotonic() < deadline, (self.answered, told, self.wrong)
            time.sleep(0.02)

    def _repeat(self, kind: Callable[[Random], None], random: Random) -> None:
        while not self._stopping.is_set():
            try:
                kind(random)
            except Away:
                self._stopping.wait(0.05)
            except (OSError, HTTPException):
                # An answer that was cut off is none, and is known by its length.
                self.refused.append(Refused(time.monotonic(), kind.__name__, 0))
            except Exception as error:  # noqa: BLE001
                self.wrong.append(f"{kind.__name__}: {type(error).__name__}: {error}"[:500])
            self._stopping.wait(0.01)

    def _checked(self, kind: str, answer: TestResponse, *statuses: int) -> TestResponse:
        """Count an answer; raise Away where it is none."""
        if answer.status_code in AWAY:
            self.refused.append(Refused(time.monotonic(), kind, answer.status_code))
            raise Away
        if answer.status_code not in (statuses or (200,)):
            self.wrong.append(f"{kind}: {answer.status_code} {answer.text}"[:500])
            raise Away
        self.answered[kind] += 1
        return answer

    def _hold(self, kind: str, path: str) -> None:
        answer = self._checked(kind, self._fhir_of_thread().get(path))
        if content(answer) != self.expected[path]:
            self.wrong.append(f"{kind}: {path} has another body")

    def _fhir_of_thread(self) -> Fhir:
        return Fhir(self.running.app, self._fhir.token)

    def _read(self, random: Random) -> None:
        self._hold("read", random.choice(self.reads))

    def _search(self, random: Random) -> None:
        self._hold("search", random.choice(SEARCHES))

    def _walk(self, _random: Random) -> None:
        fhir = self._fhir_of_thread()

        def get(path: str) -> TestResponse:
            while True:
                try:
                    return self._checked("walk", fhir.get(path))
                except Away:
                    if self._stopping.wait(0.05):
                        raise

        if walk(get) != self.walked:
            self.wrong.append("walk: the pages hold something else")

    def _token(self, _random: Random) -> None:
        """Get a token, use it, give it back; a second later it is none."""
        answer = self._checked("token", self._flow.ask("/oauth/token", **_FORM))
        token = answer.get_json()["access_token"]
        fhir = Fhir(self.running.app, token)
        self._checked("token used", fhir.get("Patient/p1"))
        self._checked("revocation", self._flow.revoke(token))
        if not self._stopping.wait(SOON):
            self._checked("revoked token", fhir.get("Patient/p1"), 401)

    def _export(self, random: Random) -> None:
        exports = random.choice(self._exporters)
        kind = f"$export?_type={ALLERGY}"
        # 429: the client has as many under way as it may.
        answer = self._checked("export", exports.kick_off(kind), 202, 429)
        if answer.status_code == 202:
            address = answer.headers["Content-Location"]
            self.exports.append((exports, address[address.index("/fhir/") :]))
        self._stopping.wait(0.2)


def content(answer: TestResponse) -> Any:
    """Return what an answer says; of a Bundle without its id and links, which tell of when."""
    resource: dict[str, Any] = answer.get_json(force=True)
    if resource["resourceType"] == "Bundle":
        return resource["total"], resource.get("entry")
    return answer.data


def walk(get: Callable[[str], TestResponse]) -> list[str]:
    """Return the ids on all pages of a search, in their order."""
    found: list[str] = []
    path: str | None = f"{ALLERGY}?_count=250"
    while path:
        bundle: dict[str, Any] = get(path).get_json(force=True)
        found += ids(bundle)
        path = link(bundle, "next")
    return found
