"""An S3 store on this machine: nanio, which checks each request's signature (PyPI)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

BUCKET = "clinic"
_KEY, _SECRET = "AKIDCLINIC", "s3cr3t-of-the-clinic"
_LONGEST_SECONDS = 60


class ObjectStore:
    """A store that can be stopped and started again at the same address, with what it holds."""

    def __init__(self, folder: Path) -> None:
        if find_spec("nanio") is None:
            pytest.skip("nanio, an S3 store, is not installed; pip install '.[test]' brings it")
        self.folder = folder
        (folder / BUCKET).mkdir(parents=True)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that a server needs to reach it."""
        return {
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
        }

    def names(self) -> list[str]:
        """Return the names of all that is in the bucket."""
        bucket = self.folder / BUCKET
        found = (path.relative_to(bucket).as_posix() for path in bucket.rglob("*"))
        return sorted(name for name in found if (bucket / name).is_file() and name[0] != ".")

    def start(self) -> None:
        """Start it; it answers when this returns."""
        command = [sys.executable, "-m", "nanio", "serve", "--data-dir", str(self.folder)]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--log-level", "error"]
        self._process = subprocess.Popen(
            [*command, "--no-access-log"],
            env={**os.environ, "NANIO_ACCESS_KEY": _KEY, "NANIO_SECRET_KEY": _SECRET},
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + _LONGEST_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert self._process.poll() is None, "the store did not start"
                assert time.monotonic() < deadline, "the store does not answer"
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """Stop it at once."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(_LONGEST_SECONDS)
            self._process = None
