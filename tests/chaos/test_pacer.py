"""Numbers are handed out once each, a share at a time."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from tests.chaos.ledger import Ledger
from tests.chaos.pacer import Pacer


async def test_take_when_a_share_is_open_then_it_is_handed_out_at_once(autojump_clock: MockClock) -> None:
    pacer = Pacer(Ledger("run", 100), 4)
    share = pacer.open_share(0)
    began = trio.current_time()

    taken = [await pacer.take() for _ in share]

    assert taken == list(share) == list(range(25))
    assert trio.current_time() == began


async def test_take_when_the_share_is_used_up_then_the_next_one_is_borrowed_from_slowly(
    autojump_clock: MockClock,
) -> None:
    pacer = Pacer(Ledger("run", 100), 4)
    for _ in pacer.open_share(0):
        await pacer.take()
    began = trio.current_time()

    assert await pacer.take() == 25
    assert 0 < trio.current_time() - began < 0.1


async def test_take_when_the_share_is_spread_then_it_lasts_for_seconds(autojump_clock: MockClock) -> None:
    pacer = Pacer(Ledger("run", 100), 2)
    share = pacer.open_share(0)
    pacer.spread()
    began = trio.current_time()

    for _ in share:
        await pacer.take()

    assert 2 < trio.current_time() - began < 4


async def test_take_when_all_are_handed_out_then_there_is_none(autojump_clock: MockClock) -> None:
    pacer = Pacer(Ledger("run", 3), 1)
    pacer.open_share(0)

    assert [await pacer.take() for _ in range(5)] == [0, 1, 2, None, None]
    assert pacer.is_done


async def test_take_when_too_many_are_on_their_way_then_it_waits_for_workers(autojump_clock: MockClock) -> None:
    ledger = Ledger("run", 5000)
    pacer = Pacer(ledger, 1)
    pacer.open_share(0)
    number = 0
    with trio.move_on_after(1):
        while True:
            taken = await pacer.take()
            assert taken is not None
            number = taken
            ledger.sending(number)

    assert number == 1999
    ledger.handle(ledger.body(0), "p-1")
    assert await pacer.take() == 2000
