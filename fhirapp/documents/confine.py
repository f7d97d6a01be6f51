"""What the process that reads documents gives up before it sees one.

A document may be made to break its reader. What runs in that process then can open no file and no
connection, start no process, see no other's memory, send no signal and get nothing back: the kernel
refuses every call but those that reading needs (seccomp). As root it becomes a user whom nothing
belongs to.

Tesseract opens files of its own, so it is started with fewer restrictions:
`python -P …/confine.py MEGABYTES SECONDS BYTES PROGRAM ARGUMENT…`, BYTES for its answer. Landlock
leaves it the libraries and languages alone. Without Landlock only root can start it, as a user
whom the server's files are closed to; else the exit status is EX_NOPERM.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import stat
import struct
import sys
from contextlib import suppress
from pathlib import Path

# Unprivileged UID, which cannot read files of the server's user or of others.
UID = 64_999
# What the interpreter, its memory and its threads call while a document is read. All else fails
# with EPERM; libraries that ask for more get an error as from a system that lacks it.
_CALLS = (
    *("read", "write", "readv", "writev", "close", "lseek", "fstat", "newfstatat", "poll", "ppoll"),
    *("mmap", "munmap", "mremap", "mprotect", "madvise", "brk", "futex", "futex_waitv"),
    *("rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall"),
    *("clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time"),
    *("getrandom", "getpid", "gettid", "getrusage", "sched_yield", "sched_getaffinity", "times"),
    *("exit", "exit_group", "set_robust_list", "rseq", "membarrier", "sysinfo", "uname"),
)


# Calls that Tesseract does not need: connections, other processes, changes of files.
_REFUSED = (
    *("socket", "socketpair", "connect", "bind", "sendto", "sendmsg", "io_uring_setup", "bpf"),
    *("fork", "vfork", "clone", "clone3", "kill", "tkill", "tgkill", "rt_sigqueueinfo"),
    *(
        "ptrace",
        "process_vm_readv",
        "process_vm_writev",
        "pidfd_open",
        "setns",
        "unshare",
        "mount",
        "keyctl",
        "userfaultfd",
    ),
    *("creat", "openat2", "truncate", "unlink", "unlinkat", "rename", "renameat", "renameat2"),
    *("link", "linkat", "symlink", "symlinkat", "mkdir", "mkdirat", "rmdir", "mknod", "mknodat"),
    *("chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat", "setxattr"),
)

# Paths that Tesseract reads: libraries, languages, and the shell for a launcher that is a script.
_READABLE = (
    *("lib*", "usr/lib*", "usr/local/lib/*.so*", "etc/ld.so.cache", "bin/sh"),
    *("usr/share/tesseract-ocr", "usr/share/tessdata", "usr/local/share/tessdata"),
    "sys/devices/system/cpu",
)
# landlock(7): the numbers are the same on every processor.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _PATH_BENEATH = 444, 445, 446, 1
_SET_NO_NEW_PRIVS = 38
# The rights of Landlock's first version: to execute, write, read, list, make and remove files.
_EXECUTE, _READ_FILE, _READ_DIR, _EVERY_RIGHT = 1, 1 << 2, 1 << 3, (1 << 13) - 1

_UNREFUSED = "other calls of the system are not refused"


def confine(megabytes: int) -> list[str]:
    """Give up all but what reading needs; return in words what this system cannot take away."""
    if sys.platform != "linux":
        return [*_limit(megabytes), *_leave_user(), f"{_UNREFUSED} (only Linux can)"]
    # Must precede the rule against opening files.
    import seccompy

    seccompy.supported()
    lacking = [*_limit(megabytes), *_leave_user()]
    calls = seccompy.Filter(seccompy.Action.ERRNO | errno.EPERM, flags=seccompy.FilterFlag.TSYNC)
    try:
        for name in _CALLS:
            # System calls that this processor lacks need no rule.
            with suppress(ValueError, LookupError):
                calls.allow(name)
        # Of its own limits alone, by which a document's time is counted.
        calls.allow("prlimit64", args={0: 0})
        # And no_new_privs, so that child processes gain no privileges.
        calls.load()
    except (OSError, seccompy.SeccompError) as error:
        # An old kernel, another processor, a container that forbids it.
        lacking.append(f"{_UNREFUSED} ({error})")
    return lacking


def _limit(megabytes: int) -> list[str]:
    size = megabytes * 1024 * 1024
    lacking = []
    for limit, value, what in (
        (resource.RLIMIT_AS, size, "its memory is not limited"),
        # A core dump would hold a patient's document.
        (resource.RLIMIT_CORE, 0, "it may leave a core dump"),
        (resource.RLIMIT_NOFILE, 0, "it may open files"),
    ):
        try:
            resource.setrlimit(limit, (value, value))
        except (OSError, ValueError):
            # macOS refuses some.
            lacking.append(what)
    return lacking


def _leave_user() -> list[str]:
    if os.geteuid() != 0:
        return []
    try:
        with suppress(PermissionError):
            # A container may have no right to change groups, and none to lose.
            os.setgroups([])
        os.setresgid(UID, UID, UID)
        os.setresuid(UID, UID, UID)
    except OSError:
        return ["it runs as root, and cannot become another user"]
    return []


def confine_program(megabytes: int, seconds: int, most_bytes: int, *, readable: list[Path]) -> None:
    """Give up all that a program which reads one picture, and files at some paths, does not need.

    Raises PermissionError where the server's files would stay readable.
    """
    size = megabytes * 1024 * 1024
    for limit, value in (
        (resource.RLIMIT_AS, size),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, most_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    # Must precede the rules against reading files.
    import seccompy

    seccompy.supported()
    is_other_user = os.geteuid() == 0 and not _leave_user()
    try:
        known = (path for pattern in _READABLE for path in Path("/").glob(pattern))
        _restrict_files([*known, *readable])
    except OSError:
        if not is_other_user:
            raise PermissionError("neither Landlock nor another user") from None
    calls = seccompy.Filter()
    with suppress(OSError, seccompy.SeccompError):
        for name in _REFUSED:
            with suppress(ValueError, LookupError):
                calls.errno(name, errno.EPERM)
        for name, place in (("open", 1), ("openat", 2)):
            changes = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC
            reads = seccompy.ArgCmp(place, seccompy.CmpOp.MASKED_EQ, os.O_RDONLY, changes)
            with suppress(ValueError, LookupError):
                calls.allow(name, args=[reads])
                calls.errno(name, errno.EPERM)
        calls.load()


def _restrict_files(readable: list[Path]) -> None:
    """Close all files but those at and below some paths. Raises OSError without Landlock."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(*arguments: int | bytes) -> int:
        words = (ctypes.c_long(word) if isinstance(word, int) else word for word in arguments)
        result: int = libc.syscall(*words)
        if result < 0:
            raise OSError(ctypes.get_errno(), "Landlock")
        return result

    rights = struct.pack("=Q", _EVERY_RIGHT)
    rules = call(_CREATE_RULESET, rights, len(rights), 0)
    for path in filter(Path.exists, readable):
        file = os.open(path, os.O_PATH)
        is_folder = stat.S_ISDIR(os.fstat(file).st_mode)
        allowed = _EXECUTE | _READ_FILE | (_READ_DIR if is_folder else 0)
        call(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", allowed, file), 0)
        os.close(file)
    if libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    call(_RESTRICT_SELF, rules, 0)
    os.close(rules)


if __name__ == "__main__":
    # As the worker: off the core that the server is pinned to, and behind it.
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    os.nice(5)
    # Python ignores it, and a program that ignores it goes on.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    most = [int(limit) for limit in sys.argv[1:4]]
    program, languages = sys.argv[4], os.environ.get("TESSDATA_PREFIX")
    try:
        confine_program(*most, readable=[*map(Path, filter(None, (program, languages)))])
    except PermissionError:
        sys.exit(os.EX_NOPERM)
    os.execv(program, sys.argv[4:])
