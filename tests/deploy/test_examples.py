"""The manual's unit of systemd, its Compose file, its Kubernetes manifests: valid, and of use."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import compose_spec
import kubernetes_validate
import pytest
import yaml

from fhirapp.environment import check_listening, load_settings
from tests import ROOT
from tests.support.proxies import examples, program
from tests.support.serving import Server, get, listening_port
from tests.support.shell import environment

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
# Where the manual installs it.
INSTALLED = "/opt/fhirapp/bin/fhirapp"
# The release whose objects are known to the validator in this version.
KUBERNETES = kubernetes_validate.latest_version()


def of_image(pattern: str) -> str:
    """Return what the Dockerfile says."""
    found = re.search(pattern, DOCKERFILE, re.MULTILINE)
    assert found, pattern
    return found[1]


@pytest.fixture(scope="module")
def unit() -> str:
    (found,) = examples("systemd", "ini")
    return found


def values(unit: str, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", unit, re.MULTILINE)


def test_systemd_understands_the_unit(unit, tmp_path):
    path = tmp_path / "fhirapp.service"
    path.write_text(unit.replace(INSTALLED, program("true")))
    done = subprocess.run(
        [program("systemd-analyze"), "verify", path], capture_output=True, text=True, check=False
    )
    # Other units of the machine are none of ours.
    assert "fhirapp.service" not in done.stdout + done.stderr
    path.write_text(unit.replace("ProtectSystem=strict", "ProtectSystem=nonsense"))
    done = subprocess.run(
        [program("systemd-analyze"), "verify", path], capture_output=True, text=True, check=False
    )
    assert "Failed to parse protect system value" in done.stderr


def test_systemd_finds_little_left_to_take_from_the_unit(unit, tmp_path):
    path = tmp_path / "fhirapp.service"
    path.write_text(unit)
    # From 0 (no rights) to 100.
    words = [program("systemd-analyze"), "security", "--offline=true", "--threshold=25", path]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_unit_sets_what_a_server_behind_a_proxy_needs(unit):
    environ = dict(line.split("=", 1) for line in values(unit, "Environment"))
    settings = load_settings(environ)
    check_listening(settings)
    assert str(settings.instance) == f"/var/lib/{values(unit, 'StateDirectory')[0]}"
    assert settings.proxies
    assert values(unit, "ExecStart") == [f"{INSTALLED} serve"]


_FILTERED = """
import errno, os, sys
from contextlib import suppress
import seccompy

calls = seccompy.Filter(seccompy.Action.ERRNO | errno.EPERM)
for name in sys.argv[1].split():
    with suppress(ValueError, LookupError):
        calls.allow(name)
calls.load()
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.fixture(scope="module")
def calls(unit: str) -> str:
    """The calls of the system that the unit allows, by their names."""

    def of(group: str) -> Iterator[str]:
        if not group.startswith("@"):
            yield group
            return
        words = [program("systemd-analyze"), "syscall-filter", group]
        listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        for line in listed.splitlines()[1:]:
            if (name := line.strip()) and not name.startswith("#"):
                yield from of(name)

    (wanted,) = values(unit, "SystemCallFilter")
    # systemd adds these by itself.
    return " ".join({name for group in ("@default", *wanted.split()) for name in of(group)})


def test_the_server_runs_with_the_calls_that_the_unit_allows(calls, tmp_path):
    pytest.importorskip("seccompy", reason="only Linux has seccomp").supported()
    command = [sys.executable, "-c", _FILTERED, calls, sys.executable, "-P", "-m", "fhirapp"]
    environ = environment(tmp_path, PROCESSES="1")
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [*command, "serve", "--port", "0"], env=environ, stdout=file, stderr=file, text=True
        )
    try:
        server = Server(process, listening_port(process, log))
        for path in ("/health/ready", "/fhir/metadata", "/sign-in"):
            assert server.ask(get(path))[0].status == 200
        done = subprocess.run(
            [*command, "doctor", "--quick", "--json"],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        process.terminate()
        status = process.wait()
    assert status == 0, log.read_text()
    found = {finding["what"]: finding for finding in map(json.loads, done.stdout.splitlines())}
    # Its reader confines itself, for which it needs a call more than systemd's own group has.
    assert found["Documents"]["words"] == "The process that reads documents is sandboxed."


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    (text,) = examples("Compose", "yaml")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def test_the_compose_file_is_as_the_specification_has_it():
    (text,) = examples("Compose", "yaml")
    compose_spec.PyCompose.from_yaml(text).validate()
    for right, wrong in (("read_only:", "read-only:"), ("172.30.0.0/24", "the network")):
        assert right in text
        with pytest.raises(ValueError, match=r"^(services|networks)"):
            compose_spec.PyCompose.from_yaml(text.replace(right, wrong))


def test_the_compose_file_fits_the_image_and_its_proxy(compose):
    service, proxy = compose["services"]["fhirapp"], compose["services"]["caddy"]
    settings = load_settings(service["environment"], host=of_image(r"FHIRAPP_HOST=(\S+)"))
    check_listening(settings)
    (network,) = compose["networks"]["inside"]["ipam"]["config"]
    assert [str(proxy_network) for proxy_network in settings.proxies] == [network["subnet"]]
    assert service["networks"] == proxy["networks"] == ["inside"]
    assert f"records:{of_image(r'^VOLUME (.*)')}" in service["volumes"]
    assert f"--to fhirapp:{of_image(r'^EXPOSE (.*)')}" in proxy["command"]
    assert settings.base_url.partition("://")[2] in proxy["command"]
    # Its health is the image's to tell.
    assert proxy["depends_on"]["fhirapp"]["condition"] == "service_healthy"
    assert "HEALTHCHECK" in DOCKERFILE
    volumes = [
        volume.partition(":")[0]
        for container in (service, proxy)
        for volume in container["volumes"]
    ]
    assert sorted(volumes) == sorted(compose["volumes"])


@pytest.fixture(scope="module", params=[0, 1], ids=["one server", "several"])
def manifests(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The objects of an example, by their kind."""
    found = yaml.safe_load_all(examples("Kubernetes", "yaml")[request.param])
    return {manifest["kind"]: manifest for manifest in found}


def test_kubernetes_knows_every_field(manifests):
    for manifest in manifests.values():
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    wrong = json.loads(json.dumps(manifests["Deployment"]))
    wrong["spec"]["template"]["spec"]["containers"][0]["readyProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES, strict=True)


def test_the_objects_fit_each_other_and_the_image(manifests):
    deployment = manifests["Deployment"]["spec"]
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == labels
    assert manifests["Service"]["spec"]["selector"] == labels
    (port,) = container["ports"]
    assert str(port["containerPort"]) == of_image(r"^EXPOSE (.*)")
    (served,) = manifests["Service"]["spec"]["ports"]
    probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")]
    assert {served["targetPort"], *(probe["port"] for probe in probes)} == {port["name"]}
    assert [probe["path"] for probe in probes] == ["/health/live", "/health/live", "/health/ready"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in pod["volumes"]}
    assert of_image(r"^VOLUME (.*)") in mounts.values()
    claims = [
        volume["persistentVolumeClaim"] for volume in pod["volumes"] if "emptyDir" not in volume
    ]
    assert [claim["claimName"] for claim in claims] == [
        manifests["PersistentVolumeClaim"]["metadata"]["name"]
    ]
    user = str(pod["securityContext"]["runAsUser"])
    assert f"{user}:{pod['securityContext']['runAsGroup']}" == of_image(r"^USER (.*)")


def test_the_servers_of_kubernetes_start_with_these_settings(manifests):
    deployment = manifests["Deployment"]["spec"]
    (container,) = deployment["template"]["spec"]["containers"]
    settings = load_settings(
        _environ(container, manifests.get("Secret")), host=of_image(r"FHIRAPP_HOST=(\S+)")
    )
    check_listening(settings)
    assert settings.proxies
    if deployment["replicas"] == 1:
        assert settings.database_uri.startswith("sqlite:")
        assert deployment["strategy"]["type"] == "Recreate"
        assert manifests["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteOnce"]
    else:
        assert settings.database_uri.startswith("postgresql+psycopg:")
        assert len(settings.secret) >= 32
        assert settings.files in [mount["mountPath"] for mount in container["volumeMounts"]]
        assert manifests["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]
        assert manifests["PodDisruptionBudget"]["spec"]["minAvailable"] < deployment["replicas"]


def _environ(container: Mapping[str, Any], secret: Mapping[str, Any] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for variable in container["env"]:
        if "value" in variable:
            found[variable["name"]] = variable["value"]
        else:
            named = variable["valueFrom"]["secretKeyRef"]
            assert secret is not None
            assert named["name"] == secret["metadata"]["name"]
            found[variable["name"]] = secret["stringData"][named["key"]]
    return found
