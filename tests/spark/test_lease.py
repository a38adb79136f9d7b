"""The lease of a spool, with a clock of its own: who has it, who gets it, and who loses it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.spark.receiving import identity_of_an_ended_process, opened
from tests.spark.waiting import wait_until
from trio_stomp.spark import SpoolTaken
from trio_stomp.spark import lease as leases
from trio_stomp.spark.lease import Lease
from trio_stomp.spark.segments import list_spool
from trio_stomp.spark.spool_store import SpoolStore

PATIENCE = 60.0
FIRST = "lease/000000000001.json"


class Clock:
    """A clock that goes on when somebody waits; then something may happen."""

    def __init__(self, happens: Callable[[], None] = lambda: None) -> None:
        self.now = 100.0
        self.happens = happens

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.happens()

    def monotonic(self) -> float:
        return self.now


def taken(store: SpoolStore, clock: Clock | None = None) -> Lease:
    clock = clock or Clock()
    return Lease(store, sleep=clock.sleep, monotonic=clock.monotonic)


def write_lease(store: SpoolStore, number: int, **given: object) -> None:
    about = {
        "host": "elsewhere",
        "pid": 7,
        "process": "0123456789ab-7-9",
        "token": "x",
        "renewed": 0,
        "released": False,
    }
    store.put(f"lease/{number:012}.json", json.dumps({**about, **given}).encode())


def test_lease_when_the_owner_lives_then_the_second_one_is_refused_and_its_error_names_the_owner(
    store: SpoolStore,
) -> None:
    first, clock = taken(store), Clock()

    with pytest.raises(SpoolTaken, match=rf"another query reads the spool {store.folder}: process {os.getpid()} on "):
        taken(store, clock)

    # A query that is being stopped needs a while.
    assert 112 <= clock.now < 113
    first.check(list_spool(store))
    first.release()
    taken(store).release()


def test_lease_when_the_owner_gives_it_back_meanwhile_then_the_second_one_has_it(store: SpoolStore) -> None:
    first = taken(store)

    clock = Clock(first.release)
    second = taken(store, clock)

    # It looks again and again: queries that are started anew do so without a pause.
    assert clock.now < 101
    second.check(list_spool(store))
    with pytest.raises(SpoolTaken):
        first.check(list_spool(store))
    assert list_spool(store).leases == ["lease/000000000002.json"]
    second.release()


def test_lease_when_the_owner_was_killed_on_this_machine_then_free_at_once(store: SpoolStore) -> None:
    write_lease(store, 5, process=identity_of_an_ended_process())
    clock = Clock()

    taken(store, clock).release()

    assert clock.now == 100


PROGRAM = """
import sys
from trio_stomp.spark.lease import Lease
from trio_stomp.spark.spool_store import SpoolLocation
Lease(SpoolLocation.of(sys.argv[1]).open())
"""


def test_lease_when_its_program_ends_without_giving_it_back_then_it_does_end_and_the_lease_is_free(
    store: SpoolStore,
) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM, store.folder], check=True, timeout=PATIENCE)
    clock = Clock()

    taken(store, clock).release()

    assert clock.now == 100
    assert list_spool(store).leases == ["lease/000000000002.json"]


def test_lease_when_an_owner_elsewhere_does_not_renew_it_then_free_after_it_was_watched(store: SpoolStore) -> None:
    """Whatever the clocks say: the object may seem to be of tomorrow, or of yesterday."""
    write_lease(store, 5)
    clock = Clock()

    taken(store, clock).release()

    assert 130 <= clock.now < 131


def test_lease_when_an_owner_elsewhere_renews_it_then_refused(store: SpoolStore) -> None:
    write_lease(store, 5)
    renewals = iter(range(1, 1000))

    with pytest.raises(SpoolTaken, match="process 7 on elsewhere"):
        taken(store, Clock(lambda: write_lease(store, 5, renewed=next(renewals))))


def test_lease_when_its_owner_was_suspended_and_replaced_then_checking_raises_and_nothing_is_overwritten(
    store: SpoolStore,
) -> None:
    first = taken(store)
    write_lease(store, 2, released=True)

    with pytest.raises(SpoolTaken):
        first.check(list_spool(store))
    with pytest.raises(SpoolTaken):
        first.check_now()
    first.release()
    assert b"elsewhere" in (store.get("lease/000000000002.json") or b"")


def test_lease_when_its_owner_lives_then_renewed_again_and_again(
    store: SpoolStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "_RENEW_SECONDS", 0.001)
    lease = taken(store)
    seen = {store.get(FIRST)}
    deadline = time.monotonic() + PATIENCE
    while len(seen) < 4:
        assert time.monotonic() < deadline
        seen.add(store.get(FIRST))

    # It waits for a renewal that is under way.
    monkeypatch.setattr(leases, "_RENEW_SECONDS", PATIENCE)
    lease.release()
    released = store.get_json(FIRST)
    assert isinstance(released, dict)
    assert released["released"] is True
    # Or it would be renewed again.
    wait_until(None, lambda: "trio_stomp lease" not in [each.name for each in threading.enumerate()])


def test_lease_when_the_spool_is_gone_then_giving_it_back_makes_no_other_one(store: SpoolStore) -> None:
    lease = taken(store)
    shutil.rmtree(store.folder)

    lease.release()
    lease.release()

    assert not Path(store.folder).exists()


def test_lease_when_it_cannot_be_given_back_then_that_is_logged(
    store: SpoolStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lease = taken(store)

    def replace(_source: str, _target: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", replace)
    lease.release()

    assert "the lease of the spool was not given back: cannot write " in caplog.text
    assert "No space left on device" in caplog.text


def test_lease_when_damaged_by_a_power_cut_then_free_after_it_was_watched(store: SpoolStore) -> None:
    store.put("lease/000000000005.json", b"")
    clock = Clock()

    taken(store, clock).release()

    assert list_spool(store).leases == ["lease/000000000006.json"]
    # Its owner may still write it again.
    assert clock.now > 110


def test_lease_when_many_queries_try_at_once_then_one_has_it(store: SpoolStore) -> None:
    taken_by_one: list[Lease] = []

    def attempt(_: int) -> bool:
        try:
            taken_by_one.append(Lease(opened(Path(store.folder)), patience=0))
        except SpoolTaken:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(8))) == 1
    taken_by_one[0].release()
