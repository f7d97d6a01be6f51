"""`fhirapp client` and `fhirapp key rotate`: what they do, print, refuse, and never show."""

from __future__ import annotations

import json
import re
import shutil
import stat
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from sqlalchemy import LargeBinary

from fhirapp.auth.clients import administration
from fhirapp.auth.clients.registration import owner_code, register
from fhirapp.auth.models import Client, digest
from fhirapp.db import db, writing
from tests.support.client_commands import app_of, done, refusal
from tests.support.registrations import CONFIDENTIAL, EC, PUBLIC, REDIRECT

APP_SCOPE = "launch/patient patient/*.rs offline_access"
APP = ("--scope", APP_SCOPE, "--redirect-uri", REDIRECT)
SCOPE = ("--scope", "system/*.rs")


def add(folder: Path, client_id: str, kind: str, *options: str) -> Result:
    """Register an app."""
    return done(folder, "client", "add", client_id, "--kind", kind, *APP, *options)


def shown(folder: Path, client_id: str) -> dict[str, Any]:
    """Return what `client show` prints."""
    found: dict[str, Any] = json.loads(done(folder, "client", "show", client_id).stdout)
    return found


def stored(folder: Path) -> dict[str, Any]:
    """Return the digest of each client's secret, by id."""
    with app_of(folder), db.engine.connect() as connection:
        rows = connection.execute(Client.__table__.select()).mappings().all()
    return {row["client_id"]: row["secret_digest"] for row in rows}


def keys_file(folder: Path, content: Any) -> str:
    """Write a key set's file and return its path."""
    path = folder / "keys.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


@pytest.fixture(scope="module")
def known(prepared_instance: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance folder with an app, for commands that are refused."""
    folder = Path(shutil.copytree(prepared_instance, tmp_path_factory.mktemp("known") / "instance"))
    add(folder, "taken", "public")
    return folder


def test_backend_needs_only_a_scope_and_keys(instance):
    private = EC.as_dict(private=True)
    path = keys_file(instance, private)
    result = done(instance, "client", "add", "lab", *SCOPE, "--jwks", path)
    assert (result.stdout, result.stderr) == ("", "Client lab is registered.\n")
    client = shown(instance, "lab")
    for name in ("registered", "approved"):
        at = client.pop(f"{name}_at")
        assert abs(at - time.time()) < 60
        assert datetime.fromisoformat(client.pop(name)).timestamp() == at
    assert client == {
        "client_id": "lab",
        "name": "lab",
        "kind": "backend",
        "auth_method": "private_key_jwt",
        "scope": "system/*.rs",
        "jwks": {"keys": [EC.as_dict(private=False)]},
        "registered_by_itself": False,
        "disabled": False,
        **dict.fromkeys(
            ("redirect_uris", "launch_uri", "jwks_uri", "developer", "contact", "registered_from")
        ),
    }
    Path(path).unlink()
    assert private["d"].encode() not in (instance / "fhirapp.db").read_bytes()


def test_public_app_is_registered_with_all_its_fields(instance):
    result = add(
        instance,
        "chart",
        "public",
        *("--redirect-uri", "com.example.chart:/back", "--launch-uri", "https://app.example/go"),
        *("--name", "Growth chart", "--developer", "Example Ltd", "--contact", "a@app.example"),
    )
    assert result.stdout == ""
    client = shown(instance, "chart")
    assert (client["kind"], client["auth_method"]) == ("public", "none")
    assert (client["name"], client["scope"]) == ("Growth chart", APP_SCOPE)
    assert client["redirect_uris"] == [REDIRECT, "com.example.chart:/back"]
    assert client["launch_uri"] == "https://app.example/go"
    assert (client["developer"], client["contact"]) == ("Example Ltd", "a@app.example")
    # All columns are shown but digests; times also as people read them.
    columns = Client.__table__.columns
    secrets = {column.name for column in columns if isinstance(column.type, LargeBinary)}
    assert secrets == {"secret_digest", "owner_digest"}
    more = {"registered", "approved", "registered_from", "registered_by_itself"}
    assert client.keys() == {column.name for column in columns} - secrets | more


def test_secret_of_a_confidential_app_is_printed_once_and_replaced(instance):
    secrets = [
        add(instance, "portal", "confidential").stdout,
        done(instance, "client", "rotate", "portal").stdout,
    ]
    assert all(re.fullmatch(r"[\w-]{43}\n", secret) for secret in secrets)
    assert secrets[0] != secrets[1]
    assert stored(instance) == {"portal": digest(secrets[1].strip())}
    listed = done(instance, "client", "list", "--json").output
    shown = done(instance, "client", "show", "portal").output
    for secret in map(str.strip, secrets):
        assert secret.encode() not in (instance / "fhirapp.db").read_bytes()
        assert secret not in listed + shown


def test_client_with_a_key_set_url_gets_no_secret(instance):
    address = "https://lab.example/keys"
    for kind, options in (("confidential", APP), ("backend", SCOPE)):
        given = ("client", "add", kind, "--kind", kind, "--jwks-uri", address, *options)
        assert done(instance, *given).stdout == ""
        client = shown(instance, kind)
        assert (client["auth_method"], client["jwks_uri"]) == ("private_key_jwt", address)
    assert set(stored(instance).values()) == {None}


def test_invalid_registration_is_refused_and_nothing_is_stored(known, tmp_path):
    """Which registrations are refused is tested in tests/auth/test_registration.py."""
    before = stored(known)
    for client_id, options, words in (
        ("taken", APP, "taken is already registered"),
        ("app", (*APP, "--redirect-uri", "javascript:x"), "The redirect URI 'javascript:x' must"),
        ("app", (*APP, "--kind", "nonsense"), "Invalid value for '--kind': 'nonsense' is not"),
        ("app", (), "Missing option '--scope'. See --help."),
        ("lab", (*SCOPE, "--kind", "backend"), "Public keys are missing"),
        ("lab", (*SCOPE, "--jwks", "missing.json"), "'missing.json' does not exist"),
    ):
        assert words in refusal(known, "client", "add", client_id, "--kind", "public", *options)
    for content, words in (("[" * 100_000, "keys.json is not JSON."), ("null", "Not a JSON Web")):
        options = (*SCOPE, "--jwks", keys_file(tmp_path, content))
        assert words in refusal(known, "client", "add", "lab", *options)
    (tmp_path / "keys.json").write_bytes(b"\xff\xfe{}")
    assert refusal(known, "client", "add", "lab", *options).endswith("keys.json is not JSON.")
    assert stored(known) == before


def test_unknown_client_is_refused_and_one_without_a_secret_gets_none(known):
    for command in ("show", "approve", "refuse", "disable", "enable", "rotate"):
        assert refusal(known, "client", command, "other") == "Unknown client: other."
    assert "must have 1 to 64 letters" in refusal(known, "client", "show", "\udcff")
    assert "taken has no secret" in refusal(known, "client", "rotate", "taken")
    assert stored(known) == {"taken": None}


def test_waiting_client_is_listed_and_approved(instance):
    with app_of(instance), writing() as connection:
        register(connection, PUBLIC, client_id="chart", approved=False)
        code = owner_code(connection, "chart")
    table = done(instance, "client", "list")
    assert table.stdout == f"chart (waiting for approval)\tApp\t{PUBLIC.scope}\n"
    assert table.stderr == "Client id\tName\tScopes\n"
    (client,) = json.loads(done(instance, "client", "list", "--json").stdout)
    assert (client["kind"], client["approved_at"]) == ("public", None)
    command = ("token", "issue", "--client", "chart", "--scope", "patient/*.rs")
    assert "disabled or waiting for approval" in refusal(instance, *command)
    assert done(instance, "client", "approve", "chart").stderr == "Client chart is approved.\n"
    assert done(instance, "client", "list").stdout == f"chart\tApp\t{PUBLIC.scope}\n"
    client = shown(instance, "chart")
    assert abs(client["approved_at"] - time.time()) < 60
    assert digest(code).hex() not in json.dumps(client)


def test_client_that_registered_itself_is_listed_as_such_and_refused(instance):
    add(instance, "known", "public")
    with app_of(instance):
        client_id = administration.apply(CONFIDENTIAL, "192.0.2.4", by_itself=True).client_id
    marks = "(waiting for approval) (registered by itself)"
    assert f"{client_id} {marks}\tApp\t" in done(instance, "client", "list").stdout
    client = shown(instance, client_id)
    assert (client["registered_from"], client["registered_by_itself"]) == ("192.0.2.4", True)
    listed = json.loads(done(instance, "client", "list", "--json").stdout)
    assert {client["client_id"]: client["registered_by_itself"] for client in listed} == {
        client_id: True,
        "known": False,
    }
    refused = done(instance, "client", "refuse", client_id)
    assert refused.stderr == f"Client {client_id} is refused and deleted.\n"
    assert refusal(instance, "client", "show", client_id) == f"Unknown client: {client_id}."
    assert "already approved" in refusal(instance, "client", "refuse", "known")
    trail = done(instance, "audit", "list", "--kind", "administration", "--json").stdout
    assert any("app-rejected" in line and client_id in line for line in trail.splitlines())


def test_client_is_disabled_and_enabled(instance):
    add(instance, "chart", "public")
    assert done(instance, "client", "disable", "chart").stderr == "Client chart is disabled.\n"
    assert done(instance, "client", "list").stdout == f"chart (disabled)\tchart\t{APP_SCOPE}\n"
    assert shown(instance, "chart")["disabled"]
    assert done(instance, "client", "enable", "chart").stderr == "Client chart is enabled.\n"
    assert not shown(instance, "chart")["disabled"]


def test_signing_key_is_added_and_readable_by_its_owner_only(instance, signing_keys_file):
    path = Path(shutil.copy(signing_keys_file, instance))
    before = json.loads(path.read_bytes())["keys"]
    result = done(instance, "key", "rotate")
    assert result.stdout == ""
    assert "10 minutes" in result.stderr
    keys = json.loads(path.read_bytes())["keys"]
    assert (keys[:-1], len(keys)) == (before, 2)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {key["key"]["d"] for key in keys}.isdisjoint(result.output.split())
    path.write_text("{")
    assert "delete the file" in refusal(instance, "key", "rotate")
    assert path.read_text() == "{"
