"""Settings are read from the environment and the command line, and checked.

A value that cannot be used stops the start with one sentence (ConfigurationError).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import Field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from marshmallow import ValidationError

from fhirapp import config
from fhirapp.config import PREFIX, ConfigurationError, Settings, declared, variable_of
from fhirapp.url_syntax import LOOPBACK, is_http_address, is_loopback

_NO_REPLICAS = (
    "unset FHIRAPP_REPLICA_URLS and FHIRAPP_REPLICA_LAG. All records are read from the database "
    "that FHIRAPP_DATABASE_URL names; `fhirapp docs scale` says how many requests one can serve."
)
# Settings that were removed, and what to do instead.
_REMOVED = {"replica_urls": _NO_REPLICAS, "replica_lag": _NO_REPLICAS}
# Variables that the tests and the benchmark read, not the server.
_FOREIGN = frozenset(
    {
        *("backup_passphrase", "test_browser", "test_cluster", "test_deploy"),
        *("test_node", "test_postgresql", "test_servers"),
    }
)
_SECRET_LENGTH = 32


def load_settings(environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Return the settings of environ (default: os.environ); overrides replace its values.

    An override of None counts as absent. Raises ConfigurationError.
    """
    source = os.environ if environ is None else environ
    known = {setting.name for setting in declared()}
    for name in source:
        setting_name = name.removeprefix(PREFIX).lower()
        if not name.startswith(PREFIX) or setting_name in known | _FOREIGN:
            continue
        if advice := _REMOVED.get(setting_name):
            if source[name] == "":
                continue
            raise ConfigurationError(f"{name} is no longer a setting: {advice}")
        raise ConfigurationError(f"{name} is not a setting; `fhirapp docs clinic` lists them.")
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting in declared():
        given = overrides.get(setting.name)
        text = str(given) if given is not None else source.get(variable_of(setting.name), "")
        if text == "":
            continue
        values[setting.name] = parse_setting(setting, text)
        origins[setting.name] = config.COMMAND_LINE if given is not None else config.ENVIRONMENT
    settings = Settings(**values, origins=origins)
    check_together(settings)
    return settings


def parse_setting(setting: Field[Any], text: str) -> Any:
    """Return the value that the text of a variable gives a setting. Raises ConfigurationError."""
    try:
        return setting.metadata["parser"].deserialize(text)
    except ValidationError as error:
        reason = " ".join(map(str, error.messages))
        raise ConfigurationError(
            f"{variable_of(setting.name)}={text!r} cannot be used: {reason}"
        ) from None


def check_together(settings: Settings) -> None:
    """Check that settings fit each other. Raises ConfigurationError."""
    if settings.page_size > settings.page_max:
        raise ConfigurationError(
            f"FHIRAPP_PAGE_SIZE={settings.page_size} is more than "
            f"FHIRAPP_PAGE_MAX={settings.page_max}; lower the one or raise the other."
        )
    if settings.base_url and not is_http_address(settings.base_url):
        raise ConfigurationError(
            f"FHIRAPP_BASE_URL={settings.base_url!r} is not an address; "
            "use for example https://fhir.clinic.example"
        )
    if settings.base_url.endswith("/fhir"):
        raise ConfigurationError(f"FHIRAPP_BASE_URL={settings.base_url!r}: leave out /fhir.")
    path = urlsplit(settings.base_url).path
    if not re.fullmatch(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*", path):
        raise ConfigurationError(
            f"FHIRAPP_BASE_URL={settings.base_url!r}: its path may have letters, digits, "
            "and . _ ~ - between slashes."
        )
    if settings.oidc_issuer or settings.oidc_client_id:
        _check_provider(settings)
    if settings.demo and settings.database_url:
        raise ConfigurationError(
            "Demo mode has its own database and never touches the clinic's: "
            "leave out FHIRAPP_DATABASE_URL, or leave out --demo."
        )
    _check_secret(settings)
    if settings.files:
        _check_files(settings)


def _check_secret(settings: Settings) -> None:
    if not settings.is_postgresql:
        if settings.secret:
            raise ConfigurationError(
                "FHIRAPP_SECRET has no effect with SQLite, whose key is a file of the instance "
                "folder; leave it out."
            )
        return
    if len(settings.secret.strip()) >= _SECRET_LENGTH:
        return
    path = settings.instance / config.SECRET_KEY
    former = (
        f"; to go on with the key that this server has, FHIRAPP_SECRET=$(base64 -w0 {path})"
        if path.is_file()
        else ", for example what `openssl rand -base64 32` prints"
    )
    raise ConfigurationError(
        f"With PostgreSQL FHIRAPP_SECRET is needed, {_SECRET_LENGTH} characters or more and the "
        f"same on each server{former}."
    )


# s3://bucket/prefix; no segment of the prefix is . or ..
_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/(?!\.\.?(/|$))[\w.~-]+)*")


def _check_files(settings: Settings) -> None:
    if settings.demo:
        raise ConfigurationError(
            "Demo mode keeps its files in its own folder: leave out FHIRAPP_FILES, or leave out "
            "--demo."
        )
    if "://" not in settings.files:
        if not Path(settings.files).is_absolute():
            raise ConfigurationError(
                f"FHIRAPP_FILES={settings.files!r} is not a whole path; it begins with a slash."
            )
    elif re.search("[@?#]", settings.files):
        # The value may contain a key, so the message does not show it.
        raise ConfigurationError(
            "FHIRAPP_FILES takes s3://bucket/prefix and nothing else; keys are set in "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    elif not _BUCKET.fullmatch(settings.files):
        raise ConfigurationError(
            f"FHIRAPP_FILES={settings.files!r} is neither a folder nor s3://bucket/prefix."
        )


def check_listening(settings: Settings) -> None:
    """Check that a server may listen on its host. Raises ConfigurationError.

    A command that only works on the data needs no address.
    """
    if settings.host not in LOOPBACK and not settings.base_url:
        raise ConfigurationError(
            f"To listen on {settings.host}, which others can reach, set FHIRAPP_BASE_URL "
            "to the address under which clients reach this server."
        )


def _check_provider(settings: Settings) -> None:
    parts = urlsplit(settings.oidc_issuer)
    is_safe = parts.scheme == "https" or is_loopback(parts.netloc)
    if not (is_http_address(settings.oidc_issuer) and is_safe):
        raise ConfigurationError(
            f"FHIRAPP_OIDC_ISSUER={settings.oidc_issuer!r} is no https:// address of an issuer."
        )
    if not settings.oidc_client_id:
        raise ConfigurationError(
            "FHIRAPP_OIDC_ISSUER needs FHIRAPP_OIDC_CLIENT_ID: its client id there."
        )
    if "openid" not in settings.oidc_scope.split():
        raise ConfigurationError("FHIRAPP_OIDC_SCOPE must contain openid.")
