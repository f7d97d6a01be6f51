"""Build the Dockerfile without an engine, and run the manual's lines for Docker with that image.

`python -m tests.image`, as root on Debian: `.ci/run` does. Its stand-in for Docker is stricter: the
root cannot be written whether a line says so or not, and /tmp has eight megabytes. Prints how large
the image is.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests import ROOT

# In MB above its base: fhirapp with its manual, and what pyproject.toml names. Of that SQLAlchemy
# takes 27 and cryptography 15; PostgreSQL's driver 10, the reader of PDF 9.
MOST_MB = 120
USER = 10001
WAIT_SECONDS = 60
MANUAL = ROOT / "fhirapp" / "docs" / "clinic.md"
_PACKAGES = ("buildah", "mmdebstrap")
# Debian's Python, where the base that the Dockerfile names cannot be pulled; like that one it has
# neither documentation nor other languages.
_SUITE, _INCLUDED = "trixie", "python3,python3-venv,ca-certificates"
_LEFT_OUT = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "locale", "man")]
# Where packages come through a proxy of the house, pip has to trust that.
_TRUST = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
# What an engine does before a container's first process, as its PID 1; $0 is the root.
_ENTER = """
mount --bind "$0" "$0"; mount -o remount,ro,bind "$0"
mount -t tmpfs -o size=8m,mode=1777 tmpfs "$0/tmp"
mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"
while [ "$1" != -- ]; do mount --bind "$1" "$0$2"; shift 2; done
exec chroot --userspec="$2" "$0" env -i "${@:3}"
"""


def told(*words: str | Path, **options: Any) -> str:
    """Return what a command prints. Raises CalledProcessError."""
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **options)
    return done.stdout.strip()


class Container:
    """What runs, and with which environment."""

    def __init__(self, process: subprocess.Popen[str], environment: Sequence[str]) -> None:
        self.process = process
        self.environment = environment

    @property
    def first(self) -> str:
        """The number of its PID 1, for those outside."""
        until = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < until:
            number = self.process.pid
            if found := Path(f"/proc/{number}/task/{number}/children").read_text().split():
                return found[0]
            time.sleep(0.05)
        raise AssertionError("the container has no process")


class Docker:
    """What the manual asks of Docker, done with an image's files alone."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.containers: dict[str, Container] = {}
        self.root = Path()
        self.config: dict[str, Any] = {}
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]

    def __call__(self, line: str) -> str:
        """Do what a line says: `docker build …`, run, exec, stop; return what it prints."""
        print("$", line, flush=True)
        verb, *words = shlex.split(line)[1:]
        does: Callable[[list[str]], str] = getattr(self, verb)
        return does(words)

    def build(self, words: list[str]) -> str:
        """Build an image, and open its files."""
        (base,) = re.findall(r"^ARG BASE=(.*)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
        try:
            self._buildah("pull", "-q", f"docker.io/library/{base}", timeout=60)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            print(f"{base} cannot be pulled here; Debian's Python stands for it", flush=True)
            base = self._base()
        self._buildah("bud", "-q", "--format", "docker", "--build-arg", f"BASE={base}", *words)
        self.root = self._opened("fhirapp")
        self.config = json.loads(self._buildah("inspect", "--type", "image", "fhirapp"))["Docker"][
            "config"
        ]
        self._look_at_size(self._opened(base))
        return ""

    def run(self, words: list[str]) -> str:
        """Run a command in a container of its own; with -d, or to serve, beside us."""
        name, places, environment = "", [], list(self.config["Env"])
        while words[0].startswith("-"):
            option, *words = words
            if option in ("--rm", "-d"):
                continue
            value, *words = words
            if option == "--name":
                name = value
            elif option == "-v":
                places += self._place(value)
            elif option == "-e":
                environment.append(value.replace("localhost:8000", f"127.0.0.1:{self.port}"))
            else:
                assert (option, value) == ("-p", "8000:8000"), option
                environment.append(f"FHIRAPP_PORT={self.port}")
        # As Docker does: one without a name, where the line names none.
        for inside in set(self.config["Volumes"]) - set(places):
            places += self._place(f"{name}{len(self.containers)}:{inside}")
        image, *words = words
        assert image == "fhirapp"
        words = self.config["Entrypoint"] + (words or self.config["Cmd"])
        process = subprocess.Popen(
            [
                *("unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-euc", _ENTER),
                *(str(self.root), *places, "--", self.config["User"], *environment),
                *("env", "-C", self.config["WorkingDir"], *words),
            ],
            stdout=subprocess.PIPE,
            stderr=(self.work / "log").open("w"),
            text=True,
        )
        if words[1] == "serve":
            self.containers[name or "demo"] = Container(process, environment)
            return ""
        said, _ = process.communicate()
        assert process.returncode == 0, (self.work / "log").read_text()
        return said

    def exec(self, words: list[str], **options: Any) -> str:
        """Run a command in a container that runs."""
        one = self.containers[words[0]]
        return told(
            *("nsenter", "--target", one.first, "--mount", "--pid"),
            *("chroot", f"--userspec={self.config['User']}", self.root, "env", "-i"),
            *(*one.environment, *words[1:]),
            **options,
        )

    def stop(self, words: list[str]) -> str:
        """Ask a container to stop, and wait as long as Docker does."""
        one = self.containers.pop(words[0])
        os.kill(int(one.first), signal.SIGTERM)
        code = one.process.wait(10)
        assert code == 0, f"it stopped with {code}: {(self.work / 'log').read_text()}"
        return ""

    def until_healthy(self, name: str) -> None:
        """Wait until the image's own check says so."""
        kind, *check = self.config["Healthcheck"]["Test"]
        assert kind == "CMD"
        until = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                self.exec([name, *check], stderr=subprocess.DEVNULL)
                return
            except subprocess.CalledProcessError:
                assert time.monotonic() < until, (self.work / "log").read_text()
                time.sleep(0.2)

    def close(self) -> None:
        """Kill what runs, and close the files."""
        for one in self.containers.values():
            one.process.kill()
            one.process.wait()
        self._buildah("umount", "--all")

    def folder(self, name: str) -> Path:
        """Return a volume, or a folder of the machine that the image's user may write."""
        place = self.work / "places" / name.strip("/")
        if not place.is_dir():
            place.mkdir(0o700, parents=True)
            os.chown(place, USER, USER)
        return place

    def _place(self, value: str) -> list[str]:
        outside, _colon, inside = value.partition(":")
        # An engine makes the folder where the image has none.
        (self.root / inside[1:]).mkdir(exist_ok=True)
        return [str(self.folder(outside)), inside]

    def _base(self) -> str:
        archive = self.work / "base.tar"
        told(
            *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={_INCLUDED}", *_LEFT_OUT),
            *(_SUITE, archive),
        )
        container = self._buildah("from", "scratch")
        self._buildah("add", "-q", container, str(archive), "/")
        archive.unlink()
        for file in filter(os.path.exists, _TRUST):
            self._buildah("copy", "-q", container, file, file)
        self._buildah("commit", "-q", "--rm", container, "base")
        return "localhost/base"

    def _opened(self, image: str) -> Path:
        return Path(self._buildah("mount", self._buildah("from", "--pull-never", image)))

    def _buildah(self, verb: str, *words: str, **options: Any) -> str:
        store = (f"--root={self.work}/storage", f"--runroot={self.work}/run")
        environment = {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
        return told(
            *("buildah", *store, verb, *words), env={**os.environ, **environment}, **options
        )

    def _look_at_size(self, base: Path) -> None:
        size = _megabytes(self.root) - _megabytes(base)
        print(f"The image is {size} MB larger than its base; the most of it:")
        (packages,) = self.root.glob("opt/fhirapp/lib/python3*/site-packages")
        sizes = sorted(((_megabytes(one), one.name) for one in packages.iterdir()), reverse=True)
        print("\n".join(f"{megabytes:5} {name}" for megabytes, name in sizes[:8]), flush=True)
        assert size <= MOST_MB
        for name in ("pip", "tests", ".ci", "node_modules", "gcc"):
            for part in ("app", "opt/fhirapp/bin", str(packages.relative_to(self.root))):
                assert not (self.root / part / name).exists(), f"{part}/{name} is in the image"


def _megabytes(path: Path) -> int:
    return int(told("du", "-sm", "--apparent-size", path).split()[0])


def lines() -> list[str]:
    """Return the manual's lines for Docker, in its order of use."""
    found = re.findall(r"^docker .*", MANUAL.read_text(), re.MULTILINE)
    order = ("build", "run --rm -p", "run -d", "exec", "import", " backup ", "stop", " restore ")
    ordered = [line for part in order for line in found if part in line]
    assert sorted(ordered) == sorted(found)
    return ordered


def main() -> None:
    """Do what the manual says, and look after each line."""
    if missing := [name for name in (*_PACKAGES, "nsenter") if shutil.which(name) is None]:
        sys.exit(f"{', '.join(missing)}: install Debian's {' '.join(_PACKAGES)} and util-linux")
    with tempfile.TemporaryDirectory() as folder:
        docker = Docker(Path(folder))
        try:
            _use(docker)
        finally:
            docker.close()


def _use(docker: Docker) -> None:
    build, demo, serve, token, import_, backup, stop, restore = lines()
    docker(build)

    docker(demo)
    docker.until_healthy("demo")
    assert _count(docker, "") == 401
    docker.stop(["demo"])

    docker(serve)
    docker.until_healthy("fhirapp")
    secret = docker(token).strip()
    assert _count(docker, secret) == 0
    record = {"resourceType": "Patient", "id": "one", "name": [{"family": "Example"}]}
    (docker.folder("/srv/records") / "Patient.ndjson").write_text(json.dumps(record) + "\n")
    print(docker(import_))
    assert _count(docker, secret) == 1

    print(docker(backup))
    (taken,) = docker.folder("/srv/backups").iterdir()
    docker(stop)
    print(docker(re.sub(r"fhirapp-\d{8}T\d{6}Z\.backup", taken.name, restore)))
    docker(serve)
    docker.until_healthy("fhirapp")
    # Tokens end with a restore.
    assert _count(docker, secret) == 401
    assert _count(docker, docker(token).strip()) == 1
    docker(stop)


def _count(docker: Docker, token: str) -> int:
    """Return how many patients a token finds; the status where it may not ask."""
    connection = HTTPConnection("127.0.0.1", docker.port, timeout=WAIT_SECONDS)
    connection.request("GET", "/fhir/Patient", headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    content = json.loads(answer.read())
    connection.close()
    return int(content["total"]) if answer.status == 200 else answer.status


if __name__ == "__main__":
    main()
