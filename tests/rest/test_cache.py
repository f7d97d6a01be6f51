"""Caches between requests: what they keep of each is bounded, and threads may share them."""

from __future__ import annotations

import time
from threading import Barrier, Thread

import pytest

from fhirapp.fhir.folding import _LONGEST, _fold, fold
from fhirapp.rest import paging
from fhirapp.rest.cache import LruCache
from fhirapp.search.tokenizer import _indexed, locate_words
from tests.support.helpers import Fhir, token_for


def test_the_least_recently_used_is_dropped_first():
    cache: LruCache[str, int] = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert [cache.get(key) for key in "abc"] == [1, None, 3]
    cache.put("a", 4)
    cache.put("d", 5)
    assert [cache.get(key) for key in "acd"] == [4, None, 5]


@pytest.fixture
def totals(own_app):
    return own_app.extensions[paging._TOTALS]


def test_cache_key_of_a_search_with_many_values_is_a_digest(own_app, totals):
    fhir = Fhir(own_app, token_for(own_app, "system/*.rs"))
    for number in range(20):
        values = ",".join(f"http://a-long-system.example/codes|{number}-{n}" for n in range(150))
        assert fhir.read(f"AllergyIntolerance?code={values}&_count=0")["total"] == 0
    assert len(totals._entries) == 20
    assert max(map(len, totals._entries)) < 200


def test_other_values_have_totals_of_their_own(own_app, totals):
    fhir = Fhir(own_app, token_for(own_app, "system/*.rs"))
    searches = (
        *("patient=p1", "patient=p2", "patient=p1,p2", "patient=p1&patient=p2", ""),
        *("patient=p1&clinical-status=active", "patient=p1&clinical-status:not=active"),
        *("code:text=penicillin", "code:text=latex", "_id=al-p1-latex", "_id:missing=false"),
    )
    for _ in range(2):
        for search in searches:
            bundle = fhir.read(f"AllergyIntolerance?{search}&_count=1000")
            counted = fhir.read(f"AllergyIntolerance?{search}&_count=0")
            assert counted["total"] == len(bundle.get("entry", ())), search
    patient = Fhir(own_app, token_for(own_app, "patient/*.rs", patient="p1"))
    whole = fhir.read("AllergyIntolerance?_count=0")["total"]
    assert patient.read("AllergyIntolerance?_count=0")["total"] < whole


def test_the_cache_of_totals_has_a_bound(own_app, totals, monkeypatch):
    small: LruCache[bytes, int] = LruCache(5)
    monkeypatch.setitem(own_app.extensions, paging._TOTALS, small)
    fhir = Fhir(own_app, token_for(own_app, "system/*.rs"))
    for number in range(9):
        fhir.read(f"AllergyIntolerance?code=x{number}&_count=0")
    assert len(small._entries) == 5


class Yielding(str):
    """A key that lets another thread run whenever a cache looks at it."""

    __slots__ = ()

    def __hash__(self) -> int:
        time.sleep(0)
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        return str(self) == other


def share(cache: LruCache[str, int], threads: int = 6) -> list[Exception]:
    """Have threads read and write a cache at once; return what they raised."""
    faults: list[Exception] = []
    barrier = Barrier(threads)

    def use(start: int) -> None:
        barrier.wait()
        try:
            for step in range(500):
                key = Yielding((start + step) % 10)
                if cache.get(key) is None:
                    cache.put(key, 1)
        except Exception as error:  # noqa: BLE001
            faults.append(error)

    running = [Thread(target=use, args=(3 * n,)) for n in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return faults


def test_threads_share_a_cache():
    cache: LruCache[str, int] = LruCache(3)
    assert share(cache) == []
    assert len(cache._entries) == 3


def test_long_texts_are_folded_and_not_remembered():
    before = _fold.cache_info().currsize
    long = "É" * (_LONGEST + 1)
    assert fold(long) == "e" * (_LONGEST + 1)
    assert _fold.cache_info().currsize == before
    fold("Ébène d'un cache")
    assert _fold.cache_info().hits + _fold.cache_info().misses > 0


def test_cache_key_of_a_long_word_is_its_beginning():
    _indexed.cache_clear()
    long = "a" * 100_000
    ((word, start, end), *_) = locate_words(long)
    assert (start, end) == (0, 100_000)
    assert long.startswith(word)
    assert _indexed.cache_info().currsize == 1
    list(locate_words("a" * 100_001))
    assert _indexed.cache_info().currsize == 1
