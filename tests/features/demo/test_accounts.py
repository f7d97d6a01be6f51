"""The key of the demo's backend: created once, by whichever process, readable by its owner only."""

from __future__ import annotations

import pytest

from fhirapp.features.demo.accounts import DEMO_KEY, demo_key
from tests.support.racing import together


def test_demo_key_is_a_key_for_es384(tmp_path):
    key = demo_key(tmp_path)
    assert demo_key(tmp_path) == key
    kind = {"kty": "EC", "crv": "P-384", "alg": "ES384", "use": "sig"}
    assert {name: key[name] for name in kind} == kind
    assert key["kid"]
    assert (tmp_path / DEMO_KEY).stat().st_mode & 0o777 == 0o600


MAKE = """
import sys
from pathlib import Path
from fhirapp.features.demo.accounts import demo_key
print("ready", flush=True)
sys.stdin.readline()
print(demo_key(Path(sys.argv[1]))["d"])
"""


@pytest.mark.process
def test_processes_that_start_together_get_the_same_key(tmp_path):
    made = set(together(MAKE, tmp_path))
    assert made == {demo_key(tmp_path)["d"]}
    assert [path.name for path in tmp_path.iterdir()] == [DEMO_KEY]
