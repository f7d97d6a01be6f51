"""The authorization request: checked, parked until the user has answered, decided.

    park    the client's parameters → a handle, for the addresses of our pages
    offer   what this user could allow this client
    decide  what was ticked → the address to send the browser to, with a code

Whatever is wrong once the client and its redirect_uri are known goes back to the client (RFC 6749
§4.1.2.1); before that nobody is sent anywhere. Source: SMART App Launch 2.2; decisions §6.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from authlib.oauth2 import OAuth2Error
from flask import current_app, request
from sqlalchemy import Connection, delete, func, insert, select, update
from werkzeug.datastructures import MultiDict

from fhirapp.auth.clients.administration import find_client as find_registered
from fhirapp.auth.links import linked_patients
from fhirapp.auth.models import PATIENT, Client, ParkedRequest, User, digest
from fhirapp.auth.oauth import launch as ehr_launch
from fhirapp.auth.oauth.authorization_request import AuthorizationRequest, check_request, is_state
from fhirapp.auth.oauth.client_authentication import find_client
from fhirapp.auth.oauth.grants import CodeGrant
from fhirapp.auth.oauth.server import authorization_server
from fhirapp.auth.refusals import is_waiting
from fhirapp.auth.scopes import (
    FHIR_USER,
    LAUNCH,
    LAUNCH_ENCOUNTER,
    LAUNCH_PATIENT,
    OFFLINE,
    ONLINE,
    OPENID,
    is_of_patient,
    of_record,
    of_role,
    parse_scope,
)
from fhirapp.auth.throttle import Failures
from fhirapp.auth.tokens import CODE_SECONDS, OFFLINE_SECONDS, USER_SECONDS, new_token
from fhirapp.auth.users.accounts import fhir_user_of
from fhirapp.auth.users.sessions import ABSOLUTE_SECONDS, Signed
from fhirapp.db import db, writing
from fhirapp.url_syntax import with_parameters

PARKED_SECONDS = 15 * 60
# A request is up to 6 kB; anybody may send one.
MOST_PARKED = 5_000
PER_MINUTE = 300
_EXTENSION = "fhirapp.parked"
# What the user may choose, in days, for access without them.
DURATIONS = (1, 30, 90, 180)
# Whatever a client registered, a browser is sent nowhere else: an absolute address, of which comes
# no other header, and no fragment that would take the code.
_REDIRECT_URI = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[!-"$-~]{1,2000}')


class Unanswerable(Exception):
    """A request that cannot go back to its client; str() is for the user who sees it."""


class SendBack(Exception):
    """The answer to the client: a redirect of the browser to location."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


@dataclass(frozen=True)
class Offer:
    """What a user can allow: the scopes, in the client's syntax, and whose record it is."""

    client: Client
    scopes: Sequence[str]
    # The patients to choose from; None is any.
    patients: Sequence[str] | None
    patient_id: str | None
    encounter_id: str | None
    document_id: str | None
    # Whether the app asks the user for an encounter: one that it was started for is not asked for.
    picks_encounter: bool

    @property
    def needs_patient(self) -> bool:
        """Whether a patient is still to be chosen."""
        return is_of_patient(self.scopes) and self.patient_id is None

    @property
    def follows(self) -> Sequence[str]:
        """The scopes that tell the app no more than whose record it is.

        Where it may see something of that record, or know the encounter, they go with that, and
        are not asked for apart.
        """
        if not of_record(self.scopes):
            return ()
        tells_encounter = self.encounter_id is not None and LAUNCH_ENCOUNTER not in self.scopes
        tells_more = tells_encounter or self.document_id is not None
        silent = {LAUNCH_PATIENT} if tells_more else {LAUNCH_PATIENT, LAUNCH}
        return [text for text in self.scopes if text in silent]


def park(values: MultiDict[str, str]) -> str:
    """Check a client's request and keep it; return its handle.

    Raises Unanswerable, or SendBack.
    """
    for name in ("client_id", "redirect_uri"):
        if len(values.getlist(name)) != 1 or not values[name]:
            raise Unanswerable(f"The app that sent you here must send {name} exactly once.")
    client = _client_of(values)
    _throttle()
    try:
        parameters = check_request(values)
    except OAuth2Error as error:
        raise _sent_back(values, error.error, error.description or "") from None
    handle = new_token()
    now = int(time.time())
    client_id = client.client_id
    row: dict[str, Any] = {
        "digest": digest(handle),
        "parameters": parameters,
        "created_at": now,
        "expires_at": now + PARKED_SECONDS,
    }
    row.update(user_id=None, patient_id=None, encounter_id=None, document_id=None)
    with writing() as connection:
        _make_room(connection, now)
        if "launch" in parameters:
            launch = ehr_launch.spend(connection, parameters["launch"], client_id)
            if launch is not None:
                row.update(launch)
        if "launch" not in parameters or row["patient_id"] is not None:
            connection.execute(insert(ParkedRequest), [row])
            return handle
    raise _sent_back(
        parameters,
        "invalid_request",
        "launch is not known, was used, has expired, or is another app's.",
    )


def _throttle() -> None:
    """Refuse an address that sends very many requests, for each is kept. Raises Unanswerable."""
    counts: Failures = current_app.extensions.setdefault(_EXTENSION, Failures(PER_MINUTE))
    if request.remote_addr and counts.count(request.remote_addr):
        raise Unanswerable("Too many requests from your address. Wait a minute and try again.")


def _make_room(connection: Connection, now: int) -> None:
    """Forget requests that expired, and the oldest where very many wait."""
    connection.execute(delete(ParkedRequest).where(ParkedRequest.expires_at < now))
    count = connection.execute(select(func.count()).select_from(ParkedRequest)).scalar() or 0
    if count >= MOST_PARKED:
        oldest = select(ParkedRequest.digest).order_by(ParkedRequest.expires_at)
        connection.execute(
            delete(ParkedRequest).where(
                ParkedRequest.digest.in_(oldest.limit(count - MOST_PARKED + 1))
            )
        )


def find(handle: str) -> ParkedRequest | None:
    """Return a request that still waits for its user."""
    return db.session.scalars(
        select(ParkedRequest).where(
            ParkedRequest.digest == digest(handle),
            ParkedRequest.used_at.is_(None),
            ParkedRequest.expires_at > int(time.time()),
        )
    ).one_or_none()


def wants_sign_in(parked: ParkedRequest, signed: Signed | None) -> bool:
    """Say whether the user must type the password (again). Raises SendBack under prompt=none."""
    prompts = parked.parameters.get("prompt", "").split()
    needed = signed is None or not signed.complete
    if signed is not None:
        age = parked.parameters.get("max_age")
        too_old = age is not None and signed.signed_in_at < parked.created_at - int(age)
        again = "login" in prompts and signed.signed_in_at < parked.created_at
        needed = needed or too_old or again
    if needed and "none" in prompts:
        raise send_back(parked, "login_required", "The user is not signed in.")
    return needed


def asks_anew(handle: str) -> bool:
    """Say whether a request that waits asks for the user to sign in anew, or lately."""
    parked = find(handle)
    if parked is None:
        return False
    prompts = parked.parameters.get("prompt", "").split()
    return "login" in prompts or "max_age" in parked.parameters


def offer(parked: ParkedRequest, user: User) -> Offer:
    """Return what a user can allow the client.

    Raises SendBack where that is nothing, Unanswerable.
    """
    parameters = parked.parameters
    client = _client_of(parameters)
    if parked.user_id is not None and parked.user_id != user.id:
        raise send_back(parked, "access_denied", "The app was launched by another user.")
    allowed = (client.get_allowed_scope(parameters["scope"]) or "").split()
    scopes = of_role(allowed, user.role)
    patients = linked_patients(user.id) if user.role == PATIENT else None
    patient_id = parked.patient_id
    if patients is not None and patient_id not in patients:
        patient_id = patients[0] if len(patients) == 1 else None
    # It was chosen among those of that patient.
    encounter_id = parked.encounter_id if patient_id == parked.patient_id else None
    is_standalone = parked.user_id is None
    picks_encounter = is_standalone and LAUNCH_ENCOUNTER in scopes and patients != []
    left_out = set()
    if is_standalone:
        left_out.add(LAUNCH)
    if encounter_id == "" or (encounter_id is None and not is_standalone):
        left_out.add(LAUNCH_ENCOUNTER)
    if OFFLINE in scopes:
        left_out.add(ONLINE)
    if fhir_user_of(user, patient_id if _is_in_context(scopes) else None) is None:
        left_out.add(FHIR_USER)
    if patients == []:
        left_out.update(text for text in scopes if is_of_patient([text]))
    scopes = [text for text in scopes if text not in left_out]
    if not any(text == OPENID or parse_scope(text) for text in scopes):
        raise send_back(parked, "invalid_scope", "This user can allow nothing of what was asked.")
    document_id = parked.document_id
    encounter_id = encounter_id or None
    return Offer(client, scopes, patients, patient_id, encounter_id, document_id, picks_encounter)


def choose(parked: ParkedRequest, patient_id: str, encounter_id: str | None = None) -> None:
    """Remember whose record the user chose, and which encounter; an empty one is none.

    offer() checks that the record may be theirs to choose; the caller checks that the encounter
    is that patient's, and that they see it.
    """
    key = parked.digest
    with writing() as connection:
        connection.execute(
            update(ParkedRequest)
            .where(ParkedRequest.digest == key, ParkedRequest.user_id.is_(None))
            .values(patient_id=patient_id, encounter_id=encounter_id)
        )


def decide(
    parked: ParkedRequest, offered: Offer, signed: Signed, ticked: Iterable[str], days: int
) -> str:
    """Allow what was ticked; return the address to send the browser to, with a code.

    days is for how long an app with offline_access keeps it. Raises SendBack, Unanswerable.
    """
    chosen = set(offered.scopes).intersection(ticked)
    if is_of_patient(chosen):
        chosen.update(offered.follows)
    scopes = [text for text in offered.scopes if text in chosen]
    if not any(text == OPENID or parse_scope(text) for text in scopes):
        raise send_back(parked, "access_denied", "The user allowed nothing.")
    if is_of_patient(scopes) and offered.patient_id is None:
        raise Unanswerable("Choose a patient record for the app first.")
    if LAUNCH_ENCOUNTER in scopes and offered.encounter_id is None:
        raise Unanswerable("Choose a visit for the app first.")
    now = int(time.time())
    user = signed.user
    in_context = _is_in_context(scopes)
    if FHIR_USER in scopes and not in_context and fhir_user_of(user, None) is None:
        # Who they are to a patient of whom the app is to learn nothing.
        scopes.remove(FHIR_USER)
    # The encounter has a tick of its own where the app asks for it apart.
    of_visit = (LAUNCH_ENCOUNTER if LAUNCH_ENCOUNTER in offered.scopes else LAUNCH) in scopes
    grant = {
        "id": str(uuid4()),
        "user_id": user.id,
        "client_id": offered.client.client_id,
        "scope": " ".join(scopes),
        "patient_id": offered.patient_id if in_context else None,
        "encounter_id": offered.encounter_id if of_visit else None,
        "document_id": offered.document_id if LAUNCH in scopes else None,
        # Our own pages do not surround an app: it shows itself whose record it is.
        "need_patient_banner": True,
        "signed_in_at": signed.signed_in_at,
        "created_at": now,
        "expires_at": _end(scopes, signed, now, days),
        "session_id": signed.session_id if ONLINE in scopes else None,
    }
    oauth_request = AuthorizationRequest(parked.parameters)
    grant_of_code = CodeGrant(oauth_request, authorization_server())
    try:
        redirect_uri = grant_of_code.validate_authorization_request()
    except OAuth2Error as error:
        raise send_back(parked, error.error, error.description or "") from None
    key = parked.digest
    with writing() as connection:
        _use_up(connection, key)
        oauth_request.connection, oauth_request.grant = connection, grant
        _, _, headers = grant_of_code.create_authorization_response(redirect_uri, user)
    return str(dict(headers)["Location"])


def refuse(parked: ParkedRequest) -> str:
    """Return the redirect that says that the user refused. Raises Unanswerable."""
    back = send_back(parked, "access_denied", "The user refused.")
    key = parked.digest
    with writing() as connection:
        _use_up(connection, key)
    return back.location


def send_back(parked: ParkedRequest, error: str, description: str) -> SendBack:
    """Return what tells the client what is wrong with a parked request.

    Raises Unanswerable: the client, or its address, may be registered no more.
    """
    _client_of(parked.parameters)
    return _sent_back(parked.parameters, error, description)


def _is_in_context(scopes: Sequence[str]) -> bool:
    """Say whether an app with these scopes learns which patient is in context."""
    return is_of_patient(scopes) or LAUNCH in scopes


def _end(scopes: Sequence[str], signed: Signed, now: int, days: int) -> int:
    if OFFLINE in scopes:
        return now + min(days * 86_400, OFFLINE_SECONDS)
    if ONLINE in scopes:
        return signed.signed_in_at + ABSOLUTE_SECONDS
    return now + CODE_SECONDS + USER_SECONDS


def _use_up(connection: Connection, key: bytes) -> None:
    unused = update(ParkedRequest).where(
        ParkedRequest.digest == key, ParkedRequest.used_at.is_(None)
    )
    if connection.execute(unused.values(used_at=int(time.time()))).rowcount == 0:
        raise Unanswerable("This request was already answered. Go back to the app and start again.")


def _client_of(parameters: Mapping[str, str]) -> Client:
    """Return the client, once it is known where to send its user back to. Raises Unanswerable."""
    client = find_client(parameters["client_id"])
    if client is None and is_waiting(find_registered(parameters["client_id"])):
        raise Unanswerable(
            "The app that sent you here has not been approved by an administrator of this server"
            " yet."
        )
    if client is None:
        raise Unanswerable("The app that sent you here is not registered on this server.")
    uri = parameters["redirect_uri"]
    if not _REDIRECT_URI.fullmatch(uri) or not client.check_redirect_uri(uri):
        raise Unanswerable(
            "The app that sent you here uses a return address (redirect_uri) that is not registered"
            " for it."
        )
    return client


def _sent_back(parameters: Mapping[str, str], error: str, description: str) -> SendBack:
    answer = [("error", error), ("error_description", description)]
    state = parameters.get("state", "")
    if is_state(state):
        answer.append(("state", state))
    return SendBack(with_parameters(parameters["redirect_uri"], answer))
