"""What an attachment holds that no import would take."""

from __future__ import annotations

import pytest

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.web.notes.attachments import Attachment, attachment, plain_text, way
from tests.support.office import ODT, word

TOKEN = OwnToken("", "", None, 0)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"data": "!!not base64!!"}, "Its data is not valid base64, so it cannot be shown."),
        ({"data": "QUJ"}, "Its data is not valid base64, so it cannot be shown."),
        ({}, "The note refers to a document, but contains neither its data nor its address."),
        ({"url": "ftp://a.example/x"}, "Stored on another server, and not loaded from there: ftp:"),
        ({"data": "QUJD", "size": 30_000_000}, "Larger than 20 MB"),
    ],
)
def test_what_cannot_be_read_is_told_in_a_sentence(app, given, problem):
    with app.test_request_context():
        found = attachment({"content": [{"attachment": given}]}, 1, TOKEN)
    assert found is not None
    assert found.data is None
    assert found.problem.startswith(problem)


def test_bytes_that_are_not_those_of_the_version_are_told(app):
    given = {"data": "QUJD", "hash": "AAAAAAAAAAAAAAAAAAAAAAAAAAA="}
    found = attachment({"content": [{"attachment": given}]}, 1, TOKEN)
    assert found is not None
    assert found.data == b"ABC"
    assert found.remark.startswith(
        "The file was replaced after this version of the note was created."
    )


@pytest.mark.parametrize(
    ("content_type", "data", "expected"),
    [
        ("text/plain", b"words", "text"),
        ("", b"words", "text"),
        ("text/html", b"<p>words", "frame"),
        ("application/xml", b"<ClinicalDocument/>", "frame"),
        ("application/xml", b"<other/>", "words"),
        ("application/pdf", b"%PDF-1.4", "pdf"),
        ("text/plain", b"%PDF-1.4", "pdf"),
        ("image/png", b"\x89PNG\r\n\x1a\n", "picture"),
        ("application/pdf", b"\xff\xd8\xff\xe0", "picture"),
        ("image/png", b"<svg/>", "download"),
        ("image/svg+xml", b"<svg/>", "download"),
        ("image/gif", b"GIF89a", "download"),
        ("application/msword", b"{\\rtf1 words}", "words"),
        ("application/msword", word(""), "frame"),
        (ODT, b"", "frame"),
        ("application/json", b"{}", "words"),
        ("no type at all", b"\x00\x01", "download"),
    ],
)
def test_how_a_document_is_shown_follows_from_its_bytes_before_its_type(
    content_type, data, expected
):
    assert way(Attachment(1, "", content_type, data)) == expected


def test_plain_text_has_no_control_characters_and_one_kind_of_line_end():
    found = Attachment(1, "", "text/plain", b"a\r\nb\rc\x00\x1b[31md\te\x0c")
    assert plain_text(found) == ("a\nb\nc[31md\te", False)
