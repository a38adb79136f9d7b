"""Messages that come with the end of their connection: the next one must not settle them, and in auto mode they stay.

RabbitMQ reads the delivery tag of an ACK alone, so the ACK of an older connection would settle another message.
"""

from __future__ import annotations

import pytest

from tests.kit.reconnecting import reconnecting
from trio_stomp import Subscription
from trio_stomp.testing import Broker, BrokerOptions, open_broker
from trio_stomp.types import AckName

pytestmark = pytest.mark.anyio

RABBITMQ = BrokerOptions(server="RabbitMQ/3.13.0")
ERROR = b"ERROR\nmessage:some frame is wrong\n\n\0"


def end_with_a_message(broker: Broker, subscription: Subscription) -> None:
    """Send an ERROR that names no frame, and in the same chunk a message."""
    head = f"MESSAGE\nsubscription:{subscription.id}\nmessage-id:old\nack:old\ndestination:/queue/a\n\n"
    broker.faults.send_bytes(ERROR + head.encode() + b"old\0")


@pytest.mark.parametrize("ack", ["client-individual", "client"])
async def test_message_when_it_comes_behind_the_error_that_ends_its_connection_then_not_settled_on_the_next(
    ack: AckName,
) -> None:
    async with (
        open_broker(listen=False, options=RABBITMQ) as broker,
        reconnecting(broker) as client,
        client.subscribe("/queue/a", ack=ack) as subscription,
    ):
        end_with_a_message(broker, subscription)
        async for state in client.state_changes():
            if not state.healthy:
                break
        broker.publish("/queue/a", b"new")
        message = await subscription.receive(timeout=60)
        assert message.body == b"new"
        await message.ack(receipt=True)
        assert broker.depth("/queue/a") == broker.unacknowledged("/queue/a") == 0
        assert broker.statistics().connections == 2


async def test_message_when_it_comes_behind_the_error_in_auto_mode_then_a_consumer_gets_it() -> None:
    async with (
        open_broker(listen=False, options=RABBITMQ) as broker,
        reconnecting(broker) as client,
        client.subscribe("/queue/a", ack="auto") as subscription,
    ):
        end_with_a_message(broker, subscription)
        assert (await subscription.receive(timeout=60)).body == b"old"
