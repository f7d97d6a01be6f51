"""The documentation of the API: Swagger UI on our own description, signed in by OAuth.

Its scripts run on a page of their own: they are others' code, so the page has no form of ours, and
what they ask for they are allowed by the person on the page that asks every app's user.
"""

from __future__ import annotations

from flask import Response

from fhirapp.address import base_url, fhir_url
from fhirapp.auth.clients.documentation import REDIRECT_PATH, add_documentation
from fhirapp.auth.clients.registration import API_DOCS
from fhirapp.auth.models.user import PATIENT
from fhirapp.web.pages import blueprint_of, page, signed

blueprint = blueprint_of("api_docs", __name__)
_OF_PATIENTS, _OF_STAFF = "launch/patient patient/*.rs", "user/*.rs"


@blueprint.get("/api-docs")
def show() -> Response:
    """Show every address with its parameters, to be tried."""
    add_documentation()
    found = signed()
    is_patient = found is not None and found.user.role == PATIENT
    return page(
        "api_docs.html",
        scripts=True,
        client_id=API_DOCS,
        fhir_url=fhir_url(),
        redirect_uri=base_url() + REDIRECT_PATH,
        scope=_OF_PATIENTS if is_patient else _OF_STAFF,
    )


@blueprint.get(REDIRECT_PATH)
def signed_in() -> Response:
    """Hand the code that came with the address to the window that asked for it."""
    return page("api_docs_signed_in.html", scripts=True)
