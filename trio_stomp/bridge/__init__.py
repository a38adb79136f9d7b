"""The one bridge between trio and code that does not run on trio.

`trio_stomp.blocking` and `trio_stomp.asyncio` are built on it. All clients of a process share one daemon thread that
runs trio. It starts with the first client and ends with the last.

::

    bridge = Bridge()
    bridge.start()                                # joins the trio thread, or starts it
    entered = Entered(bridge, connect(...))       # an async context manager, kept open by a task over there
    lane = Lane(bridge)                           # ordered work, without waiting for it

Four ways lead across:

`Bridge.call(function)`
    Runs an async function in the trio thread and waits for it. It costs some 80 µs. Context variables cross. Ctrl-C
    cancels the call and waits for its end, so that a call keeps its promises about cancellation.
`Lane.add(action)`
    Runs an async function in its turn and returns at once. One wake-up carries all that has gathered, so it costs a few
    microseconds. A failure is raised by the next call of the lane. `Lane.post` and `Lane.call` are for threads that may
    block: `post` waits while too much waits already, `call` runs after everything that was posted before.
`ConfirmedSend`
    The most frequent call, without a task in the trio thread. `Bridge.run` begins it, as any other `Call`, and waits.
`Batches`
    Messages cross in batches: one call takes what is there, and `Batches.take` hands it out without a crossing.

`CrossedMessage`, `CrossedPublication` and `PublisherWindow` are the common part of messages and publishers.

An event loop must not block, so the asyncio room uses the parts that never wait::

    async def call(bridge: Bridge, function: Callable[[], Awaitable[T]]) -> T:
        call, loop = Call(function), asyncio.get_running_loop()
        done = loop.create_future()
        call.outcome.add_done_callback(lambda _: wake(loop, done))   # loop.call_soon_threadsafe(done.set_result, None)
        bridge.begin(call)                        # does not wait, like all but `call`, `post` and `close`
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            bridge.cancel(call)                   # then wait for `done` again: the call has ended before we go on
            ...
            raise
        return call.outcome.result()

``call(bridge, lane.in_turn(function))`` is `Lane.call`, and ``if lane.is_full: await call(bridge, lane.wait_room)``
before `Lane.add` is `Lane.post`. An `Entered` is `Entered.begin`, then wait for `Entered.value`; `Entered.leave`, then
wait for ``Entered.call.outcome``, and `Entered.raise_outcome`. `Bridge.stop` begins to end a bridge without waiting and
``bridge.stopped`` is the Outcome to wait for.

After ``os.fork()`` the child has no trio thread. There, everything raises `ConnectionClosed` with `FORKED` as its text.
"""

from trio_stomp.bridge.batches import Batches
from trio_stomp.bridge.calls import EXIT_SECONDS, Bridge, Call, Entered
from trio_stomp.bridge.confirmed_send import ConfirmedSend
from trio_stomp.bridge.lane import Lane, Posted
from trio_stomp.bridge.message import Claims, CrossedMessage
from trio_stomp.bridge.outcome import Outcome
from trio_stomp.bridge.publisher import CrossedPublication, PublisherWindow
from trio_stomp.bridge.trio_thread import CLOSED, FORKED, begin_exit, held, wait_done

__all__ = [
    "CLOSED",
    "EXIT_SECONDS",
    "FORKED",
    "Batches",
    "Bridge",
    "Call",
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
