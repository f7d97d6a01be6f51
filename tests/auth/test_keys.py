"""The server's own keys: created once, by whichever process, readable by their owner only."""

from __future__ import annotations

import base64
import os
import re
import stat

import pytest

from fhirapp.config import ConfigurationError
from fhirapp.keys import derived_key, secret_key
from tests.support.racing import together

NAME = "secret.key"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_key_is_created_once_and_readable_by_its_owner_only(tmp_path):
    instance = tmp_path / "deep" / "instance"
    key = secret_key(instance)
    assert len(key) == 32
    assert secret_key(instance) == key
    assert mode(instance / NAME) == 0o600
    assert [path.name for path in instance.iterdir()] == [NAME]


def test_key_file_is_private_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        secret_key(tmp_path)
    finally:
        os.umask(before)
    assert mode(tmp_path / NAME) == 0o600


def test_secret_is_a_key_or_one_is_derived_from_it():
    key = bytes(range(32))
    assert derived_key(base64.b64encode(key).decode() + "\n") == key
    words = "correct horse battery staple, twice"
    made = derived_key(words)
    assert (len(made), made == derived_key(f" {words}\n")) == (32, True)
    # What has another length stands for itself.
    others = {derived_key(base64.b64encode(bytes(size)).decode()) for size in (24, 31, 33)}
    assert len({made, key, bytes(32), *others}) == 6


def test_each_instance_keeps_a_key_of_its_own(tmp_path):
    assert secret_key(tmp_path / "a") != secret_key(tmp_path / "b")
    (tmp_path / NAME).write_bytes(b"k" * 32)
    assert secret_key(tmp_path) == b"k" * 32


MAKE = """
import sys
from pathlib import Path
from fhirapp.keys import secret_key
print("ready", flush=True)
sys.stdin.readline()
print(secret_key(Path(sys.argv[1])).hex())
"""


@pytest.mark.process
def test_processes_that_start_together_get_the_same_key(tmp_path):
    made = set(together(MAKE, tmp_path))
    assert made == {secret_key(tmp_path).hex()}
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_temporary_file_of_a_crash_does_not_stop_the_start(tmp_path):
    """In a container the server has the same process number at every start."""
    (tmp_path / f"{NAME}.{os.getpid()}").write_bytes(b"half")
    assert len(secret_key(tmp_path)) == 32


def test_key_that_is_cut_short_is_refused(tmp_path):
    """With an empty key anybody could sign."""
    for content in (b"", b"short"):
        (tmp_path / NAME).write_bytes(content)
        with pytest.raises(ConfigurationError, match=NAME):
            secret_key(tmp_path)


def test_key_that_cannot_be_read_is_named_with_the_setting(tmp_path):
    (tmp_path / "folder" / NAME).mkdir(parents=True)
    (tmp_path / "file").write_text("a file, no folder")
    for instance in (tmp_path / "folder", tmp_path / "file"):
        with pytest.raises(ConfigurationError, match=re.escape(str(instance / NAME))) as raised:
            secret_key(instance)
        assert "FHIRAPP_INSTANCE_PATH" in str(raised.value)
