"""Invalid and hostile clinical documents are refused with a reason, and quickly."""

from __future__ import annotations

import pytest
from flask import Flask
from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.definition import types
from fhirapp.features.imports.ccda import UnreadableDocument, identities, resources_of, tree
from fhirapp.store.prepare import prepare
from tests.support import effort
from tests.support.ccda_rules import document
from tests.support.ccda_samples import SAMPLES, of_type, only, read, sample
from tests.support.documents import laughs

NOTE = sample("progress-note")
_DECLARATION, _, BODY = NOTE.partition("\n")
DOCTYPE = "has a DOCTYPE, which a clinical document never has; remove it"


def refusal(document: str | bytes) -> str:
    """Return why a document is refused."""
    data = document if isinstance(document, bytes) else document.encode()
    with pytest.raises(UnreadableDocument) as refused:
        resources_of(data)
    assert len(str(refused.value)) < 1_000
    return str(refused.value)


def nested(depth: int) -> str:
    return NOTE.replace("<title>Progress", "<a>" * depth + "</a>" * depth + "<title>Progress")


def recorded_twice() -> str:
    whole = NOTE[NOTE.index("<recordTarget>") : NOTE.index("</recordTarget>")]
    return NOTE.replace("</recordTarget>", f"</recordTarget>{whole}</recordTarget>", 1)


def with_section(section: str) -> str:
    return NOTE[: NOTE.index("<section>")] + section + NOTE.partition("</section>")[2]


ROOT = '<ClinicalDocument xmlns="urn:hl7-org:v3">'
# Invalid documents and the messages.
REFUSED: dict[str, tuple[str | bytes, str]] = {
    "nothing": ("", "line 1: is not well-formed XML: no element found"),
    "no XML": ("no XML", "line 1: is not well-formed XML: syntax error"),
    "billion laughs": (laughs(9), f"line 1: {DOCTYPE}"),
    "external DTD": ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', f"line 1: {DOCTYPE}"),
    "external entity": (
        '<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY b SYSTEM "http://x.example/">]><a>&b;</a>',
        f"line 2: {DOCTYPE}",
    ),
    "DOCTYPE": ("<!DOCTYPE ClinicalDocument>" + BODY, f"line 1: {DOCTYPE}"),
    "unknown entity": (
        NOTE.replace("Progress Note", "&undefined;"),
        "line 9, ClinicalDocument/title: is not well-formed XML: undefined entity",
    ),
    "FHIR": (
        '<Bundle xmlns="http://hl7.org/fhir"/>',
        "line 1, {http://hl7.org/fhir}Bundle: is not a clinical document: it must begin with",
    ),
    "no namespace": ("<ClinicalDocument/>", 'without its namespace: add xmlns="urn:hl7-org:v3"'),
    "no patient": (
        f"{ROOT}</ClinicalDocument>",
        "line 1, ClinicalDocument: must have a recordTarget",
    ),
    "two patients": (
        recorded_twice(),
        "ClinicalDocument/recordTarget[2]: must not be repeated: a document is one patient's",
    ),
    "no role": (
        f"{ROOT}<recordTarget/></ClinicalDocument>",
        "line 1, ClinicalDocument/recordTarget: must have a patientRole",
    ),
    "nobody": (
        f"{ROOT}<recordTarget>\n<patientRole/></recordTarget></ClinicalDocument>",
        "line 2, ClinicalDocument/recordTarget/patientRole: must have an id with a root",
    ),
    "attribute twice": (NOTE.replace("<title>", '<title a="1" a="2">'), "duplicate attribute"),
    "no prefix": (NOTE.replace("<title>", "<x:title>"), "line 9, ClinicalDocument: is not well"),
    "NUL": (NOTE.replace("Progress Note", "a\0b"), "not well-formed (invalid token)"),
    "huge attribute": (
        NOTE.replace("<title>", f'<title a="{"x" * 70_000}">'),
        "line 9, ClinicalDocument: has an attribute of more than 65,536 characters",
    ),
    "many attributes": (
        NOTE.replace("<title>", "<title " + " ".join(f'a{n}="1"' for n in range(101)) + ">"),
        "line 9, ClinicalDocument: has an element with more than 100 attributes",
    ),
    "deep": (nested(10_000), "is nested more than 200 elements deep"),
    "half a character": (
        b"\xff\xfe" + BODY.encode("utf-16-le")[:-1],
        "is not UTF-16, as it says it is",
    ),
    "no UTF-16": (
        '<?xml version="1.0" encoding="UTF-16"?>' + BODY,
        "line 1: says that it is written in UTF-16, and does not begin so",
    ),
    "EBCDIC": (
        '<?xml version="1.0" encoding="EBCDIC-CP-US"?>' + BODY,
        "line 1: is written in EBCDIC-CP-US; use UTF-8",
    ),
    "no UTF-8": (
        NOTE.replace("Progress Note", "Résumé").encode("latin-1"),
        "line 9: is not UTF-8, as it says it is: byte",
    ),
    "large": (b" " * 50_000_001, "is larger than 50 MB"),
    "a section whose code comes after its text": (
        with_section('<section><text>x</text><code code="48765-2"/></section>'),
        "must have its templateId, code and title before its text and entries",
    ),
    "a long name": (f"<{'a' * 1_000_000}>", "is not a clinical document"),
    "a long namespace": (f'<a xmlns="{"b" * 60_000}"/>', "is not a clinical document"),
}


def test_a_document_that_cannot_be_read_is_refused_with_line_and_element():
    found = {name: refusal(document) for name, (document, _) in REFUSED.items()}
    assert {name: said for name, said in found.items() if REFUSED[name][1] not in said} == {}


@pytest.mark.parametrize("name", ["ccd", "plain-cda", "unstructured"])
def test_truncated_document_is_refused(name):
    document = (SAMPLES / f"{name}.xml").read_bytes().rstrip()
    for end in range(0, len(document), effort.sample(701, 97)):
        refusal(document[:end])


ENCODED = {
    "UTF-8 with a mark": NOTE.encode("utf-8-sig"),
    "UTF-16 with a mark": BODY.encode("utf-16"),
    "UTF-16 without a mark": NOTE.replace('"UTF-8"', '"UTF-16"').encode("utf-16-be"),
    "ISO-8859-1": NOTE.replace('"UTF-8"', '"ISO-8859-1"').encode("latin-1"),
    "windows-1252": NOTE.replace('"UTF-8"', '"windows-1252"').encode("cp1252"),
    "US-ASCII": NOTE.replace('"UTF-8"', '"US-ASCII"').encode("ascii"),
}


def test_declared_encoding_of_a_document_is_used():
    patient = only(read(NOTE), "Patient")
    assert [name for name in ENCODED if only(read(ENCODED[name]), "Patient") != patient] == []


def test_id_of_a_document_without_one_follows_from_its_content():
    without = NOTE.replace('<id root="11d1cf2a-44aa-4d00-8000-000000000402"/>', "")
    first, again = (only(read(without), "DocumentReference") for _ in range(2))
    other = only(read(without.replace("Progress Note", "Another")), "DocumentReference")
    assert "masterIdentifier" not in first
    assert first["id"] == again["id"] != other["id"]


def test_minimal_document_is_stored(app):
    found = read(
        f'{ROOT}<recordTarget><patientRole><id root="1.2" extension="3"/></patientRole>'
        "</recordTarget></ClinicalDocument>"
    )
    names = [resource["resourceType"] for resource in found]
    assert names == ["Patient", "DocumentReference", "Provenance"]
    assert found[1]["type"]["coding"][0]["code"] == "UNK"
    for resource in found:
        prepare(types(app)[resource["resourceType"]], resource)


def test_many_elements_are_refused_but_in_another_section(monkeypatch):
    monkeypatch.setattr(tree, "_RULES", tree._RULES._replace(elements=400))
    assert_many_elements_are_refused(400, "has more than 400 elements in its header and Allergies")


def assert_many_elements_are_refused(number: int, message: str) -> None:
    head, opening, rest = document("{substance <code/>}").partition("<entry>")
    entry, closing, tail = rest.partition("</entry>")
    assert message in refusal(head + f"{opening}{entry}{closing}" * (number // 5) + tail)
    entries = '<entry><observation><id root="1.2"/></observation></entry>' * number
    other = NOTE.replace("</section>", f"{entries}</section>")
    assert of_type(read(other), "AllergyIntolerance") == []


def assert_refused_or_stored(app: Flask, text: str) -> None:
    try:
        found = read(text)
    except UnreadableDocument:
        return
    identities(found)
    for resource in found:
        prepare(types(app)[resource["resourceType"]], resource)


def test_a_document_with_an_empty_attribute_is_refused_or_stored(app):
    parts = sample("referral-note").split('"')
    for place in range(1, len(parts), 26):
        assert_refused_or_stored(app, '"'.join([*parts[:place], "", *parts[place + 1 :]]))


CHARACTERS = st.characters(codec="utf-8", exclude_characters="<>&\"'", min_codepoint=32)


@pytest.mark.campaign
@settings(max_examples=effort.sample(100, 1000))
@given(data=st.data())
def test_a_document_with_any_attributes_is_refused_or_stored(app, data):
    """Each value of the sample is another, or none."""
    parts = sample(data.draw(st.sampled_from(["ccd", "referral-note"]))).split('"')
    places = st.integers(0, len(parts) // 2 - 1).map(lambda place: 2 * place + 1)
    for place in data.draw(st.lists(places, min_size=1, max_size=30)):
        value = data.draw(st.one_of(st.just(""), st.text(CHARACTERS), st.just(parts[place] * 2)))
        parts[place] = value
    assert_refused_or_stored(app, '"'.join(parts))
