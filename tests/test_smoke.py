def test_a_search_answers(fhir):
    assert fhir.read("AllergyIntolerance?patient=p1")["total"] == 6
    assert fhir.read("DocumentReference?_count=5")["total"] == 52
