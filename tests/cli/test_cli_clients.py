"""`fhirapp client …` and `fhirapp key rotate`: what they do, print, refuse, and never show."""

from __future__ import annotations

import json
import re
import stat
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from joserfc.jwk import ECKey
from sqlalchemy import LargeBinary

from fhirapp import create_app
from fhirapp.auth.clients import administration
from fhirapp.auth.clients.registration import Registration, owner_code, register
from fhirapp.auth.models import Client, digest
from fhirapp.config import load_settings
from fhirapp.db import db, writing
from tests.cli.test_cli import keys_file
from tests.support.client_commands import done, refusal
from tests.support.shell import assert_not_done, fhirapp

KEY = ECKey.generate_key("P-384", {"kid": "k"})
REDIRECT = "https://app.example/callback"
APP_SCOPE = "launch/patient patient/*.rs offline_access"
APP = ("--scope", APP_SCOPE, "--redirect-uri", REDIRECT)


def add(folder: Path, client_id: str, kind: str, *options: str) -> Result:
    """Register an app."""
    return done(folder, "client", "add", client_id, "--kind", kind, *APP, *options)


def shown(folder: Path, client_id: str) -> dict[str, Any]:
    """Return what `client show` tells."""
    found: dict[str, Any] = json.loads(done(folder, "client", "show", client_id).stdout)
    return found


def stored(folder: Path) -> dict[str, Any]:
    """Return each client's secret as it is stored, by id."""
    app = create_app(load_settings({}, instance_path=str(folder)))
    with app.app_context(), db.engine.connect() as connection:
        table = Client.__table__
        found = connection.execute(table.select()).mappings().all()
        db.engine.dispose()
    return {row["client_id"]: row["secret_digest"] for row in found}


def test_a_backend_needs_no_more_than_a_scope_and_keys(tmp_path):
    path = keys_file(tmp_path, KEY.as_dict(private=True))
    result = done(tmp_path, "client", "add", "lab", "--scope", "system/*.rs", "--jwks", path)
    assert (result.stdout, result.stderr) == ("", "Client lab is registered.\n")
    client = shown(tmp_path, "lab")
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
        "redirect_uris": None,
        "launch_uri": None,
        "jwks": {"keys": [KEY.as_dict(private=False)]},
        "jwks_uri": None,
        "developer": None,
        "contact": None,
        "registered_from": None,
        "registered_by_itself": False,
        "disabled": False,
    }
    assert KEY.as_dict(private=True)["d"].encode() not in (tmp_path / "fhirapp.db").read_bytes()


def test_a_public_app_is_registered_with_all_that_it_says(tmp_path):
    result = add(
        tmp_path,
        "chart",
        "public",
        *("--redirect-uri", "com.example.chart:/back", "--launch-uri", "https://app.example/go"),
        *("--name", "Growth chart", "--developer", "Example Ltd", "--contact", "a@app.example"),
    )
    assert result.stdout == ""
    client = shown(tmp_path, "chart")
    assert (client["kind"], client["auth_method"]) == ("public", "none")
    assert (client["name"], client["scope"]) == ("Growth chart", APP_SCOPE)
    assert client["redirect_uris"] == [REDIRECT, "com.example.chart:/back"]
    assert client["launch_uri"] == "https://app.example/go"
    assert (client["developer"], client["contact"]) == ("Example Ltd", "a@app.example")


def test_a_confidential_app_gets_a_secret_that_is_printed_once(tmp_path):
    result = add(tmp_path, "portal", "confidential")
    assert result.stderr == "Client portal is registered.\n"
    assert re.fullmatch(r"[\w-]{43}\n", result.stdout)
    secret = result.stdout.strip()
    assert stored(tmp_path) == {"portal": digest(secret)}
    assert secret.encode() not in (tmp_path / "fhirapp.db").read_bytes()
    for command in (("list",), ("list", "--json"), ("show", "portal")):
        assert secret not in done(tmp_path, "client", *command).output


@pytest.mark.parametrize("kind", ["confidential", "backend"])
def test_a_client_with_keys_at_an_address_gets_no_secret(tmp_path, kind):
    address = "https://lab.example/keys"
    options = APP if kind == "confidential" else ("--scope", "system/*.rs")
    given = ("client", "add", "lab", "--kind", kind, "--jwks-uri", address, *options)
    assert done(tmp_path, *given).stdout == ""
    client = shown(tmp_path, "lab")
    assert (client["auth_method"], client["jwks_uri"]) == ("private_key_jwt", address)
    assert stored(tmp_path) == {"lab": None}


SCOPE = ("--scope", "system/*.rs")


@pytest.mark.parametrize(
    ("client_id", "options", "words"),
    [
        ("a b", APP, "A client id must have 1 to 64 letters, digits or . _ ~ -"),
        ("\udcff", APP, "A client id must have 1 to 64 letters, digits or . _ ~ -"),
        ("operator", APP, "The client operator is this server's own; choose another id."),
        ("taken", APP, "The client taken is already registered."),
        ("app", (*APP, "--name", "\n"), "The name must have 1 to 100 printable characters."),
        ("app", (*APP, "--redirect-uri", "javascript:x"), "The redirect URI 'javascript:x' must"),
        ("app", (*APP, "--launch-uri", "data:x"), "The launch URI 'data:x' must begin with https"),
        ("app", (*APP, "--scope", "system/*.rs"), "A public client cannot have the scope"),
        (
            "app",
            (*APP, "--jwks-uri", "https://a.example"),
            "Keys can only be used with private_key_jwt.",
        ),
        ("app", (*APP, "--kind", "nonsense"), "Invalid value for '--kind': 'nonsense' is not"),
        ("app", ("--scope", "openid"), "An app needs at least one redirect URI."),
        ("app", (), "Missing option '--scope'. See --help."),
        (
            "lab",
            (*SCOPE, "--kind", "backend"),
            "Public keys are missing: enter a JSON Web Key Set or the",
        ),
        ("lab", (*APP, "--kind", "backend", "--jwks-uri", "https://a.b/"), "has no users"),
        (
            "lab",
            (*SCOPE, "--kind", "backend", "--jwks-uri", "http://lab.example/keys"),
            "The URL of the keys 'http://lab.example/keys' must begin with https://",
        ),
        ("lab", (*SCOPE, "--jwks", "missing.json"), "'missing.json' does not exist"),
    ],
)
def test_a_client_that_cannot_be_registered_is_refused(known, client_id, options, words):
    before = stored(known)
    given = ("client", "add", client_id, "--kind", "public", *options)
    assert words in refusal(known, *given)
    assert stored(known) == before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "keys.json is not JSON."),
        ("", "keys.json is not JSON."),
        ("[" * 100_000, "keys.json is not JSON."),
        ("[]", "Not a JSON Web Key Set: it must be an object with a list of keys."),
        ("null", "Not a JSON Web Key Set: it must be an object with a list of keys."),
        ("{}", "The key set must contain RSA keys for RS384 or P-384 EC keys"),
        ('{"kty":"RSA","n":"AQAB","e":"AQAB"}', "An RSA key must have 2048 to 8192 bits."),
        ('{"kty":"EC","crv":"P-384","x":"AA","y":"AA"}', "Not a JSON Web Key Set: "),
    ],
)
def test_a_file_that_holds_no_keys_is_refused(known, tmp_path, content, words):
    path = keys_file(tmp_path, content)
    for more in ((), ("--jwks-uri", "https://lab.example/keys")):
        assert words in refusal(known, "client", "add", "lab", *SCOPE, "--jwks", path, *more)


def test_a_file_of_bytes_that_are_no_text_is_refused(known, tmp_path):
    path = tmp_path / "keys.json"
    path.write_bytes(b"\xff\xfe{}")
    said = refusal(known, "client", "add", "lab", *SCOPE, "--jwks", str(path))
    assert said == f"{path} is not JSON."


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance folder with an app, for commands that are refused."""
    folder = tmp_path_factory.mktemp("known")
    add(folder, "taken", "public")
    return folder


@pytest.mark.parametrize("command", ["show", "approve", "refuse", "disable", "enable", "rotate"])
@pytest.mark.parametrize(
    ("client_id", "words"),
    [
        ("other", "Unknown client: other."),
        ("a\nb", "A client id must have 1 to 64 letters, digits or . _ ~ -"),
        ("\udcff", "A client id must have 1 to 64 letters, digits or . _ ~ -"),
    ],
)
def test_a_client_that_is_not_there_is_one_sentence(known, command, client_id, words):
    assert refusal(known, "client", command, client_id) == words


def test_a_refusal_is_one_sentence_of_the_real_command_too(known):
    missing = fhirapp(known, "client", "add", "app", "--kind", "public", "--scope", "openid")
    assert_not_done(missing, "fhirapp: An app needs at least one redirect URI.")
    assert_not_done(fhirapp(known, "user", "add", "paul"), "clinician, administrator, patient. See")


def test_a_secret_is_replaced(tmp_path):
    before = add(tmp_path, "portal", "confidential").stdout.strip()
    result = done(tmp_path, "client", "rotate", "portal")
    assert result.stderr == "Client portal has a new secret.\n"
    secret = result.stdout.strip()
    assert re.fullmatch(r"[\w-]{43}", secret)
    assert secret != before
    assert stored(tmp_path) == {"portal": digest(secret)}


def test_a_client_without_a_secret_gets_none(known):
    words = "The client taken has no secret to replace."
    assert refusal(known, "client", "rotate", "taken") == words
    assert stored(known) == {"taken": None}


def test_a_client_that_waits_for_approval_is_listed_approved_and_its_owner_not_told(tmp_path):
    done(tmp_path, "client", "list")
    app = create_app(load_settings({}, instance_path=str(tmp_path)))
    with app.app_context():
        with writing() as connection:
            given = Registration(
                name="Chart",
                kind="public",
                auth_method="none",
                scope="openid",
                redirect_uris=(REDIRECT,),
            )
            register(connection, given, client_id="chart", approved=False)
            code = owner_code(connection, "chart")
        db.engine.dispose()
    table = done(tmp_path, "client", "list")
    assert table.stdout == "chart (waiting for approval)\tChart\topenid\n"
    assert table.stderr == "Client id\tName\tScopes\n"
    waiting = shown(tmp_path, "chart")
    assert (waiting["approved_at"], waiting["approved"]) == (None, None)
    assert done(tmp_path, "client", "list", "--json").stderr == ""
    (listed,) = json.loads(done(tmp_path, "client", "list", "--json").stdout)
    assert (listed["kind"], listed["approved_at"]) == ("public", None)
    refused = refusal(tmp_path, "token", "issue", "--client", "chart", "--scope", "patient/*.rs")
    assert refused == "The client chart is disabled or waiting for approval."
    assert done(tmp_path, "client", "approve", "chart").stderr == "Client chart is approved.\n"
    assert done(tmp_path, "client", "list").stdout == "chart\tChart\topenid\n"
    client = shown(tmp_path, "chart")
    assert abs(client["approved_at"] - time.time()) < 60
    assert not any("digest" in name for name in client)
    assert digest(code).hex() not in json.dumps(client)


def test_a_program_that_registered_itself_is_listed_as_such_and_refused(tmp_path):
    done(tmp_path, "client", "list")
    add(tmp_path, "known", "public")
    app = create_app(load_settings({}, instance_path=str(tmp_path)))
    given = Registration(
        name="Chart",
        kind="confidential",
        auth_method="client_secret_basic",
        scope="openid",
        redirect_uris=(REDIRECT,),
    )
    with app.test_request_context():
        client_id = administration.apply(given, "192.0.2.4", by_itself=True).client_id
        db.engine.dispose()
    marks = "(waiting for approval) (registered by itself)"
    assert f"{client_id} {marks}\tChart\topenid\n" in done(tmp_path, "client", "list").stdout
    client = shown(tmp_path, client_id)
    assert (client["registered_from"], client["registered_by_itself"]) == ("192.0.2.4", True)
    listed = json.loads(done(tmp_path, "client", "list", "--json").stdout)
    assert {one["client_id"]: one["registered_by_itself"] for one in listed} == {
        client_id: True,
        "known": False,
    }
    refused = done(tmp_path, "client", "refuse", client_id)
    assert refused.stderr == f"Client {client_id} is refused and deleted.\n"
    assert refusal(tmp_path, "client", "show", client_id) == f"Unknown client: {client_id}."
    words = "This app is already approved. Disable it instead."
    assert refusal(tmp_path, "client", "refuse", "known") == words
    events = (tmp_path / "audit").glob("*.ndjson")
    lines = [line for one in events for line in one.read_text().splitlines()]
    assert any("app-rejected" in line and client_id in line for line in lines)


def test_all_of_a_client_is_shown_but_what_is_a_digest(tmp_path):
    add(tmp_path, "chart", "public")
    columns = Client.__table__.columns
    secrets = {column.name for column in columns if isinstance(column.type, LargeBinary)}
    assert secrets == {"secret_digest", "owner_digest"}
    told = {column.name for column in columns} - secrets
    # The two times, as people read them too, and where it comes from.
    more = {"registered", "approved", "registered_from", "registered_by_itself"}
    assert shown(tmp_path, "chart").keys() == told | more


def test_a_client_is_disabled_and_enabled(tmp_path):
    add(tmp_path, "chart", "public")
    assert done(tmp_path, "client", "disable", "chart").stderr == "Client chart is disabled.\n"
    assert done(tmp_path, "client", "list").stdout == f"chart (disabled)\tchart\t{APP_SCOPE}\n"
    assert done(tmp_path, "client", "enable", "chart").stderr == "Client chart is enabled.\n"
    assert not shown(tmp_path, "chart")["disabled"]


@pytest.mark.parametrize("patient", ["", "a b", "a\nb", "\udcff", "Practitioner/x"])
def test_a_token_is_for_a_patient_whose_id_is_one(known, patient):
    given = ("token", "issue", "--scope", "patient/*.rs", "--patient", patient)
    assert refusal(known, *given) == f"{patient!r} is not a Patient id."


def test_a_signing_key_is_added_and_nobody_else_can_read_it(tmp_path):
    path = tmp_path / "signing-keys.json"
    result = done(tmp_path, "key", "rotate")
    assert (result.stdout, result.stderr) == (
        "",
        "The new key is published now, and starts to sign in 10 minutes.\n",
    )
    kept = json.loads(path.read_bytes())["keys"]
    assert len(kept) == 2
    done(tmp_path, "key", "rotate")
    assert json.loads(path.read_bytes())["keys"][:2] == kept
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {one["key"]["d"] for one in kept}.isdisjoint(result.output.split())


def test_signing_keys_that_cannot_be_read_are_one_sentence(tmp_path):
    (tmp_path / "signing-keys.json").write_text("{")
    said = refusal(tmp_path, "key", "rotate")
    assert said.endswith("cannot be read; delete the file, and a new one is made.")
    assert (tmp_path / "signing-keys.json").read_text() == "{"
