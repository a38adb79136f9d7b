"""The bridge between trio and synchronous code.

`trio_stomp.blocking` is built on it. All clients of a process share one daemon thread that runs trio. It starts with
the first client and ends with the last.

::

    bridge = Bridge()
    bridge.start()                                # joins the trio thread, or starts it
    entered = Entered(bridge, connect(...))       # an async context manager, kept open by a task over there
    lane = Lane(bridge)                           # ordered work, without waiting for it

Four ways lead across:

`Bridge.call(function)`
    Runs an async function in the trio thread and waits for it. It costs some 80 µs. Context variables cross. Ctrl-C
    cancels the call and waits for its end, so that a call keeps its promises about cancellation.
`Lane.post(action)`
    Runs an async function in its turn and returns at once, unless too much waits already. One wake-up carries all that
    has gathered, so it costs a few microseconds. A failure is raised by the next call of the lane. `Lane.call` runs
    after everything that was posted before, and waits.
`ConfirmedSend`
    The most frequent call, without a task in the trio thread. `Bridge.run` begins it, as any other `Call`, and waits.
`Batches`
    Messages cross in batches: one call takes what is there, and `Batches.take` hands it out without a crossing.

`CrossedMessage`, `CrossedPublication` and `PublisherWindow` are the common part of messages and publishers.

After ``os.fork()`` the child has no trio thread. There, everything raises `ConnectionClosed` with `FORKED` as its text.
"""

from trio_stomp.bridge.batches import Batches
from trio_stomp.bridge.calls import EXIT_SECONDS, Bridge, Entered
from trio_stomp.bridge.confirmed_send import ConfirmedSend
from trio_stomp.bridge.lane import Lane, Posted
from trio_stomp.bridge.message import Claims, CrossedMessage
from trio_stomp.bridge.outcome import Outcome
from trio_stomp.bridge.publisher import CrossedPublication, PublisherWindow
from trio_stomp.bridge.trio_thread import FORKED, begin_exit, held, wait_done

__all__ = [
    "EXIT_SECONDS",
    "FORKED",
    "Batches",
    "Bridge",
    "Claims",
    "ConfirmedSend",
    "CrossedMessage",
    "CrossedPublication",
    "Entered",
    "Lane",
    "Outcome",
    "Posted",
    "PublisherWindow",
    "begin_exit",
    "held",
    "wait_done",
]
