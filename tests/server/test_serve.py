"""Starting `fhirapp serve`: refusals, the number of processes; the rate limit of the log."""

from __future__ import annotations

import logging
import socket
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from fhirapp.config import ConfigurationError, Settings
from fhirapp.server import logs, serve
from fhirapp.server.proxies import seems_behind_proxy
from tests.support.helpers import damage_database
from tests.support.shell import assert_not_done, run_command


def test_repeated_log_messages_are_counted():
    limit, records = logs.RateLimit(), []
    for number in range(100):
        record = logging.LogRecord("a", logging.ERROR, "a.py", 1, "failed %s", (number,), None)
        record.created = 1_000_000.0
        records.append(limit.filter(record))
    assert sum(records) == logs.RateLimit.PER_MINUTE
    elsewhere = logging.LogRecord("a", logging.ERROR, "a.py", 2, "other", (), None)
    elsewhere.created = 1_000_001.0
    assert limit.filter(elsewhere)
    later = logging.LogRecord("a", logging.ERROR, "a.py", 1, "failed %s", (7,), None)
    later.created = 1_000_061.0
    assert limit.filter(later)
    assert later.getMessage() == "failed 7 (90 like earlier ones were left out)"


def test_threads_that_log_at_once_are_counted():
    limit = logs.RateLimit()

    def log(thread: int) -> None:
        for minute in range(20):
            # From many places, so that adding up the counts of a minute takes a while.
            for line in range(500):
                place = ("a", logging.ERROR, "a.py", thread * 500 + line)
                record = logging.LogRecord(*place, "failed", (), None)
                record.created = 1_000_000.0 + 61 * minute
                limit.filter(record)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            # It raises what a thread raised.
            assert [*pool.map(log, range(4))] == [None] * 4
    finally:
        sys.setswitchinterval(before)


def test_log_messages_of_different_errors_are_counted_apart():
    limit = logs.RateLimit()
    for error in (ValueError, KeyError):
        for number in range(20):
            try:
                raise error
            except error:
                info = sys.exc_info()
            record = logging.LogRecord("a", logging.ERROR, "a.py", 1, "failed", (), info)
            record.created = 1_000_000.0
            assert limit.filter(record) == (number < logs.RateLimit.PER_MINUTE)


def test_serve_refuses_to_start_in_one_sentence(clinic_folder, tmp_path):
    damaged = clinic_folder
    damage_database(damaged / "fhirapp.db")
    (tmp_path / "fhirapp.db").write_bytes(b"not a database" * 1000)
    for folder, options, settings, words in (
        (tmp_path, (), {}, "cannot be used ("),
        (damaged, (), {}, "is damaged"),
        (tmp_path, ("--demo", "--host", "0.0.0.0"), {}, "FHIRAPP_BASE_URL"),
        (tmp_path, (), {"TRUSTED_PROXY": "10.0.0.0/8, proxy"}, "FHIRAPP_TRUSTED_PROXY"),
    ):
        done = run_command(folder, "serve", "--port", "0", *options, **settings)
        assert_not_done(done, words)


def test_listen_closes_its_socket_when_the_port_is_in_use():
    with socket.create_server(("127.0.0.1", 0)) as other:
        settings = Settings(host="127.0.0.1", port=other.getsockname()[1])
        with socket.socket() as before:
            descriptor = before.fileno()
        # The error is kept, and with it what its traceback refers to.
        with pytest.raises(ConfigurationError, match=f"port {settings.port} ") as _error:
            serve.listen(settings)
        with socket.socket() as after:
            assert after.fileno() == descriptor


def test_processes_follow_the_cpu_quota_of_a_container(tmp_path, monkeypatch):
    monkeypatch.setattr(serve, "_CGROUP", tmp_path)
    old = {"cpu/cpu.cfs_period_us": "100000"}
    for files, cores in (
        ({}, 1_000),
        ({"cpu.max": "max 100000"}, 1_000),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "20000 100000"}, 1),
        ({"cpu.max": "", **old, "cpu/cpu.cfs_quota_us": "-1"}, 1_000),
        ({"cpu.max": "", **old, "cpu/cpu.cfs_quota_us": "400000"}, 4),
    ):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text + "\n")
            if not text:
                (tmp_path / name).unlink()
        assert serve._quota() == cores, files


def test_start_notices_a_proxy_that_is_not_named():
    for base_url, port, proxy, seems in (
        ("https://clinic.example", 8000, "", True),
        ("http://clinic.example", 8000, "", True),
        ("http://clinic.example", 80, "", False),
        ("http://clinic.example:8000", 8000, "", False),
        ("https://clinic.example", 8000, "10.0.0.7", False),
        ("", 8000, "", False),
    ):
        settings = Settings(base_url=base_url, port=port, trusted_proxy=proxy)
        assert seems_behind_proxy(settings) is seems
