"""What the process that reads documents gives up before it sees one.

A document may be made to break its reader. What runs in that process then can open no file and no
connection, start no process, see no other's memory, send no signal and get nothing back: the kernel
refuses every call but those that reading needs (seccomp). As root it becomes a user whom nothing
belongs to.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
from contextlib import suppress

# Nobody's: files of the server's user, and of every other, are closed to it.
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


_UNREFUSED = "other calls of the system are not refused"


def confine(megabytes: int) -> list[str]:
    """Give up all but what reading needs; return in words what this system cannot take away."""
    if sys.platform != "linux":
        return [*_limit(megabytes), *_leave_user(), f"{_UNREFUSED} (only Linux can)"]
    # Before no file can be opened any more.
    import seccompy

    seccompy.supported()
    lacking = [*_limit(megabytes), *_leave_user()]
    calls = seccompy.Filter(seccompy.Action.ERRNO | errno.EPERM, flags=seccompy.FilterFlag.TSYNC)
    try:
        for name in _CALLS:
            # A call that this processor does not have needs no rule.
            with suppress(ValueError, LookupError):
                calls.allow(name)
        # Of its own limits alone, by which a document's time is counted.
        calls.allow("prlimit64", args={0: 0})
        # And of no_new_privs, so that nothing that is started gains a right.
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
