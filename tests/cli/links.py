"""Commands in the loop of their broker, for tests in virtual time."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import trio_stomp
from trio_stomp.cli.options import Link
from trio_stomp.testing import Broker
from trio_stomp.types import ConnectOptions

__all__ = ["link_to"]


def link_to(broker: Broker) -> Link:
    """How a command connects to a broker over a link in memory, without heart-beats."""

    class Inside(Link):
        def connect(self) -> AbstractAsyncContextManager[trio_stomp.Client]:
            return trio_stomp.connect_stream(broker.connect_stream(), heart_beat=(0, 0))

    return Inside((), ConnectOptions())
