"""A Provenance in words, on the pages of notes and of allergies alike."""

from __future__ import annotations

from fhirapp.features.chart.details import origins
from fhirapp.features.notes.origin import activity, agents, entity_role


def test_agent_reads_as_its_role_and_its_name(subtests):
    who = {"display": "Dr. Ruiz"}
    contained = [{"resourceType": "Practitioner", "id": "a", "name": [{"text": "Dr. Osei"}]}]
    for agent, text in [
        ({"type": {"coding": [{"code": "author"}]}, "who": who}, "written by Dr. Ruiz"),
        ({"type": {"coding": [{"code": "x"}, {"code": "composer"}]}, "who": who},
         "composed by Dr. Ruiz"),
        ({"type": {"text": "scribe"}, "who": who}, "scribe: Dr. Ruiz"),
        ({"who": who}, "role not recorded: Dr. Ruiz"),
        ({"type": {"text": "scribe"}}, "scribe: not named"),
        ({"type": {"text": "scribe"}, "who": {"reference": "#a"}}, "scribe: Dr. Osei"),
        ({"type": {"text": "scribe"}, "who": who, "onBehalfOf": who}, "scribe: Dr. Ruiz"),
        ({"type": {"text": "scribe"}, "who": who, "onBehalfOf": {"display": "Lakeside"}},
         "scribe: Dr. Ruiz, on behalf of Lakeside"),
    ]:  # fmt: skip
        with subtests.test(agent=agent):
            provenance = {"agent": [agent], "contained": contained}
            assert list(agents(provenance)) == [text]
            assert origins([provenance])[0].deeds == [text]


def test_activity_and_entities_have_words():
    assert activity({"activity": {"coding": [{"code": "NULLIFY"}]}}) == "Nullified"
    assert activity({"activity": {"text": "Transcribed"}}) == "Transcribed"
    assert activity({}) == "Recorded"
    roles = ("source", "quotation", "other")
    assert [entity_role({"role": role}) for role in roles] == ["from", "quoted from", "from"]
