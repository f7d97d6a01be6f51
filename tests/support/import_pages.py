"""What a browser sends to the page of imports, and a lock that has imports wait."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from flask import Flask

from fhirapp.config import settings_of
from fhirapp.db.locks import lock
from fhirapp.store.import_models import TURN
from tests.support.browsing import Browser, Page
from tests.support.helpers import BASE_URL

PATH = "/admin/imports"


def patient(name: str) -> bytes:
    """Return a line with a patient of this id."""
    return json.dumps({"resourceType": "Patient", "id": name}).encode() + b"\n"


class Upload:
    """What the page's script does: pieces of files, sent one after the other."""

    def __init__(self, admin: Browser, upload_id: str = "") -> None:
        self.page = admin.get(f"{PATH}?upload={upload_id}" if upload_id else PATH)
        self.id = self.page.form_to(PATH).fields["task"]
        self.token, self.browser = self.page.token, admin
        self.sent: dict[int, bytes] = {}

    def send(self, number: int, name: str, content: bytes, *, at: int = 0, **changes: Any) -> Any:
        """Send what a file has from a place on, up to the place until."""
        until = changes.pop("until", None)
        self.sent[number] = content
        asked = {"name": name, "size": len(content), "at": at, "left": 0, **changes}
        return self.browser.client.post(
            f"/admin/uploads/{self.id}/{number}?{urlencode(asked)}",
            base_url=BASE_URL,
            data=content[at:until],
            headers={"X-Form-Token": self.token},
            environ_base={"REMOTE_ADDR": self.browser.address},
        )

    def begin(self, **options: str) -> Page:
        """Start the import, with the number and size of the files that were sent."""
        sizes = [len(content) for content in self.sent.values()]
        summary = f"{len(sizes)}:{sum(sizes)}" if sizes else ""
        return self.page.submit("Start import", **{"uploaded": summary, **options})


@contextmanager
def import_lock(app: Flask) -> Iterator[None]:
    """Hold the import lock, so that imports wait."""
    with app.app_context(), lock(settings_of(app), TURN, lambda: None):
        yield
