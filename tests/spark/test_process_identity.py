"""Whether a process has ended: only where that is certain."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.spark.receiving import identity_of_an_ended_process
from trio_stomp.spark.process_identity import has_certainly_ended, process_identity

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, nothing is certain")


def test_process_when_it_lives_then_not_ended() -> None:
    machine, pid, _ = process_identity().split("-")

    assert pid == str(os.getpid())
    assert not has_certainly_ended(process_identity())
    assert not has_certainly_ended(f"{machine}-1-{_started(1)}")


def _started(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:  # noqa: PTH123  # no path of ours
        return file.read().rpartition(")")[2].split()[19]


def test_process_when_it_has_ended_then_that_is_known_also_when_its_id_is_used_again() -> None:
    ended = identity_of_an_ended_process()
    machine, _, _ = ended.split("-")

    assert has_certainly_ended(ended)
    assert has_certainly_ended(f"{machine}-{os.getpid()}-1")


def test_process_when_it_is_only_remembered_by_its_parent_then_ended() -> None:
    with subprocess.Popen(["true"]) as process:  # of the system
        machine = process_identity().partition("-")[0]
        identity = f"{machine}-{process.pid}-{_started(process.pid)}"
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

        assert has_certainly_ended(identity)


@pytest.mark.parametrize("identity", ["", "-", "x", f"0123456789ab-{1 << 22}-5", "0123456789ab-x-5"])
def test_process_when_it_is_not_of_this_machine_then_nothing_is_certain(identity: str) -> None:
    """In another container, the same id may belong to a process that lives."""
    assert not has_certainly_ended(identity)
