"""/fhir/OperationDefinition: what defines the operations that nobody else defined."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from fhir.resources.R4B.operationdefinition import OperationDefinition

from tests.support.helpers import BASE_URL, FHIR_JSON, assert_outcome
from tests.support.r4 import faults

SUMMARY = "OperationDefinition/AllergyIntolerance-summary"
PATIENTS = [f"p{number}" for number in range(1, 15)]


@pytest.fixture
def definition(http) -> dict[str, Any]:
    """The definition, asked for without a token."""
    response = http.get(f"/fhir/{SUMMARY}")
    assert (response.status_code, response.content_type) == (200, FHIR_JSON)
    found: dict[str, Any] = response.get_json(force=True)
    return found


def test_the_statement_names_a_definition_for_every_operation(http):
    (rest,) = http.get("/fhir/metadata").get_json(force=True)["rest"]
    named = [
        operation["definition"]
        for listed in (rest, *rest["resource"])
        for operation in listed.get("operation", ())
    ]
    own = [url for url in named if not url.startswith("http://hl7.org/fhir/")]
    assert own == [f"{BASE_URL}/fhir/{SUMMARY}"]


def test_operation_definition_is_a_valid_resource(definition):
    assert list(faults(definition)) == []
    OperationDefinition.model_validate(definition)
    # opd-0, which neither checks: a name that a program can use.
    assert re.fullmatch("[A-Z][A-Za-z0-9_]{0,254}", definition["name"])
    assert definition["url"] == f"{BASE_URL}/fhir/{SUMMARY}"


def test_operation_definition_lists_parameters_and_levels(definition):
    asked = [parameter for parameter in definition["parameter"] if parameter["use"] == "in"]
    assert [
        (parameter["name"], parameter["min"], parameter["max"], parameter["type"])
        for parameter in asked
    ] == [("patient", 1, "1", "id")]
    assert (definition["code"], definition["resource"]) == ("summary", ["AllergyIntolerance"])
    assert (definition["system"], definition["type"], definition["instance"]) == (
        *(False, True, False),
    )


@pytest.mark.parametrize("patient", PATIENTS)
def test_an_answer_is_as_it_says(definition, fhir, patient):
    answer = fhir.read(f"AllergyIntolerance/$summary?patient={patient}")
    told = [parameter for parameter in definition["parameter"] if parameter["use"] == "out"]
    assert list(strange(told, answer["parameter"], "")) == []


def strange(
    told: Sequence[Mapping[str, Any]], given: Sequence[Mapping[str, Any]], path: str
) -> Iterator[str]:
    """Yield the names of what is given and not recorded, or not so often or not of that type."""
    declared = {parameter["name"]: parameter for parameter in told}
    for name in dict.fromkeys([*declared, *(parameter["name"] for parameter in given)]):
        found = [parameter for parameter in given if parameter["name"] == name]
        at = path + name
        if name not in declared:
            yield at
            continue
        most = len(found) if declared[name]["max"] == "*" else 1
        if not declared[name]["min"] <= len(found) <= most:
            yield at
        for one in found:
            if "part" in declared[name]:
                yield from strange(declared[name]["part"], one["part"], f"{at}.")
            else:
                kind = declared[name]["type"]
                if [*one] != ["name", f"value{kind[0].upper()}{kind[1:]}"]:
                    yield at


def test_operation_of_another_publisher_is_not_found(http):
    for row_id in ["nobody", "DocumentReference-docref", "AllergyIntolerance"]:
        response = http.get(f"/fhir/OperationDefinition/{row_id}")
        assert_outcome(
            response, 404, "not-found", f"OperationDefinition/{row_id} is not known here."
        )
