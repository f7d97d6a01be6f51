"""Build the container image without an engine, and run the manual's Docker commands with it.

`python -m tests.tools.image`, as root on Debian; `.ci/run` calls it. The substitute for Docker is
stricter: the root file system is always read-only, and /tmp has 8 MB. Prints the image's size.
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

# Limit in MB above the base image, for fhirapp, its manual and its dependencies: SQLAlchemy takes
# 27, cryptography 15, the PostgreSQL driver 10, PDFium 9.
MAX_MB = 120
USER = 10001
WAIT_SECONDS = 60
MANUAL = ROOT / "fhirapp" / "features" / "manual" / "docs" / "clinic.md"
_PACKAGES = ("buildah", "mmdebstrap")
# The substitute where the Dockerfile's base image cannot be pulled: Debian's Python, without
# documentation and locales as in that image.
_SUITE, _INCLUDED = "trixie", "python3,python3-venv,ca-certificates"
_EXCLUDED = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "locale", "man")]
# Lets pip trust a local package proxy.
_TRUST = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
# Sets up a container and starts its PID 1; $0 is the root, the arguments are mounts and a command.
_ENTER = """
mount --bind "$0" "$0"; mount -o remount,ro,bind "$0"
mount -t tmpfs -o size=8m,mode=1777 tmpfs "$0/tmp"
mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"
while [ "$1" != -- ]; do mount --bind "$1" "$0$2"; shift 2; done
exec chroot --userspec="$2" "$0" env -i "${@:3}"
"""


def output_of(*words: str | Path, **options: Any) -> str:
    """Run a command and return its output. Raises CalledProcessError."""
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **options)
    return done.stdout.strip()


class Container:
    """A running container: its outer process, and its environment."""

    def __init__(self, process: subprocess.Popen[str], environment: Sequence[str]) -> None:
        self.process = process
        self.environment = environment

    @property
    def pid(self) -> str:
        """The PID outside the container of its PID 1."""
        until = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < until:
            number = self.process.pid
            if found := Path(f"/proc/{number}/task/{number}/children").read_text().split():
                return found[0]
            time.sleep(0.05)
        raise AssertionError("the container has no process")


class Docker:
    """The Docker commands of the manual, run on the files of an image."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.containers: dict[str, Container] = {}
        self.root = Path()
        self.config: dict[str, Any] = {}
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]

    def __call__(self, line: str) -> str:
        """Run a line, `docker build …`, run, exec or stop, and return its output."""
        print("$", line, flush=True)
        verb, *words = shlex.split(line)[1:]
        command: Callable[[list[str]], str] = getattr(self, verb)
        return command(words)

    def build(self, words: list[str]) -> str:
        """Build the image and mount its files."""
        (base,) = re.findall(r"^ARG BASE=(.*)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
        try:
            self._buildah("pull", "-q", f"docker.io/library/{base}", timeout=60)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            print(f"{base} cannot be pulled; Debian's Python replaces it", flush=True)
            base = self._base()
        self._buildah("bud", "-q", "--format", "docker", "--build-arg", f"BASE={base}", *words)
        self.root = self._mounted("fhirapp")
        self.config = json.loads(self._buildah("inspect", "--type", "image", "fhirapp"))["Docker"][
            "config"
        ]
        self._check_size(self._mounted(base))
        return ""

    def run(self, words: list[str]) -> str:
        """Run a command in a new container; `serve` runs in the background."""
        name, mounts, environment = "", [], list(self.config["Env"])
        while words[0].startswith("-"):
            option, *words = words
            if option in ("--rm", "-d"):
                continue
            value, *words = words
            if option == "--name":
                name = value
            elif option == "-v":
                mounts += self._mount(value)
            elif option == "-e":
                environment.append(value.replace("localhost:8000", f"127.0.0.1:{self.port}"))
            else:
                assert (option, value) == ("-p", "8000:8000"), option
                environment.append(f"FHIRAPP_PORT={self.port}")
        # Like Docker, create an anonymous volume if the line names none.
        for inside in set(self.config["Volumes"]) - set(mounts):
            mounts += self._mount(f"{name}{len(self.containers)}:{inside}")
        image, *words = words
        assert image == "fhirapp"
        words = self.config["Entrypoint"] + (words or self.config["Cmd"])
        process = subprocess.Popen(
            [
                *("unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-euc", _ENTER),
                *(str(self.root), *mounts, "--", self.config["User"], *environment),
                *("env", "-C", self.config["WorkingDir"], *words),
            ],
            stdout=subprocess.PIPE,
            stderr=(self.work / "log").open("w"),
            text=True,
        )
        if words[1] == "serve":
            self.containers[name or "demo"] = Container(process, environment)
            return ""
        output, _ = process.communicate()
        assert process.returncode == 0, (self.work / "log").read_text()
        return output

    def exec(self, words: list[str], **options: Any) -> str:
        """Run a command in a running container."""
        container = self.containers[words[0]]
        return output_of(
            *("nsenter", "--target", container.pid, "--mount", "--pid"),
            *("chroot", f"--userspec={self.config['User']}", self.root, "env", "-i"),
            *(*container.environment, *words[1:]),
            **options,
        )

    def stop(self, words: list[str]) -> str:
        """Stop a container, with the timeout of Docker."""
        container = self.containers.pop(words[0])
        os.kill(int(container.pid), signal.SIGTERM)
        code = container.process.wait(10)
        assert code == 0, f"it stopped with {code}: {(self.work / 'log').read_text()}"
        return ""

    def until_healthy(self, name: str) -> None:
        """Wait until the health check of the image passes."""
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
        """Kill the containers and unmount the images."""
        for container in self.containers.values():
            container.process.kill()
            container.process.wait()
        self._buildah("umount", "--all")

    def folder(self, name: str) -> Path:
        """Return the folder of a volume or of a host path, writable by the image's user."""
        folder = self.work / "volumes" / name.strip("/")
        if not folder.is_dir():
            folder.mkdir(0o700, parents=True)
            os.chown(folder, USER, USER)
        return folder

    def _mount(self, value: str) -> list[str]:
        outside, _colon, inside = value.partition(":")
        # An engine creates the mount point if the image has none.
        (self.root / inside[1:]).mkdir(exist_ok=True)
        return [str(self.folder(outside)), inside]

    def _base(self) -> str:
        archive = self.work / "base.tar"
        output_of(
            *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={_INCLUDED}", *_EXCLUDED),
            *(_SUITE, archive),
        )
        container = self._buildah("from", "scratch")
        self._buildah("add", "-q", container, str(archive), "/")
        archive.unlink()
        for file in filter(os.path.exists, _TRUST):
            self._buildah("copy", "-q", container, file, file)
        self._buildah("commit", "-q", "--rm", container, "base")
        return "localhost/base"

    def _mounted(self, image: str) -> Path:
        return Path(self._buildah("mount", self._buildah("from", "--pull-never", image)))

    def _buildah(self, verb: str, *words: str, **options: Any) -> str:
        store = (f"--root={self.work}/storage", f"--runroot={self.work}/run")
        environment = {"STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
        return output_of(
            *("buildah", *store, verb, *words), env={**os.environ, **environment}, **options
        )

    def _check_size(self, base: Path) -> None:
        size = _megabytes(self.root) - _megabytes(base)
        print(f"The image is {size} MB larger than its base; its largest packages:")
        (packages,) = self.root.glob("opt/fhirapp/lib/python3*/site-packages")
        sizes = sorted(((_megabytes(path), path.name) for path in packages.iterdir()), reverse=True)
        print("\n".join(f"{megabytes:5} {name}" for megabytes, name in sizes[:8]), flush=True)
        assert size <= MAX_MB
        for name in ("pip", "tests", ".ci", "node_modules", "gcc"):
            for part in ("app", "opt/fhirapp/bin", str(packages.relative_to(self.root))):
                assert not (self.root / part / name).exists(), f"{part}/{name} is in the image"


def _megabytes(path: Path) -> int:
    return int(output_of("du", "-sm", "--apparent-size", path).split()[0])


def lines() -> list[str]:
    """Return the manual's Docker commands, in the order of use."""
    found = re.findall(r"^docker .*", MANUAL.read_text(), re.MULTILINE)
    order = ("build", "run --rm -p", "run -d", "exec", "import", " backup ", "stop", " restore ")
    ordered = [line for part in order for line in found if part in line]
    assert sorted(ordered) == sorted(found)
    return ordered


def main() -> None:
    """Run the manual's commands, and check the effect of each."""
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
    print(docker(re.sub(r"fhirapp-\d{8}T\d{6}\.\d{6}Z\.backup", taken.name, restore)))
    docker(serve)
    docker.until_healthy("fhirapp")
    # A restore revokes all tokens.
    assert _count(docker, secret) == 401
    assert _count(docker, docker(token).strip()) == 1
    docker(stop)


def _count(docker: Docker, token: str) -> int:
    """Return the number of patients that a token finds, or the status of the error."""
    connection = HTTPConnection("127.0.0.1", docker.port, timeout=WAIT_SECONDS)
    connection.request("GET", "/fhir/Patient", headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    content = json.loads(answer.read())
    connection.close()
    return int(content["total"]) if answer.status == 200 else answer.status


if __name__ == "__main__":
    main()
