"""Every setting, once: its name, type, default and meaning.

Settings come from the environment with the prefix FHIRAPP_; a command-line option of the same name
wins. A value that cannot be used stops the start with one sentence (ConfigurationError). Those that
are marked as live can be changed while the server runs (server/live_settings.py).

Beside them the server's own address, which is one of them or the request's (decisions §1).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import Field as Declared
from dataclasses import dataclass, field, fields
from datetime import UTC, tzinfo
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit
from zoneinfo import ZoneInfo

from flask import Flask, current_app, has_app_context, has_request_context, request
from marshmallow import ValidationError
from marshmallow.fields import Boolean, Field, Integer, String
from marshmallow.validate import OneOf, Range, Regexp

from fhirapp.urls import normalise_address, normalise_authority

PREFIX = "FHIRAPP_"
# Where a value comes from; what comes from nowhere is the default.
ENVIRONMENT, COMMAND_LINE, STORED = "environment", "command line", "admin page"
# In the instance folder, unless the database is PostgreSQL.
SECRET_KEY = "secret.key"
_LEAST_SECRET = 32


class ConfigurationError(Exception):
    """The server cannot start as configured; str() is a sentence that says what to do."""


class Marked(str):
    """A value of a sentence that is translated too."""


class _Address(String):
    """An http(s) address, in its normal form."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        return normalise_address(super()._deserialize(value, attr, data, **kwargs))


class RefusedCommand(ConfigurationError):
    """A command of the shell or of a page is refused; str() says why, in English.

    values replace %(name)s in the text; pages translate both (web/texts).
    """

    def __init__(self, text: str, /, **values: object) -> None:
        super().__init__(text % values if values else text)
        self.text, self.values = text, values


def _setting(
    parser: Field[Any],
    default: Any,
    doc: str,
    shown: str = "",
    *,
    secret: bool = False,
    live: bool = False,
) -> Any:
    """Declare a setting; shown is the default as the manual's table has it.

    No page and no trail shows a secret. A live one can be changed on a page while the server runs:
    nothing that is stored was made with it, nothing is opened by it, and whoever could sign in as
    an administrator opens the server to no others by it.
    """
    metadata = {"parser": parser, "doc": doc, "shown": shown, "secret": secret, "live": live}
    return field(default=default, metadata=metadata)


def _check_zone(name: str) -> None:
    if _zone(name) is None:
        raise ValidationError("it is not the IANA name of a time zone, such as Europe/Berlin.")


def _check_networks(text: str) -> None:
    try:
        _networks(text)
    except ValueError as error:
        raise ValidationError(
            f"{error}; give addresses or networks with commas between: 10.0.0.7, 172.16.0.0/12."
        ) from None


def _networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Read a list of addresses and networks. Raises ValueError."""
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


# No option and no path among them.
_LANGUAGES = r"[A-Za-z]\w*(\+[A-Za-z]\w*)*\Z"
_NO_LANGUAGES = "it is not a list of Tesseract's languages, such as eng or eng+deu."


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The server's settings; each field is the environment variable FHIRAPP_<NAME>."""

    database_url: str = _setting(
        String(),
        "",
        "Database: empty, a path `sqlite:///file.db`, or `postgresql://user:password@host/name`",
        shown="`fhirapp.db` in the instance folder (`demo.db` in demo mode)",
        # A password may be in it.
        secret=True,
    )
    secret: str = _setting(
        String(),
        "",
        "Encrypts the keys that servers on one PostgreSQL share: 32 characters or more, the same "
        "on each of them; needed with PostgreSQL, and only there",
        shown="none",
        secret=True,
    )
    files: str = _setting(
        String(),
        "",
        "Where servers on one PostgreSQL share exports, backups and reports: a folder "
        "that all of them reach, or `s3://bucket/prefix`",
        shown="the instance folder",
    )
    base_url: str = _setting(
        _Address(),
        "",
        "Address under which clients reach the server, with its path if it has one, without "
        "`/fhir`; needed unless the server listens on loopback only",
        shown="from the request, on loopback only",
    )
    host: str = _setting(String(), "127.0.0.1", "Address to listen on")
    port: int = _setting(Integer(validate=Range(0, 65535)), 8000, "Port to listen on")
    demo: bool = _setting(Boolean(), False, "Demo mode: its own database, filled from seed.sql")
    demo_reset: str = _setting(
        String(validate=OneOf(["off", "hourly", "nightly"])),
        "off",
        "When a running demo resets itself: `off`, `hourly`, or `nightly` at "
        "three o'clock of the server's local time",
    )
    instance_path: str = _setting(
        String(), "", "Folder of the database and the keys", shown="`instance/` beside `app.py`"
    )
    processes: int = _setting(
        Integer(validate=Range(0, 256)), 0, "Server processes", shown="one per processor core"
    )
    threads: int = _setting(Integer(validate=Range(1, 256)), 4, "Threads in each process")
    trusted_proxy: str = _setting(
        String(validate=_check_networks),
        "",
        "Reverse proxies whose X-Forwarded-For is trusted: addresses or networks such as "
        "`10.0.0.0/8`, with commas between",
        shown="none",
    )
    connections: int = _setting(
        Integer(validate=Range(10, 100_000)),
        4000,
        "Connections open at once; beyond that idle ones are closed, and new ones wait",
    )
    connections_of_address: int = _setting(
        Integer(validate=Range(1, 100_000)),
        100,
        "Slow connections of one client's address in each process; of more the oldest is closed",
    )
    second_factor: str = _setting(
        String(validate=OneOf(["optional", "administrators", "staff"])),
        "optional",
        "Who must have a second factor: nobody (`optional`), `administrators`, or `staff`: "
        "everyone who sees more than their own record",
        live=True,
    )
    oidc_issuer: str = _setting(
        String(),
        "",
        "The clinic's own identity provider, by OpenID Connect: its issuer, such as "
        "`https://login.clinic.example/realms/staff`. People then sign in there too",
        shown="none",
    )
    oidc_client_id: str = _setting(
        String(), "", "Client id of this server at the provider", shown="none"
    )
    oidc_client_secret: str = _setting(
        String(),
        "",
        "The secret that the provider gave it",
        shown="none: a public client",
        secret=True,
    )
    oidc_scope: str = _setting(
        String(),
        "openid profile email",
        "Scopes requested from the provider; must include `openid`",
    )
    oidc_roles: str = _setting(
        String(),
        "",
        "Which role a claim of the provider gives: "
        "`groups: fhir-admins=administrator; doctors=clinician`. `*` is any value, a dot leads "
        "into a claim (`realm_access.roles`). Without a rule, an administrator gives roles "
        "here and links each person",
        shown="none",
    )
    oidc_name: str = _setting(
        String(),
        "",
        "Name of the provider that people see",
        shown="the issuer's host",
        live=True,
    )
    audit: str = _setting(
        String(validate=OneOf(["required", "best-effort"])),
        "required",
        "If the audit trail cannot be written, such as on a full disk: `required` refuses requests "
        "for records (503), `best-effort` answers and records later how many entries are missing; "
        "the demo always uses this",
    )
    audit_keep: int = _setting(
        Integer(validate=Range(0, 36_500)),
        0,
        "Days that the audit trail is kept, 0 for unlimited",
        shown="0: unlimited",
    )
    page_size: int = _setting(
        Integer(validate=Range(1, 10_000)), 100, "Results on a page", live=True
    )
    page_max: int = _setting(
        Integer(validate=Range(1, 10_000)),
        1000,
        "Largest page that `_count` can request",
        live=True,
    )
    inline_max: int = _setting(
        Integer(validate=Range(0)), 32_768, "Largest attachment, in bytes, that is also sent inline"
    )
    self_link: str = _setting(
        String(validate=OneOf(["api", "fhir"])),
        "api",
        "Self link of a search: `api` is the type under /api, `fhir` repeats the search",
        live=True,
    )
    empty_content: str = _setting(
        String(validate=OneOf(["omit", "dar"])),
        "omit",
        "A document without content: `omit` the element, or `dar` for a data-absent-reason, which "
        "strict clients need (HL7's models in Python)",
    )
    require_patient_or_id: bool = _setting(
        Boolean(),
        False,
        "Refuse a search that names neither `patient` nor `_id`",
        live=True,
    )
    ocr_languages: str = _setting(
        String(validate=Regexp(_LANGUAGES, error=_NO_LANGUAGES)),
        "",
        "Languages in which imports read scans by OCR with Debian's `tesseract-ocr`: `eng+deu`",
        shown="none: scans are not read",
    )
    export_hours: int = _setting(
        Integer(validate=Range(1, 8760)),
        24,
        "Hours that the files of a bulk export can be fetched, before they are removed",
        live=True,
    )
    fetch_private: bool = _setting(
        Boolean(),
        False,
        "Fetch the keys of clients (`jwks_uri`) from private addresses too, and over http: for "
        "backend clients in the clinic's own network",
    )
    dynamic_registration: bool = _setting(
        Boolean(),
        False,
        "Let apps and systems register themselves at `/oauth/register` (RFC 7591); each waits until"
        " an administrator approves it",
    )
    lessons: str = _setting(
        String(),
        "",
        "Folder with a teacher's own lessons for the demo: its `*.md` files come after the "
        "built-in ones; `/learn/writing` explains how to write them",
        shown="none",
    )
    translation: str = _setting(
        String(),
        "",
        "File with the texts of all pages in another language: a compiled gettext catalogue "
        "(`.mo`), made from `fhirapp/web/texts/messages.pot`; people then cannot choose",
        shown="none",
    )
    timezone: str = _setting(
        String(validate=_check_zone),
        "",
        "Time zone in which pages show times, as an IANA name: `America/Chicago`. Records and the "
        "answers of the API keep UTC",
        shown="the machine's, from `TZ` or `/etc/localtime`; else UTC",
        live=True,
    )
    checklist: bool = _setting(
        Boolean(),
        True,
        "Whether the first page of Administer lists what is still to be set up, until it is done",
        shown="`1`",
        live=True,
    )
    access_log: str = _setting(
        String(validate=OneOf(["off", "stdout", "files"])),
        "off",
        "A log line for each request, without search values: `off`, `stdout`, or `files`, one for "
        "each of 14 days in `logs/` of the instance folder",
    )
    metrics: str = _setting(
        String(),
        "",
        "Address on which Prometheus fetches `/metrics`, such as `127.0.0.1:9464`; strangers "
        "should not reach it",
        shown="none",
    )
    log_level: str = _setting(
        String(validate=OneOf(["DEBUG", "INFO", "WARNING", "ERROR"])),
        "INFO",
        "What is logged",
        live=True,
    )
    log_format: str = _setting(
        String(validate=OneOf(["text", "json"])), "text", "How it is logged: `text` or `json`"
    )
    # Where each value comes from that is not the default.
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def folder(self) -> Path:
        """The folder that the settings name, absolute."""
        return Path(self.instance_path or _project() / "instance").absolute()

    @property
    def instance(self) -> Path:
        """The folder of keys, trail, backups and uploads, absolute.

        The demo has its own: whoever signs in there may fetch what lies in it.
        """
        return self.folder / "demo" if self.demo else self.folder

    @property
    def database_uri(self) -> str:
        """The SQLAlchemy URL of the database."""
        if not self.database_url:
            path = self.folder / ("demo.db" if self.demo else "fhirapp.db")
            return sqlite_url(path)
        return _with_driver(self.database_url)

    @property
    def is_postgresql(self) -> bool:
        """Whether the database is PostgreSQL, which several servers may share."""
        return self.database_uri.startswith("postgresql")

    @cached_property
    def proxies(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks of the reverse proxies that are believed."""
        return _networks(self.trusted_proxy)

    @cached_property
    def zone(self) -> tzinfo:
        """The clinic's time zone; str() is its name."""
        return (_zone(self.timezone) if self.timezone else _machine_zone()) or UTC


_DECLARED = tuple(one for one in fields(Settings) if "doc" in one.metadata)


def _with_driver(address: str) -> str:
    """Return a database's address with the driver that is ours."""
    scheme, separator, rest = address.partition("://")
    if scheme in ("postgres", "postgresql"):
        scheme = "postgresql+psycopg"
    return scheme + separator + rest


_LOCALTIME = Path("/etc/localtime")


def _machine_zone() -> tzinfo | None:
    """Return the machine's time zone, None where it is unknown."""
    if name := os.environ.get("TZ", "").removeprefix(":"):
        # A path too, as :/usr/share/zoneinfo/Europe/Berlin.
        return _zone(name.rpartition("zoneinfo/")[2])
    try:
        path = _LOCALTIME.resolve(strict=True)
        if zone := _zone(str(path).rpartition("zoneinfo/")[2]):
            return zone
        with path.open("rb") as file:
            return ZoneInfo.from_file(file, key="the machine's time zone")
    except (OSError, ValueError):
        return None


def _zone(name: str) -> tzinfo | None:
    """Return the zone of an IANA name, None where there is none."""
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        return None


def sqlite_url(path: Path) -> str:
    """Return the SQLAlchemy URL of a SQLite file: ?, # and % mean only themselves in its name."""
    return f"sqlite:///{quote(str(path), safe='/:')}"


def _project() -> Path:
    """Return the checkout that this code lies in, or the working folder where it is installed."""
    root = Path(__file__).resolve().parent.parent
    return root if (root / "app.py").exists() else Path.cwd()


LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_EVERYWHERE = frozenset({"0.0.0.0", "::", ""})
LAST_PORT = 65_535
# urlsplit() finds ::1 in http://evil[::1]/ too, which browsers do not.
_LOOPBACK_AUTHORITY = re.compile(r"(127\.0\.0\.1|\[::1\]|localhost)(:[0-9]{1,5})?", re.I)


def is_loopback(authority: str) -> bool:
    """Say whether host[:port] of an address names this machine, and nothing else."""
    match = _LOOPBACK_AUTHORITY.fullmatch(authority)
    return match is not None and int((match[2] or ":0")[1:]) <= LAST_PORT


def load_settings(environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Read the settings from environ (default: the process's own), overrides on top.

    An override of None counts as not given. Raises ConfigurationError.
    """
    source = os.environ if environ is None else environ
    known = {setting.name for setting in declared()}
    for name in source:
        setting_name = name.removeprefix(PREFIX).lower()
        if not name.startswith(PREFIX) or setting_name in known | FOREIGN:
            continue
        if advice := _REMOVED.get(setting_name):
            raise ConfigurationError(f"{name} is no longer a setting: {advice}")
        raise ConfigurationError(f"{name} is not a setting; `fhirapp docs clinic` lists them.")
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting in declared():
        given = overrides.get(setting.name)
        text = str(given) if given is not None else source.get(variable_of(setting.name), "")
        if text == "":
            continue
        values[setting.name] = parsed(setting, text)
        origins[setting.name] = COMMAND_LINE if given is not None else ENVIRONMENT
    settings = Settings(**values, origins=origins)
    check_together(settings)
    return settings


def declared() -> tuple[Declared[Any], ...]:
    """Return the declarations of all settings, in their order."""
    return _DECLARED


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.upper()


def parsed(setting: Declared[Any], text: str) -> Any:
    """Return a setting's value as a variable has it. Raises ConfigurationError."""
    try:
        return setting.metadata["parser"].deserialize(text)
    except ValidationError as error:
        reason = " ".join(map(str, error.messages))
        raise ConfigurationError(
            f"{variable_of(setting.name)}={text!r} cannot be used: {reason}"
        ) from None


_NO_REPLICAS = (
    "unset FHIRAPP_REPLICA_URLS and FHIRAPP_REPLICA_LAG. All records are read from the database "
    "that FHIRAPP_DATABASE_URL names; `fhirapp docs scale` says how many requests one can serve."
)
# Settings that were removed, and what to do instead.
_REMOVED = {"replica_urls": _NO_REPLICAS, "replica_lag": _NO_REPLICAS}

# Read by the tests and the benchmark, not by the server.
FOREIGN = frozenset(
    {
        *("backup_passphrase", "test_browser", "test_cluster", "test_deploy"),
        *("test_node", "test_postgresql", "test_servers"),
    }
)


def settings() -> Settings:
    """Return the settings of the app that is running."""
    return settings_of(current_app)


def settings_of(app: Flask) -> Settings:
    """Return an app's settings."""
    found: Settings = app.config["FHIRAPP"]
    return found


def check_together(settings: Settings) -> None:
    """Raise ConfigurationError where settings do not fit each other."""
    if settings.page_size > settings.page_max:
        raise ConfigurationError(
            f"FHIRAPP_PAGE_SIZE={settings.page_size} is more than "
            f"FHIRAPP_PAGE_MAX={settings.page_max}; lower the one or raise the other."
        )
    if settings.base_url and not _is_address(settings.base_url):
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
    if len(settings.secret.strip()) >= _LEAST_SECRET:
        return
    path = settings.instance / SECRET_KEY
    former = (
        f"; to go on with the key that this server has, FHIRAPP_SECRET=$(base64 -w0 {path})"
        if path.is_file()
        else ", for example what `openssl rand -base64 32` prints"
    )
    raise ConfigurationError(
        f"With PostgreSQL FHIRAPP_SECRET is needed, {_LEAST_SECRET} characters or more and the "
        f"same on each server{former}."
    )


# No part of the prefix is . or ..
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
        # It may be a key: it is not shown.
        raise ConfigurationError(
            "FHIRAPP_FILES takes s3://bucket/prefix and nothing else; keys are set in "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    elif not _BUCKET.fullmatch(settings.files):
        raise ConfigurationError(
            f"FHIRAPP_FILES={settings.files!r} is neither a folder nor s3://bucket/prefix."
        )


def check_listening(settings: Settings) -> None:
    """Raise ConfigurationError where a server cannot listen as it is set.

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
    if not (_is_address(settings.oidc_issuer) and is_safe):
        raise ConfigurationError(
            f"FHIRAPP_OIDC_ISSUER={settings.oidc_issuer!r} is no https:// address of an issuer."
        )
    if not settings.oidc_client_id:
        raise ConfigurationError(
            "FHIRAPP_OIDC_ISSUER needs FHIRAPP_OIDC_CLIENT_ID: its client id there."
        )
    if "openid" not in settings.oidc_scope.split():
        raise ConfigurationError("FHIRAPP_OIDC_SCOPE must contain openid.")


def _is_address(text: str) -> bool:
    """Say whether text is http(s)://host[:port][/path], and nothing after that."""
    try:
        parts = urlsplit(text)
        named = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    readable = re.fullmatch(r"[!#-;=?-\[\]_a-z~]+", text) is not None
    plain = not (parts.query or parts.fragment or "@" in parts.netloc)
    return parts.scheme in ("http", "https") and named and readable and plain


_KNOWN = "fhirapp.base_url"


def base_url() -> str:
    """Return the address of the server, without a trailing slash and without /fhir."""
    configured = settings().base_url
    if configured:
        return configured
    if not has_request_context():
        return _listening()
    # An answer asks for it with each of its entries.
    environ = request.environ
    found: str | None = environ.get(_KNOWN)
    if found is None:
        host = normalise_authority(request.host, "http")
        found = f"http://{host}" if is_loopback(host) else _listening()
        environ[_KNOWN] = found
    return found


def path_of_service() -> str:
    """Return the path below which the service stands on its host: /records; empty for none."""
    return urlsplit(settings().base_url).path


def own_prefix() -> str:
    """Return what the absolute addresses of this server's resources begin with, empty if unset."""
    configured = settings().base_url if has_app_context() else ""
    return f"{configured}/fhir/" if configured else ""


def fhir_url() -> str:
    """Return the FHIR base address, which is also the audience (`aud`) that apps must name."""
    return f"{base_url()}/fhir"


def token_url() -> str:
    """Return the address of the token endpoint, which is also the audience of assertions."""
    return f"{base_url()}/oauth/token"


def with_parameters(uri: str, parameters: Sequence[tuple[str, str]]) -> str:
    """Return an address of somebody else's with parameters added; its own query stays as it is.

    RFC 6749 §3.1.2. It has no fragment.
    """
    between = "?" if "?" not in uri else "" if uri.endswith(("?", "&")) else "&"
    return f"{uri}{between}{urlencode(parameters)}"


def _listening() -> str:
    configured = settings()
    # Of a command, such as one in a container whose server listens everywhere.
    host = "localhost" if configured.host in _EVERYWHERE else configured.host
    return f"http://{host}:{configured.port}"
