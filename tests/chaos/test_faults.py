"""A schedule is what its seed says, and has every kind of fault."""

from __future__ import annotations

import pytest

from tests.chaos.faults import CHEAP_KINDS, PARTIES, Kind, kinds_of, plan
from tests.chaos.victims import VICTIMS


@pytest.mark.parametrize("broker", VICTIMS)
def test_plan_when_long_enough_then_each_kind_is_in_it(broker: str) -> None:
    kinds = kinds_of(broker)

    assert {fault.kind for fault in plan(1, len(kinds), kinds)} == set(kinds)
    assert (Kind.ALARM in kinds, Kind.SWALLOWED in kinds) == (broker.startswith("rabbitmq"), broker == "embedded")


def test_plan_when_short_or_of_one_kind_then_only_what_was_asked_for_is_in_it() -> None:
    assert {fault.kind for fault in plan(1, 2, kinds_of("artemis"))} == {Kind.KILL, Kind.RESTART}
    assert {fault.kind for fault in plan(1, 50, [Kind.MOVE_CUT])} == {Kind.MOVE_CUT}


@pytest.mark.parametrize("broker", VICTIMS)
@pytest.mark.parametrize("seed", range(5))
def test_plan_when_of_200_then_kills_and_moves_are_20_each_at_least_and_cheap_faults_many(
    broker: str, seed: int
) -> None:
    faults = plan(seed, 200, kinds_of(broker))

    kinds = [fault.kind for fault in faults]
    assert len(kinds) == 200
    assert kinds.count(Kind.KILL) >= 20
    assert kinds.count(Kind.MOVE) >= 20
    assert 30 < sum(kind in CHEAP_KINDS for kind in kinds) < 130
    assert {party for fault in faults for party in fault.parties} == set(PARTIES)
    assert [fault.number for fault in faults] == list(range(1, 201))
    assert all(0 < fault.after < 1 for fault in faults)
    assert plan(seed, 200, kinds_of(broker)) == faults != plan(seed + 1, 200, kinds_of(broker))
