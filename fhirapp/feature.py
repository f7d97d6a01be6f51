"""What a feature declares, so that the rest of the server need not know it.

A feature is a folder of fhirapp/features with all of its code, pages and commands. Its
`__init__.py` declares one FEATURE. That names functions as "module:name", which are imported when
they are first used: the command line lists its commands without importing Flask.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

# The menus of pages: at the top of each, and below it in two sections.
MAIN, ACCOUNT = "main", "account"
# The menus of administration.
PEOPLE, DATA, APPS, SYSTEM = "people", "data", "apps", "system"


def N_(text: str) -> str:  # noqa: N802
    """Mark a text for translation. The page that shows it translates it."""
    return text


@dataclass(frozen=True)
class MenuLink:
    """A link of a menu; links are ordered by position."""

    menu: str
    position: int
    path: str
    label: str
    # Who sees it; "" is somebody who has not signed in. None is everybody.
    roles: Collection[str] | None = None
    demo_only: bool = False
    # Whether it is marked as current on its own page only, and not on the pages below its path.
    is_exact: bool = False
    # Whether it is the link of the manual: it opens the page that helps with the current one.
    is_manual: bool = False


@dataclass(frozen=True)
class Via:
    """A page that asks our own API for records, as the audit trail shows it."""

    # What the lines of the trail have.
    code: str
    label: str
    # For patients, where that is less exact.
    patient_label: str = ""


@dataclass(frozen=True)
class Feature:
    """The declaration of a feature."""

    name: str
    # The features that it imports.
    requires: tuple[str, ...] = ()
    # Functions that are called with the app that is served.
    init: tuple[str, ...] = ()
    blueprints: tuple[str, ...] = ()
    # By name: the command, and a sentence for the list of commands.
    commands: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    navigation: tuple[MenuLink, ...] = ()
    vias: tuple[Via, ...] = ()
    # The work of each kind of job, and the kinds of schedules: jobs/kinds.py has their types.
    jobs: Mapping[str, str] = field(default_factory=dict)
    schedule_kinds: tuple[str, ...] = ()
    # The kinds of jobs that are begun again when their process was killed; jobs of other kinds are
    # then marked as interrupted.
    requeued: tuple[str, ...] = ()
    # Functions called every minute, with the time in seconds since 1970: each removes what has
    # expired.
    sweeps: tuple[str, ...] = ()
    # Tuples of probes, and functions that return a setup step or None: probe.py has their types.
    probes: tuple[str, ...] = ()
    setup_steps: tuple[str, ...] = ()
    # Listens at a further address and serves it in a process of its own: server/serve.py has the
    # type. Returns None where the settings want none. Raises ConfigurationError.
    side_server: str = ""
    # Called before the database is opened: completes an interrupted restore, and returns a function
    # to call when the database is ready.
    recovery: str = ""
    # Called before a database of PostgreSQL is upgraded; returns the file of the copy.
    dump: str = ""
    # Called in demo mode with the app and a function that prints a message, once the schema of the
    # database is ready: adds the demo's records and accounts. Without it there is no demo mode.
    demo_data: str = ""
    # The accounts that anybody may use in demo mode: auth/public_accounts.py has their type.
    public_accounts: str = ""
    # Called with the settings and the server's address: returns what `serve` prints, or "".
    greeting: str = ""
    # Downloads what an import names by address: features/pull/downloads.py has its parameters.
    download: str = ""
    # Returns the template of the home page and values for it, or None for the usual one.
    home: str = ""
    # By the path that pages begin with: the name of the manual's page that helps there.
    help: Mapping[str, str] = field(default_factory=dict)


@cache
def features() -> tuple[Feature, ...]:
    """Return the features of this server, in the order of fhirapp/features/__init__.py."""
    folder = import_module("fhirapp.features")
    return tuple(import_module(f"fhirapp.features.{name}").FEATURE for name in folder.FEATURES)


def requeued_kinds() -> frozenset[str]:
    """Return the kinds of jobs that are begun again when their process was killed."""
    return frozenset(kind for feature in features() for kind in feature.requeued)


def imported(reference: str) -> Any:
    """Return what "module:name" refers to."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
