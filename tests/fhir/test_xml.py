"""FHIR XML: what it holds is what the JSON holds, by HL7's own examples and by another program.

The pairs in the folder xml are HL7's examples (CC0), their XML written by HAPI FHIR's parser.
"""

from __future__ import annotations

import html
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fhirapp.fhir import json as fhir_json
from fhirapp.fhir import xml, xml_reader
from fhirapp.fhir.elements import InvalidElement
from fhirapp.fhir.narrative import XHTML
from tests.support.node import node_is_there
from tests.tools.r4_elements import EXAMPLES, TABLE, table

PAIRS = sorted(Path(__file__).with_name("xml").glob("*.xml"))
# Of HL7's examples, the larger ones take minutes.
MOST_BYTES, MOST_OF_A_TYPE = 60_000, 25
TYPES = sorted(
    {line.split(".")[0].split(" ")[0] for line in TABLE.read_text().splitlines()}
    & {path.name.split("-")[0] for path in EXAMPLES.glob("*.json")}
)
FHIR = 'xmlns="http://hl7.org/fhir"'


def canonical(document: bytes | str) -> str:
    text = document if isinstance(document, str) else document.decode()
    return ElementTree.canonicalize(text, strip_text=True)


def written(resource, *, pretty=True):
    return xml.dumps(resource, pretty=pretty)


def comparable(content, *, strip):
    """Return JSON with its narratives in the form that any two ways to write them share."""
    if isinstance(content, list):
        return [comparable(item, strip=strip) for item in content]
    if not isinstance(content, dict):
        return content
    same = {name: comparable(one, strip=strip) for name, one in content.items()}
    if isinstance(div := same.get("div"), str):
        div = re.sub(r"&(?!amp;|lt;|gt;|quot;|#)\w+;", lambda one: html.unescape(one[0]), div)
        if "xmlns=" not in div:
            div = div.replace("<div", f'<div xmlns="{XHTML}"', 1)
        same["div"] = ElementTree.canonicalize(div, strip_text=strip)
    return same


def same_json(one, other, *, strip=False):
    """Say whether two resources are the same; with strip, whatever the spaces of narratives."""
    first, second = (fhir_json.canonical(comparable(each, strip=strip)) for each in (one, other))
    return first == second


def test_xml_is_what_another_program_writes(subtests):
    for path in PAIRS:
        for pretty in [True, False]:
            with subtests.test(path=path):
                resource = fhir_json.loads(path.with_suffix(".json").read_bytes())
                assert canonical(written(resource, pretty=pretty)) == canonical(path.read_bytes())


def test_xml_of_another_program_is_read(subtests):
    for path in PAIRS:
        with subtests.test(path=path):
            resource = fhir_json.loads(path.with_suffix(".json").read_bytes())
            # The other program leaves out spaces of narratives.
            assert same_json(xml_reader.loads(path.read_bytes()), resource, strip=True)


@pytest.mark.browser
def test_examples_of_nearly_all_types_are_there():
    node_is_there(EXAMPLES.name)
    assert len(TYPES) == 140


@pytest.mark.browser
def test_hl7_examples_are_written_and_read_back(subtests):
    for type_name in TYPES:
        with subtests.test(type_name=type_name):
            paths = sorted(
                EXAMPLES.glob(f"{type_name}-*.json"), key=lambda path: path.stat().st_size
            )
            small = [path for path in paths if path.stat().st_size <= MOST_BYTES] or paths[:1]
            for path in small[:: 1 + len(small) // MOST_OF_A_TYPE]:
                resource = fhir_json.loads(path.read_bytes())
                assert same_json(xml_reader.loads(written(resource)), resource), path.name


@pytest.mark.browser
def test_table_of_elements_is_that_of_hl7s_definitions():
    node_is_there(EXAMPLES.name)
    assert table(EXAMPLES) == TABLE.read_text()


HARD = {
    "resourceType": "Patient",
    "id": "p1",
    "_language": {"extension": [{"url": "http://example.org/why", "valueCode": "unknown"}]},
    "contained": [{"resourceType": "Observation", "id": "o", "status": "final", "code": {"text":
                  "ä𝔘 <&>\"'"}, "valueQuantity": {"value": fhir_json.loads("1.500"), "unit":
                  "mg"}, "component": [{"code": {"text": "x"}, "valueInteger": 0}]}],
    "extension": [{"id": "e", "url": "http://example.org/a?b=1&c", "valueBoolean": False}, {"url":
                  "http://example.org/d", "_valueDate": {"id": "d"}}],
    "active": True,
    "_active": {"id": "a1"},
    "name": [{"id": "n1", "given": ["Ann", None, "B\ttab\r\nand lines"], "_given": [None,
             {"extension": [{"url": "http://example.org/e"}]}, {"id": "g3"}]}],
    "multipleBirthInteger": 2,
    "link": [{"other": {"reference": "Patient/p2"}, "type": "seealso"}],
}  # fmt: skip
HARD_XML = f"""<?xml version="1.0" encoding="UTF-8"?>
<Patient {FHIR}>
  <id value="p1"/>
  <language>
    <extension url="http://example.org/why">
      <valueCode value="unknown"/>
    </extension>
  </language>
  <contained>
    <Observation>
      <id value="o"/>
      <status value="final"/>
      <code>
        <text value="ä𝔘 &#60;&#38;&#62;&#34;'"/>
      </code>
      <valueQuantity>
        <value value="1.500"/>
        <unit value="mg"/>
      </valueQuantity>
      <component>
        <code>
          <text value="x"/>
        </code>
        <valueInteger value="0"/>
      </component>
    </Observation>
  </contained>
  <extension id="e" url="http://example.org/a?b=1&#38;c">
    <valueBoolean value="false"/>
  </extension>
  <extension url="http://example.org/d">
    <valueDate id="d"/>
  </extension>
  <active value="true" id="a1"/>
  <name id="n1">
    <given value="Ann"/>
    <given>
      <extension url="http://example.org/e"/>
    </given>
    <given value="B&#9;tab&#13;&#10;and lines" id="g3"/>
  </name>
  <multipleBirthInteger value="2"/>
  <link>
    <other>
      <reference value="Patient/p2"/>
    </other>
    <type value="seealso"/>
  </link>
</Patient>
"""


def test_xml_has_every_element_of_the_json():
    assert written(HARD).decode() == HARD_XML
    assert xml_reader.loads(HARD_XML.encode()) == HARD


def test_xml_is_read_in_the_encodings_that_it_names_itself(subtests):
    for encoding in ["utf-8", "utf-8-sig", "utf-16"]:
        with subtests.test(encoding=encoding):
            text = HARD_XML.replace("UTF-8", "utf-16" if encoding == "utf-16" else "utf-8")
            assert xml_reader.loads(text.encode(encoding)) == HARD
    for encoding in ["us-ascii", "iso-8859-1", "iso-8859-15", "windows-1252"]:
        with subtests.test(encoding=encoding):
            text = HARD_XML.replace("UTF-8", encoding)
            assert xml_reader.loads(text.encode(encoding, "xmlcharrefreplace")) == HARD


def test_xml_in_another_encoding_than_it_names_is_refused(subtests):
    for encoding, document, message in [
        ("shift_jis", HARD_XML.encode(), "is written in shift_jis; use UTF-8"),
        ("iso-8859-2", HARD_XML.encode(), "is written in iso-8859-2; use UTF-8"),
        ("nonsense", HARD_XML.encode(), "is written in nonsense; use UTF-8"),
        ("utf-16", HARD_XML.encode(), "says that it is written in utf-16, and does not begin so"),
        ("UTF-8", "<a>\nä</a>".encode("latin-1"), "is not UTF-8, as it says it is: byte 5"),
    ]:
        with subtests.test(encoding=encoding):
            with pytest.raises(xml_reader.InvalidXml) as refused:
                xml_reader.loads(document.replace(b"UTF-8", encoding.encode()))
            assert str(refused.value) == message
            assert refused.value.line == (2 if encoding == "UTF-8" else 1)


def test_prefix_a_comment_and_the_place_of_a_schema_change_nothing():
    document = f"""<!-- <Patient/> --><f:Patient xmlns:f="http://hl7.org/fhir"
        xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
        xsi:schemaLocation="http://hl7.org/fhir fhir-all.xsd"><?x y?>
        <f:text><f:status value="generated"/><h:div xmlns:h="{XHTML}" xml:lang="de">a<!--b-->
        <h:b></h:b>&amp;<h:br/></h:div></f:text><f:active value="true"/></f:Patient>"""
    assert xml_reader.loads(document.encode()) == {
        "resourceType": "Patient",
        "text": {
            "status": "generated",
            # An empty element keeps its end: HTML would take <b/> for the beginning of one.
            "div": f'<div xmlns="{XHTML}" xml:lang="de">a\n        <b></b>&amp;<br/></div>',
        },
        "active": True,
    }


def test_unknown_xml_is_kept_for_validation(subtests):
    for inside, content in [
        ('<nonsense value="1"/>', {"nonsense": "1"}),
        ('<nonsense><a value="1"/></nonsense>', {"nonsense": {"a": "1"}}),
        ('<name><family><id value="x"/></family></name>', None),
        ('<name vlaue="x"/>', {"name": [{"@vlaue": "x"}]}),
        ('<identifier value="1"/>', {"identifier": [{"@value": "1"}]}),
        ('<gender value="male"/><gender value="female"/>', {"gender": ["male", "female"]}),
        ('<active value="yes"/>', {"active": "yes"}),
        ('<multipleBirthInteger value="1.5"/>', {"multipleBirthInteger": fhir_json.loads("1.5")}),
        ('<multipleBirthInteger value="007"/>', {"multipleBirthInteger": "007"}),
        ("<active/>", {"active": ""}),
        ("<name/>", {"name": [{}]}),
        ("<contained/>", {"contained": [[]]}),
        ('<x:active xmlns:x="urn:x" value="true"/>', {"{urn:x}active": "true"}),
        ('<active x:value="true" xmlns:x="urn:x"/>', {"_active": {"@urn:x value": "true"}}),
    ]:
        with subtests.test(inside=inside):
            found = xml_reader.loads(f"<Patient {FHIR}>{inside}</Patient>".encode())
            if content is not None:
                assert found == {"resourceType": "Patient", **content}
            else:
                assert found["name"] == [{"_family": {"id": "x"}}]


def test_invalid_xml_is_refused(subtests, monkeypatch):
    monkeypatch.setattr(xml_reader, "_RULES", xml_reader._RULES._replace(elements=1_000))
    for document, message in [
        ("", "is not well-formed XML: no element found"),
        (f"<Patient {FHIR}>", "is not well-formed XML: no element found"),
        ("<Patient/>", 'is not FHIR: its first element needs xmlns="http://hl7.org/fhir"'),
        (f"<Patient {FHIR}>text</Patient>", "has text outside of the narrative"),
        (f"<!DOCTYPE x><Patient {FHIR}/>", "has a DOCTYPE, which FHIR never has; remove it"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><a>&a;</a>', "has a DOCTYPE"),
        (f"<Patient {FHIR}>&a;</Patient>", "is not well-formed XML: undefined entity"),
        (f"<a {FHIR}>" + "<a>" * 100, "is nested more than 100 elements deep"),
        (f"<a {FHIR}>" + "<a/>" * 1_001, "has more than 1,000 elements in one resource"),
        (f'<Patient {FHIR}><resourceType value="x"/></Patient>', "has a second resourceType"),
        (f'<Patient {FHIR}><contained id="x"><Patient/></contained></Patient>',
         "has an attribute in contained"),
    ]:  # fmt: skip
        with subtests.test(document=document):
            with pytest.raises(xml_reader.InvalidXml) as refused:
                xml_reader.loads(document.encode())
            assert str(refused.value).startswith(message)
            assert refused.value.line == 1


def test_value_that_xml_cannot_hold_is_refused(subtests):
    for members, path, message in [
        ({"nonsense": 1}, "nonsense", "is not an element of FHIR R4"),
        ({"language": "a\x01"}, "language", "has the character U+0001, which XML cannot hold"),
        ({"language": "\ud800"}, "language", "has the character U+D800, which XML cannot hold"),
        ({"language": "\uffff"}, "language", "has the character U+FFFF, which XML cannot hold"),
        ({"name": {"family": "x"}}, "name", "must be a list"),
        ({"name": ["x"]}, "name[0]", "must be an object"),
        ({"active": ["x"]}, "active", "must be a primitive"),
        ({"name": [{"given": [None]}]}, "name[0].given[0]", "has no value"),
        ({"_name": [{"id": "x"}]}, "name[0]", "cannot have extensions beside it"),
        ({"name": [{"_id": {"id": "x"}}]}, "name[0].id", "cannot have extensions"),
        ({"contained": [{"id": "x"}]}, "contained[0]", "is not a resource of FHIR R4"),
        ({"contained": [{"resourceType": "HumanName"}]}, "contained[0]",
         "is not a resource of FHIR R4"),
        *(
            ({"text": {"status": "generated", "div": div}}, "text.div", message)
            for div, message in (
                ("x", "is not well-formed XHTML"),
                ("<p>x</p>", "must be an XHTML div element"),
                ("<divan>x</divan>", "must be an XHTML div element"),
                ("<div>x", "is not well-formed XHTML"),
                ("<div>\x01</div>", "is not well-formed XHTML"),
                ("<div>\ud800</div>", "is not well-formed XHTML"),
                ("<div>&nonsense;</div>", "is not well-formed XHTML"),
                ("<div/><div/>", "is not well-formed XHTML"),
                (f'<!DOCTYPE a><div xmlns="{XHTML}"/>', "must be an XHTML div element"),
                ('<div xmlns="urn:x"/>', "must be an XHTML div element"),
                (1, "is not well-formed XHTML"),
            )
        ),
    ]:  # fmt: skip
        with subtests.test(members=members):
            with pytest.raises(InvalidElement) as refused:
                written({"resourceType": "Patient", **members})
            assert (refused.value.path, refused.value.message) == (path, message)


def test_resource_nested_too_deeply_is_refused():
    extension = {"url": "x"}
    for _ in range(1_000):
        extension = {"url": "x", "extension": [extension]}
    with pytest.raises(InvalidElement, match="is nested too deeply"):
        written({"resourceType": "Patient", "extension": [extension]})


def test_entity_of_html_in_a_narrative_becomes_its_character():
    text = {"status": "generated", "div": "<div>a&nbsp;b &amp; &lt;</div>"}
    resource = {"resourceType": "Patient", "text": text}
    found = xml_reader.loads(written(resource))
    assert found["text"]["div"] == f'<div xmlns="{XHTML}">a\xa0b &amp; &lt;</div>'


BUNDLE = f"""<Bundle {FHIR}>
  <type value="batch"/>
  <entry>
    <fullUrl value="urn:uuid:1"/>
    <resource><Patient><active value="true"/></Patient></resource>
  </entry>
  <entry><request><method value="GET"/><url value="Patient"/></request></entry>
</Bundle>"""


def test_bundle_is_read_entry_by_entry():
    patient = {"resourceType": "Patient", "active": True}
    assert [*xml_reader.pieces(io.BytesIO(BUNDLE.encode()), 10_000)] == [
        ("resourceType", "Bundle", 1),
        ("type", "batch", 2),
        ("", {"fullUrl": "urn:uuid:1", "resource": patient}, 3),
        ("", {"request": {"method": "GET", "url": "Patient"}}, 7),
    ]
    whole = xml_reader.loads(BUNDLE.encode())
    assert json.loads(fhir_json.dumps(whole))["entry"][0]["resource"] == patient


def test_character_may_begin_in_one_chunk_and_end_in_the_next(monkeypatch):
    monkeypatch.setattr(xml_reader, "_CHUNK", 101)
    for encoding in ["utf-8", "utf-16"]:
        text = f'<Bundle {FHIR}><id value="{"ä𝔘" * 200}"/></Bundle>'
        (_, piece) = xml_reader.pieces(io.BytesIO(text.encode(encoding)), 10_000)
        assert piece.content == "ä𝔘" * 200
    broken = text.encode() + b"\n<!--\xe4-->"
    with pytest.raises(xml_reader.InvalidXml, match=f"is not UTF-8.*: byte {len(broken) - 3}$"):
        [*xml_reader.pieces(io.BytesIO(broken), 10_000)]


def test_piece_of_a_bundle_has_a_greatest_size():
    large = f'<Bundle {FHIR}><type value="{"x" * 300_000}"/></Bundle>'
    with pytest.raises(xml_reader.InvalidXml, match="holds a piece of more than 100,000 bytes"):
        [*xml_reader.pieces(io.BytesIO(large.encode()), 100_000)]
