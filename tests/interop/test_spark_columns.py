"""The columns of the Spark source, filled from messages of each broker."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

import trio_stomp
from tests.interop.bench import Destination
from tests.interop.broker_facts import Broker
from trio_stomp.spark.message_columns import MessageColumns


@pytest.mark.parametrize("unit", [1, 1000], ids=["seconds", "milliseconds"])
async def test_timestamp_when_in_seconds_or_milliseconds_then_the_column_has_that_time(
    broker: Broker, destination: Destination, unit: int
) -> None:
    queue = destination("timestamps")
    now = time.time()
    async with trio_stomp.connect(broker.url()) as client, client.subscribe(queue) as subscription:
        await client.send(queue, "x", headers={"timestamp": str(int(now * unit))}, receipt=True)
        async with await anext(subscription) as message:
            batch = MessageColumns().batch([message], [None], now, 1)

    sent: object = batch.to_pylist()[0]["timestamp"]
    assert isinstance(sent, datetime)
    assert abs(sent - datetime.fromtimestamp(now, UTC)) < timedelta(seconds=30)
