"""Changes of state, as a thread sees them."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import trio_stomp.blocking
from tests.blocking.conftest import lose, threads
from trio_stomp import Reconnect
from trio_stomp.blocking import Client
from trio_stomp.blocking.thread import Call
from trio_stomp.testing import Broker, ThreadedBroker
from trio_stomp.types import ConnectionState, Phase


def test_state_changes_when_watched_by_a_thread_then_all_are_seen_to_the_end(broker: ThreadedBroker) -> None:
    seen: list[ConnectionState] = []
    lost = threading.Event()
    again = threading.Event()

    with ExitStack() as stack, trio_stomp.blocking.connect(broker.url, reconnect=Reconnect(first_delay=0)) as client:

        def watch() -> None:
            for state in client.state_changes():
                seen.append(state)
                if state.phase is Phase.CONNECTED:
                    (again if lost.is_set() else lost).set()

        stack.enter_context(threads(watch))
        assert lost.wait(60)
        broker.call(Broker.drop_connections)
        assert again.wait(60)

    phases = [state.phase for state in seen]
    assert (phases[0], phases[-1]) == (Phase.CONNECTED, Phase.CLOSED)
    assert Phase.LOST in phases
    assert phases.count(Phase.CLOSED) == 1


def test_state_changes_when_begun_after_the_end_then_tell_that_it_is_closed(broker: ThreadedBroker) -> None:
    with trio_stomp.blocking.connect(broker.url) as client:
        pass

    assert [state.phase for state in client.state_changes()] == [Phase.CLOSED]


def test_state_changes_when_the_call_that_took_the_end_was_interrupted_then_they_end(
    broker: ThreadedBroker, client: Client
) -> None:
    changes = client.state_changes()
    next(changes)
    lose(broker, client)
    # What a Ctrl-C comes for is taken in the loop's thread all the same.
    client._calls.link.run(Call(changes._inner.__anext__))

    assert list(changes) == []
