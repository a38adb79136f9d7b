"""A schedule is what its seed says, and has every kind of fault."""

from __future__ import annotations

import pytest

from tests.chaos.faults import CHEAP_KINDS, PARTIES, Kind, kinds_of, plan
from tests.chaos.victims import VICTIMS


@pytest.mark.parametrize("broker", VICTIMS)
def test_plan_when_long_enough_then_each_kind_is_in_it(broker: str) -> None:
    kinds = kinds_of(broker)

    assert {fault.kind for fault in plan(1, len(kinds), kinds)} == set(kinds)
    assert {Kind.KILL, Kind.RESTART} <= set(kinds)


@pytest.mark.parametrize("broker", VICTIMS)
@pytest.mark.parametrize("seed", range(5))
def test_plan_when_of_200_then_kills_and_moves_are_20_each_at_least(broker: str, seed: int) -> None:
    faults = plan(seed, 200, kinds_of(broker))

    kinds = [fault.kind for fault in faults]
    assert len(kinds) == 200
    assert kinds.count(Kind.KILL) >= 20
    assert kinds.count(Kind.MOVE) >= 20


def test_plan_when_only_one_kind_is_chosen_then_there_is_no_other() -> None:
    assert {fault.kind for fault in plan(1, 50, [Kind.MOVE_CUT])} == {Kind.MOVE_CUT}


def test_plan_when_the_seed_is_the_same_then_it_is_the_same() -> None:
    kinds = kinds_of("rabbitmq")

    assert plan(7, 50, kinds) == plan(7, 50, kinds)
    assert plan(7, 50, kinds) != plan(8, 50, kinds)


def test_plan_when_short_then_the_first_kinds_are_in_it() -> None:
    faults = plan(1, 2, kinds_of("artemis"))

    assert {fault.kind for fault in faults} == {Kind.KILL, Kind.RESTART}


def test_plan_when_long_then_cheap_faults_are_many_and_all_parties_are_struck() -> None:
    faults = plan(1, 400, kinds_of("rabbitmq"))

    cheap = sum(fault.kind in CHEAP_KINDS for fault in faults)
    assert 100 < cheap < 250
    assert {party for fault in faults for party in fault.parties} == set(PARTIES)
    assert [fault.number for fault in faults] == list(range(1, 401))
    assert all(0 < fault.after < 1 for fault in faults)


def test_kinds_when_the_broker_is_rabbitmq_then_its_memory_alarm_is_among_them() -> None:
    assert Kind.ALARM in kinds_of("rabbitmq")
    assert Kind.ALARM in kinds_of("rabbitmq4")
    assert Kind.ALARM not in kinds_of("artemis")
    assert Kind.SWALLOWED in kinds_of("embedded")
