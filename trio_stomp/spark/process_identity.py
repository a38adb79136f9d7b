"""The identity of a process, by which others on its machine recognize for certain that it has ended.

A process id alone is not enough: two containers may have one host name and a process table each, and ids are used
again. So the identity has the boot of the machine, the process table (Linux calls it a PID namespace), the id, and the
time at which the process started. Where the system does not tell all of these, nothing is certain.
"""

from __future__ import annotations

import hashlib
import os
import socket
from functools import lru_cache
from pathlib import Path

__all__ = ["has_certainly_ended", "process_identity"]


def process_identity() -> str:
    """Return the identity of this process, in letters, digits and hyphens; empty if the system does not tell it."""
    return _identity_of(os.getpid())


@lru_cache(maxsize=1)
def _identity_of(pid: int) -> str:
    """Workers of Spark are forked, so what is remembered is for one process id."""
    machine, started = _machine(), _started(pid)
    return f"{machine}-{pid}-{started}" if machine and started else ""


def has_certainly_ended(identity: str) -> bool:
    """Return whether a process has ended; False also if this machine cannot know."""
    machine, _, numbers = identity.partition("-")
    pid, _, started = numbers.partition("-")
    if not machine or machine != _machine() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    now = _started(int(pid))
    return bool(now) and now != started


def _machine() -> str:
    """A digest of what distinguishes process tables: host name, boot and PID namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115  # the text is not a path
    except OSError:
        return ""
    digest = hashlib.blake2b(f"{socket.gethostname()} {boot} {namespace}".encode(), digest_size=6)
    return digest.hexdigest()


def _started(pid: int) -> str:
    """When a process started, in ticks since the boot; "ended" for one that is only remembered; empty if unknown."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    # The second field is the name of the program, in parentheses; it may contain anything.
    fields = text.rpartition(")")[2].split()
    return "ended" if fields[0] in {"Z", "X"} else fields[19]
