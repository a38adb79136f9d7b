"""What the page on cancellation says of checkpoints, against what the client does."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from tests.docs.code_blocks import ROOT
from trio_stomp import Client, connect_stream
from trio_stomp.testing import Broker, open_broker

_SAYS = re.compile(r"at least once in (\d+): .* within (\d+) calls\.", re.DOTALL)
CALLS = 1000


def said() -> int:
    page = (ROOT / "docs/topics/cancellation.md").read_text(encoding="utf-8")
    found = _SAYS.search(page)
    assert found is not None
    once_in, within = map(int, found.groups())
    assert once_in == within
    return once_in


class Steps(trio.abc.Instrument):
    """Counts how often a task got its turn."""

    def __init__(self, task: trio.lowlevel.Task) -> None:
        self._task = task
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += task is self._task


async def most_calls_in_a_step(client: Client, broker: Broker, verb: str) -> int:
    """How many calls of a verb, none of which has to wait, went by at most without giving other tasks a turn."""
    calls: Counter[int] = Counter()
    async with client.subscribe("/queue/a", ack="auto", prefetch=CALLS) as subscription:
        for _ in range(CALLS):
            broker.publish("/queue/a", b"x")
        await trio.testing.wait_all_tasks_blocked()
        steps = Steps(trio.lowlevel.current_task())
        trio.lowlevel.add_instrument(steps)
        for _ in range(CALLS):
            if verb == "send":
                await client.send("/queue/b", b"x")
            else:
                await anext(subscription)
            calls[steps.count] += 1
        trio.lowlevel.remove_instrument(steps)
    return max(calls.values())


@pytest.mark.parametrize("verb", ["send", "iteration"])
async def test_page_when_it_says_how_often_a_call_is_a_checkpoint_then_it_is_so(
    verb: str, autojump_clock: MockClock
) -> None:
    async with open_broker(listen=False) as broker, connect_stream(broker.connect_stream()) as client:
        # The call that gives others a turn is one of them, or the first of the next.
        assert said() - 1 <= await most_calls_in_a_step(client, broker, verb) <= said()
