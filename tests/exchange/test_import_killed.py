"""Power loss: an import is killed at random moments, and run again."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Any

from tests.support.effort import LONG, sample
from tests.support.shell import ROOT, environment

KILLS = sample(12, 200)


def records() -> list[dict[str, Any]]:
    """Patients, allergies of which some come twice, documents with notes, in no good order."""
    patients = [{"resourceType": "Patient", "id": f"p{n}"} for n in range(8)]
    doctors = [
        {
            "resourceType": "Practitioner",
            "id": f"dr{n}",
            "identifier": [{"system": "http://npi.example", "value": str(n)}],
        }
        for n in range(3)
    ]
    allergies = [
        {
            "resourceType": "AllergyIntolerance",
            "id": f"a{n}",
            "criticality": criticality,
            "patient": {"reference": f"Patient/p{n % 8}"},
            "recorder": {"reference": f"Practitioner?identifier=http://npi.example|{n % 3}"},
        }
        for criticality in ("low", "high")
        for n in range(30 if criticality == "low" else 10)
    ]
    notes = [
        {
            "resourceType": "DocumentReference",
            "id": f"d{n}",
            "status": "current",
            "subject": {"reference": f"Patient/p{n % 8}"},
            "content": [
                {
                    "attachment": {
                        "contentType": "text/plain",
                        "data": base64.b64encode(f"Note {n} of penicillin".encode()).decode(),
                    }
                }
            ],
        }
        for n in range(30)
    ]
    return [*allergies, *notes, *doctors, *patients]


def test_an_import_that_is_killed_anywhere_is_as_if_nothing_had_happened(tmp_path):
    folder = tmp_path / "records"
    folder.mkdir()
    everything = [json.dumps(one) for one in records()]
    for part in range(3):
        (folder / f"{part}.ndjson").write_text("\n".join(everything[part * 40 : part * 40 + 40]))
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.killed", str(tmp_path), str(KILLS)],
        cwd=ROOT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["killed"] >= KILLS
    assert found["ended"] > (5 if LONG else 0)
    assert found["faults"] == []
    assert found["differing"] == []
