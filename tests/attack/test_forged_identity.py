"""A forged identity provider, or somebody in between: nobody signs in by it.

No real provider gives such answers; tests/auth/test_provider.py has a real one.
"""

from __future__ import annotations

import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from flask import Flask
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey
from sqlalchemy import func, select

from fhirapp.auth.models import Session
from fhirapp.auth.users import identities
from fhirapp.auth.users.sign_in import NewSession
from tests.support.authorizing import rows
from tests.support.browsing import Browser, Page
from tests.support.key_server import reply, running

ISSUER, CLIENT, SECRET = (
    "https://login.example",
    "fhirapp",
    "a secret that is long enough for HS256",
)
KEY, OTHER_KEY = (RSAKey.generate_key(2048, {"kid": kid}) for kid in ("a", "b"))
EC_KEY = ECKey.generate_key("P-256", {"kid": "e"})
REFUSED = "did not confirm who you are"
STOP = NewSession("", complete=True)
METADATA = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/auth",
    "token_endpoint": f"{ISSUER}/token",
    "userinfo_endpoint": f"{ISSUER}/me",
    "jwks_uri": f"{ISSUER}/keys",
    "id_token_signing_alg_values_supported": ["none", "HS256", "RS256", "ES256"],
    "authorization_response_iss_parameter_supported": True,
}


def _encoded(part: bytes) -> bytes:
    return urlsafe_b64encode(part).rstrip(b"=")


class Liar:
    """A provider whose answers a test changes."""

    def __init__(self) -> None:
        self.metadata: dict[str, Any] = dict(METADATA)
        self.claims: dict[str, Any] = {}
        self.header: dict[str, Any] = {"alg": "RS256", "kid": "a"}
        self.key: Any = KEY
        self.userinfo: dict[str, Any] = {"sub": "s1", "name": "Dr. Lee", "groups": ["doctors"]}
        self.token: dict[str, Any] = {"access_token": "t", "token_type": "Bearer"}
        self.signed: str | None = None
        self.asked: list[str] = []

    def answer(self, url: str) -> Any:
        self.asked.append(url)
        if url.endswith("openid-configuration"):
            return self.metadata
        if url == f"{ISSUER}/keys":
            return {"keys": [KEY.as_dict(private=False), EC_KEY.as_dict(private=False)]}
        if url == f"{ISSUER}/me":
            return self.userinfo
        assert url == f"{ISSUER}/token"
        return {**self.token, "id_token": self.signed or self.id_token()}

    def id_token(self) -> str:
        payload = json.dumps(self.claims).encode()
        if self.key is None or isinstance(self.key, bytes):
            # The library makes none like these: no signature, and one by what everybody knows.
            body = b".".join(map(_encoded, (json.dumps(self.header).encode(), payload)))
            made = hmac.digest(self.key, body, "sha256") if self.key else b""
            return b".".join((body, _encoded(made))).decode()
        algorithms = [self.header["alg"]]
        return jws.serialize_compact(self.header, payload, self.key, algorithms=algorithms)


@pytest.fixture
def liar(monkeypatch: pytest.MonkeyPatch) -> Liar:
    """The provider, in place of the network."""
    found = Liar()

    def request(_self: object, _method: str, url: str, **_options: Any) -> requests.Response:
        response = requests.Response()
        response.status_code, response.url = 200, url
        response.headers["Content-Type"] = "application/json"
        response._content = json.dumps(found.answer(url)).encode()
        return response

    monkeypatch.setattr(requests.Session, "request", request)
    return found


@pytest.fixture(scope="module")
def shared(make_app: Callable[..., Flask]) -> Flask:
    return make_app(
        oidc_issuer=ISSUER,
        oidc_client_id=CLIENT,
        oidc_client_secret=SECRET,
        oidc_roles="groups: doctors=clinician",
    )


@pytest.fixture
def app(shared: Flask) -> Flask:
    """A server that knows nothing yet of what the provider says of itself."""
    shared.extensions["fhirapp.provider"]._client = None
    return shared


def come_back(app: Flask, liar: Liar, lie: Callable[[Liar], object], **answer: str) -> Page:
    """Begin, have the provider lie, and come back with its answer."""
    browser = Browser(app)
    begun = browser.get("/sign-in/provider?next=/account")
    if begun.location is None:
        return begun
    sent = {name: values[0] for name, values in parse_qs(urlsplit(begun.location).query).items()}
    now = int(time.time())
    liar.claims = {"iss": ISSUER, "sub": "s1", "aud": CLIENT, "iat": now, "exp": now + 300}
    liar.claims["nonce"] = sent["nonce"]
    lie(liar)
    right = {"code": "c", "state": sent["state"], "iss": ISSUER}
    return browser.get("/sign-in/provider/answer", query_string=right | answer)


def sessions_of(app: Flask) -> int:
    (count,) = rows(app, select(func.count()).select_from(Session))
    return int(count[0])


def test_valid_answer_signs_in(app, liar):
    """Else what follows would be refused for another reason."""
    assert come_back(app, liar, lambda _: None).path == "/account"


def claims(**changed: Any) -> Callable[[Liar], object]:
    return lambda liar: liar.claims.update(changed)


def without(name: str) -> Callable[[Liar], object]:
    return lambda liar: liar.claims.pop(name)


def signed(key: Any, **header: Any) -> Callable[[Liar], object]:
    def lie(liar: Liar) -> None:
        liar.key, liar.header = key, header

    return lie


def told(**userinfo: Any) -> Callable[[Liar], object]:
    return lambda liar: liar.userinfo.update(userinfo)


LIES: dict[str, Callable[[Liar], object]] = {
    "of another issuer": claims(iss="https://evil.example"),
    "of an issuer that begins the same": claims(iss=f"{ISSUER}.evil.example"),
    "for another client": claims(aud="another"),
    "for others, though asked by this client": claims(aud=["another"], azp=CLIENT),
    "for several, asked by another": claims(aud=[CLIENT, "another"], azp="another"),
    "for several, asked by nobody": claims(aud=[CLIENT, "another"]),
    "with another nonce": claims(nonce="another"),
    "without a nonce": without("nonce"),
    "that is over": claims(exp=int(time.time()) - 3600),
    "that is never over": without("exp"),
    "of the future": claims(iat=int(time.time()) + 3600),
    "without a subject": without("sub"),
    "with a subject that is no text": claims(sub=["s1"]),
    "with an empty subject": claims(sub=""),
    "with a very long subject": claims(sub="x" * 300),
    "not signed": signed(None, alg="none"),
    "signed with the secret": signed(OctKey.import_key(SECRET), alg="HS256", kid="a"),
    "signed with the public key": signed(KEY.as_pem(private=False), alg="HS256", kid="a"),
    "signed with another key": signed(OTHER_KEY, alg="RS256", kid="a"),
    "signed with a key that is not published": signed(OTHER_KEY, alg="RS256", kid="b"),
    "of another access token": claims(at_hash="AAAAAAAAAAAAAAAAAAAAAA"),
    "that is no token": lambda liar: setattr(liar, "signed", "a.b.c"),
    "that is none of its parts": lambda liar: setattr(liar, "signed", "[" * 990),
    "with somebody else's userinfo": told(sub="s2"),
    "with nobody's userinfo": lambda liar: liar.userinfo.pop("sub"),
    "with userinfo that is no object": lambda liar: setattr(liar, "userinfo", ["s1"]),
    "with an error": lambda liar: setattr(liar, "token", {"error": "invalid_grant"}),
}


@pytest.mark.parametrize("name", LIES)
def test_forged_id_token_is_refused(app, liar, name):
    before = sessions_of(app)
    page = come_back(app, liar, LIES[name])
    assert (page.status, REFUSED in page.words) == (403, True)
    assert sessions_of(app) == before


def test_answer_of_another_issuer_or_state_is_refused_before_its_code_is_sent(app, liar):
    for answer in ({"iss": "https://evil.example"}, {"iss": ""}, {"state": "x"}, {"state": ""}):
        page = come_back(app, liar, lambda _: None, **answer)
        assert (page.status, REFUSED in page.words) == (403, True)
    assert f"{ISSUER}/token" not in liar.asked


@pytest.mark.parametrize(
    "changed",
    [
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"id_token_signing_alg_values_supported": ["HS256", "none"]},
    ],
)
def test_provider_with_wrong_metadata_is_not_used(app, liar, changed):
    liar.metadata |= changed
    page = Browser(app).get("/sign-in/provider")
    assert (page.status, REFUSED in page.words) == (403, True)


def test_redirect_of_a_provider_is_not_followed(app, liar, monkeypatch):
    """A real server, for the redirect is followed by requests itself."""
    monkeypatch.undo()
    with running() as server:
        server.answer = reply("302 Found", b"", "Location: /elsewhere")
        chosen = app.extensions["fhirapp.provider"]
        monkeypatch.setattr(chosen, "issuer", f"http://127.0.0.1:{server.port}")
        page = Browser(app).get("/sign-in/provider")
    assert page.status == 503
    assert [head.split()[1] for head in server.asked] == ["/.well-known/openid-configuration"]


def test_second_factor_is_read_from_signed_amr_only(app, liar, monkeypatch):
    found: list[Any] = []
    monkeypatch.setattr(identities, "enter", lambda arrived, **_: found.append(arrived) or STOP)
    for amr, several in (
        *((["mfa"], True), (["pwd", "otp"], True), (["hwk", "fpt"], True), (["pin", "sc"], True)),
        *((["pwd"], False), (["otp"], False), (["pwd", "pin"], False), ([], False), ([7], False)),
    ):
        come_back(app, liar, claims(amr=amr))
        assert found.pop().several_factors is several, amr
    for amr in ("mfa", 7, {"mfa": 1}):
        page = come_back(app, liar, claims(amr=amr))
        assert (page.status, REFUSED in page.words, found) == (403, True, [])
    come_back(app, liar, told(amr=["mfa"]))
    assert not found.pop().several_factors


def test_error_of_a_provider_is_one_line_of_the_log(app, liar, caplog):
    liar.token = {"error": "invalid_grant", "error_description": "no\nWARNING all is well"}
    come_back(app, liar, lambda _: None)
    (line,) = [
        record.getMessage() for record in caplog.records if "sign-in by" in record.getMessage()
    ]
    assert "\n" not in line


def test_role_comes_of_the_rule_and_never_of_the_claim(app, liar):
    for role in ("administrator", ["administrator"], {"doctors": 1}, 7, None):
        page = come_back(app, liar, claims(groups=role, role="administrator"))
        assert page.path != "/account"


def test_names_are_shown_as_text(app, liar):
    name = "<script>alert(1)</script>"
    liar.userinfo["sub"] = "s3"
    page = come_back(app, liar, claims(sub="s3", name=name))
    assert page.heading == name
    assert name not in page.response.text


def test_sign_in_by_a_provider_leads_only_to_our_pages(app, liar):
    browser = Browser(app)
    begun = browser.get("/sign-in/provider", query_string={"next": "//evil.example/"})
    assert str(begun.location).startswith(f"{ISSUER}/auth?")
    assert "evil" not in str(begun.location)
    long = browser.get("/sign-in/provider", query_string={"next": "/notes?q=" + "x" * 5_000})
    assert len(long.headers["Set-Cookie"]) < 1_000
