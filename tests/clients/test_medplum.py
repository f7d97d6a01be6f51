"""A validator that nobody here wrote, @medplum/core, finds no fault in any answer of the real
server: against FHIR R4, and against the US Core profiles that resources claim.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["tests.support.live"]

US_CORE = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-"
# It cannot read the slices of this one: "Invalid slice start before discriminator".
UNREADABLE = f"{US_CORE}provenance"

ALLERGY = "AllergyIntolerance/al-p1-penicillin"
DOCUMENT = "DocumentReference/doc-p1-progress-2023"
PAGE = "AllergyIntolerance?_count=1000&_revinclude=Provenance:target"

PROFILE = re.compile(r"package/StructureDefinition-us-core-.+\.json")
GONE = object()
Issues = list[tuple[str, str]]


@pytest.fixture(scope="module")
def issues_of(node: Callable[[str, object], Any]) -> Callable[..., list[Issues]]:
    """Return what gives the issues of each resource, by path, against a profile or none."""

    def run(checks: Sequence[tuple[Any, int | None]], profiles: Sequence[Any] = ()) -> list[Issues]:
        found = node("validate.mjs", {"profiles": profiles, "checks": checks})
        assert len(found) == len(checks)
        return [[(path, text) for path, text in issues] for issues in found]

    return run


def faults(paths: Sequence[str], found: Sequence[Issues]) -> dict[str, Issues]:
    """Return the issues by the path of the answer that has them."""
    return {path: one for path, one in zip(paths, found, strict=True) if one}


def test_validator_finds_documents_without_content_and_no_other_fault(
    issues_of, demo, complete_demo
):
    """decisions 2.12: service.md wants these so, FHIR wants at least one content; a setting."""
    bodies = [*complete_demo.answers.values(), *demo.answers.values()]
    found = issues_of([(json.loads(body), None) for body in bodies])
    split = len(complete_demo.answers)
    assert faults([*complete_demo.answers], found[:split]) == {}
    lacking = faults([*demo.answers], found[split:])
    # The history of all types has such documents too, if they are the newest.
    of_documents = ("DocumentReference", "_history")
    assert {path for path in lacking if not path.startswith(of_documents)} == set()
    assert {
        (at.rpartition(".")[2], text) for issues in lacking.values() for at, text in issues
    } == {("content", "Missing required property")}


@pytest.fixture(scope="module")
def us_core(shared: Path) -> list[dict[str, Any]]:
    """The profiles of US Core 6.1.0, and those of 8.0.0: by canonical."""
    folder = shared / "data" / "us-core"
    return [profiles_in(folder / f"us_core_{version}.tgz") for version in ("610", "800")]


def profiles_in(package: Path) -> dict[str, Any]:
    """Return the profiles in a package, by canonical."""
    with tarfile.open(package) as archive:
        named = [member for member in archive if PROFILE.fullmatch(member.name)]
        profiles = [json.load(archive.extractfile(member) or BytesIO()) for member in named]
    return {profile["url"]: profile for profile in profiles}


def test_resources_keep_the_profiles_that_they_claim(issues_of, us_core, complete_demo):
    claimed = [
        (path, resource, canonical)
        for path, body in complete_demo.answers.items()
        # Not again for each version of the past.
        if path.count("/") == 1
        for resource in [json.loads(body)]
        for canonical in resource.get("meta", {}).get("profile", ())
        if canonical != UNREADABLE
    ]
    names = sorted({canonical for _, _, canonical in claimed})
    assert {f"{US_CORE}allergyintolerance", f"{US_CORE}documentreference"} <= set(names)
    # Of advance directives only the later package has one.
    asked = [(package, name) for package in us_core for name in names if name in package]
    assert len(asked) == 2 * len(names) - 1
    checks, paths = [], []
    for place, (_, name) in enumerate(asked):
        for path, resource, canonical in claimed:
            if canonical == name:
                checks.append((resource, place))
                paths.append(path)
    assert faults(paths, issues_of(checks, [package[name] for package, name in asked])) == {}


def planted(*keys: str | int, value: Any = GONE) -> Callable[[Any], None]:
    """Return what puts a value at a place in a resource, or takes away the one that is there."""

    def change(resource: Any) -> None:
        *way, last = keys
        for key in way:
            resource = resource[key]
        if value is GONE:
            del resource[last]
        else:
            resource[last] = value

    return change


AIT_1 = (
    "Constraint ait-1 not met: AllergyIntolerance.clinicalStatus SHALL be present if"
    " verificationStatus is not entered-in-error."
)
MISSING = "Missing required property"
# The answer, the fault planted in it, and where and as what it must be found.
FAULTS = [
    (ALLERGY, planted("patient"), "AllergyIntolerance.patient", MISSING),
    (ALLERGY, planted("clinicalStatus"), "AllergyIntolerance", AIT_1),
    (DOCUMENT, planted("status"), "DocumentReference.status", MISSING),
    (
        PAGE,
        planted("entry", 3, "resource", "code", "text", value=" "),
        "Bundle.entry[3].resource.code.text",
        "String must contain non-whitespace content",
    ),
]


def with_fault(answers: Mapping[str, bytes], path: str, plant: Callable[[Any], None]) -> Any:
    """Return an answer with a fault planted in it."""
    resource = json.loads(answers[path])
    plant(resource)
    return resource


def test_validator_finds_planted_faults(issues_of, demo):
    checks = [(with_fault(demo.answers, path, plant), None) for path, plant, _, _ in FAULTS]
    assert issues_of(checks) == [[(at, text)] for _, _, at, text in FAULTS]
