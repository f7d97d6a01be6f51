"""Every setting, once: its name, type, default and meaning.

Settings come from the environment with the prefix FHIRAPP_; a command-line option of the same name
wins (environment.py). Settings that are marked as live can be changed while the server runs
(server/live_settings.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import Field as Declared
from dataclasses import dataclass, field, fields
from datetime import UTC, tzinfo
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from flask import Flask, current_app
from marshmallow import ValidationError
from marshmallow.fields import Boolean, Field, Integer, String
from marshmallow.validate import Length, OneOf, Range, Regexp

from fhirapp.url_syntax import normalise_address

PREFIX = "FHIRAPP_"
# Origins of a value; a value without an origin is the default.
ENVIRONMENT, COMMAND_LINE, STORED = "environment", "command line", "admin page"
# Name of the key's file in the instance folder; there is none with PostgreSQL.
SECRET_KEY = "secret.key"


# The formats of a clinic's logo, by the suffix of its file.
LOGO_TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".svg": "image/svg+xml"}


class ConfigurationError(Exception):
    """The server cannot start as configured; str() is a sentence that says what to do."""


class Marked(str):
    """A value of a message that is translated like the message."""


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
    """Declare a setting; shown is the default in the manual's table.

    No page and no audit entry shows a secret. A live setting can be changed on a page while the
    server runs: no stored data depends on it, and an administrator who changes it cannot open the
    server to anyone else.
    """
    metadata = {"parser": parser, "doc": doc, "shown": shown, "secret": secret, "live": live}
    return field(default=default, metadata=metadata)


def _check_zone(name: str) -> None:
    if _zone(name) is None:
        raise ValidationError("it is not the IANA name of a time zone, such as Europe/Berlin.")


def _check_logo(path: str) -> None:
    file = Path(path)
    if path and not (file.suffix.lower() in LOGO_TYPES and file.is_file()):
        raise ValidationError(f"it is not a file that ends in {', '.join(LOGO_TYPES)}.")


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


# The value is an argument of the command tesseract: no option and no path matches.
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
        # It may contain a password.
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
    clinic_name: str = _setting(
        String(validate=Length(max=80)),
        "",
        "Name of the clinic: at the head of each page, on paper, and where an app asks for access",
        shown="none: fhirapp",
        live=True,
    )
    clinic_logo: str = _setting(
        String(validate=_check_logo),
        "",
        "File with the clinic's logo, which stands before its name: `.png`, `.jpg` or `.svg`",
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
    # The origin of each value that is not the default.
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def folder(self) -> Path:
        """The absolute path of the folder that instance_path names."""
        return Path(self.instance_path or _project() / "instance").absolute()

    @property
    def instance(self) -> Path:
        """The absolute path of the folder of keys, audit trail, backups and uploads.

        The demo has a folder of its own, since everyone can sign in there and download its files.
        """
        return self.folder / "demo" if self.demo else self.folder

    @property
    def database_uri(self) -> str:
        """The SQLAlchemy URL of the database."""
        if not self.database_url:
            return sqlite_url(self.folder / ("demo.db" if self.demo else "fhirapp.db"))
        # With the driver that is installed.
        return re.sub("^postgres(ql)?(?=://)", "postgresql+psycopg", self.database_url)

    @property
    def is_postgresql(self) -> bool:
        """Whether the database is PostgreSQL, which several servers may share."""
        return self.database_uri.startswith("postgresql")

    @cached_property
    def proxies(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks of the trusted reverse proxies."""
        return _networks(self.trusted_proxy)

    @cached_property
    def zone(self) -> tzinfo:
        """The clinic's time zone; str() is its name."""
        return (_zone(self.timezone) if self.timezone else _machine_zone()) or UTC


_LOCALTIME = Path("/etc/localtime")


def _machine_zone() -> tzinfo | None:
    """Return the machine's time zone, None where it is unknown."""
    if name := os.environ.get("TZ", "").removeprefix(":"):
        # TZ may name a file: :/usr/share/zoneinfo/Europe/Berlin.
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
    """Return the SQLAlchemy URL of a SQLite file, whose name may contain ?, # and %."""
    return f"sqlite:///{quote(str(path), safe='/:')}"


def _project() -> Path:
    """Return the folder of the checkout, or the working folder if the package is installed."""
    root = Path(__file__).resolve().parent.parent
    return root if (root / "app.py").exists() else Path.cwd()


def declared() -> tuple[Declared[Any], ...]:
    """Return the declarations of all settings, in their order."""
    return tuple(setting for setting in fields(Settings) if "doc" in setting.metadata)


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.upper()


def settings() -> Settings:
    """Return the settings of the app that is running."""
    return settings_of(current_app)


def settings_of(app: Flask) -> Settings:
    """Return an app's settings."""
    found: Settings = app.config["FHIRAPP"]
    return found
