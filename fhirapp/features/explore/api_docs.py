"""The documentation of the API: Swagger UI on our own OpenAPI description, signed in by OAuth."""

from __future__ import annotations

from flask import Response

from fhirapp import urls
from fhirapp.auth.clients.first_party import REDIRECT_PATH, add_documentation
from fhirapp.auth.clients.registration import API_DOCS
from fhirapp.auth.models import PATIENT
from fhirapp.auth.public_accounts import public_accounts
from fhirapp.web.pages import blueprint_of, current_session, page

blueprint = blueprint_of("api_docs", __name__)
_OF_PATIENTS, _OF_STAFF = "launch/patient patient/*.rs", "user/*.rs"


@blueprint.get("/api-docs")
def api_docs() -> Response:
    """Show every address of the API with its parameters, and a form to send it."""
    add_documentation()
    session = current_session()
    is_patient = session is not None and session.user.role == PATIENT
    return page(
        "explore/api_docs.html",
        scripts=True,
        client_id=API_DOCS,
        fhir_url=urls.fhir_url(),
        redirect_uri=urls.base_url() + REDIRECT_PATH,
        scope=_OF_PATIENTS if is_patient else _OF_STAFF,
        public=public_accounts(),
    )


@blueprint.get(REDIRECT_PATH)
def api_docs_signed_in() -> Response:
    """Pass the authorization code to the window that opened this one."""
    return page("explore/api_docs_signed_in.html", scripts=True)
