"""Whose request is next: threads are shared by turns, so that no client takes all of them.

A client is an address together with the token, or the session, that its request carries. One client
has at most half of the threads, and one address all but one: tokens cost an attacker nothing. Of
requests that may take seconds, a page's documents, at most half of the threads are at work, and one
for each client. Who waits holds no thread, is served in turn, first the addresses and then the
clients of an address, and is refused after a while. Source: decisions §4.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from typing import Any, NamedTuple

from waitress.task import ThreadedTaskDispatcher

# How long a request waits for a thread before it is refused, in seconds.
WAIT_SECONDS = 20.0
_LOOK_SECONDS = 1.0


class ClientKey(NamedTuple):
    """Who asks: an address, and what tells the clients of one address apart.

    is_slow is of requests that may take seconds: they wait apart from the client's others.
    """

    address: str = ""
    credential: int = 0
    is_slow: bool = False


class FairDispatcher(ThreadedTaskDispatcher):  # type: ignore[misc]
    """Waitress's threads, each taking the next request of whoever's turn it is.

    A task has a `client_key`, says since when it waits in `waiting_since` (monotonic), and answers
    with 503 after `refuse()`.
    """

    def __init__(self, threads: int) -> None:
        super().__init__()
        self._most_of_client = max(1, threads // 2)
        self._most_of_address = max(1, threads - 1)
        self._most_slow = max(1, threads // 2)
        # Who waits, in turn: of each address its clients, of each client its tasks.
        self._waiting: dict[str, dict[ClientKey, deque[Any]]] = {}
        self._running: defaultdict[ClientKey | str, int] = defaultdict(int)
        self._slow = 0
        self.set_thread_count(threads)

    def add_task(self, task: Any) -> None:
        """Queue a connection's request."""
        with self.lock:
            key: ClientKey = task.client_key
            self._waiting.setdefault(key.address, {}).setdefault(key, deque()).append(task)
            self.queue_cv.notify()

    def handler_thread(self, thread_no: int) -> None:
        """Serve requests until the thread is stopped."""
        while (task := self._next(thread_no)) is not None:
            key: ClientKey = task.client_key
            try:
                task.service()
            except BaseException:
                self.logger.exception("Exception when servicing %r", task)
            with self.lock:
                self._count(key, -1)
                # Another thread may have passed over those who wait for this one's place.
                if self._waiting:
                    self.queue_cv.notify()

    def shutdown(self, cancel_pending: bool = True, timeout: float = 5) -> bool:
        """Stop the threads; what still waits is cancelled."""
        with self.lock:
            for clients in self._waiting.values():
                for tasks in clients.values():
                    self.queue.extend(tasks)
            self._waiting.clear()
        stopped: bool = super().shutdown(cancel_pending, timeout)
        return stopped

    def _next(self, thread_no: int) -> Any:
        """Wait for a task; None where the thread is to stop."""
        with self.lock:
            while True:
                if self.stop_count > 0:
                    self.active_count -= 1
                    self.stop_count -= 1
                    self.threads.discard(thread_no)
                    self.thread_exit_cv.notify()
                    return None
                if (task := self._take()) is not None:
                    return task
                self.active_count -= 1
                # Who waits for a place that others have is looked after, for they may never end.
                self.queue_cv.wait(_LOOK_SECONDS if self._waiting else None)
                self.active_count += 1

    def _take(self) -> Any:
        """Take the task whose turn it is, None where nobody who waits may have another thread."""
        latest = time.monotonic() - WAIT_SECONDS
        for address, clients in self._waiting.items():
            for key, tasks in clients.items():
                is_late = tasks[0].waiting_since < latest
                if not (is_late or self._may_run(key)):
                    continue
                task = tasks.popleft()
                if is_late:
                    task.refuse()
                # Both go to the end of their line.
                del clients[key], self._waiting[address]
                if tasks:
                    clients[key] = tasks
                if clients:
                    self._waiting[address] = clients
                self._count(key, 1)
                return task
        return None

    def _may_run(self, key: ClientKey) -> bool:
        if self._running[key.address] >= self._most_of_address:
            return False
        if key.is_slow:
            return self._slow < self._most_slow and not self._running[key]
        return self._running[key] < self._most_of_client

    def _count(self, key: ClientKey, change: int) -> None:
        self._slow += change * key.is_slow
        for name in (key, key.address):
            self._running[name] += change
            if not self._running[name]:
                del self._running[name]
