"""What the process that reads documents gives up before it sees one.

A document may be made to break its reader. What runs in that process then can open no file and no
connection, start no process, see no other's memory, send no signal and get nothing back: the kernel
refuses every call but those that reading needs (seccomp). As root it becomes a user whom nothing
belongs to.

A program of others that reads a picture, which opens files of its own, is run with less taken away:
`python -P …/confine.py MEGABYTES SECONDS BYTES PROGRAM ARGUMENT…`, BYTES for its answer.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
from contextlib import suppress

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


# Not needed by such a program: connections, other processes, changes of files.
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


def confine_program(megabytes: int, seconds: int, most_bytes: int) -> None:
    """Give up, as far as this system can, what a program that reads one picture does not need."""
    size = megabytes * 1024 * 1024
    for limit, value in (
        (resource.RLIMIT_AS, size),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, most_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    # Must precede the change to a user who cannot read the files.
    import seccompy

    seccompy.supported()
    _leave_user()
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


if __name__ == "__main__":
    # As the worker: off the core that the server is pinned to, and behind it.
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    os.nice(5)
    # Python ignores it, and a program that ignores it goes on.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    confine_program(*map(int, sys.argv[1:4]))
    os.execv(sys.argv[4], sys.argv[4:])
