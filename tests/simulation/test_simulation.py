"""The simulation replays, finds nothing in the client as it is, and finds each fault that is planted."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.loops import LOOPS
from tests.simulation.planted import PLANTED, search
from tests.simulation.scenario import simulate

both_loops = pytest.mark.parametrize("loop", LOOPS)


def _output(seed: int, loop: str, hash_seed: str) -> str:
    command = [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--loop", loop]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return next(line for line in ran.stdout.splitlines() if line.startswith("trace"))


# These end with dead letters, which say when they failed, and with a restart of the broker.
@both_loops
def test_seed_when_run_in_two_processes_then_every_byte_and_its_time_is_the_same(loop: str) -> None:
    assert _output(7, loop, "1") == _output(7, loop, "2")


@both_loops
def test_seeds_when_they_differ_then_so_do_their_runs(loop: str) -> None:
    assert len({simulate(seed, loop=loop).trace for seed in range(5)}) == 5


@both_loops
@pytest.mark.parametrize("seed", range(5))
def test_seed_when_run_then_nothing_is_wrong(seed: int, loop: str) -> None:
    result = simulate(seed, loop=loop)
    assert not result.troubles
    assert result.messages
    assert result.links


@pytest.mark.slow
@both_loops
@pytest.mark.parametrize("name", PLANTED)
def test_planted_fault_when_searched_then_found_within_a_thousand_seeds(name: str, loop: str) -> None:
    assert search(name, loop=loop) is not None
