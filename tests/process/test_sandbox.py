"""The document reader can reach nothing else: a worker tries each way out.

Each try is a process that confines itself as the worker does, and then calls the system as code
that a document brought could: by the C library, or by the number of the call.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")

# Reads how to confine a process and attempts, as JSON; prints what each says in a child that is
# confined so.
_TRY = """
import ctypes, json, os, sys
import socket, signal, threading, subprocess, time, resource
from fhirapp.documents.confine import confine, confine_program
libc = ctypes.CDLL(None, use_errno=True)
parent = os.getpid()
def call(result):
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
def try_confined(confined, attempt):
    exec(confined)
    try:
        exec(attempt)
    except (OSError, RuntimeError, ValueError) as error:
        os.write(1, type(error).__name__.encode())
        os._exit(0)
    os.write(1, b"IT WENT")
    os._exit(0)
confined, attempts = json.load(sys.stdin)
found = {}
for name, attempt in attempts.items():
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(writing, 1)
        try:
            try_confined(confined, attempt)
        finally:
            os._exit(1)
    os.close(writing)
    with open(reading, "rb") as result:
        found[name] = result.read().decode()
    assert os.waitpid(pid, 0)[1] == 0, name
print(json.dumps(found))
"""

ATTEMPTS: Mapping[str, str] = {
    "read a file": "os.open('/etc/passwd', os.O_RDONLY)",
    "write a file": "os.open('/tmp/fhirapp-was-here', os.O_CREAT | os.O_WRONLY)",
    "remove a file": "os.unlink('/tmp/fhirapp-is-not-here')",
    "make a folder": "os.mkdir('/tmp/fhirapp-was-here')",
    "list a folder": "os.listdir('/')",
    "follow a link": "os.readlink('/proc/self/exe')",
    "change a mode": "os.chmod('/tmp', 0o1777)",
    "the parent's memory by /proc": "os.open(f'/proc/{parent}/mem', os.O_RDWR)",
    "the parent's memory by process_vm_readv": "call(libc.process_vm_readv(parent, 0, 0, 0, 0, 0))",
    "the parent's memory by process_vm_writev": "call(libc.syscall(311, parent, 0, 0, 0, 0, 0))",
    "trace the parent": "call(libc.ptrace(16, parent, 0, 0))",
    "a file of the parent by pidfd": "call(libc.syscall(434, parent, 0))",
    "end the parent": "os.kill(parent, 0)",
    "a connection": "socket.socket()",
    "a local connection": "socket.socket(socket.AF_UNIX)",
    "a pair of sockets": "socket.socketpair()",
    "a process": "os.fork()",
    "a command": "subprocess.run(['/bin/true'])",
    "another program": "os.execv('/bin/true', ['true'])",
    "a thread": "threading.Thread(target=print).start()",
    "a pipe": "os.pipe()",
    "another copy of a file": "os.dup(0)",
    "a file in memory": "os.memfd_create('x')",
    "root": "os.setuid(0)",
    "another name space": "call(libc.unshare(0x10000000))",
    "a mount": "call(libc.mount(b'none', b'/tmp', b'tmpfs', 0, None))",
    "another root": "os.chroot('/')",
    "another filter": "call(libc.prctl(22, 2, 0))",
    "a driver of the kernel": "call(libc.syscall(425, 1, 0))",
    "a program in the kernel": "call(libc.syscall(321, 0, 0, 0))",
    "keys of the kernel": "call(libc.syscall(250, 0, 0, 0, 0, 0))",
    "more memory": "__import__('resource').prlimit(parent, 9)",
    "shared memory": "call(libc.shmget(0, 4096, 0o1600))",
    "the clock": "__import__('time').clock_settime(0, 0)",
    "a limit that was lowered": "__import__('resource').setrlimit(7, (10, 10))",
    "the name of the machine": "__import__('socket').sethostname('x')",
    "a 32-bit call": "call(libc.syscall(0x40000000 | 2, b'/etc/passwd', 0))",
}


def results_of(confined: str) -> dict[str, str]:
    """Return what confined processes say of each attempt."""
    done = subprocess.run(
        [sys.executable, "-c", _TRY],
        input=json.dumps([confined, ATTEMPTS]),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]
    return json.loads(done.stdout)


_REFUSALS = {"PermissionError", "OSError", "RuntimeError", "ValueError"}


def test_confined_worker_is_refused_every_way_out():
    result = results_of("lacking = confine(512); assert not lacking, lacking")
    assert result.keys() == ATTEMPTS.keys()
    assert {name: answer for name, answer in result.items() if answer not in _REFUSALS} == {}


# Attempts that Tesseract may make, and those that only Landlock refuses.
_ITS_OWN = {"another copy of a file", "a pipe", "a file in memory", "follow a link"}
_ITS_OWN |= {"another filter", "shared memory", "a limit that was lowered"}
_LANDLOCK = {"read a file", "list a folder", "another program"}
_OCR = "confine_program(1024, 60, 4_000_000, readable=[])"
# As on an old kernel, or in a container that does not know the call.
_NO_LANDLOCK = (
    "import errno, seccompy\ncalls = seccompy.Filter()\n"
    "calls.errno('landlock_create_ruleset', errno.ENOSYS)\ncalls.load()\n"
)


def test_confined_ocr_program_is_refused_every_way_out():
    result = results_of(_OCR)
    others = {name: answer for name, answer in result.items() if name not in _ITS_OWN}
    assert {name: answer for name, answer in others.items() if answer not in _REFUSALS} == {}
    assert result["a pipe"] == "IT WENT"


def test_ocr_program_of_root_becomes_another_user_where_landlock_is_missing():
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    result = results_of(f"{_NO_LANDLOCK}{_OCR}\nassert os.getuid() == 64999")
    others = {name for name, answer in result.items() if answer not in _REFUSALS}
    assert others - _ITS_OWN == _LANDLOCK


def test_ocr_program_of_another_user_is_refused_where_landlock_is_missing():
    other_user = "if os.getuid() == 0: os.setresuid(1000, 1000, 1000)\n"
    refused = f"try: {_OCR}\nexcept PermissionError: os.write(1, b'NOT RUN'), os._exit(0)"
    result = results_of(_NO_LANDLOCK + other_user + refused)
    assert set(result.values()) == {"NOT RUN"}


def test_worker_of_root_runs_as_an_unprivileged_user():
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    script = (
        "from fhirapp.documents.confine import confine\nimport os\nconfine(512)\n"
        "os.write(1, f'{os.getpid()}'.encode())\nos.read(0, 1)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        pid = os.read(process.stdout.fileno(), 20)
        status = Path(f"/proc/{int(pid)}/status").read_text()
        process.stdin.close()
    facts = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    assert facts["Uid"].split() == facts["Gid"].split() == ["64999"] * 4
    assert facts["Groups"].strip() == ""
    assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")
