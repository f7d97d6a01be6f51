"""What happens to the service: who signed in, who made an administrator, which app was approved.

Each is an entry with who did it, from where, and whom or what it is about. It is committed before
the transaction that does it: where it cannot be written, nothing is done (decisions §4).
"""

from __future__ import annotations

import getpass
import hashlib
import json
import re
import secrets
import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from flask import current_app, has_request_context, request

from fhirapp.audit import actor, append, store_of
from fhirapp.config import Settings, declared
from fhirapp.fhir.temporal import instant
from fhirapp.keys import keyed_digest

# Characters of a reason that a person gives: with what was done it fits into a line of the trail.
SHORTEST_REASON, LONGEST_REASON = 3, 300
# By the event: what was done, as the trail's pages tell it. FHIR's AuditEvent calls them subtypes.
EVENTS: Mapping[str, str] = {
    "sign-in": "signed in",
    "sign-in-failed": "tried to sign in",
    "code-failed": "entered a wrong code",
    "sign-out": "signed out",
    "sessions-ended": "ended sessions",
    "user-added": "added a user",
    "user-removed": "removed a user",
    "administrator-made": "made an administrator",
    "role-changed": "changed a role",
    "user-disabled": "disabled a user",
    "user-enabled": "enabled a user",
    "password-changed": "changed a password",
    "password-address": "created a password link",
    "factor-on": "turned on a second factor",
    "factor-off": "turned off a second factor",
    "record-linked": "linked a record to a user",
    "record-unlinked": "unlinked a record from a user",
    "practitioner-changed": "changed a user's Practitioner record",
    "provider-linked": "linked an identity provider account",
    "provider-unlinked": "unlinked an identity provider account",
    "class-made": "created a class",
    "class-changed": "changed a class",
    "class-joined": "joined a class",
    "class-ended": "ended a class",
    "learner-reset": "reset a learner's progress",
    "app-allowed": "allowed an app",
    "app-ended": "ended an app's access",
    "app-registered": "registered an app",
    "app-approved": "approved an app",
    "app-rejected": "rejected an app",
    "app-expired": "removed an app that nobody approved in time",
    "app-changed": "changed an app",
    "app-disabled": "disabled an app",
    "app-enabled": "enabled an app",
    "app-secret": "created a new secret for an app",
    "token-issued": "issued a token on the command line",
    "keys-changed": "changed the server's keys",
    "settings-changed": "started the server with changed settings",
    "setting-changed": "changed a setting",
    "schedule-added": "added a schedule",
    "schedule-removed": "removed a schedule",
    "schedule-paused": "paused a schedule",
    "schedule-resumed": "resumed a schedule",
    "schedule-begun": "ran a schedule",
    "patients-found": "looked up patients",
    "patient-deleted": "deleted a patient record",
    "patient-erased": "erased a patient record",
    "patient-corrected": "corrected personal details",
    "patients-merged": "merged patient records",
    "merge-undone": "undid a merge of patient records",
    "patient-admitted": "allowed re-import of a patient record",
    "restore-confirmed": "had the server restart on a backup",
    "restored": "restored a backup",
    "restore-failed": "could not restore a backup",
    "export": "exported records",
    "import": "imported records",
    "packed": "removed entries past their retention period",
    "missing": "reported audit entries that could not be written",
    "seal-missing": "found that seals of the audit trail were removed or replaced",
    "trail-imported": "imported the audit trail of an earlier release",
    "trail-unverified": "imported an audit trail of an earlier release that is not intact",
}
# Among an app's extensions: what is called with the name of each event, to count it.
ON_EVENT = "fhirapp.on_event"
PACKED, SEAL_MISSING = "packed", "seal-missing"
IMPORTED, UNVERIFIED = "trail-imported", "trail-unverified"
FAILED = frozenset({"sign-in-failed", "code-failed"})
_LONGEST = 500
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LAST_SETTINGS = (
    "SELECT attachment FROM audit_entry WHERE attachment IS NOT NULL AND event <> '' AND"
    " event IN ('settings-changed', 'trail-imported', 'trail-unverified') ORDER BY n DESC LIMIT 1"
)


def record(
    event: str,
    *,
    about: str = "",
    what: str = "",
    user_id: str | None = None,
    client_id: str | None = None,
    named: Collection[str] = (),
    attachment: str | None = None,
) -> None:
    """Write an event. Raises Unwritable where that is refused.

    about is whom or what it is about: user/<id>, app/<client id>; what says more, without secrets;
    named has the ids of patients; attachment is JSON that is too long for a line. user_id is who
    does it, by default whoever signed in with this browser.
    """
    assert event in EVENTS, event
    is_request = has_request_context()
    line = {
        "at": instant(datetime.now(UTC)),
        "event": event,
        "user": user_id or actor(),
        "client": client_id,
        "from": (request.remote_addr or "")[:64] if is_request else f"shell: {_shell_user()}",
        "about": _CONTROL.sub(" ", about),
        "what": _CONTROL.sub(" ", what)[:_LONGEST],
        "patients": [*named],
        "request": new_id(),
    }
    if attachment is not None:
        line["attachment"] = sha256_of(attachment)
    append(line, attachment)
    if notice := current_app.extensions.get(ON_EVENT):
        notice(event)


def record_export(
    patients: Collection[str],
    what: str,
    *,
    user_id: str | None = None,
    client_id: str | None = None,
) -> None:
    """Record that records left the server: how many patients', and who they are as an attachment.

    Raises Unwritable.
    """
    attachment = json.dumps(sorted(patients))
    what = f"{len(patients)} patients; {what}; sha256 {sha256_of(attachment)}"
    record("export", user_id=user_id, client_id=client_id, what=what, attachment=attachment)


def record_settings(settings: Settings) -> None:
    """Record with which settings the server starts, where they are others than before.

    All of them are an attachment, secrets as their digests. Raises Unwritable.
    """
    secret = {setting.name for setting in declared() if setting.metadata["secret"]}
    now = {setting.name: str(getattr(settings, setting.name)) for setting in declared()}
    # Others may have dumps and backups: a short password could be found by trying.
    now |= {name: keyed_digest("setting", now[name]) for name in secret if now[name]}
    try:
        with store_of(current_app).reading() as run:
            rows = run(_LAST_SETTINGS)
    except OSError:
        # The entry cannot be written either.
        rows = []
    before = json.loads(rows[0][0]) if rows else {}
    changed = [
        name if name in secret else f"{name} {before.get(name, '')!r} to {value!r}"
        for name, value in now.items()
        if before.get(name) != value
    ]
    if changed:
        what = "; ".join(changed) if before else "the first start that this trail has"
        record("settings-changed", what=what, attachment=json.dumps(now))


def sha256_of(attachment: str) -> str:
    """Return an attachment's digest, as the line has it."""
    return hashlib.sha256(attachment.encode()).hexdigest()


def new_id() -> str:
    """Return an id for a request or an event: milliseconds first, so that they are sorted."""
    return f"{time.time_ns() // 1_000_000:011x}{secrets.token_hex(3)[:5]}"


class RequestKey(NamedTuple):
    """The unique key of a request or an event: an id of ours, and what its answer calls it.

    A proxy's name may repeat and be no FHIR id. As text: our id, then a slash and its name if any.
    """

    own: str
    shown: str

    def __str__(self) -> str:
        return self.own if self.own == self.shown else f"{self.own}/{self.shown}"

    @classmethod
    def parse(cls, text: str) -> RequestKey:
        """Read a key's text; one without an id of ours is of a first edition's line."""
        own, _, shown = text.partition("/")
        return cls(own, shown or own)


def _shell_user() -> str:
    try:
        return getpass.getuser()[:50]
    except (OSError, KeyError):
        # A user id of a container that has no name.
        return "unknown"
