"""PostgreSQL's programs: which of those that are here is taken, and how it learns the address."""

from __future__ import annotations

import os

from sqlalchemy import make_url

from fhirapp.features.backups import client
from tests.support.backups import fake_client


def test_client_of_the_server_version_dumps_and_the_newest_reads(tmp_path, monkeypatch):
    places = [
        fake_client(tmp_path / version, f"{version}.1") for version in ("18", "14", "16", "17")
    ]
    monkeypatch.setattr(client, "DEBIAN", tmp_path / "none")
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, places)))
    assert client.client_for(16).folder == tmp_path / "16"
    assert client.client_for(15).folder == tmp_path / "16"
    assert client.client_for(14, newest=True).folder == tmp_path / "18"


def test_password_is_in_the_environment_alone():
    url = make_url(
        "postgresql+psycopg://ann:s3cr%20t@one:5433/clinic?sslmode=verify-full"
        "&sslrootcert=/etc/ca.pem&keepalives_idle=7&options=-csearch_path%3Dhome&sslpassword=hidden"
    )
    environ, others = client.parameters(url)
    assert environ == {
        "PGUSER": "ann",
        "PGPASSWORD": "s3cr t",
        "PGHOST": "one",
        "PGPORT": "5433",
        "PGDATABASE": "clinic",
        "PGSSLMODE": "verify-full",
        "PGSSLROOTCERT": "/etc/ca.pem",
        "PGOPTIONS": "-csearch_path=home",
        "PGCONNECT_TIMEOUT": "10",
    }
    assert others == "keepalives_idle=7 keepalives_interval=10 keepalives_count=6"


def test_setting_unknown_to_an_older_server_is_omitted(tmp_path):
    head = b"SET lock_timeout = 0;\nSET transaction_timeout = 0;\n"
    rest = b"--\n-- Name: a; Type: TABLE\nCOPY a FROM stdin;\nSET transaction_timeout = x\n\\.\n"
    for server, expected in ((16, head.splitlines(True)[0] + rest), (17, head + rest)):
        with (tmp_path / "sql").open("w+b") as sql, (tmp_path / "out").open("w+b") as out:
            sql.write(head + rest)
            sql.seek(0)
            client._copy(sql, out, server)
            out.seek(0)
            assert out.read() == expected
