"""Follow a message, a send, a confirmed send, an ack and a reconnect through the code, and print the modules they pass.

    python scripts/walks.py                   on Trio
    python scripts/walks.py --loop asyncio    on asyncio
    python scripts/walks.py --spark           a micro-batch of Spark's, from the segment to the rows; needs PySpark
    python scripts/walks.py --calls           each call, too

A module counts when a Python function of it is called, in any task of the client's thread, from the moment at which the
program or the broker acts until the effect is there. The embedded broker runs in another thread, and is not counted;
nor are the modules that only hold values or wrap a task.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

import anyio

import trio_stomp
from trio_stomp.testing import run_broker_in_thread

__all__ = ["GOALS", "Walk", "walks"]

_PACKAGE: Final = Path(trio_stomp.__file__).parent
# Values, the wrapper of each task, and what this script itself calls.
_NOT_COUNTED: Final = frozenset(
    {
        "testing/broker_thread.py",
        "protocol/frames.py",
        "protocol/headers.py",
        "protocol/events.py",
        "session/failures.py",
        "errors.py",
    }
)
# Modules that a walk should pass at most, from the plan of the architecture.
GOALS: Final = {"a MESSAGE": 9, "a plain send": 7, "a confirmed send": 11, "an ack": 5, "a micro-batch": 12}


@dataclass(slots=True)
class Walk:
    """What was passed.

    Attributes:
        name: What was followed.
        modules: The modules, in the order in which they were first entered.
        calls: Each function that was called, or resumed, in order.
    """

    name: str
    modules: dict[str, None] = field(default_factory=dict[str, None])
    calls: list[str] = field(default_factory=list[str])

    @contextmanager
    def followed(self) -> Generator[None]:
        """Note each call of this thread within the block."""
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call":
            return
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(_PACKAGE):
            return
        module = path.relative_to(_PACKAGE).as_posix()
        if module in _NOT_COUNTED:
            return
        self.modules.setdefault(module, None)
        self.calls.append(f"{module} {frame.f_code.co_qualname}")


async def walks(url: str, drop_links: Callable[[], None], say: Callable[[str], None]) -> list[Walk]:
    """Follow all of them over connections to the broker at `url`."""
    made: list[Walk] = []
    async with (
        trio_stomp.connect(url, heart_beat=(0, 0), reconnect=True) as client,
        client.subscribe("/queue/walks") as subscription,
    ):
        for name, walk in (
            ("a MESSAGE", _message),
            ("a plain send", _plain_send),
            ("a confirmed send", _confirmed_send),
            ("an ack", _ack),
        ):
            for _warming_up in range(3):
                await walk(client, subscription, Walk(name), say)
            made.append(Walk(name))
            await walk(client, subscription, made[-1], say)
        made.append(Walk("a reconnect"))
        with made[-1].followed():
            drop_links()
            async for state in client.state_changes():
                if state.healthy and client.statistics().reconnections:
                    break
    return made


async def _message(
    _client: trio_stomp.Client, subscription: trio_stomp.Subscription[object], walk: Walk, say: Callable[[str], None]
) -> None:
    say("/queue/walks")
    # The consumer waits when the message arrives: the broker's thread answers after a checkpoint at the earliest.
    with walk.followed():
        message = await anext(subscription)
    await message.ack(receipt=True)


async def _plain_send(
    client: trio_stomp.Client, _subscription: trio_stomp.Subscription[object], walk: Walk, _say: Callable[[str], None]
) -> None:
    with walk.followed():
        await client.send("/queue/others", b"1")
        await _written()


async def _confirmed_send(
    client: trio_stomp.Client, _subscription: trio_stomp.Subscription[object], walk: Walk, _say: Callable[[str], None]
) -> None:
    with walk.followed():
        await client.send("/queue/others", b"1", receipt=True)


async def _ack(
    _client: trio_stomp.Client, subscription: trio_stomp.Subscription[object], walk: Walk, say: Callable[[str], None]
) -> None:
    say("/queue/walks")
    message = await anext(subscription)
    with walk.followed():
        await message.ack()
        await _written()


def micro_batch(port: int, publish: Callable[[str], None]) -> Walk:
    """Plan, read and commit rows that a receiver has put into its spool, as Spark asks for it, without Spark."""
    # Only this walk needs PySpark.
    from pyspark.sql.streaming.datasource import ReadAllAvailable  # noqa: PLC0415  # see above

    from trio_stomp.spark.stream_options import StreamOptions  # noqa: PLC0415  # see above
    from trio_stomp.spark.stream_source import StompStreamReader  # noqa: PLC0415  # see above

    walk, everything = Walk("a micro-batch"), ReadAllAvailable()
    with tempfile.TemporaryDirectory() as folder:
        given = {"brokers": f"stomp://127.0.0.1:{port}", "subscribe": "/queue/rows", "spoolLocation": folder}
        reader = StompStreamReader(StreamOptions.read(given))
        try:
            offset = reader.initialOffset()
            # The first batch also takes over the spool.
            for batch in range(2):
                publish("/queue/rows")
                with walk.followed() if batch else nullcontext():
                    while (end := reader.latestOffset(offset, everything)) == offset:
                        time.sleep(0.1)
                    for partition in reader.partitions(offset, end):
                        list(reader.read(partition))
                    reader.commit(end)  # pyright: ignore[reportUnknownMemberType]  # PySpark says `dict`
                offset = end
        finally:
            reader.stop()
    return walk


async def _written() -> None:
    """Let the writer take what is in the outbox."""
    for _ in range(5):
        await anyio.lowlevel.checkpoint()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loop", choices=["trio", "asyncio"], default="trio")
    parser.add_argument("--spark", action="store_true", help="follow a micro-batch instead")
    parser.add_argument("--calls", action="store_true", help="print each call")
    given = parser.parse_args()
    with run_broker_in_thread() as broker:

        def say(destination: str) -> None:
            broker.call(lambda inner: inner.publish(destination, b"1"))

        def drop_links() -> None:
            broker.call(lambda inner: inner.drop_connections())

        followed = (
            [micro_batch(broker.port, say)]
            if given.spark
            else anyio.run(walks, broker.url, drop_links, say, backend=given.loop)
        )
        for walk in followed:
            goal = f" (at most {GOALS[walk.name]})" if walk.name in GOALS else ""
            print(f"{walk.name}: {len(walk.modules)} modules{goal}, {len(walk.calls)} calls")
            for line in walk.calls if given.calls else walk.modules:
                print(f"    {line}")


if __name__ == "__main__":
    main()
