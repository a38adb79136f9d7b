import trio

import trio_stomp
from trio_stomp.cli.taking import take_batch
from trio_stomp.testing import open_broker


async def test_batch_when_something_comes_in_time_then_taken(autojump_clock: trio.testing.MockClock) -> None:
    async with (
        open_broker(listen=False) as broker,
        trio_stomp.connect_stream(broker.connect_stream()) as client,
        client.subscribe("/queue/a", ack="auto") as messages,
    ):
        for body in (b"1", b"2", b"3"):
            broker.publish("/queue/a", body)

        first = await take_batch(messages, 2, None)
        started = trio.current_time()
        rest = await take_batch(messages, 10, 1.0, linger=5.0)
        waited = trio.current_time() - started
        nothing = await take_batch(messages, 10, 1.0)

    assert [message.body for message in first] == [b"1", b"2"]
    assert [message.body for message in rest] == [b"3"]
    assert waited == 5.0
    assert nothing == []
