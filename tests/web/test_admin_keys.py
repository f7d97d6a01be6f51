"""The administrator's page of signing keys: what each is for, and how a new one is made."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.auth.oauth import signing_keys
from fhirapp.auth.server_secrets import server_secrets
from tests.support.browsing import Browser, add_person

PATH = "/admin/keys"


@pytest.fixture
def oauth(make_app: Callable[..., Flask]) -> Flask:
    """An app with one key."""
    return make_app(seed=False)


@pytest.fixture
def admin(oauth: Flask) -> Browser:
    return Browser(oauth).resume(add_person(oauth, ADMINISTRATOR))


def published(app: Flask) -> set[str]:
    """Return the ids of the keys that everybody can fetch."""
    found = app.test_client().get("/oauth/jwks.json").get_json()
    return {key["kid"] for key in found["keys"]}


def test_signing_key_is_shown_without_its_private_part(oauth, admin):
    page = admin.get(PATH)
    (kid,) = published(oauth)
    assert f"{kid} in use signs all new id tokens first start of the server RS256" in page.words
    with oauth.app_context():
        stored = json.loads(server_secrets().read(signing_keys.NAME, signing_keys.make_first))
    (key,) = [stored_key["key"] for stored_key in stored["keys"]]
    for part in ("d", "p", "q", "dp", "dq", "qi", "n"):
        assert key[part] not in page.response.text


def test_new_key_is_made_after_a_question_and_only_one_at_a_time(oauth, admin):
    (old,) = published(oauth)
    question = admin.get(PATH).send("/rotate")
    assert len(question.alerts) == 1
    assert published(oauth) == {old}
    page = question.send("/rotate")
    assert page.path == f"{PATH}?done=rotated"
    (new,) = published(oauth) - {old}
    assert f"{new} published, not yet in use" in page.words
    assert f"{old} in use" in page.words
    # While it waits for its first use, no other is made.
    assert f"{PATH}/rotate" not in page.actions
    assert question.send("/rotate").status == 409
    assert published(oauth) == {old, new}


def test_retired_key_is_told_from_the_one_that_signs(oauth, admin):
    (old,) = published(oauth)
    with oauth.app_context():
        signing_keys.rotate(int(time.time()) - 3600)
    page = admin.get(PATH)
    (new,) = published(oauth) - {old}
    assert f"{new} in use signs all new id tokens" in page.words
    assert f"{old} retired, still published to verify id tokens issued earlier" in page.words
    assert page.send("/rotate").send("/rotate").status == 200


def test_key_ring_that_cannot_be_read_says_what_to_do(oauth, admin):
    question = admin.get(PATH).send("/rotate")
    with oauth.app_context():
        server_secrets().change(
            signing_keys.NAME, signing_keys.make_first, lambda _content: b"nonsense"
        )
    for page in (admin.get(PATH), question.send("/rotate")):
        assert page.status == 500
        assert "delete the file, and a new one is made." in page.words
