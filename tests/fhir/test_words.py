"""Concepts, references, dates, quantities and long texts in words."""

from __future__ import annotations

from fhirapp.fhir import narrative, words

SNOMED_CT = "http://snomed.info/sct"
CODE = {"system": SNOMED_CT, "code": "409137002"}


def test_shortened_text_is_one_line_without_direction():
    for text, line in [
        ("a\n  b\t c", "a b c"),
        ("Dr. \u202eevE\u202c", "Dr. evE"),
        ("\u2066x\u2069", "x"),
        ("x" * 10, "x" * 10),
        ("x" * 11, "x" * 10 + "…"),
        (" " * 41 + "x", "…"),
    ]:
        assert words.shortened(text, 10) == line
    whole = "Dr. \u202eevE\n" + "x" * 400
    assert words.shortened(whole, None) == whole


def test_concept_is_its_text_else_a_display_else_a_code_with_its_system():
    for concept, text in [
        ({"text": "No drug allergy", "coding": [CODE | {"display": "d"}]}, "No drug allergy"),
        ({"coding": [CODE, {"display": "No known drug allergy"}]}, "No known drug allergy"),
        ({"coding": [CODE | {"display": CODE["code"]}, {"display": "d"}]}, "d"),
        ({"coding": [CODE]}, "SNOMED CT 409137002"),
        ({"coding": [{"code": "12"}, CODE]}, "code 12"),
        ({"coding": [{"system": "urn:local", "code": "AMB"}]}, "AMB"),
        ({"coding": [{"system": "urn:local"}]}, ""),
        (None, ""),
    ]:
        assert words.concept(concept) == text
    assert words.concepts([{"text": "a"}, {}, {"text": "b"}]) == "a, b"
    assert words.concepts(None) == ""


def test_narrative_has_the_whole_text_of_a_concept_and_a_line_has_its_beginning():
    text = "Penicillin\n" + "x" * words.LONGEST
    assert narrative.concept({"text": text}) == text
    assert len(words.concept({"text": text})) == words.LONGEST + 1


def test_reference_is_its_display_else_what_is_contained_else_its_address_or_identifier():
    identifier = {"identifier": {"value": "MRN-7"}}
    contained = [
        {"resourceType": "Practitioner", "id": "p", "name": [
            {"use": "old", "text": "Dr. Ann Old"}, {"use": "official", "text": "Dr. Ann New"}
        ]},
        {"resourceType": "Organization", "id": "o", "name": "Lakeside"},
        {"resourceType": "Practitioner", "id": "n"},
    ]  # fmt: skip
    for reference, text in [
        ({"reference": "#p", "display": "Dr. Ann"}, "Dr. Ann"),
        ({"reference": "#p"}, "Dr. Ann New"),
        ({"reference": "#o"}, "Lakeside"),
        ({"reference": "#n"}, "name not recorded"),
        ({"reference": "Patient/p1", **identifier}, "Patient/p1"),
        (identifier, "MRN-7"),
        ({}, ""),
        (None, ""),
    ]:
        assert words.reference(reference, {"contained": contained}) == text
    assert narrative.reference(identifier) == "MRN-7"
    assert words.references([identifier, {}, {"display": "a"}]) == "MRN-7, a"


def test_encounter_is_a_type_in_words_else_its_class_else_a_code():
    of_class = {"class": {"code": "AMB", "display": "ambulatory"}}
    for encounter, text in [
        ({"type": [{}, {"text": "Check-up"}], **of_class}, "Check-up"),
        ({"type": [{"coding": [CODE]}, {"text": "Check-up"}], **of_class}, "Check-up"),
        ({"type": [{"coding": [CODE]}], **of_class}, "ambulatory"),
        ({"type": [{"coding": [CODE]}]}, "SNOMED CT 409137002"),
        (of_class, "ambulatory"),
        ({"class": {"code": "AMB"}}, ""),
        ({}, ""),
    ]:
        assert words.encounter(encounter) == text


def test_quantity_has_its_comparator_and_the_name_of_its_unit():
    for quantity, text in [
        ({"value": 5, "comparator": "<", "unit": "mg"}, "<5 mg"),
        ({"value": 3, "code": "a"}, "3 years"),
        ({"value": 3, "unit": "a"}, "3 years"),
        ({"value": 3, "unit": "yr", "system": "http://unitsofmeasure.org", "code": "a"}, "3 years"),
        ({"value": 3, "unit": "drops", "system": "urn:local", "code": "d"}, "3 drops"),
        ({"value": 3}, "3"),
        ({"unit": "mg"}, ""),
    ]:
        assert words.quantity(quantity) == text


def test_line_leaves_out_the_semantic_tag_of_a_name_of_snomed_ct(subtests):
    snomed = {"system": "http://snomed.info/sct", "code": "91935009"}
    for concept, text in [
        ({"coding": [snomed | {"display": "Tree nut (substance)"}]}, "Tree nut"),
        ({"coding": [snomed], "text": "Hives (disorder)"}, "Hives"),
        ({"coding": [snomed], "text": "Pollen (of birch)"}, "Pollen (of birch)"),
        ({"text": "Hives (disorder)"}, "Hives (disorder)"),
    ]:
        with subtests.test(text):
            assert words.concept(concept) == text
            assert words.concept(concept, longest=None).startswith(text)


def test_reactions_read_as_a_line_with_severity_and_day(subtests):
    hives = {"manifestation": [{"text": "Hives"}], "onset": "1974-06-02"}
    said = [{"url": "urn:fhirapp:severity-text", "valueString": "bad"}]
    for reactions, text in [
        ([hives | {"severity": "mild", "description": "on the trunk"}],
         "Hives · on the trunk (mild, 2 June 1974)"),
        ([hives, {"severity": "severe"}],
         "reaction not recorded (severe); Hives (severity not recorded, 2 June 1974)"),
        ([hives | {"extension": said}], "Hives (“bad”, 2 June 1974)"),
        ([hives | {"extension": said, "severity": "severe"}],
         "Hives (severe, “bad”, 2 June 1974)"),
        ([], "reaction not recorded"),
    ]:  # fmt: skip
        with subtests.test(text):
            found = words.reactions({"reaction": reactions})
            assert words.reactions_in_words(found) == text
