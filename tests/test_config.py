"""Settings: what is read, what is refused, and that a refusal says in a sentence what to do."""

from __future__ import annotations

import base64
import zoneinfo
from dataclasses import replace
from datetime import datetime
from importlib.resources import files
from pathlib import Path

import pytest
from sqlalchemy import make_url

from fhirapp import create_app
from fhirapp.config import PREFIX, SECRET_KEY, ConfigurationError, Settings
from fhirapp.disk import database_path
from fhirapp.environment import check_listening, load_settings
from fhirapp.keys import derived_key, secret_key
from tests.support.helpers import shared_secret


def refusal(environ: dict[str, str]) -> str:
    """Return the sentence with which an app of these settings is refused."""
    with pytest.raises(ConfigurationError) as raised:
        create_app(load_settings({PREFIX + name: value for name, value in environ.items()}))
    said = str(raised.value)
    assert "\n" not in said
    return said


def test_switch_is_on_or_off():
    for value in ("1", "true", "yes", "on"):
        assert load_settings({"FHIRAPP_DEMO": value}).demo
    for value in ("0", "false", "no", "off", ""):
        assert not load_settings({"FHIRAPP_DEMO": value}).demo


def test_an_option_wins_over_the_environment_and_none_is_no_option():
    environ = {"FHIRAPP_PORT": "8001", "FHIRAPP_DEMO": "1"}
    assert load_settings(environ, port=8002, demo=False).port == 8002
    assert not load_settings(environ, demo=False).demo
    assert load_settings(environ, port=None).port == 8001
    assert load_settings(environ, port=0).port == 0


def test_variables_of_other_programs_are_not_read():
    assert load_settings({"PORT": "1", "fhirapp_port": "2", "XFHIRAPP_PORT": "3"}) == Settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "eighty"),
        ("PORT", "-1"),
        ("PORT", "65536"),
        ("PORT", "80.5"),
        ("PROCESSES", "-1"),
        ("PROCESSES", "257"),
        ("THREADS", "0"),
        ("PAGE_SIZE", "0"),
        ("PAGE_SIZE", "many"),
        ("PAGE_MAX", "10001"),
        ("INLINE_MAX", "-1"),
        ("DEMO", "perhaps"),
        ("REQUIRE_PATIENT_OR_ID", "2"),
        ("SELF_LINK", "API"),
        ("EMPTY_CONTENT", "null"),
        *(("TIMEZONE", one) for one in ("Berlin", "Europe", "../UTC", "CET-1CEST", "+02:00")),
        ("LOG_LEVEL", "loud"),
        ("LOG_FORMAT", "xml"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(name, value):
    said = refusal({name: value})
    assert said.startswith(f"FHIRAPP_{name}={value!r} cannot be used: ")
    assert said.endswith(".")


@pytest.mark.parametrize(
    ("tz", "name"),
    [
        ("Asia/Kolkata", "Asia/Kolkata"),
        (":America/Chicago", "America/Chicago"),
        (":/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"),
        ("CET-1CEST", "UTC"),
    ],
)
def test_the_time_zone_is_the_machines_unless_it_is_set(monkeypatch, tz, name):
    monkeypatch.setenv("TZ", tz)
    assert str(load_settings({}).zone) == name
    assert str(load_settings({"FHIRAPP_TIMEZONE": "Asia/Tokyo"}).zone) == "Asia/Tokyo"


def test_the_machines_zone_is_read_where_no_variable_names_it(monkeypatch, tmp_path):
    monkeypatch.delenv("TZ")
    here = tmp_path / "localtime"
    monkeypatch.setattr("fhirapp.config._LOCALTIME", here)
    assert str(load_settings({}).zone) == "UTC"
    folder = tmp_path / "zoneinfo" / "Asia"
    folder.mkdir(parents=True)
    file = files("tzdata").joinpath("zoneinfo", "Asia", "Kolkata").read_bytes()
    (folder / "Kolkata").write_bytes(file)
    here.symlink_to(folder / "Kolkata")
    assert str(load_settings({}).zone) == "Asia/Kolkata"
    here.unlink()
    here.write_bytes(file)
    copied = load_settings({}).zone
    assert str(copied) == "the machine's time zone"
    assert datetime(2024, 3, 2, tzinfo=copied).isoformat() == "2024-03-02T00:00:00+05:30"
    here.write_bytes(b"no zone")
    assert str(load_settings({}).zone) == "UTC"


def test_zones_are_known_on_a_machine_that_has_none():
    zoneinfo.reset_tzpath(to=())
    zoneinfo.ZoneInfo.clear_cache()
    try:
        assert str(load_settings({"FHIRAPP_TIMEZONE": "Asia/Kathmandu"}).zone) == "Asia/Kathmandu"
    finally:
        zoneinfo.reset_tzpath()


@pytest.mark.parametrize("name", ["PORTT", "SECRET_KEY", "AUTH", ""])
def test_an_unknown_setting_is_refused(name):
    said = refusal({name: "1"})
    assert said == f"FHIRAPP_{name} is not a setting; `fhirapp docs clinic` lists them."


@pytest.mark.parametrize("name", ["FHIRAPP_REPLICA_URLS", "FHIRAPP_REPLICA_LAG"])
def test_a_removed_setting_is_refused_with_what_to_do(name):
    with pytest.raises(ConfigurationError, match=f"{name} is no longer a setting: unset "):
        load_settings({name: "5"})
    assert load_settings({name: ""}) == load_settings({})


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"PAGE_SIZE": "200", "PAGE_MAX": "100"}, "is more than FHIRAPP_PAGE_MAX=100"),
        ({"PAGE_MAX": "50"}, "FHIRAPP_PAGE_SIZE=100 is more than FHIRAPP_PAGE_MAX=50"),
        ({"BASE_URL": "fhir.example"}, "is not an address"),
        ({"BASE_URL": "ftp://fhir.example"}, "is not an address"),
        ({"BASE_URL": "https://"}, "is not an address"),
        ({"BASE_URL": "https://fhir.example?x=1"}, "is not an address"),
        ({"BASE_URL": "https://fhir.example#x"}, "is not an address"),
        ({"BASE_URL": "http://[::1"}, "is not an address"),
        ({"BASE_URL": "https://fhir.example:port"}, "is not an address"),
        ({"BASE_URL": "https://fhir.example:99999"}, "is not an address"),
        ({"BASE_URL": "https://fhir example"}, "is not an address"),
        ({"BASE_URL": "https://fhir.example/fhir"}, "leave out /fhir"),
        ({"BASE_URL": "https://fhir.example/fhir/"}, "leave out /fhir"),
        ({"DEMO": "1", "DATABASE_URL": "sqlite:///x.db"}, "never touches the clinic's"),
        ({"DATABASE_URL": "nonsense"}, "is not a database address"),
        ({"DATABASE_URL": "oops://x/y"}, "is not a database address"),
        ({"DATABASE_URL": "mysql://u:p@h/x"}, "is not a database address"),
        (
            {"DATABASE_URL": "postgresql://x:port/y", "SECRET": "s" * 32},
            "is not a database address",
        ),
        ({"DATABASE_URL": "postgresql://x/y"}, "32 characters or more and the same on each server"),
        ({"DATABASE_URL": "postgres://x/y", "SECRET": "s" * 31}, "FHIRAPP_SECRET is needed, 32"),
        ({"SECRET": "s" * 32}, "FHIRAPP_SECRET has no effect with SQLite"),
        ({"DEMO": "1", "SECRET": "s" * 32}, "FHIRAPP_SECRET has no effect with SQLite"),
        ({"DATABASE_URL": "sqlite:////proc/nowhere/x.db"}, "The folder /proc/nowhere cannot be"),
    ],
)
def test_what_cannot_be_used_or_not_together_is_refused(environ, words, tmp_path):
    assert words in refusal({"INSTANCE_PATH": str(tmp_path), **environ})


def test_the_key_that_a_server_has_goes_on_as_its_secret(tmp_path):
    """Who ran one server on PostgreSQL until now has it in a file."""
    own = {"INSTANCE_PATH": str(tmp_path), "DATABASE_URL": "postgresql://x/y"}
    key = secret_key(tmp_path)
    words = f"FHIRAPP_SECRET=$(base64 -w0 {tmp_path / SECRET_KEY})"
    assert words in refusal(own)
    assert derived_key(base64.b64encode(key).decode()) == key


def test_an_instance_folder_below_a_file_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    said = refusal({"INSTANCE_PATH": str(file / "instance")})
    assert str(file / "instance") in said
    assert "FHIRAPP_INSTANCE_PATH" in said


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_loopback_needs_no_base_url(host):
    check_listening(load_settings({"FHIRAPP_HOST": host}))


@pytest.mark.parametrize(
    "given", [{"HOST": "0.0.0.0"}, {"HOST": "::"}, {"HOST": "::", "DEMO": "1"}]
)
def test_only_who_serves_to_others_needs_a_base_url(given):
    everywhere = load_settings({f"FHIRAPP_{name}": value for name, value in given.items()})
    with pytest.raises(ConfigurationError, match="which others can reach, set FHIRAPP_BASE_URL"):
        check_listening(everywhere)
    check_listening(replace(everywhere, base_url="https://fhir.clinic.example"))


def test_demo_mode_has_a_database_of_its_own(tmp_path):
    folder = {"FHIRAPP_INSTANCE_PATH": str(tmp_path)}
    assert load_settings(folder).database_uri == f"sqlite:///{tmp_path}/fhirapp.db"
    demo = load_settings({**folder, "FHIRAPP_DEMO": "1"})
    assert demo.database_uri == f"sqlite:///{tmp_path}/demo.db"


@pytest.mark.parametrize("name", ["why?now", "100%25", "a#b", "two words", "ä"])
def test_a_folder_may_have_any_name(tmp_path, name):
    settings = load_settings({"FHIRAPP_INSTANCE_PATH": str(tmp_path / name)})
    assert make_url(settings.database_uri).database == str(tmp_path / name / "fhirapp.db")
    assert database_path(settings) == tmp_path / name / "fhirapp.db"


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("https://fhir.example", "https://fhir.example"),
        ("HTTPS://FHIR.Example:443/", "https://fhir.example"),
        ("http://fhir.example.:80", "http://fhir.example"),
        ("http://fhir.example:443", "http://fhir.example:443"),
        ("https://fhir.example:8443/Records/", "https://fhir.example:8443/Records"),
        ("https://[2001:DB8:0:0::1]/", "https://[2001:db8::1]"),
        ("https://Zürich.example", "https://xn--zrich-kva.example"),
        ("https://spital。例え.example", "https://spital.xn--r8jz45g.example"),
    ],
)
def test_the_base_url_has_its_normal_form(given, address):
    assert load_settings({"FHIRAPP_BASE_URL": given}).base_url == address


@pytest.mark.parametrize(
    ("given", "uri"),
    [
        ("postgresql://u:p@h/n", "postgresql+psycopg://u:p@h/n"),
        ("postgres://u:p@h/n", "postgresql+psycopg://u:p@h/n"),
        ("postgresql+psycopg://h/n", "postgresql+psycopg://h/n"),
        ("sqlite:////data/x.db", "sqlite:////data/x.db"),
    ],
)
def test_a_database_address_names_the_driver_that_is_installed(given, uri):
    secret = {f"FHIRAPP_{name.upper()}": text for name, text in shared_secret(given).items()}
    assert load_settings({"FHIRAPP_DATABASE_URL": given, **secret}).database_uri == uri


def test_a_relative_instance_folder_is_made_absolute():
    assert load_settings({"FHIRAPP_INSTANCE_PATH": "data"}).instance == Path("data").absolute()
