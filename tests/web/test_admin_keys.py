"""The administrator's page of signing keys: what each is for now, and a new one after asking once
more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.auth.oauth import openid
from fhirapp.auth.server_secrets import server_secrets
from tests.support.browsing import Browser, Page, add_person

PATH = "/admin/keys"


@pytest.fixture
def oauth(make_app: Callable[..., Flask]) -> Flask:
    """An app with one key."""
    return make_app(seed=False)


@pytest.fixture
def admin(oauth: Flask) -> Browser:
    return Browser(oauth).resume(add_person(oauth, ADMINISTRATOR))


def published(app: Flask) -> list[str]:
    """Return the ids of the keys that everybody can fetch."""
    found = app.test_client().get("/oauth/jwks.json").get_json()
    return [one["kid"] for one in found["keys"]]


def rotated(page: Page) -> Page:
    return page.submit("Rotate the signing key").submit("Rotate key")


def test_the_key_that_signs_is_shown_and_no_private_part_of_it(oauth, admin):
    page = admin.get(PATH)
    (kid,) = published(oauth)
    assert f"{kid} in use signs all new id tokens first start of the server RS256" in (page.words)
    with oauth.app_context():
        stored = json.loads(server_secrets().read(openid.NAME, openid.make_first))
    (key,) = [one["key"] for one in stored["keys"]]
    for part in ("d", "p", "q", "dp", "dq", "qi", "n"):
        assert key[part] not in page.response.text


def test_a_new_key_is_made_only_after_asking_once_more(oauth, admin):
    before = published(oauth)
    asked = admin.get(PATH).submit("Rotate the signing key")
    assert "Rotate the signing key now?" in asked.words
    assert published(oauth) == before
    page = asked.submit("Rotate key")
    assert "The new key is published." in page.words
    (new,) = {*published(oauth)} - {*before}
    assert (
        f"{new} published, not yet in use so that apps know it before its first use from"
        in page.words
    )
    assert f"{before[0]} in use" in page.words


def test_while_a_new_key_waits_no_other_is_made(oauth, admin):
    asked = admin.get(PATH).submit("Rotate the signing key")
    page = rotated(admin.get(PATH))
    assert "Rotate the signing key" not in {label for form in page.forms for label in form.buttons}
    after = published(oauth)
    again = asked.submit("Rotate key")
    assert again.status == 409
    assert "A new key was created a few minutes ago" in again.words
    assert published(oauth) == after


def test_a_key_that_signed_before_is_told_from_the_one_that_signs(oauth, admin):
    (old,) = published(oauth)
    with oauth.app_context():
        openid.rotate(int(time.time()) - 3600)
    words = admin.get(PATH).words
    (new,) = {*published(oauth)} - {old}
    assert f"{new} in use signs all new id tokens" in words
    assert f"{old} retired, still published to verify id tokens issued earlier" in words
    assert rotated(admin.get(PATH)).status == 200


def test_a_key_ring_that_cannot_be_read_is_told_in_a_sentence(oauth, admin):
    asked = admin.get(PATH).submit("Rotate the signing key")
    with oauth.app_context():
        server_secrets().change(openid.NAME, openid.make_first, lambda _content: b"nonsense")
    for page in (admin.get(PATH), asked.submit("Rotate key")):
        assert page.status == 500
        assert "cannot be read; delete the file, and a new one is made." in page.words
